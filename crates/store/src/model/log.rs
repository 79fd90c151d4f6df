//! Reading the log of an execution, and the snapshots that shorten it.

use noetl_types::{Digest, ExecutionId, ExecutionVersion, StoredEvent, Text};

use super::execution::Execution;
use super::head::LogHead;

/// Maximum number of events per page of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPageLimit(u32);

impl LogPageLimit {
    pub const MAX: Self = Self(5_000);

    /// Clamps the number to the allowed range.
    pub fn clamped(events: u32) -> Self {
        Self(events.clamp(1, Self::MAX.0))
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Kind and version of the snapshots that a reader can use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotKey {
    /// Folded state: `engine_state` or `replay_state`.
    pub kind: Text,
    /// Version of the fold. States of other versions are incompatible.
    pub fold_version: u32,
}

/// Maximum number of snapshots of an execution per kind and fold version.
pub const MAX_SNAPSHOTS: usize = 64;

/// Returns the snapshot to delete if there are too many: the one whose predecessor and successor
/// are closest to each other, and never the newest. `versions` is in ascending order.
pub(crate) fn redundant_snapshot(versions: &[ExecutionVersion]) -> Option<ExecutionVersion> {
    if versions.len() <= MAX_SNAPSHOTS {
        return None;
    }
    let previous = std::iter::once(0).chain(versions.iter().map(|it| it.get()));
    let windows = previous.zip(versions).zip(versions.iter().skip(1));
    let gaps = windows.map(|((previous, this), next)| (next.get() - previous, *this));
    gaps.min().map(|(_, version)| version)
}

/// A folded state as of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub execution_id: ExecutionId,
    pub key: SnapshotKey,
    /// Head of the folded part of the log.
    pub head: LogHead,
    /// The state, encoded by its fold.
    pub state: Vec<u8>,
    /// Digest of the state, to be verified by the reader.
    pub checksum: Digest,
}

/// An execution with the data needed to fold it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedLog {
    /// The execution. Its log may have grown since, as the events show.
    pub execution: Execution,
    /// Newest snapshot of the requested kind.
    pub snapshot: Option<Snapshot>,
    /// First page of the events after the snapshot.
    pub tail: Vec<StoredEvent>,
    /// True if more events follow the tail.
    pub has_more: bool,
}

impl LoadedLog {
    pub(crate) fn from_page(
        execution: Execution,
        snapshot: Option<Snapshot>,
        tail: Vec<StoredEvent>,
        page: LogPageLimit,
    ) -> Self {
        Self {
            has_more: tail.len() >= usize::try_from(page.get()).unwrap_or(usize::MAX),
            execution,
            snapshot,
            tail,
        }
    }
}
