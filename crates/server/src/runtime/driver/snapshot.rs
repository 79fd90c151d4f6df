//! Snapshots: written beside the log, in proportion to what they save.

use std::sync::Arc;

use noetl_store::Snapshot;
use noetl_types::json::to_canonical;
use noetl_types::sha256;

use super::live::{Live, snapshot_key};
use crate::runtime::Core;

/// Bytes of state that one event of the tail weighs up.
const BYTES_PER_EVENT: usize = 1024;

impl Core {
    /// Stores the state of an execution in the background once its log has grown enough.
    pub(super) fn snapshot_if_due(self: &Arc<Self>, live: &mut Live) {
        let tail = live.head.version.get() - live.snapshot.get();
        if live.state.is_ended()
            || tail < live.snapshot_after.max(self.settings.snapshot_every.into())
        {
            return;
        }
        let (state, head) = (live.state.clone(), live.head);
        let execution_id = live.header.execution_id;
        live.snapshot = head.version;
        let Ok(json) = state.to_snapshot() else {
            return;
        };
        let bytes = to_canonical(&json);
        live.snapshot_after = i64::try_from(bytes.len() / BYTES_PER_EVENT).unwrap_or(i64::MAX);
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let snapshot = Snapshot {
                execution_id,
                key: snapshot_key(),
                head,
                checksum: sha256(&bytes),
                state: bytes,
            };
            if let Err(error) = core.store.write_snapshot(snapshot).await {
                tracing::warn!(%error, %execution_id, "a snapshot was not stored");
            }
        });
    }
}
