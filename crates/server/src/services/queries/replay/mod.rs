//! Replay: the state of an execution at any position of its log.
//!
//! Owns the cut position, the paged reading, the starting snapshot and the answer. The engine owns
//! the fold.

mod cut;
mod fold;
mod resolve;

use std::sync::Arc;

use noetl_api::replay::{ReplayQuery, ReplayResponse, StateChecksum};
use noetl_engine::replay::{REPLAY_FOLD_VERSION, ReplayState};
use noetl_store::{LogHead, LogPageLimit, Snapshot, SnapshotKey, StoreError};
use noetl_types::replay::ProjectionKind;
use noetl_types::{ExecutionId, ExecutionVersion};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Queries;
use fold::IntermediateState;
pub(crate) use fold::replay_aborted;
pub use fold::{FoldedLog, replay_log};

/// Bytes of snapshot per event of its tail: a snapshot must save more than it costs.
const BYTES_PER_EVENT: usize = 1 << 10;

/// Key of the snapshots that a replay can start from.
pub(crate) fn snapshot_key() -> SnapshotKey {
    SnapshotKey { kind: "replay_state".into(), fold_version: REPLAY_FOLD_VERSION }
}

impl Queries {
    /// Returns the state of an execution at a position.
    pub async fn replay_state(
        self: &Arc<Self>,
        ctx: &CallContext,
        query: ReplayQuery,
    ) -> Result<ReplayResponse> {
        // The tenant comes from the caller's identity, never from the query.
        let auth = &ctx.auth;
        if query.tenant_id != auth.tenant_id || query.organization_id != auth.organization_id {
            return Err(RuntimeError::no_execution());
        }
        ctx.visible_execution(self.infra.store(), query.execution_id).await?;
        let mut folded = replay_log(self.infra.store(), &query).await?;
        self.store_snapshots(&mut folded);
        let resolution = if query.resolve_payloads {
            Some(self.resolve_payloads(ctx, folded.state.replayed()).await)
        } else {
            None
        };
        let mut answer = build_replay_answer(folded, query.projection).await?;
        if let Some((payloads, summary)) = resolution {
            answer.payload_resolution = Some(payloads);
            answer.payload_resolution_summary = Some(summary);
        }
        Ok(answer)
    }

    /// Folds the whole log of an execution and stores snapshots for later replays.
    pub(crate) async fn refold_log(self: &Arc<Self>, query: &ReplayQuery) -> Result<ReplayState> {
        let mut folded = replay_log(self.infra.store(), query).await?;
        self.store_snapshots(&mut folded);
        Ok(folded.state)
    }

    /// Stores snapshots in the background if they save later replays enough: the last state, and
    /// some intermediate ones. Unusable snapshots are deleted first.
    fn store_snapshots(self: &Arc<Self>, folded: &mut FoldedLog) {
        let min_events = i64::from(self.infra.settings.snapshot_min_events);
        let rejected = std::mem::take(&mut folded.rejected);
        let execution_id = folded.state.replayed().execution_id.0;
        let mut states = std::mem::take(&mut folded.intermediates);
        states.retain(|intermediate| intermediate.saved_events >= min_events);
        if folded.tail_events > 0
            && folded.tail_events >= min_events.max(snapshot_cost_events(folded.seed_bytes))
        {
            states.push(IntermediateState {
                state: folded.state.clone(),
                saved_events: folded.tail_events,
            });
        }
        if states.is_empty() && rejected.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        self.infra.tasks.spawn(async move {
            for version in rejected {
                let key = snapshot_key();
                this.driver.reject_snapshot(execution_id, &key, version).await;
            }
            // Most replays need the last state.
            for intermediate in states.into_iter().rev() {
                this.store_snapshot(intermediate).await;
            }
        });
    }

    async fn store_snapshot(&self, intermediate: IntermediateState) {
        let IntermediateState { state, saved_events } = intermediate;
        let execution_id = state.replayed().execution_id.0;
        let head = match self.log_head_at(execution_id, state.version()).await {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, %execution_id, "a snapshot was not stored");
                return;
            }
        };
        let encoding =
            tokio::task::spawn_blocking(move || encode_snapshot(&state, execution_id, head));
        let Ok(Some(snapshot)) = encoding.await else {
            tracing::warn!(%execution_id, "a snapshot could not be taken");
            return;
        };
        if snapshot_cost_events(snapshot.state.len()) > saved_events {
            return;
        }
        if let Err(error) = self.infra.store().write_snapshot(snapshot).await {
            tracing::warn!(%error, %execution_id, "a snapshot was not stored");
        }
    }

    /// Returns the log head at a version. The fold does not compute it, because few of its states
    /// are stored.
    async fn log_head_at(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
    ) -> Result<Option<LogHead>, StoreError> {
        let before = ExecutionVersion::new(version.get() - 1).unwrap_or_default();
        let last = self.infra.store().read_events(execution_id, before, LogPageLimit::clamped(1));
        Ok(last.await?.first().map(LogHead::after_event))
    }
}

fn snapshot_cost_events(bytes: usize) -> i64 {
    i64::try_from(bytes / BYTES_PER_EVENT).unwrap_or(i64::MAX)
}

fn encode_snapshot(
    state: &ReplayState,
    execution_id: ExecutionId,
    head: LogHead,
) -> Option<Snapshot> {
    let (bytes, checksum) = state.to_snapshot().ok()?;
    Some(Snapshot { execution_id, key: snapshot_key(), head, state: bytes, checksum })
}

/// Builds the answer for a folded log. The checksum of a large state takes a while, so it is
/// computed on a blocking thread.
pub async fn build_replay_answer(
    folded: FoldedLog,
    projection: ProjectionKind,
) -> Result<ReplayResponse> {
    let answer = tokio::task::spawn_blocking(move || assemble_answer(folded, projection)).await;
    answer.map_err(|_| replay_aborted())
}

fn assemble_answer(folded: FoldedLog, projection: ProjectionKind) -> ReplayResponse {
    // A truncated state has no checksum, so that it cannot be compared with a complete one.
    let checksums = (!folded.truncated).then(|| folded.state.checksums());
    ReplayResponse {
        projection,
        replay_snapshot: folded.seed,
        checksum: checksums.map(|checksums| StateChecksum {
            kind: "sha256".into(),
            value: checksums.whole,
            fold_version: REPLAY_FOLD_VERSION,
        }),
        projection_checksums: checksums.map(|checksums| checksums.parts),
        truncated: folded.truncated,
        warnings: folded.state.warnings(),
        state: folded.state.into_replayed(),
        payload_resolution: None,
        payload_resolution_summary: None,
    }
}
