//! Behavior of the tools of a simulated worker.

use noetl_engine::event::FrameRequest;
use noetl_playbook::model::ToolKind;
use noetl_types::{Json, TaskError, TaskErrorKind};

#[derive(Debug)]
pub struct SimulatedCall<'c> {
    pub step: &'c str,
    pub label: &'c str,
    pub kind: ToolKind,
    /// Pass of the step, from 1.
    pub run: u32,
    /// Iteration in a loop, or frame in a cursor loop.
    pub index: Option<u32>,
    /// Attempt of the task, from 1.
    pub attempt: u32,
    /// Attempt of the command, from 1.
    pub command_attempt: u32,
    /// Rendered configuration of the task.
    pub config: &'c Json,
    /// Rendered input of the task.
    pub input: &'c Json,
}

/// Behavior of a tool in one call.
#[derive(Debug, Clone)]
pub enum ToolBehavior {
    /// The default of the kind: `noop` returns its `result`, others return null.
    Configured,
    /// Succeeds with this data.
    Ok(Json),
    /// Fails, with data.
    Fail(Box<TaskError>, Json),
    /// The worker is lost during the call.
    Lost,
}

impl ToolBehavior {
    /// Creates a failure of a kind.
    pub fn failure(kind: TaskErrorKind, message: &str) -> Self {
        Self::Fail(Box::new(TaskError::new(kind, message)), Json::Null)
    }
}

/// Returns the rows of a claim. The statement `rows 7` stands for a table of seven rows. The frame
/// number determines its rows, so a frame that is claimed again gets the same rows.
pub(super) fn claim_rows(config: &Json, frame: Option<u32>, request: FrameRequest) -> Json {
    let statement = config.get("command").and_then(Json::as_str);
    let count = statement.and_then(|text| text.strip_prefix("rows ")?.parse().ok());
    let count: u32 = count.unwrap_or_default();
    let first = frame.unwrap_or_default().saturating_mul(request.max_rows);
    let rows = first..first.saturating_add(request.max_rows).min(count.max(first));
    let rows = rows.map(|id| Json::object([("id", Json::from(id))]));
    Json::object([("rows", Json::list(rows))])
}

/// Returns the result that the configuration of a task contains.
pub(super) fn configured_result(kind: ToolKind, config: &Json) -> Json {
    if kind != ToolKind::Noop {
        return Json::Null;
    }
    if let Some(result) = config.get("result") {
        return result.clone();
    }
    Json::object([
        ("status", Json::from("ok")),
        ("message", config.get("message").cloned().unwrap_or_default()),
    ])
}
