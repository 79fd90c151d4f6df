//! What an execution looked like at any moment of it, folded from its log.
//!
//! Owns where a log is cut, how it is read page by page, what it is seeded with, and the answer. The
//! fold is the engine's.

mod answer;
mod cut;
mod fold;
mod resolve;

use noetl_api::replay::{ReplayAnswer, ReplayQuery};
use noetl_engine::replay::{REPLAY_FOLD_VERSION, ReplayState};
use noetl_store::{Head, LogPage, Snapshot, SnapshotKey, StoreError};
use noetl_types::{ExecutionId, Version};

use crate::runtime::{Runtime, RuntimeError};

pub use answer::answer;
use fold::Passed;
pub use fold::{Folded, replay};

/// Bytes of state that one event of a tail weighs up: a snapshot has to save more than it costs.
const BYTES_PER_EVENT: usize = 1 << 10;

/// Which snapshots the fold can go on from.
pub(crate) fn snapshot_key() -> SnapshotKey {
    SnapshotKey {
        kind: "replay_state".into(),
        fold_version: REPLAY_FOLD_VERSION,
    }
}

impl Runtime {
    /// An execution as of a moment.
    pub async fn replay_state(&self, query: ReplayQuery) -> Result<ReplayAnswer, RuntimeError> {
        // Whose it is follows from who asks, and never from what is asked.
        let own = self.behalf();
        if query.tenant_id != own.tenant_id || query.organization_id != own.organization_id {
            return Err(RuntimeError::no_execution());
        }
        self.execution_row(query.execution_id).await?;
        let mut folded = replay(self.store(), &query).await?;
        self.keep_snapshots(&mut folded);
        let resolution = if query.resolve_payloads {
            Some(self.resolve_payloads(folded.state.replayed()).await)
        } else {
            None
        };
        let mut answer = answer(folded, query.projection).await?;
        if let Some((list, summary)) = resolution {
            answer.payload_resolution = Some(list);
            answer.payload_resolution_summary = Some(summary);
        }
        Ok(answer)
    }

    /// The whole log of an execution folded once more; what that saves the next reader is kept.
    pub(crate) async fn refold(&self, query: &ReplayQuery) -> Result<ReplayState, RuntimeError> {
        let mut folded = replay(self.store(), query).await?;
        self.keep_snapshots(&mut folded);
        Ok(folded.state)
    }

    /// Keeps states beside the log, in the background, where that saves later readers enough: the last
    /// one, and some of those on the way to it. What could not be used makes way for them first.
    fn keep_snapshots(&self, folded: &mut Folded) {
        let least = i64::from(self.settings().snapshot_every);
        let rejected = std::mem::take(&mut folded.rejected);
        let execution_id = folded.state.replayed().execution_id;
        let mut states = std::mem::take(&mut folded.passed);
        states.retain(|passed| passed.saves >= least);
        if folded.tail > 0 && folded.tail >= least.max(weight(folded.seed_bytes)) {
            states.push(Passed {
                state: folded.state.clone(),
                saves: folded.tail,
            });
        }
        if states.is_empty() && rejected.is_empty() {
            return;
        }
        let runtime = self.clone();
        self.in_background(async move {
            for version in rejected {
                let key = snapshot_key();
                runtime.reject_snapshot(execution_id, &key, version).await;
            }
            // The last one is the one that most readers want.
            for passed in states.into_iter().rev() {
                runtime.keep_snapshot(passed).await;
            }
        });
    }

    async fn keep_snapshot(&self, passed: Passed) {
        let Passed { state, saves } = passed;
        let execution_id = state.replayed().execution_id;
        let head = match self.head_at(execution_id, state.version()).await {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, %execution_id, "a snapshot was not stored");
                return;
            }
        };
        let taken = tokio::task::spawn_blocking(move || snapshot(&state, execution_id, head));
        let Ok(Some(snapshot)) = taken.await else {
            tracing::warn!(%execution_id, "a snapshot could not be taken");
            return;
        };
        if weight(snapshot.state.len()) > saves {
            return;
        }
        if let Err(error) = self.store().write_snapshot(snapshot).await {
            tracing::warn!(%error, %execution_id, "a snapshot was not stored");
        }
    }

    /// How a log stood when it had so many events; a fold does not ask, since few of its states are kept.
    async fn head_at(
        &self,
        execution_id: ExecutionId,
        version: Version,
    ) -> Result<Option<Head>, StoreError> {
        let before = Version::new(version.get() - 1).unwrap_or_default();
        let last = self
            .store()
            .events(execution_id, before, LogPage::clamped(1));
        Ok(last.await?.first().map(Head::after))
    }
}

fn weight(bytes: usize) -> i64 {
    i64::try_from(bytes / BYTES_PER_EVENT).unwrap_or(i64::MAX)
}

fn snapshot(state: &ReplayState, execution_id: ExecutionId, head: Head) -> Option<Snapshot> {
    let (bytes, checksum) = state.to_snapshot().ok()?;
    Some(Snapshot {
        execution_id,
        key: snapshot_key(),
        head,
        state: bytes,
        checksum,
    })
}
