//! State of steps.

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::string_enum;
use noetl_types::{CommandId, EventId, Json, JsonMap, Millis, TaskError, Timestamp};
use serde::{Deserialize, Serialize};

use super::cursor::CursorState;
use super::layered::{LayeredMap, Settle, settled};
use super::{SplitPipelineState, StepStage};
use crate::cache::CacheKey;
use crate::event::{LoopRef, LoopStats};
use crate::payload::EventData;
use crate::slot::Slot;

/// State of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepState {
    /// Number of times it was entered.
    pub runs: u32,
    /// Number of times it was entered or skipped by its guard.
    pub passes: u32,
    /// True if no active step can lead to it any more.
    pub is_dead: bool,
    /// Arrivals that were not consumed yet.
    pub waiting: Option<PendingArrivals>,
    /// Active pass.
    pub run: Option<StepPass>,
    /// Outcome of the last pass.
    pub latest: Option<LastPass>,
    /// Data of the last successful pass.
    pub output: Option<StepOutput>,
}

impl StepState {
    pub(crate) fn stage(&self) -> StepStage {
        if self.run.is_some() {
            StepStage::Running
        } else if self.waiting.is_some() {
            StepStage::Waiting
        } else if self.is_dead {
            StepStage::Dead
        } else if self.passes > 0 {
            StepStage::Passed
        } else {
            StepStage::Idle
        }
    }
}

impl StepState {
    /// Output of the last ended pass.
    pub fn last_output(&self) -> Option<&StepOutput> {
        match &self.latest.as_ref()?.left {
            RetainedOutput::Nothing => None,
            RetainedOutput::Data => self.output.as_ref(),
            RetainedOutput::Failed(output) => Some(output),
        }
    }
}

impl Settle for Arc<StepState> {
    fn settle(&mut self) {
        if let Some(step) = Arc::get_mut(self)
            && let Some(pass) = &mut step.run
        {
            pass.settle();
        }
    }
}

/// Arrivals at a step that were not consumed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingArrivals {
    /// Steps that led here, each once, in order of their first arrival. Empty for the entry of an
    /// execution.
    pub sources: Vec<StepIndex>,
    /// Number of the first arrival in the execution. The step with the lowest number has waited
    /// longest.
    pub order: u64,
    /// Time of the first arrival.
    pub since: Timestamp,
    /// Last arrival.
    pub last: Arrival,
}

/// An arrival at a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Step that led here. `None` for the entry of an execution.
    pub from: Option<StepIndex>,
    /// Event of that step that led here.
    pub event: TriggerEvent,
    /// Id of that event in the log.
    pub event_id: EventId,
    /// Output of that step at that time.
    pub output: Option<StepOutput>,
    /// Error of the failure.
    pub error: Option<Arc<TaskError>>,
}

/// Event that can lead from a step to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerEvent {
    /// The execution started.
    PlaybookStarted,
    /// A command succeeded.
    CallDone,
    /// A command failed.
    CallError,
    /// A loop succeeded.
    LoopDone,
    /// The step was skipped.
    StepSkipped,
    /// The execution is about to end.
    RunEnding,
}

impl TriggerEvent {
    /// Name of the event in templates.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlaybookStarted => "playbook.started",
            Self::CallDone => "call.done",
            Self::CallError => "call.error",
            Self::LoopDone => "loop.done",
            Self::StepSkipped => "step.skipped",
            Self::RunEnding => "run.ending",
        }
    }
}

/// An active pass of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPass {
    /// Number of the pass, from 1.
    pub number: u32,
    /// Id of the event that entered it. Also the id of its loop.
    pub entered: EventId,
    /// Time of entry.
    pub entered_at: Timestamp,
    /// Time of the first arrival.
    pub arrived_at: Timestamp,
    /// Arrival that led here.
    pub arrival: Arrival,
    /// Priority of its commands.
    pub priority: Option<i16>,
    /// Slot that it holds.
    pub slot: Option<Slot>,
    /// Cache key under which its result will be stored.
    pub cache: Option<CacheKey>,
    /// Variables that `set` wrote under `step.`.
    pub variables: Json,
    /// Variables that `set` wrote under `iter.`, outside of a loop.
    pub iter: Json,
    /// Number of open commands.
    pub open: u32,
    /// Closed commands, with the iteration of each.
    pub closed: LayeredMap<CommandId, u32>,
    /// Work of the pass.
    pub work: StepWork,
}

impl Settle for StepPass {
    fn settle(&mut self) {
        self.closed.settle();
        match &mut self.work {
            StepWork::Single { .. } => {}
            StepWork::Loop(looping) => {
                looping.results.settle();
                looping.errors.settle();
                looping.relays.settle();
            }
            StepWork::Cursor(cursor) => cursor.settle(),
        }
    }
}

