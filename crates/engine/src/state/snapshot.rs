//! Snapshots of the state as JSON, so that an evicted execution need not be folded from its first
//! event.

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::json::to_canonical;
use noetl_types::record::ExecutionVersion;
use noetl_types::{CommandId, ExecutionStatus, Json, Seq};
use serde::{Deserialize, Serialize};

use super::layered::LayeredMap;
use super::{
    ClosedCommand, Command, ExecutionPhase, ExecutionState, SignalBuffer, StartRecord, StepState,
    UncaughtFailure, serde_step,
};
use crate::plan::Plan;

/// Version of the fold that made a snapshot. A fold that produces another state for the same log
/// needs a new version, which invalidates older snapshots.
pub const FOLD_VERSION: u32 = 3;

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
#[serde(deny_unknown_fields)]
struct StateSnapshot {
    version: i64,
    life: ExecutionPhase,
    beginning: Option<Arc<StartRecord>>,
    ctx: Json,
    steps: Vec<(u32, Arc<StepState>)>,
    commands: LayeredMap<CommandId, Command>,
    held: LayeredMap<Seq, ClosedCommand>,
    mailbox: SignalBuffer,
    failure: Option<Arc<UncaughtFailure>>,
    ending: Option<ExecutionStatus>,
    #[serde(with = "serde_step::option")]
    last_exit: Option<StepIndex>,
    arrivals: u64,
}

#[derive(Serialize, Deserialize)]
struct VersionedSnapshot<S> {
    fold_version: u32,
    state: S,
}

impl ExecutionState {
    /// Converts the state to canonical JSON. Equal states give equal bytes.
    pub fn to_snapshot(&self) -> Result<Json, SnapshotError> {
        let state = StateSnapshot {
            version: self.version.get(),
            life: self.phase,
            beginning: self.start_record.clone(),
            ctx: self.ctx.clone(),
            steps: self.steps.iter().map(|(step, state)| (step.0, Arc::clone(state))).collect(),
            commands: self.commands.clone(),
            held: self.deferred.clone(),
            mailbox: self.signal_buffer.clone(),
            failure: self.uncaught_failure.clone(),
            ending: self.ending_status,
            last_exit: self.last_exit,
            arrivals: self.arrival_count,
        };
        let fold_version = FOLD_VERSION;
        let text = serde_json::to_vec(&VersionedSnapshot { fold_version, state });
        let text = text.map_err(SnapshotError::Unreadable)?;
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
        let parsed: VersionedSnapshot<StateSnapshot> =
            serde_json::from_slice(&text).map_err(SnapshotError::Unreadable)?;
        parsed.state.into_state(plan)
    }
}

impl StateSnapshot {
    fn into_state(self, plan: &Plan) -> Result<ExecutionState, SnapshotError> {
        let mut state = ExecutionState {
            version: ExecutionVersion::new(self.version).unwrap_or_default(),
            phase: self.life,
            start_record: self.beginning,
            ctx: self.ctx,
            commands: self.commands,
            deferred: self.held,
            signal_buffer: self.mailbox,
            uncaught_failure: self.failure,
            ending_status: self.ending,
            last_exit: self.last_exit,
            arrival_count: self.arrivals,
            ..ExecutionState::new(plan)
        };
        // The sets of active, waiting and undecided steps are derived from the state of each step.
        for (number, step) in &self.steps {
            let index = StepIndex(*number);
            if index.index() >= plan.len() {
                return Err(SnapshotError::OtherPlaybook { step: *number, steps: plan.len() });
            }
            if step.run.is_some() || step.waiting.is_some() {
                state.active.insert(index);
            }
            if step.waiting.is_some() {
                state.waiting_steps.insert(index);
            }
            if step.passes > 0 || step.is_dead {
                state.undecided.remove(index);
            }
        }
        let steps = self.steps.into_iter();
        state.steps = steps.map(|(number, step)| (StepIndex(number), step)).collect();
        Ok(state)
    }
}
