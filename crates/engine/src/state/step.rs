//! What is known of a step.

use std::sync::Arc;

use noetl_playbook::graph::StepIndex;
use noetl_types::{CommandId, EventId, Json, JsonMap, Millis, TaskError, Timestamp};
use serde::{Deserialize, Serialize};

use super::cursor::CursorState;
use super::layered::{Layered, Settle, settled};
use super::{RelayState, StepStage, serde_step};
use crate::cache::CacheKey;
use crate::event::{LoopRef, LoopStats};
use crate::payload::Data;
use crate::slot::Slot;

/// What is known of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepState {
    /// How many times it was entered.
    pub runs: u32,
    /// How many times it was entered or passed over by its guard.
    pub passes: u32,
    /// Whether nothing leads to it any more.
    pub is_dead: bool,
    /// Arrivals that it has not consumed.
    pub waiting: Option<Waiting>,
    /// The run that goes on.
    pub run: Option<Run>,
    /// How the last run ended.
    pub latest: Option<Latest>,
    /// The data of the last run that went well.
    pub output: Option<Output>,
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
    /// What the last run that ended left behind.
    pub fn left_behind(&self) -> Option<&Output> {
        match &self.latest.as_ref()?.left {
            Left::Nothing => None,
            Left::Data => self.output.as_ref(),
            Left::Failed(output) => Some(output),
        }
    }
}

impl Settle for Arc<StepState> {
    fn settle(&mut self) {
        if let Some(step) = Arc::get_mut(self)
            && let Some(run) = &mut step.run
        {
            run.settle();
        }
    }
}

/// Arrivals at a step that it has not consumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The steps that led here, each once, in the order of their first arrival. Nobody led to the
    /// entry of a run.
    #[serde(with = "serde_step::list")]
    pub sources: Vec<StepIndex>,
    /// The number of the first arrival in the run: who has the lowest has waited longest.
    pub order: u64,
    /// When the first arrival was.
    pub since: Timestamp,
    /// The last arrival.
    pub last: Arrival,
}

/// What led to a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The step that led here; nobody to the entry of a run.
    #[serde(with = "serde_step::option")]
    pub from: Option<StepIndex>,
    /// What happened to that step.
    pub event: LeadEvent,
    /// The event of the log that says so.
    pub event_id: EventId,
    /// What that step left behind, as of then.
    pub output: Option<Output>,
    /// With what it failed.
    pub error: Option<Arc<TaskError>>,
}

/// What can lead from a step to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeadEvent {
    /// The beginning of the run.
    PlaybookStarted,
    /// A command went well.
    CallDone,
    /// A command failed.
    CallError,
    /// A loop went well.
    LoopDone,
    /// The step was passed over.
    StepSkipped,
    /// The run is about to end.
    RunEnding,
}

impl LeadEvent {
    /// The name that templates see.
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

/// A run of a step that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which run it is, from 1.
    pub number: u32,
    /// The event that entered it; also the id of its loop.
    pub entered: EventId,
    /// When it was entered.
    pub entered_at: Timestamp,
    /// When the first arrival was.
    pub arrived_at: Timestamp,
    /// What led here.
    pub arrival: Arrival,
    /// Rank of its commands.
    pub priority: Option<i16>,
    /// The slot that it has.
    pub slot: Option<Slot>,
    /// The key under which its result is to be kept.
    pub cache: Option<CacheKey>,
    /// What `set` wrote under `step.`.
    pub variables: Json,
    /// What `set` wrote under `iter.`, outside of a loop.
    pub iter: Json,
    /// How many of its commands are open.
    pub open: u32,
    /// Its closed commands, with the iteration of each.
    pub closed: Layered<CommandId, u32>,
    /// What it does.
    pub work: Work,
}

impl Settle for Run {
    fn settle(&mut self) {
        self.closed.settle();
        match &mut self.work {
            Work::Single { .. } => {}
            Work::Loop(looping) => {
                looping.results.settle();
                looping.errors.settle();
                looping.relays.settle();
            }
            Work::Cursor(cursor) => cursor.settle(),
        }
    }
}

/// What a run of a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// One command, or one after the other where its pipeline is split.
    Single {
        /// What came of it, once it is closed.
        outcome: Option<Outcome>,
        /// What the commands so far hand on.
        relay: Option<Box<RelayState>>,
    },
    /// A command for each item.
    Loop(LoopState),
    /// Commands for frames of rows, until none is left.
    Cursor(Box<CursorState>),
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its data.
    pub output: Output,
    /// With what it failed.
    pub error: Option<TaskError>,
    /// The attempt of its last task.
    pub attempt: u32,
    /// How long its tasks took, where that is known.
    pub duration: Option<Millis>,
}

