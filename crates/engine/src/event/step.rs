//! Events of steps.

use noetl_playbook::string_enum;
use noetl_types::{EventId, Json, JsonMap, StepName, TaskError, Text};
use serde::{Deserialize, Serialize};

use super::cursor::CursorEntered;
use crate::cache::CacheKey;
use crate::payload::EventData;
use crate::slot::Slot;

/// A pass of a step begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEntered {
    /// The step.
    pub step: StepName,
    /// The pass, from 1.
    pub run: u32,
    /// Steps whose arcs led here, each once, in order of arrival.
    pub arrivals: Vec<StepName>,
    /// Loop over items.
    pub looping: Option<LoopEntered>,
    /// Loop over a cursor.
    pub cursor: Option<Box<CursorEntered>>,
    /// Priority of its commands in the queue.
    pub priority: Option<i16>,
    /// Slot that it holds until its exit.
    pub slot: Option<Slot>,
    /// Cache key under which its result will be stored.
    pub cache: Option<CacheKey>,
}

/// Loop of a step pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopEntered {
    /// Number of iterations.
    pub iterations: u32,
    /// Name of the item variable.
    pub iterator: Text,
    /// The items or their number, if a template determined them.
    pub items: Option<EventData>,
    /// Maximum number of open commands, if a template determined it.
    pub max_in_flight: Option<u32>,
}

/// A pass of a step ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepExited {
    /// The step.
    pub step: StepName,
    /// The pass.
    pub run: u32,
    /// Outcome of the pass.
    pub end: StepEnd,
    /// Targets of the selected arcs, in order. May contain an undeclared `end`.
    pub next: Vec<StepName>,
    /// Data of a loop. The data of a single command is in its `call.done`.
    pub data: Option<EventData>,
}

/// Outcome of a step pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    /// Completed.
    Completed,
    /// Failed.
    Failed {
        /// The error.
        error: TaskError,
        /// True if an arc caught the failure.
        caught: bool,
    },
    /// Cancelled because the execution fails.
    Cancelled,
}

/// A step is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSkipped {
    /// The step.
    pub step: StepName,
    /// Reason and selected arcs.
    pub reason: SkipReason,
}

/// Reason for skipping a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// No active step can lead to it any more.
    NotRouted,
    /// Its guard is false.
    Guard {
        /// Number of the pass that was skipped.
        run: u32,
        /// Value of the guard.
        value: Json,
        /// Targets of the selected arcs.
        next: Vec<StepName>,
    },
    /// Its admission rules deny it.
    Admission {
        /// Number of the pass that was skipped.
        run: u32,
        /// Targets of the selected arcs.
        next: Vec<StepName>,
    },
}

/// Every iteration of a loop has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDone {
    /// The step.
    pub step: StepName,
    /// The pass.
    pub run: u32,
    /// Id of the event that entered it.
    pub loop_id: EventId,
    /// Iteration counts.
    pub stats: LoopStats,
    /// First failures, if the loop continued after them.
    pub errors: Vec<IterationError>,
}

/// Iteration counts of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopStats {
    /// All iterations.
    pub total: u32,
    /// Successful iterations.
    pub success: u32,
    /// Failed iterations.
    pub failed: u32,
    /// Frames that had rows or failed, in a loop over a cursor. There the iterations are rows.
    pub frames: Option<u32>,
}

/// An iteration that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationError {
    /// Index of the iteration from 0, or of the frame in a loop over a cursor.
    pub index: u32,
    /// The error.
    pub error: TaskError,
}

/// Variables are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtxUpdated {
    /// Step that wrote them.
    pub step: StepName,
    /// The pass.
    pub run: u32,
    /// Iteration, for writes of its tasks.
    pub index: Option<u32>,
    /// Source of the writes.
    pub source: CtxSource,
    /// Values by variable path, see [`noetl_playbook::paths`].
    pub values: JsonMap,
}

string_enum! {
    /// Source of variable writes.
    pub enum CtxSource {
        /// The tasks of a command.
        Task = "task",
        /// The `set` of the step.
        Step = "step",
        /// The `set` of an arc.
        Arc = "arc",
    }
}