/// Work of a step pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepWork {
    /// One command, or several in sequence if its pipeline is split.
    Single {
        /// Outcome, once the command is closed.
        outcome: Option<CommandOutcome>,
        /// State of the split pipeline.
        relay: Option<Box<SplitPipelineState>>,
    },
    /// One command per item.
    Loop(LoopState),
    /// Commands for frames of rows, until no rows are left.
    Cursor(Box<CursorState>),
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// Data of the command.
    pub output: StepOutput,
    /// Error of the failure.
    pub error: Option<TaskError>,
    /// Attempt of its last task.
    pub attempt: u32,
    /// Duration of its tasks, if known.
    pub duration: Option<Millis>,
}

impl CommandOutcome {
    /// Returns the outcome of a command that succeeds at once without data.
    pub(crate) fn empty_success() -> Self {
        Self { output: StepOutput::default(), error: None, attempt: 1, duration: None }
    }
}

/// The data of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepOutput {
    /// The data.
    pub data: EventData,
    /// Data of each task of a pipeline by label, if `data` does not contain all of it.
    pub labels: Option<Json>,
}

impl From<EventData> for StepOutput {
    fn from(data: EventData) -> Self {
        Self { data, labels: None }
    }
}

settled!(EventData, TaskError);

/// State of an active loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    /// Number of iterations.
    pub iterations: u32,
    /// The items or their number, if a template determined them.
    pub items: Option<EventData>,
    /// Maximum number of open commands, if a template determined it.
    pub max_in_flight: Option<u32>,
    /// Next iteration to issue.
    pub next: u32,
    /// Data of the successful iterations.
    pub results: LayeredMap<u32, EventData>,
    /// Errors of the failed iterations.
    pub errors: LayeredMap<u32, TaskError>,
    /// State of the split pipelines of open iterations.
    pub relays: LayeredMap<u32, SplitPipelineState>,
    /// Iteration that failed first in time.
    pub first_failed: Option<u32>,
    /// True if its end was recorded.
    pub is_done: bool,
}

impl LoopState {
    /// Counts of ended iterations.
    pub fn loop_stats(&self) -> LoopStats {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        LoopStats {
            total: self.iterations,
            success: count(self.results.len()),
            failed: count(self.errors.len()),
            frames: None,
        }
    }

    /// Returns true if every iteration has ended.
    pub fn is_complete(&self) -> bool {
        let stats = self.loop_stats();
        stats.success + stats.failed == self.iterations
    }
}

/// Outcome of the last pass of a step. If the step is skipped later, the output of the earlier pass
/// is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPass {
    /// Status of the pass.
    pub status: StepStatus,
    /// Time of entry.
    pub started_at: Option<Timestamp>,
    /// End time.
    pub ended_at: Timestamp,
    /// Error of the failure.
    pub error: Option<Arc<TaskError>>,
    /// Output of the pass.
    pub left: RetainedOutput,
    /// Its command, if it had only one.
    pub closed: Option<CommandId>,
}

/// Location of the output of a step pass.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetainedOutput {
    /// No output.
    #[default]
    Nothing,
    /// The data of the step, because the pass succeeded.
    Data,
    /// Other data, because the pass failed.
    Failed(StepOutput),
}

string_enum! {
    /// Status of an ended step pass.
    pub enum StepStatus {
        /// Completed.
        Completed = "COMPLETED",
        /// Failed.
        Failed = "FAILED",
        /// Cancelled.
        Cancelled = "CANCELLED",
        /// Skipped.
        Skipped = "SKIPPED",
    }
}

impl StepPass {
    /// Loop that its commands belong to.
    pub(crate) fn loop_ref(&self) -> Option<LoopRef> {
        let size = match &self.work {
            StepWork::Single { .. } => return None,
            StepWork::Loop(looping) => Some(looping.iterations),
            StepWork::Cursor(_) => None,
        };
        Some(LoopRef { loop_id: self.entered, size })
    }

    /// Returns true if one of its commands is known to be closed.
    pub(crate) fn has_closed(&self, command: CommandId) -> bool {
        match &self.work {
            StepWork::Single { .. } | StepWork::Loop(_) => self.closed.contains(&command),
            StepWork::Cursor(cursor) => cursor.recent.contains(&command),
        }
    }

    /// State of a split pipeline.
    pub(crate) fn pipeline_state(&self, index: Option<u32>) -> Option<&SplitPipelineState> {
        match (&self.work, index) {
            (StepWork::Single { relay, .. }, None) => relay.as_deref(),
            (StepWork::Loop(looping), Some(index)) => looping.relays.get(&index),
            (StepWork::Single { .. }, Some(_))
            | (StepWork::Loop(_), None)
            | (StepWork::Cursor(_), _) => None,
        }
    }

    /// Applies the writes of the tasks of a command to the pass.
    pub(crate) fn apply_writes(&mut self, step: &JsonMap, iter: &JsonMap) {
        if !step.is_empty() {
            noetl_playbook::paths::write_variables(&mut self.variables, step);
        }
        let is_single = matches!(self.work, StepWork::Single { .. });
        if is_single && !iter.is_empty() {
            noetl_playbook::paths::write_variables(&mut self.iter, iter);
        }
    }
}
