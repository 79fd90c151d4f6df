//! Reports of workers on the tasks of a command, on the wire and in the engine.

use serde::{Deserialize, Serialize};

use crate::{Millis, TaskError, Text, Timestamp};

/// Report on the rows of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FrameReport {
    /// Number of claimed rows; zero ends the chain of frames.
    pub rows: u32,
    /// Number of rows whose tasks completed.
    pub done: u32,
    /// Number of rows whose tasks failed.
    pub failed: u32,
    /// Size of the rows in bytes.
    pub bytes: u64,
    /// First errors, if the frame continued after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RowError>,
}

/// A failed row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RowError {
    /// Position in the frame, from 0.
    pub row: u32,
    /// Error of its tasks.
    pub error: TaskError,
}

/// Report on a task of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    /// Label of the task.
    pub label: Text,
    /// Status of the last attempt.
    pub status: TaskStatus,
    /// Number of attempts.
    pub attempts: u32,
    /// Total duration of all attempts in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// End of the standard output of the last attempt, apart from its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Text>,
    /// End of the error output of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Text>,
}

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Succeeded.
    Ok,
    /// Failed.
    Error,
}

impl TaskStatus {
    /// Returns the name in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }

    /// Parses the name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Ok, Self::Error].into_iter().find(|status| status.as_str() == text)
    }
}

/// A failed task attempt that is retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RetriedTask {
    /// Error of the attempt.
    pub error: TaskError,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Delay until the next attempt, in milliseconds.
    #[serde(with = "crate::time::as_ms")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub retry_in_ms: Millis,
    /// Time of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}
