//! What comes of the work of a command.

use noetl_types::{Json, JsonMap, Millis, TaskError, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::onward::Onward;

/// The work of a command that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What the command failed with; nothing where it went well.
    pub error: Option<TaskError>,
    /// Attempts of tasks that failed and were made again, without those that were taken before. Of
    /// very many the latest are kept.
    pub retries: Vec<RetriedCall>,
    /// The data of the step, as far as this command makes it; that of its tasks by label where
    /// another command goes on.
    pub data: Json,
    /// The data of each task of a pipeline by label, where that of the last one hides some of it.
    pub labels: Option<Json>,
    /// What the tasks wrote, by the keys of their `set`. A write to a path takes the place of all
    /// earlier ones at or below it.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// What became of each task.
    pub tasks: Vec<TaskReport>,
    /// What became of the rows of its frame; nothing where none were claimed, or it has no frame.
    pub frame: Option<FrameReport>,
    /// What comes after it.
    pub ahead: Ahead,
}

/// What became of the rows of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FrameReport {
    /// How many were claimed; none ends the chain of frames.
    pub rows: u32,
    /// Those whose tasks went well.
    pub done: u32,
    /// Those whose tasks failed.
    pub failed: u32,
    /// Bytes of the rows.
    pub bytes: u64,
    /// The first failures, where the frame went on after them.
    pub errors: Vec<RowError>,
}

/// A row whose tasks failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowError {
    /// Its place in the frame, from 0.
    pub row: u32,
    /// With what they failed.
    pub error: TaskError,
}

/// What comes after the work of a command, as far as its step goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ahead {
    /// Nothing: the pipeline has ended, one way or the other.
    #[default]
    Nothing,
    /// Another command goes on with the pipeline.
    Segment(Onward),
    /// What was started tells its end by itself. The data is what is known of it until then.
    Callback,
}

/// An attempt of a task that failed and is made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetriedCall {
    /// What it failed with.
    pub error: TaskError,
    /// Which attempt of the task it was, from 1.
    pub attempt: u32,
    /// After how long it is made again.
    pub retry_in: Millis,
    /// When it failed; the time of the report where absent.
    pub at: Option<Timestamp>,
}

/// What became of one task of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// Its label.
    pub label: Text,
    /// How it ended.
    pub status: TaskStatus,
    /// How often it ran.
    pub attempts: u32,
    /// How long it took.
    pub duration: Option<Millis>,
    /// What its last run wrote to its standard output besides giving data; the end of it.
    pub stdout: Option<Text>,
    /// The same of the error output.
    pub stderr: Option<Text>,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// Well.
    Ok,
    /// Failed.
    Error,
}

impl TaskStatus {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ok" => Some(Self::Ok),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}
