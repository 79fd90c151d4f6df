//! Snapshots of the state, written in proportion to the replay that they save.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use noetl_engine::ExecutionState;
use noetl_store::{LogHead, Snapshot};
use noetl_types::json::to_canonical;
use noetl_types::{ExecutionId, sha256};

use super::loaded_execution::{LoadedExecution, snapshot_key};
use crate::runtime::Core;

/// Snapshot bytes that are worth replaying one event. Storing a byte costs about a hundredth of
/// applying an event, and a wide loop has megabytes of state. With fewer bytes per event its
/// snapshots would cost more than its steps.
const SNAPSHOT_BYTES_PER_EVENT: usize = 128;

impl Core {
    /// Stores the state of an execution in the background once its log has grown enough.
    pub(super) fn write_snapshot_if_due(self: &Arc<Self>, execution: &mut LoadedExecution) {
        let tail = execution.head.version.get() - execution.snapshot_version.get();
        let min_events = execution.snapshot_after.load(Ordering::Relaxed);
        if execution.state.is_ended()
            || tail < min_events.max(self.settings.snapshot_min_events.into())
        {
            return;
        }
        execution.snapshot_version = execution.head.version;
        let (state, head) = (execution.state.clone(), execution.head);
        let (execution_id, snapshot_after) =
            (execution.header.execution_id, Arc::clone(&execution.snapshot_after));
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            // A wide loop has a large state, and its next step must not wait for serialization.
            let building =
                tokio::task::spawn_blocking(move || build_snapshot(&state, execution_id, head));
            let Ok(Some(snapshot)) = building.await else {
                tracing::warn!(%execution_id, "taking a snapshot failed");
                return;
            };
            let events = snapshot.state.len() / SNAPSHOT_BYTES_PER_EVENT;
            snapshot_after.store(i64::try_from(events).unwrap_or(i64::MAX), Ordering::Relaxed);
            if let Err(error) = core.store.write_snapshot(snapshot).await {
                tracing::warn!(%error, %execution_id, "storing a snapshot failed");
            }
        });
    }
}

fn build_snapshot(
    state: &ExecutionState,
    execution_id: ExecutionId,
    head: LogHead,
) -> Option<Snapshot> {
    let bytes = to_canonical(&state.to_snapshot().ok()?);
    Some(Snapshot {
        execution_id,
        key: snapshot_key(),
        head,
        checksum: sha256(&bytes),
        state: bytes,
    })
}
