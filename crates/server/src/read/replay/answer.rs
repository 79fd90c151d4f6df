//! Answer of a replay.

use noetl_api::replay::{ReplayResponse, StateChecksum};
use noetl_engine::replay::REPLAY_FOLD_VERSION;
use noetl_types::replay::ProjectionKind;

use super::fold::{FoldedLog, replay_aborted};
use crate::runtime::RuntimeError;

/// Builds the answer for a folded log. The checksum of a large state takes a while, so it is
/// computed on a blocking thread.
pub async fn build_replay_answer(
    folded: FoldedLog,
    projection: ProjectionKind,
) -> Result<ReplayResponse, RuntimeError> {
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
