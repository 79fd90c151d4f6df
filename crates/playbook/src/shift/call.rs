//! One call of a tool: what it is given, and what it says.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, Millis, TaskError, Text};

use crate::model::{Task, ToolKind};

/// A call of a tool, everything rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSpec {
    /// What runs.
    pub kind: ToolKind,
    /// The label of the task.
    pub label: Arc<str>,
    /// The keys of its kind.
    pub config: JsonMap,
    /// Its input, that of the step beneath.
    pub input: JsonMap,
    /// The credential: an alias or a map.
    pub auth: Option<Json>,
    /// Modules that python code may use.
    pub libs: Option<Json>,
    /// Which run of this task in the command it is, from 1. A retry does not begin a new one.
    pub run: u32,
    /// The attempt of this run, from 1.
    pub attempt: u32,
    /// Time for the attempt; `None` where it may wait for ever.
    pub timeout: Option<Millis>,
    /// The key under which the effect of this run happens once.
    pub idempotency_key: Text,
    /// All that its code may ask for by name, where it does.
    pub surroundings: Option<Box<Surroundings>>,
}

/// What code sees besides its input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// Every name that a template of the task sees.
    pub context: JsonMap,
    /// The variables of the run.
    pub variables: JsonMap,
}

/// What a tool says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The data, there even after some failures.
    pub data: Json,
    /// What it failed with; nothing where it went well.
    pub error: Option<TaskError>,
    /// What `output` says besides, such as `http`, `pg` or `py`.
    pub extras: JsonMap,
    /// How long the other side asks to wait before the next attempt.
    pub retry_after: Option<Millis>,
    /// How long it took.
    pub duration: Option<Millis>,
}

impl Answer {
    /// It went well.
    pub fn ok(data: Json) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// It failed.
    pub fn failed(error: TaskError) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

/// An attempt that was made.
#[derive(Debug)]
pub(super) struct Attempted {
    pub(super) data: Json,
    pub(super) error: Option<TaskError>,
    pub(super) retry_after: Option<Millis>,
    /// What `output` says besides the data.
    pub(super) envelope: Json,
}

impl Attempted {
    pub(super) fn new(task: &Task, attempt: u32, answer: Answer) -> Self {
        Self {
            envelope: envelope(task, attempt, &answer),
            data: answer.data,
            error: answer.error,
            retry_after: answer.retry_after,
        }
    }

    pub(super) fn error_json(&self) -> Json {
        self.error.as_ref().map_or(Json::Null, TaskError::to_json)
    }
}

fn envelope(task: &Task, attempt: u32, answer: &Answer) -> Json {
    let error = answer.error.as_ref();
    let status = if error.is_none() { "ok" } else { "error" };
    let duration = answer.duration.map(Millis::as_ms);
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
    if task.kind.value == ToolKind::Http && !answer.extras.contains_key("http") {
        envelope.insert("http".into(), http(answer));
    }
    let extras = answer.extras.iter();
    envelope.extend(extras.map(|(name, extra)| (Arc::clone(name), extra.clone())));
    Json::from(envelope)
}

/// What is known of a response from data and error alone.
fn http(answer: &Answer) -> Json {
    let status = answer.data.get("status_code").cloned().or_else(|| {
        let status = answer.error.as_ref()?.status?;
        Some(Json::from(u32::from(status)))
    });
    let headers = answer.data.get("headers").cloned();
    Json::object([
        ("status", status.unwrap_or_default()),
        ("headers", headers.unwrap_or_default()),
    ])
}
