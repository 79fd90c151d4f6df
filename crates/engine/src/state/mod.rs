//! State of an execution: the fold of its log.
//!
//! Owns the shape of the state and cheap copies of it. The state changes only through
//! [`ExecutionState::apply`], one event at a time, and contains nothing that is not derived from
//! the log.

mod command;
mod cursor;
pub(crate) mod layered;
mod snapshot;
mod step;
mod suspended;
mod table;
mod timers;

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::record::ExecutionVersion;
use noetl_types::{CommandId, ExecutionId, ExecutionStatus, Json, Seq, TaskError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::event::{ControlInfo, PlaybookStarted};
use crate::plan::Plan;
use crate::slot::{ExecutionSlot, SlotGrant, SlotHolder};
use crate::step_set::StepSet;
use layered::{LayeredMap, Settle as _, settled};

pub use command::{CallResult, Command, CommandPhase, ReportedRetries};
pub(crate) use cursor::ClosedFrame;
pub use cursor::{CursorState, FrameEnd};
pub use snapshot::{FOLD_VERSION, SnapshotError};
pub use step::{
    Arrival, CommandOutcome, LastPass, LoopState, PendingArrivals, RetainedOutput, StepOutput,
    StepPass, StepState, StepStatus, StepWork, TriggerEvent,
};
pub use suspended::{
    BufferedSignal, DeliveredSignal, MAX_BUFFERED_SIGNAL_BYTES, MAX_BUFFERED_SIGNALS,
    OpenCommandTimer, OpenWait, SplitPipelineState, SuspendedTask, WaitKind,
};
pub use table::{CommandStage, ExecutionStage, StepStage, TransitionKind};
pub use timers::PendingTimer;

pub(crate) use suspended::SignalBuffer;

/// State of an execution.
///
/// A clone is cheap for any length of the execution and any width of its loops. Call
/// [`ExecutionState::settle`] after a clone has replaced the original. The serde form is that of
/// snapshots, without what [`ExecutionState::from_snapshot`] derives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionState {
    pub(crate) version: ExecutionVersion,
    #[serde(rename = "life")]
    pub(crate) phase: ExecutionPhase,
    #[serde(rename = "beginning")]
    pub(crate) start_record: Option<Arc<StartRecord>>,
    /// Variables: always a map.
    pub(crate) ctx: Json,
    /// Each step is shared, so that a copy of the state copies only the steps that it changes.
    pub(crate) steps: LayeredMap<StepIndex, Arc<StepState>>,
    /// Steps that were entered and not exited, or that wait to enter.
    #[serde(skip)]
    pub(crate) active: StepSet,
    /// Steps that have arrivals, entered or not.
    #[serde(skip)]
    pub(crate) waiting_steps: StepSet,
    /// Steps that are reachable from the entry and were neither entered nor skipped.
    #[serde(skip)]
    pub(crate) undecided: StepSet,
    /// Commands that are not closed.
    pub(crate) commands: LayeredMap<CommandId, Command>,
    /// Commands that were closed while the execution was paused, in order of closing.
    #[serde(rename = "held")]
    pub(crate) deferred: LayeredMap<Seq, ClosedCommand>,
    /// Buffered signals.
    #[serde(rename = "mailbox")]
    pub(crate) signal_buffer: SignalBuffer,
    #[serde(rename = "failure")]
    pub(crate) uncaught_failure: Option<Arc<UncaughtFailure>>,
    /// The timeout or cancel that stopped the execution before it was done.
    pub(crate) interruption: Option<Interruption>,
    /// Set when the final step is reached.
    pub(crate) ending: Option<Ending>,
    /// Last step that completed and selected no arc.
    pub(crate) last_exit: Option<StepIndex>,
    /// Number of arrivals so far. Orders the waiting steps.
    #[serde(rename = "arrivals")]
    pub(crate) arrival_count: u64,
}

/// Phase of an execution between start and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecutionPhase {
    New,
    Running,
    Paused,
    Ended(ExecutionStatus),
}

/// Start event of an execution and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    pub(crate) started: PlaybookStarted,
    pub(crate) at: Timestamp,
}

/// Uncaught failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UncaughtFailure {
    /// First uncaught failure.
    pub(crate) error: TaskError,
    /// Failed steps, in order of failure.
    pub(crate) steps: Vec<StepIndex>,
}

