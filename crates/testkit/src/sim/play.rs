//! What the tools of a simulated worker do.

use noetl_engine::event::FrameAsk;
use noetl_playbook::model::ToolKind;
use noetl_types::{Json, TaskError, TaskErrorKind};

/// One call of a tool.
#[derive(Debug)]
pub struct Call<'c> {
    /// The step.
    pub step: &'c str,
    /// The label of the task.
    pub label: &'c str,
    /// What it runs.
    pub kind: ToolKind,
    /// The run of the step, from 1.
    pub run: u32,
    /// The iteration, in a loop; the frame, where it goes over a cursor.
    pub index: Option<u32>,
    /// The attempt of the task, from 1.
    pub attempt: u32,
    /// The attempt of the command, from 1.
    pub command_attempt: u32,
    /// The configuration of the task, rendered.
    pub config: &'c Json,
    /// The input of the task, rendered.
    pub input: &'c Json,
}

/// What a tool does.
#[derive(Debug, Clone)]
pub enum Play {
    /// What the kind itself does: `noop` yields its `result`, others yield nothing.
    AsWritten,
    /// It goes well.
    Ok(Json),
    /// It fails, with data.
    Fail(Box<TaskError>, Json),
    /// The worker is gone in the middle of it.
    Lost,
}

impl Play {
    /// A failure of a kind.
    pub fn fail(kind: TaskErrorKind, message: &str) -> Self {
        Self::Fail(Box::new(TaskError::new(kind, message)), Json::Null)
    }
}

/// The rows that a claim yields. Its statement `rows 7` stands for a table of seven; which of them a
/// frame gets follows from its number, so that a frame that is claimed again gets the same.
pub(super) fn claimed(config: &Json, frame: Option<u32>, ask: FrameAsk) -> Json {
    let statement = config.get("command").and_then(Json::as_str);
    let count = statement.and_then(|text| text.strip_prefix("rows ")?.parse().ok());
    let count: u32 = count.unwrap_or_default();
    let first = frame.unwrap_or_default().saturating_mul(ask.max_rows);
    let rows = first..first.saturating_add(ask.max_rows).min(count.max(first));
    let rows = rows.map(|id| Json::object([("id", Json::from(id))]));
    Json::object([("rows", Json::list(rows))])
}

/// What a task yields as it is written.
pub(super) fn as_written(kind: ToolKind, config: &Json) -> Json {
    if kind != ToolKind::Noop {
        return Json::Null;
    }
    if let Some(result) = config.get("result") {
        return result.clone();
    }
    Json::object([
        ("status", Json::from("ok")),
        (
            "message",
            config.get("message").cloned().unwrap_or_default(),
        ),
    ])
}
