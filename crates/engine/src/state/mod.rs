//! What a run has come to: the fold of its log.
//!
//! Owns the shape of that knowledge and cheap copies of it. It changes through
//! [`State::apply`] alone, one event at a time, and holds nothing that the log does not tell.

mod command;
mod cursor;
pub(crate) mod layered;
mod parked;
mod serde_step;
mod snapshot;
mod step;
mod table;
mod timers;

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::record::Version;
use noetl_types::{CommandId, ExecutionId, ExecutionStatus, Json, Seq, TaskError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::event::Started;
use crate::plan::Plan;
use crate::slot::{RunSlot, SlotGrant, SlotHolder};
use crate::step_set::StepSet;
use layered::{Layered, Settle as _, settled};

pub use command::{CallResult, Command, CommandPhase, Retries};
pub(crate) use cursor::ClosedFrame;
pub use cursor::{CursorState, FrameEnd};
pub use parked::{
    KeptSignal, MAX_KEPT_SIGNALS, OpenTimer, OpenWait, Parked, RelayState, TakenSignal, WaitKind,
};
pub use snapshot::{FOLD_VERSION, SnapshotError};
pub use step::{
    Arrival, Latest, LeadEvent, Left, LoopState, Outcome, Output, Run, StepState, StepStatus,
    Waiting, Work,
};
pub use table::{Act, CommandStage, LifeStage, StepStage};
pub use timers::Timer;

pub(crate) use parked::Mailbox;

/// What a run has come to.
///
/// A clone is cheap, however long the run and wide its loops; [`State::settle`] should follow when a
/// clone has taken the place of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub(crate) version: Version,
    pub(crate) life: Life,
    pub(crate) beginning: Option<Arc<Beginning>>,
    /// The variables: always a map.
    pub(crate) ctx: Json,
    /// Shared, so that a copy of the state copies only those that it changes.
    pub(crate) steps: Layered<StepIndex, Arc<StepState>>,
    /// Steps that were entered and not exited, or that wait to enter.
    pub(crate) active: StepSet,
    /// Steps that have arrivals, be they entered or not.
    pub(crate) waiting: StepSet,
    /// Steps that the entry reaches and of which nothing was heard yet.
    pub(crate) undecided: StepSet,
    /// Commands that are not closed.
    pub(crate) commands: Layered<CommandId, Command>,
    /// Commands that were closed while the run was paused, in the order of their closing.
    pub(crate) held: Layered<Seq, Closing>,
    /// What it knows of signals.
    pub(crate) mailbox: Mailbox,
    pub(crate) failure: Option<Arc<Failure>>,
    /// How the run was about to end when its final step came up.
    pub(crate) ending: Option<ExecutionStatus>,
    /// The last step that went well and led nowhere.
    pub(crate) last_exit: Option<StepIndex>,
    /// How many arrivals there were: what orders those that wait.
    pub(crate) arrivals: u64,
}

/// Where a run is between its beginning and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Life {
    New,
    Running,
    Paused,
    Ended(ExecutionStatus),
}

/// How a run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beginning {
    pub(crate) started: Started,
    pub(crate) at: Timestamp,
}

/// Failures that nothing caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The first of them.
    pub(crate) error: TaskError,
    /// The steps, in the order of failing.
    #[serde(with = "serde_step::list")]
    pub(crate) steps: Vec<StepIndex>,
}

/// A command that was closed and whose consequences are still to be drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Closing {
    #[serde(with = "serde_step")]
    pub(crate) step: StepIndex,
    pub(crate) index: Option<u32>,
    /// What its tasks wrote.
    pub(crate) ctx: noetl_types::JsonMap,
}

settled!(Closing);

impl State {
    /// The state before the first event of a run.
    pub fn new(plan: &Plan) -> Self {
        Self {
            version: Version::EMPTY,
            life: Life::New,
            beginning: None,
            ctx: Json::empty_map(),
            steps: Layered::default(),
            active: StepSet::with_room_for(plan.len()),
            waiting: StepSet::with_room_for(plan.len()),
            undecided: plan.reachable().clone(),
            commands: Layered::default(),
            held: Layered::default(),
            mailbox: Mailbox::default(),
            failure: None,
            ending: None,
            last_exit: None,
            arrivals: 0,
        }
    }

    /// The seq of the last event; 0 before the first.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The run, once it has begun.
    pub fn execution_id(&self) -> Option<ExecutionId> {
        self.started().map(|started| started.execution_id)
    }

    /// How it began.
    pub fn started(&self) -> Option<&Started> {
        self.beginning.as_ref().map(|beginning| &beginning.started)
    }

    /// The status that lists and pages show.
    pub fn status(&self) -> ExecutionStatus {
        match self.life {
            Life::New => ExecutionStatus::Pending,
            Life::Paused => ExecutionStatus::Paused,
            Life::Ended(status) => status,
            Life::Running if self.steps.values().all(|step| step.runs == 0) => {
                ExecutionStatus::Pending
            }
            Life::Running => ExecutionStatus::Running,
        }
    }