/// Reason for which an execution stops before it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Interruption {
    Timeout,
    Cancel(ControlInfo),
}

/// The end of an execution while its final step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    /// Status with which the execution is about to end.
    pub(crate) status: ExecutionStatus,
    pub(crate) since: Timestamp,
}

/// A closed command whose step has not been advanced yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClosedCommand {
    pub(crate) step: StepIndex,
    pub(crate) index: Option<u32>,
    /// Writes of its tasks to variables of the execution.
    pub(crate) ctx: noetl_types::JsonMap,
}

settled!(ClosedCommand);

impl ExecutionState {
    /// Creates the state before the first event.
    pub fn new(plan: &Plan) -> Self {
        Self {
            version: ExecutionVersion::EMPTY,
            phase: ExecutionPhase::New,
            start_record: None,
            ctx: Json::empty_map(),
            steps: LayeredMap::default(),
            active: StepSet::with_capacity(plan.len()),
            waiting_steps: StepSet::with_capacity(plan.len()),
            undecided: plan.reachable_steps().clone(),
            commands: LayeredMap::default(),
            deferred: LayeredMap::default(),
            signal_buffer: SignalBuffer::default(),
            uncaught_failure: None,
            interruption: None,
            ending: None,
            last_exit: None,
            arrival_count: 0,
        }
    }

    /// Seq of the last event, or 0 before the first.
    pub fn version(&self) -> ExecutionVersion {
        self.version
    }

    /// Id of the execution, once it has started.
    pub fn execution_id(&self) -> Option<ExecutionId> {
        self.start_event().map(|started| started.execution_id)
    }

    /// Start event of the execution.
    pub fn start_event(&self) -> Option<&PlaybookStarted> {
        self.start_record.as_ref().map(|record| &record.started)
    }

    /// Status of the execution as shown to users.
    pub fn status(&self) -> ExecutionStatus {
        match self.phase {
            ExecutionPhase::New => ExecutionStatus::Pending,
            ExecutionPhase::Paused => ExecutionStatus::Paused,
            ExecutionPhase::Ended(status) => status,
            ExecutionPhase::Running if self.steps.values().all(|step| step.runs == 0) => {
                ExecutionStatus::Pending
            }
            ExecutionPhase::Running => ExecutionStatus::Running,
        }
    }

