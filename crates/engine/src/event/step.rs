//! Events of steps.

use noetl_types::{EventId, Json, JsonMap, StepName, TaskError, Text};
use serde::{Deserialize, Serialize};

use super::cursor::CursorEntered;
use crate::cache::CacheKey;
use crate::payload::Data;
use crate::slot::Slot;

/// A run of a step begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEntered {
    /// The step.
    pub step: StepName,
    /// Which run of it, from 1.
    pub run: u32,
    /// The steps whose arcs led here, each once, in the order of arrival.
    pub arrivals: Vec<StepName>,
    /// What it loops over.
    pub looping: Option<LoopEntered>,
    /// The cursor that it loops over instead.
    pub cursor: Option<Box<CursorEntered>>,
    /// Rank of its commands in the queue.
    pub priority: Option<i16>,
    /// The slot that it has until it is left.
    pub slot: Option<Slot>,
    /// The key under which its result is to be kept.
    pub cache: Option<CacheKey>,
}

/// What a run of a step loops over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopEntered {
    /// How many iterations there are.
    pub iterations: u32,
    /// The name of the item.
    pub iterator: Text,
    /// The items, or their number, where a template told them.
    pub items: Option<Data>,
    /// How many commands may be open at once, where a template told it.
    pub max_in_flight: Option<u32>,
}

/// A run of a step ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepExited {
    /// The step.
    pub step: StepName,
    /// Which run of it.
    pub run: u32,
    /// How it ended.
    pub end: StepEnd,
    /// The targets of the arcs that were taken, in order; an undeclared `end` may be among them.
    pub next: Vec<StepName>,
    /// The data of a loop. That of a single command is in its `call.done`.
    pub data: Option<Data>,
}

/// How a run of a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    /// Well.
    Completed,
    /// Failed.
    Failed {
        /// With what.
        error: TaskError,
        /// Whether an arc caught it.
        caught: bool,
    },
    /// Given up, since the run fails anyway.
    Cancelled,
}

/// A step is passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSkipped {
    /// The step.
    pub step: StepName,
    /// Why, and what follows.
    pub reason: SkipReason,
}

/// Why a step is passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// Nothing that is alive leads to it any more.
    NotRouted,
    /// Its guard does not hold.
    Guard {
        /// Which run of it this would have been.
        run: u32,
        /// What the guard came to.
        value: Json,
        /// The targets of the arcs that were taken.
        next: Vec<StepName>,
    },
    /// Its admission rules deny it.
    Admission {
        /// Which run of it this would have been.
        run: u32,
        /// The targets of the arcs that were taken.
        next: Vec<StepName>,
    },
}

/// Every iteration of a loop is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDone {
    /// The step.
    pub step: StepName,
    /// Which run of it.
    pub run: u32,
    /// The event that entered it.
    pub loop_id: EventId,
    /// How many of them.
    pub stats: LoopStats,
    /// The first failures, where the loop went on after them.
    pub errors: Vec<IterationError>,
}

/// How the iterations of a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopStats {
    /// All of them.
    pub total: u32,
    /// Those that went well.
    pub success: u32,
    /// Those that failed.
    pub failed: u32,
    /// In a loop over a cursor, whose iterations are rows: the frames that had some, or failed.
    pub frames: Option<u32>,
}

/// An iteration that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationError {
    /// Which one, from 0; the frame, in a loop over a cursor.
    pub index: u32,
    /// With what.
    pub error: TaskError,
}

/// Variables are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtxUpdated {
    /// The step that wrote them.
    pub step: StepName,
    /// Which run of it.
    pub run: u32,
    /// The iteration, for writes of its tasks.
    pub index: Option<u32>,
    /// What wrote them.
    pub source: CtxSource,
    /// The values by the path of the variable, see [`noetl_playbook::paths`].
    pub values: JsonMap,
}

/// What wrote variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CtxSource {
    /// The tasks of a command.
    Task,
    /// The `set` of the step.
    Step,
    /// The `set` of an arc.
    Arc,
}

impl CtxSource {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Step => "step",
            Self::Arc => "arc",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "task" => Some(Self::Task),
            "step" => Some(Self::Step),
            "arc" => Some(Self::Arc),
            _ => None,
        }
    }
}