impl Outcome {
    /// What a command comes to that goes well at once and yields nothing.
    pub(crate) fn went_well() -> Self {
        Self {
            output: Output::default(),
            error: None,
            attempt: 1,
            duration: None,
        }
    }
}

/// The data of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Output {
    /// The data.
    pub data: Data,
    /// The data of each task of a pipeline, where the data hides some of it.
    pub labels: Option<Json>,
}

impl From<Data> for Output {
    fn from(data: Data) -> Self {
        Self { data, labels: None }
    }
}

settled!(Data, TaskError);

/// A loop that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    /// How many iterations it has.
    pub iterations: u32,
    /// Its items, or their number, where a template told them.
    pub items: Option<Data>,
    /// How many commands may be open at once, where a template told it.
    pub max_in_flight: Option<u32>,
    /// The next iteration to issue.
    pub next: u32,
    /// The data of the iterations that went well.
    pub results: Layered<u32, Data>,
    /// What the others failed with.
    pub errors: Layered<u32, TaskError>,
    /// What the commands of open iterations hand on, where their pipeline is split.
    pub relays: Layered<u32, RelayState>,
    /// The iteration that failed first in time.
    pub first_failed: Option<u32>,
    /// Whether its end was recorded.
    pub is_done: bool,
}

impl LoopState {
    /// How many iterations ended, and how.
    pub fn stats(&self) -> LoopStats {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        LoopStats {
            total: self.iterations,
            success: count(self.results.len()),
            failed: count(self.errors.len()),
            frames: None,
        }
    }

    /// Whether every iteration has ended.
    pub fn is_complete(&self) -> bool {
        let stats = self.stats();
        stats.success + stats.failed == self.iterations
    }
}

/// How the last run of a step ended. When its guard passes it over, what an earlier run left behind
/// stays in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latest {
    /// How it ended.
    pub status: StepStatus,
    /// When it was entered.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// With what it failed.
    pub error: Option<Arc<TaskError>>,
    /// What it left behind.
    pub left: Left,
    /// Its command, where it was only one.
    pub closed: Option<CommandId>,
}

/// What a run of a step left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Nothing.
    #[default]
    Nothing,
    /// The data of the step, since it went well.
    Data,
    /// Other data, since it failed.
    Failed(Output),
}

/// How a run of a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepStatus {
    /// Well.
    Completed,
    /// Failed.
    Failed,
    /// Given up.
    Cancelled,
    /// Passed over.
    Skipped,
}

impl StepStatus {
    /// The word that templates see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Skipped => "SKIPPED",
        }
    }
}

impl Run {
    /// The loop that its commands belong to.
    pub(crate) fn loop_ref(&self) -> Option<LoopRef> {
        let size = match &self.work {
            Work::Single { .. } => return None,
            Work::Loop(looping) => Some(looping.iterations),
            Work::Cursor(_) => None,
        };
        Some(LoopRef {
            loop_id: self.entered,
            size,
        })
    }

    /// Whether a command of it is known to be closed.
    pub(crate) fn has_closed(&self, command: CommandId) -> bool {
        match &self.work {
            Work::Single { .. } | Work::Loop(_) => self.closed.contains(&command),
            Work::Cursor(cursor) => cursor.recent.contains(&command),
        }
    }

    /// What the commands so far of a split pipeline hand on.
    pub(crate) fn relay(&self, index: Option<u32>) -> Option<&RelayState> {
        match (&self.work, index) {
            (Work::Single { relay, .. }, None) => relay.as_deref(),
            (Work::Loop(looping), Some(index)) => looping.relays.get(&index),
            (Work::Single { .. }, Some(_)) | (Work::Loop(_), None) | (Work::Cursor(_), _) => None,
        }
    }

    /// Adds what the tasks of a command wrote for the run itself.
    pub(crate) fn write(&mut self, step: &JsonMap, iter: &JsonMap) {
        if !step.is_empty() {
            noetl_playbook::paths::write(&mut self.variables, step);
        }
        let is_single = matches!(self.work, Work::Single { .. });
        if is_single && !iter.is_empty() {
            noetl_playbook::paths::write(&mut self.iter, iter);
        }
    }
}
