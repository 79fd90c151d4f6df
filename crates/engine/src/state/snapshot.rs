//! Snapshots of the state as JSON, so that an evicted execution need not be folded from its first
//! event.

use noetl_types::Json;
use noetl_types::json::to_canonical;
use serde::{Deserialize, Serialize};

use super::ExecutionState;
use crate::plan::Plan;

/// Version of the fold that made a snapshot. A fold that produces another state for the same log
/// needs a new version, which invalidates older snapshots.
pub const FOLD_VERSION: u32 = 4;

/// Reason why a snapshot cannot be used. The log can still be folded.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The snapshot was made by another version of the fold.
    #[error("the snapshot has fold version {found}, but this program uses version {FOLD_VERSION}")]
    OtherVersion {
        /// Version of the snapshot.
        found: u32,
    },
    /// The value is not a snapshot.
    #[error("the snapshot cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// The snapshot belongs to another definition.
    #[error("the snapshot refers to step {step}, but the playbook has {steps} steps")]
    OtherPlaybook {
        /// The step.
        step: u32,
        /// Number of steps of the playbook.
        steps: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct VersionedSnapshot<S> {
    fold_version: u32,
    state: S,
}

impl ExecutionState {
    /// Converts the state to canonical JSON. Equal states give equal bytes.
    pub fn to_snapshot(&self) -> Result<Json, SnapshotError> {
        let snapshot = VersionedSnapshot { fold_version: FOLD_VERSION, state: self };
        let text = serde_json::to_vec(&snapshot).map_err(SnapshotError::Unreadable)?;
        serde_json::from_slice(&text).map_err(SnapshotError::Unreadable)
    }

    /// Restores the state from a snapshot of an execution of this plan.
    pub fn from_snapshot(plan: &Plan, snapshot: &Json) -> Result<Self, SnapshotError> {
        let found = snapshot.get("fold_version").and_then(Json::as_u64).unwrap_or_default();
        if found != u64::from(FOLD_VERSION) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(SnapshotError::OtherVersion { found });
        }
        let text = to_canonical(snapshot);
        let parsed: VersionedSnapshot<Self> =
            serde_json::from_slice(&text).map_err(SnapshotError::Unreadable)?;
        parsed.state.with_step_sets(plan)
    }

    /// Derives the sets of active, waiting and undecided steps from the state of each step.
    fn with_step_sets(mut self, plan: &Plan) -> Result<Self, SnapshotError> {
        let Self { active, waiting_steps, undecided, .. } = Self::new(plan);
        (self.active, self.waiting_steps, self.undecided) = (active, waiting_steps, undecided);
        for (index, step) in self.steps.iter() {
            if index.index() >= plan.len() {
                return Err(SnapshotError::OtherPlaybook { step: index.0, steps: plan.len() });
            }
            if step.run.is_some() || step.waiting.is_some() {
                self.active.insert(*index);
            }
            if step.waiting.is_some() {
                self.waiting_steps.insert(*index);
            }
            if step.passes > 0 || step.is_dead {
                self.undecided.remove(*index);
            }
        }
        Ok(self)
    }
}
