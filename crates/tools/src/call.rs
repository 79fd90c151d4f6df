//! What goes into a tool and what comes out of it.

use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind, Text};

/// One call of a tool, rendered and ready.
#[derive(Debug, Clone)]
pub struct Call {
    /// What to run.
    pub kind: ToolKind,
    /// The rendered keys of the kind, with the task's `auth` and `libs` among them.
    pub config: JsonMap,
    /// The rendered input: the step's with the task's on top.
    pub input: JsonMap,
    /// The run that this is part of.
    pub execution_id: String,
    /// The command that this is part of, if any: what tools keep for it lasts until
    /// [`Toolbox::forget`](crate::Toolbox::forget).
    pub command: String,
    /// The step that this is part of.
    pub step: String,
    /// The label of the task.
    pub label: String,
    /// The key of this run of the task, the same over retries and lost workers.
    pub idempotency_key: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Time for this attempt, counted from when the tool starts to work on it.
    pub timeout: Duration,
    /// What python code sees as `context`: a map, possibly empty.
    pub context: Json,
    /// What python code sees as `variables`.
    pub variables: Json,
}

/// How a call ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the tool gives; a failure may have data too.
    pub data: Json,
    /// Why it failed, if it did.
    pub error: Option<TaskError>,
    /// What goes into `output` beside the data, such as `http` and `py`.
    pub extras: JsonMap,
    /// How long the other side asks to wait before the next attempt.
    pub retry_after: Option<Millis>,
}

impl Outcome {
    /// A success.
    pub fn ok(data: impl Into<Json>) -> Self {
        Self {
            data: data.into(),
            ..Self::default()
        }
    }

    /// A failure without data.
    pub fn failed(error: TaskError) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    /// A failure of a kind, without data.
    pub fn error(kind: TaskErrorKind, message: impl Into<Text>) -> Self {
        Self::failed(TaskError::new(kind, message))
    }
}

impl From<TaskError> for Outcome {
    fn from(error: TaskError) -> Self {
        Self::failed(error)
    }
}
