//! The state as JSON: what a snapshot stores, so that a cold run need not be folded from its first
//! event.

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::json::to_canonical;
use noetl_types::record::Version;
use noetl_types::{CommandId, ExecutionStatus, Json, Seq};
use serde::{Deserialize, Serialize};

use super::layered::Layered;
use super::{Beginning, Closing, Command, Failure, Life, Mailbox, State, StepState, serde_step};
use crate::plan::Plan;

/// Which fold made a snapshot. A fold that gives another state for the same log is another version,
/// and snapshots of the old one are of no use.
pub const FOLD_VERSION: u32 = 3;

/// A snapshot that cannot be used; the log can.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Made by another version of the fold.
    #[error("the snapshot was made by fold version {found}, this is version {FOLD_VERSION}")]
    OtherVersion {
        /// That version.
        found: u32,
    },
    /// Not a snapshot.
    #[error("the snapshot cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// Of another definition.
    #[error("the snapshot names step {step}, and the playbook has {steps} steps")]
    OtherPlaybook {
        /// The step.
        step: u32,
        /// How many there are.
        steps: usize,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    version: i64,
    life: Life,
    beginning: Option<Arc<Beginning>>,
    ctx: Json,
    steps: Vec<(u32, Arc<StepState>)>,
    commands: Layered<CommandId, Command>,
    held: Layered<Seq, Closing>,
    mailbox: Mailbox,
    failure: Option<Arc<Failure>>,
    ending: Option<ExecutionStatus>,
    #[serde(with = "serde_step::option")]
    last_exit: Option<StepIndex>,
    arrivals: u64,
}

#[derive(Serialize, Deserialize)]
struct Versioned<S> {
    fold_version: u32,
    state: S,
}

impl State {
    /// The state as canonical JSON. Equal states give equal bytes.
    pub fn to_snapshot(&self) -> Result<Json, SnapshotError> {
        let state = Snapshot {
            version: self.version.get(),
            life: self.life,
            beginning: self.beginning.clone(),
            ctx: self.ctx.clone(),
            steps: self
                .steps
                .iter()
                .map(|(step, state)| (step.0, Arc::clone(state)))
                .collect(),
            commands: self.commands.clone(),
            held: self.held.clone(),
            mailbox: self.mailbox.clone(),
            failure: self.failure.clone(),
            ending: self.ending,
            last_exit: self.last_exit,
            arrivals: self.arrivals,
        };
        let fold_version = FOLD_VERSION;
        let text = serde_json::to_vec(&Versioned {
            fold_version,
            state,
        });
        let text = text.map_err(SnapshotError::Unreadable)?;
        serde_json::from_slice(&text).map_err(SnapshotError::Unreadable)
    }

    /// Reads a snapshot of a run of this plan.
    pub fn from_snapshot(plan: &Plan, snapshot: &Json) -> Result<Self, SnapshotError> {
        let found = snapshot
            .get("fold_version")
            .and_then(Json::as_u64)
            .unwrap_or_default();
        if found != u64::from(FOLD_VERSION) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(SnapshotError::OtherVersion { found });
        }
        let text = to_canonical(snapshot);
        let read: Versioned<Snapshot> =
            serde_json::from_slice(&text).map_err(SnapshotError::Unreadable)?;
        read.state.into_state(plan)
    }
}

impl Snapshot {
    fn into_state(self, plan: &Plan) -> Result<State, SnapshotError> {
        let mut state = State {
            version: Version::new(self.version).unwrap_or_default(),
            life: self.life,
            beginning: self.beginning,
            ctx: self.ctx,
            commands: self.commands,
            held: self.held,
            mailbox: self.mailbox,
            failure: self.failure,
            ending: self.ending,
            last_exit: self.last_exit,
            arrivals: self.arrivals,
            ..State::new(plan)
        };
        // Which steps are active, wait or are undecided follows from what is known of each.
        for (number, step) in &self.steps {
            let index = StepIndex(*number);
            if index.index() >= plan.len() {
                return Err(SnapshotError::OtherPlaybook {
                    step: *number,
                    steps: plan.len(),
                });
            }
            if step.run.is_some() || step.waiting.is_some() {
                state.active.insert(index);
            }
            if step.waiting.is_some() {
                state.waiting.insert(index);
            }
            if step.passes > 0 || step.is_dead {
                state.undecided.remove(index);
            }
        }
        let steps = self.steps.into_iter();
        state.steps = steps
            .map(|(number, step)| (StepIndex(number), step))
            .collect();
        Ok(state)
    }
}
