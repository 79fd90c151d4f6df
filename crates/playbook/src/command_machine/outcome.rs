//! The outcome of a command.

use noetl_types::{Json, JsonMap, Millis, TaskError, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::continuation::Continuation;
use crate::string_enum;

/// The outcome of a finished command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineOutcome {
    /// The error of the command. `None` if it succeeded.
    pub error: Option<TaskError>,
    /// Failed attempts of tasks that were retried, without those that were taken before. If there
    /// are very many, only the latest are kept.
    pub retries: Vec<RetriedCall>,
    /// The data of the step, as far as this command produces it. If another command continues the
    /// pipeline, the data of its tasks by label.
    pub data: Json,
    /// The data of each task of a pipeline by label, if the data of the last task hides some of it.
    pub labels: Option<Json>,
    /// Values written by the tasks, by the keys of their `set`. A write to a path replaces all
    /// earlier ones at or below it.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// Reports of the tasks.
    pub tasks: Vec<TaskReport>,
    /// Report of the rows of its frame. `None` if no rows were claimed, or there is no frame.
    pub frame: Option<FrameReport>,
    /// The continuation after this command.
    pub next_stage: NextStage,
}

/// Counts and errors of the rows of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FrameReport {
    /// Number of claimed rows. Zero ends the chain of frames.
    pub rows: u32,
    /// Rows whose tasks succeeded.
    pub done: u32,
    /// Rows whose tasks failed.
    pub failed: u32,
    /// Bytes of the rows.
    pub bytes: u64,
    /// The first errors, if the frame continued after them.
    pub errors: Vec<RowError>,
}

/// The error of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowError {
    /// Its index in the frame, from 0.
    pub row: u32,
    /// The error of its tasks.
    pub error: TaskError,
}

/// The continuation of the step after a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NextStage {
    /// The pipeline has ended, successfully or not.
    #[default]
    End,
    /// Another command continues the pipeline.
    Segment(Continuation),
    /// The started work reports its end later. The data is what is known until then.
    Callback,
}

/// A failed attempt of a task that is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetriedCall {
    /// The error of the attempt.
    pub error: TaskError,
    /// The attempt of the task, from 1.
    pub attempt: u32,
    /// Delay before the next attempt.
    pub retry_in: Millis,
    /// Time of the failure. If absent, the time of the report.
    pub at: Option<Timestamp>,
}

/// The result of one task of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// Its label.
    pub label: Text,
    /// Status of its last attempt.
    pub status: TaskStatus,
    /// Number of attempts.
    pub attempts: u32,
    /// Total duration of its attempts.
    pub duration: Option<Millis>,
    /// The end of what its last run printed to standard output besides its data.
    pub stdout: Option<Text>,
    /// The end of what its last run printed to standard error.
    pub stderr: Option<Text>,
}

string_enum! {
    /// Status of a task, by its name in the log.
    pub enum TaskStatus {
        /// Succeeded.
        Ok = "ok",
        /// Failed.
        Error = "error",
    }
}