    /// Returns true if the execution has ended. Only audit events can follow.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, ExecutionPhase::Ended(_))
    }

    /// Returns true if the execution is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.phase, ExecutionPhase::Paused)
    }

    /// Returns true if an uncaught failure or an interruption lets only open commands finish.
    pub fn is_failing(&self) -> bool {
        self.ending.is_none() && self.is_cut_short()
    }

    /// Returns true after an uncaught failure, a timeout or a cancel of the execution.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.uncaught_failure.is_some() || self.interruption.is_some()
    }

    /// Returns true if the execution was cancelled and its final step runs.
    pub fn is_cancelling(&self) -> bool {
        matches!(self.interruption, Some(Interruption::Cancel(_)))
    }

    /// Returns true if the final step runs before the execution ends. An execution that has not
    /// begun has nothing to clean up.
    pub(crate) fn has_final_step_ahead(&self, plan: &Plan) -> bool {
        plan.final_step().is_some() && self.ending.is_none() && self.has_begun()
    }

    fn has_begun(&self) -> bool {
        self.steps.values().any(|step| step.passes > 0)
    }

    /// First uncaught error, and all steps with uncaught failures in order.
    pub fn uncaught_failure(&self) -> Option<(&TaskError, &[StepIndex])> {
        let failure = self.uncaught_failure.as_ref()?;
        Some((&failure.error, &failure.steps))
    }

    /// Status with which the execution is about to end. `None` until its final step is entered.
    pub fn ending_status(&self) -> Option<ExecutionStatus> {
        self.ending.map(|ending| ending.status)
    }

    /// Slot that the whole execution waits for. No step is entered without it, so an entered or
    /// skipped step proves that the execution holds it.
    pub fn awaited_execution_slot(&self) -> Option<&ExecutionSlot> {
        let slot = self.start_event()?.concurrency.as_ref()?;
        (!self.has_begun() && !self.is_ended()).then_some(slot)
    }

    /// Slots held by the execution itself and by its steps.
    pub fn held_slots(&self, plan: &Plan) -> Vec<SlotGrant> {
        let execution_slot = self.start_event().and_then(|started| started.concurrency.as_ref());
        let execution_slot =
            execution_slot.filter(|_| self.awaited_execution_slot().is_none() && !self.is_ended());
        let execution_grant = execution_slot.map(|execution_slot| SlotGrant {
            holder: SlotHolder::Execution,
            key: execution_slot.slot.key.clone(),
        });
        let step_grants = self.active_passes().filter_map(|(step, pass)| {
            Some(SlotGrant {
                holder: SlotHolder::Step { step: plan.step(step).name.clone(), run: pass.number },
                key: pass.slot.as_ref()?.key.clone(),
            })
        });
        let step_grants = step_grants.filter(|_| !self.is_ended());
        execution_grant.into_iter().chain(step_grants).collect()
    }

    /// Variables: a map.
    pub fn ctx(&self) -> &Json {
        &self.ctx
    }

    /// State of a step, or `None` if no event concerned it yet.
    pub fn step_state(&self, step: StepIndex) -> Option<&StepState> {
        self.steps.get(&step).map(|step| &**step)
    }

    /// Mutable state of a step, created if absent.
    pub(crate) fn step_state_mut(&mut self, step: StepIndex) -> &mut StepState {
        Arc::make_mut(self.steps.get_or_insert_with(step, Arc::default))
    }

    /// Finds an open command.
    pub fn command(&self, command: CommandId) -> Option<&Command> {
        self.commands.get(&command)
    }

    /// Iterates over the open commands, by id.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, &Command)> {
        self.commands.iter().map(|(id, command)| (*id, command))
    }

    /// Number of open commands.
    pub fn open_command_count(&self) -> usize {
        self.commands.len()
    }

    /// Iterates over the active steps with their passes, in document order.
    pub fn active_passes(&self) -> impl Iterator<Item = (StepIndex, &StepPass)> {
        let active = self.active.iter();
        active.filter_map(|step| Some((step, self.steps.get(&step)?.run.as_ref()?)))
    }

    /// Iterates over the steps that have arrivals and are not entered.
    pub fn waiting_steps(&self) -> impl Iterator<Item = (StepIndex, &PendingArrivals)> {
        let waiting = self.waiting_steps.iter();
        waiting.filter_map(|step| {
            let state = self.step_state(step).filter(|state| state.run.is_none())?;
            Some((step, state.waiting.as_ref()?))
        })
    }

    /// Iterates over the other active steps that can still lead to a step. A join waits for them.
    pub fn blocking_steps<'s>(
        &'s self,
        plan: &'s Plan,
        step: StepIndex,
    ) -> impl Iterator<Item = StepIndex> + 's {
        let others = self.active.iter().filter(move |other| *other != step);
        others.filter(move |other| plan.step(*other).reaches.contains(step))
    }

    /// Merges the changes of a decision into the shared base. Call it after the original state of
    /// the decision was dropped.
    pub fn settle(&mut self) {
        self.steps.settle();
        self.commands.settle();
        self.deferred.settle();
        self.signal_buffer.kept.settle();
    }

    /// Active pass of a step.
    pub(crate) fn active_pass(&self, step: StepIndex) -> Option<&StepPass> {
        self.steps.get(&step)?.run.as_ref()
    }

    /// Stage of the execution, for the transition table.
    pub fn execution_stage(&self) -> ExecutionStage {
        match self.phase {
            ExecutionPhase::New => ExecutionStage::New,
            ExecutionPhase::Running if self.ending.is_some() => ExecutionStage::Ending,
            ExecutionPhase::Running if self.is_cut_short() => ExecutionStage::Failing,
            ExecutionPhase::Running => ExecutionStage::Running,
            ExecutionPhase::Paused => ExecutionStage::Paused,
            ExecutionPhase::Ended(_) => ExecutionStage::Ended,
        }
    }

    /// Stage of a step, for the transition table.
    pub fn step_stage(&self, step: StepIndex) -> StepStage {
        self.step_state(step).map_or(StepStage::Idle, StepState::stage)
    }
}