    /// Whether nothing but audit events can follow.
    pub fn is_ended(&self) -> bool {
        matches!(self.life, Life::Ended(_))
    }

    /// Whether somebody paused it.
    pub fn is_paused(&self) -> bool {
        matches!(self.life, Life::Paused)
    }

    /// Whether a failure that nothing caught lets only open commands finish.
    pub fn is_failing(&self) -> bool {
        self.failure.is_some() && self.ending.is_none()
    }

    /// The first error that nothing caught, and the steps that failed so, in order.
    pub fn failure(&self) -> Option<(&TaskError, &[StepIndex])> {
        let failure = self.failure.as_ref()?;
        Some((&failure.error, &failure.steps))
    }

    /// How the run was about to end when its final step came up; nothing before that.
    pub fn ending(&self) -> Option<ExecutionStatus> {
        self.ending
    }

    /// The slot that the whole run waits for: nothing is entered without it. What was entered or
    /// passed over shows that the run has it.
    pub fn wanted_slot(&self) -> Option<&RunSlot> {
        let slot = self.started()?.concurrency.as_ref()?;
        let has_begun = self.steps.values().any(|step| step.passes > 0);
        (!has_begun && !self.is_ended()).then_some(slot)
    }

    /// The slots that the run has: its own, and those of its steps.
    pub fn held_slots(&self, plan: &Plan) -> Vec<SlotGrant> {
        let own = self
            .started()
            .and_then(|started| started.concurrency.as_ref());
        let own = own.filter(|_| self.wanted_slot().is_none() && !self.is_ended());
        let of_run = own.map(|own| SlotGrant {
            holder: SlotHolder::Run,
            key: own.slot.key.clone(),
        });
        let of_steps = self.runs().filter_map(|(step, run)| {
            Some(SlotGrant {
                holder: SlotHolder::Step {
                    step: plan.step(step).name.clone(),
                    run: run.number,
                },
                key: run.slot.as_ref()?.key.clone(),
            })
        });
        let of_steps = of_steps.filter(|_| !self.is_ended());
        of_run.into_iter().chain(of_steps).collect()
    }

    /// The variables: a map.
    pub fn ctx(&self) -> &Json {
        &self.ctx
    }

    /// What is known of a step; `None` while there is nothing to know.
    pub fn step(&self, step: StepIndex) -> Option<&StepState> {
        self.steps.get(&step).map(|step| &**step)
    }

    /// What is known of a step, to be changed.
    pub(crate) fn step_mut(&mut self, step: StepIndex) -> &mut StepState {
        Arc::make_mut(self.steps.get_or_insert_with(step, Arc::default))
    }

    /// A command that is not closed.
    pub fn command(&self, command: CommandId) -> Option<&Command> {
        self.commands.get(&command)
    }

    /// The commands that are not closed, by id.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, &Command)> {
        self.commands.iter().map(|(id, command)| (*id, command))
    }

    /// How many commands are not closed.
    pub fn open_commands(&self) -> usize {
        self.commands.len()
    }

    /// The steps that were entered and not exited, with their runs, in document order.
    pub fn runs(&self) -> impl Iterator<Item = (StepIndex, &Run)> {
        let active = self.active.iter();
        active.filter_map(|step| Some((step, self.steps.get(&step)?.run.as_ref()?)))
    }

    /// The steps that something has led to and that are not entered, with what has led there.
    pub fn waiting(&self) -> impl Iterator<Item = (StepIndex, &Waiting)> {
        let waiting = self.waiting.iter();
        waiting.filter_map(|step| {
            let known = self.step(step).filter(|known| known.run.is_none())?;
            Some((step, known.waiting.as_ref()?))
        })
    }

    /// Live steps, other than itself, that can still lead to a step: what a join waits for.
    pub fn blockers<'s>(
        &'s self,
        plan: &'s Plan,
        step: StepIndex,
    ) -> impl Iterator<Item = StepIndex> + 's {
        let others = self.active.iter().filter(move |other| *other != step);
        others.filter(move |other| plan.step(*other).reaches.contains(step))
    }

    /// Puts what a decision changed where it belongs. To be called once the state that a decision
    /// was made from is gone.
    pub fn settle(&mut self) {
        self.steps.settle();
        self.commands.settle();
        self.held.settle();
        self.mailbox.kept.settle();
    }

    /// The run of a step that is entered.
    pub(crate) fn run(&self, step: StepIndex) -> Option<&Run> {
        self.steps.get(&step)?.run.as_ref()
    }

    /// Where the run of this state stands, as the table of transitions sees it.
    pub fn life_stage(&self) -> LifeStage {
        match self.life {
            Life::New => LifeStage::New,
            Life::Running if self.ending.is_some() => LifeStage::Ending,
            Life::Running if self.failure.is_some() => LifeStage::Failing,
            Life::Running => LifeStage::Running,
            Life::Paused => LifeStage::Paused,
            Life::Ended(_) => LifeStage::Ended,
        }
    }

    /// Where a step stands, as the table of transitions sees it.
    pub fn step_stage(&self, step: StepIndex) -> StepStage {
        self.step(step).map_or(StepStage::Idle, StepState::stage)
    }
}
