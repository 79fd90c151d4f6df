//! Snapshots: written beside the log, in proportion to what they save.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use noetl_engine::State;
use noetl_store::{Head, Snapshot};
use noetl_types::json::to_canonical;
use noetl_types::{ExecutionId, sha256};

use super::live::{Live, snapshot_key};
use crate::runtime::Core;

/// Bytes of state that one event of the tail weighs up. To store a byte costs about as much as a
/// hundredth of folding an event, and a wide loop has megabytes of state: with fewer bytes to an
/// event its snapshots would cost more than its steps.
const BYTES_PER_EVENT: usize = 128;

impl Core {
    /// Stores the state of an execution in the background once its log has grown enough.
    pub(super) fn snapshot_if_due(self: &Arc<Self>, live: &mut Live) {
        let tail = live.head.version.get() - live.snapshot.get();
        let least = live.snapshot_after.load(Ordering::Relaxed);
        if live.state.is_ended() || tail < least.max(self.settings.snapshot_every.into()) {
            return;
        }
        live.snapshot = live.head.version;
        let (state, head) = (live.state.clone(), live.head);
        let (execution_id, weight) = (live.header.execution_id, Arc::clone(&live.snapshot_after));
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            // A wide loop has a large state, and whoever waits for its next step shall not wait for
            // this.
            let taken = tokio::task::spawn_blocking(move || snapshot(&state, execution_id, head));
            let Ok(Some(snapshot)) = taken.await else {
                tracing::warn!(%execution_id, "a snapshot could not be taken");
                return;
            };
            let events = snapshot.state.len() / BYTES_PER_EVENT;
            weight.store(i64::try_from(events).unwrap_or(i64::MAX), Ordering::Relaxed);
            if let Err(error) = core.store.write_snapshot(snapshot).await {
                tracing::warn!(%error, %execution_id, "a snapshot was not stored");
            }
        });
    }
}

fn snapshot(state: &State, execution_id: ExecutionId, head: Head) -> Option<Snapshot> {
    let bytes = to_canonical(&state.to_snapshot().ok()?);
    Some(Snapshot {
        execution_id,
        key: snapshot_key(),
        head,
        checksum: sha256(&bytes),
        state: bytes,
    })
}
