//! The input and the output of a tool.

use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind, Text};

/// One call of a tool, with all templates rendered.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub kind: ToolKind,
    /// Rendered keys of the kind, including the task's `auth` and `libs`.
    pub config: JsonMap,
    /// Rendered input: the step's input, overridden by the task's.
    pub input: JsonMap,
    pub execution_id: String,
    /// Command that the call belongs to, if any. State that tools keep for it lasts until
    /// [`Toolbox::release_command`](crate::Toolbox::release_command).
    pub command: String,
    pub step: String,
    pub label: String,
    /// Idempotency key of the task, the same across retries and lost workers.
    pub idempotency_key: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Timeout of this attempt, counted from when the tool starts to work on it.
    pub timeout: Duration,
    /// Value of `context` in python code: a map, possibly empty.
    pub context: Json,
    /// Value of `variables` in python code.
    pub variables: Json,
}

/// Result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutcome {
    /// Data that the tool returns. A failure may have data too.
    pub data: Json,
    pub error: Option<TaskError>,
    /// Entries of `output` in addition to the data, such as `http` and `py`.
    pub extras: JsonMap,
    /// Delay that the remote side requests before the next attempt.
    pub retry_after: Option<Millis>,
}

impl ToolOutcome {
    pub fn ok(data: impl Into<Json>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    pub fn failed(error: TaskError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Creates a failure of the given kind, without data.
    pub fn error(kind: TaskErrorKind, message: impl Into<Text>) -> Self {
        Self::failed(TaskError::new(kind, message))
    }
}

impl From<TaskError> for ToolOutcome {
    fn from(error: TaskError) -> Self {
        Self::failed(error)
    }
}
