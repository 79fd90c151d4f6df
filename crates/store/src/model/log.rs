//! Reading the log of one execution, and the snapshots that shorten it.

use noetl_types::{Digest, ExecutionId, StoredEvent, Text, Version};

use super::execution::Execution;
use super::head::Head;

/// How many events one page of a log gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPage(u32);

impl LogPage {
    /// The most events of one page.
    pub const MAX: Self = Self(5_000);

    /// A number of events, or the nearest one between one and the most.
    pub fn clamped(events: u32) -> Self {
        Self(events.clamp(1, Self::MAX.0))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Which snapshots a reader can use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotKey {
    /// What was folded: `engine_state`, `replay_state`.
    pub kind: Text,
    /// The version of the fold; a state of another version means something else.
    pub fold_version: u32,
}

/// Snapshots of one kind and fold that are kept of an execution.
pub const MAX_SNAPSHOTS: usize = 64;

/// Which of too many snapshots goes: the one whose neighbours are closest to each other, and never
/// the newest. The versions come in rising order.
pub(crate) fn superfluous(versions: &[Version]) -> Option<Version> {
    if versions.len() <= MAX_SNAPSHOTS {
        return None;
    }
    let before = std::iter::once(0).chain(versions.iter().map(|it| it.get()));
    let between = before.zip(versions).zip(versions.iter().skip(1));
    let gap = between.map(|((before, this), behind)| (behind.get() - before, *this));
    gap.min().map(|(_, version)| version)
}

/// A folded state, as of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The execution.
    pub execution_id: ExecutionId,
    /// What it is a snapshot of.
    pub key: SnapshotKey,
    /// The log as far as it was folded.
    pub head: Head,
    /// The state, in the form that its fold gives it.
    pub state: Vec<u8>,
    /// The digest of the state; whoever loads it compares.
    pub checksum: Digest,
}

/// An execution with what is needed to fold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The execution. Its log may have grown since: the events tell.
    pub execution: Execution,
    /// The newest snapshot of the wanted kind.
    pub snapshot: Option<Snapshot>,
    /// The first page of the events behind the snapshot.
    pub tail: Vec<StoredEvent>,
    /// Whether the tail goes on behind this page.
    pub has_more: bool,
}

impl Loaded {
    pub(crate) fn of(
        execution: Execution,
        snapshot: Option<Snapshot>,
        tail: Vec<StoredEvent>,
        page: LogPage,
    ) -> Self {
        Self {
            has_more: tail.len() >= usize::try_from(page.get()).unwrap_or(usize::MAX),
            execution,
            snapshot,
            tail,
        }
    }
}
