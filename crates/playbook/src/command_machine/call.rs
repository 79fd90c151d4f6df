//! One call of a tool: its input and its result.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, Millis, TaskError, Text};

use crate::model::{Task, ToolKind};

/// A call of a tool, with everything rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSpec {
    /// Kind of the tool.
    pub kind: ToolKind,
    /// The label of the task.
    pub label: Arc<str>,
    /// The configuration keys of its kind.
    pub config: JsonMap,
    /// The input of the task, merged over the input of the step.
    pub input: JsonMap,
    /// The credential: an alias or a map.
    pub auth: Option<Json>,
    /// Modules that Python code may use.
    pub libs: Option<Json>,
    /// Which run of this task in the command this is, from 1. A retry does not start a new run.
    pub task_run: u32,
    /// The attempt of this run, from 1.
    pub attempt: u32,
    /// Time limit of the attempt. `None` if it may wait forever.
    pub timeout: Option<Millis>,
    /// Key under which the effect of this run happens only once.
    pub idempotency_key: Text,
    /// Everything that its code may read by name, if it does.
    pub code_context: Option<Box<CodeContext>>,
}

/// The names that code can read besides its input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeContext {
    /// All names that a template of the task can read.
    pub context: JsonMap,
    /// The variables of the run.
    pub variables: JsonMap,
}

/// Returns true if the code of a task may read names that no template shows.
pub fn needs_full_context(task: &Task) -> bool {
    match task.kind.value {
        ToolKind::Rhai => true,
        ToolKind::Python => match task.config.get("code").map(|code| code.value.as_const()) {
            // Code that is rendered by a template, or stored elsewhere, may read any name.
            None | Some(None) => true,
            Some(Some(code)) => code.as_str().is_none_or(mentions_context),
        },
        _ => false,
    }
}

/// Returns the data of a `noop` with this configuration.
pub fn noop_data(config: &JsonMap) -> Json {
    config.get("result").cloned().unwrap_or_else(|| {
        let message = config.get("message").cloned().unwrap_or_default();
        Json::object([("status", Json::from("ok")), ("message", message)])
    })
}

/// Returns true if Python code mentions one of the names that contain all others.
fn mentions_context(code: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| matches!(word, "context" | "variables"))
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolResult {
    /// The data. Some failures have data too.
    pub data: Json,
    /// The error. `None` if the call succeeded.
    pub error: Option<TaskError>,
    /// Further members of `output`, such as `http`, `pg` or `py`.
    pub extras: JsonMap,
    /// Delay that the remote side requests before the next attempt.
    pub retry_after: Option<Millis>,
    /// Duration of the call.
    pub duration: Option<Millis>,
}

impl ToolResult {
    /// The result of a successful call.
    pub fn ok(data: Json) -> Self {
        Self { data, ..Self::default() }
    }

    /// The result of a failed call.
    pub fn failed(error: TaskError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// A completed attempt.
#[derive(Debug)]
pub(super) struct CompletedAttempt {
    pub(super) data: Json,
    pub(super) error: Option<TaskError>,
    pub(super) retry_after: Option<Millis>,
    /// The members of `output` besides the data.
    pub(super) envelope: Json,
}

impl CompletedAttempt {
    pub(super) fn new(task: &Task, attempt: u32, result: ToolResult) -> Self {
        Self {
            envelope: output_envelope(task, attempt, &result),
            data: result.data,
            error: result.error,
            retry_after: result.retry_after,
        }
    }

    pub(super) fn error_json(&self) -> Json {
        self.error.as_ref().map_or(Json::Null, TaskError::to_json)
    }
}

fn output_envelope(task: &Task, attempt: u32, result: &ToolResult) -> Json {
    let error = result.error.as_ref();
    let status = if error.is_none() { "ok" } else { "error" };
    let duration = result.duration.map(Millis::as_ms);
    let mut envelope = JsonMap::from([
        ("status".into(), Json::from(status)),
        ("error".into(), error.map_or(Json::Null, TaskError::to_json)),
        (
            "meta".into(),
            Json::object([
                ("task", Json::Str(Arc::clone(&task.label.value))),
                ("attempt", Json::from(attempt)),
                ("duration_ms", Json::from(duration)),
            ]),
        ),
    ]);
    if task.kind.value == ToolKind::Http && !result.extras.contains_key("http") {
        envelope.insert("http".into(), http_envelope(result));
    }
    let extras = result.extras.iter();
    envelope.extend(extras.map(|(name, extra)| (Arc::clone(name), extra.clone())));
    Json::from(envelope)
}

/// The `http` member as far as it is known from data and error.
fn http_envelope(result: &ToolResult) -> Json {
    let status = result.data.get("status_code").cloned().or_else(|| {
        let status = result.error.as_ref()?.status?;
        Some(Json::from(u32::from(status)))
    });
    let headers = result.data.get("headers").cloned();
    Json::object([("status", status.unwrap_or_default()), ("headers", headers.unwrap_or_default())])
}
