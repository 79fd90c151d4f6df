//! The answer about a folded log.

use noetl_api::replay::{Checksum, ReplayAnswer};
use noetl_engine::replay::REPLAY_FOLD_VERSION;
use noetl_types::replay::Projection;

use super::fold::{Folded, broken_off};
use crate::runtime::RuntimeError;

/// The answer about a folded log. The sum of a large state takes a while, so it is taken where
/// nobody has to wait for it.
pub async fn answer(folded: Folded, projection: Projection) -> Result<ReplayAnswer, RuntimeError> {
    let answered = tokio::task::spawn_blocking(move || put_together(folded, projection)).await;
    answered.map_err(|_| broken_off())
}

fn put_together(folded: Folded, projection: Projection) -> ReplayAnswer {
    // What was cut is not what was asked for, so nobody shall compare it with anything.
    let sums = (!folded.truncated).then(|| folded.state.checksums());
    ReplayAnswer {
        projection,
        replay_snapshot: folded.seed,
        checksum: sums.map(|sums| Checksum {
            kind: "sha256".into(),
            value: sums.whole,
            fold_version: REPLAY_FOLD_VERSION,
        }),
        projection_checksums: sums.map(|sums| sums.parts),
        truncated: folded.truncated,
        warnings: folded.state.warnings(),
        state: folded.state.into_replayed(),
        payload_resolution: None,
        payload_resolution_summary: None,
    }
}
