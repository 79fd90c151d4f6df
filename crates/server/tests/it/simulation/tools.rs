//! Deterministic tools: repeated calls give the same result, so it does not matter how often a
//! command is executed.

use noetl_oracle::{
    ScriptedOutcomes, TaskCall as ScriptedCall, ToolAnswer as Scripted, ToolOutcomes as _,
};
use noetl_playbook::command_machine::ToolResult;
use noetl_playbook::model::ToolKind;
use noetl_testkit::sim::{SimulatedCall, ToolBehavior};
use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::simulation::fault_plan::seeded_rng;

/// Source of the tool results of a playbook.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SimulatedTools {
    /// Random results that depend on the position of the call.
    Random(u64),
    /// Results that the commands of the tasks specify.
    Scripted,
}

impl SimulatedTools {
    pub(crate) fn play_call(self, call: &SimulatedCall<'_>) -> ToolBehavior {
        if call.kind == ToolKind::Noop || call.label == "claim" {
            return ToolBehavior::Configured;
        }
        match self {
            Self::Random(seed) => play_random(seed, call),
            Self::Scripted => play_scripted(call),
        }
    }
}

fn play_random(seed: u64, call: &SimulatedCall<'_>) -> ToolBehavior {
    let (step, label, index, attempt) = (call.step, call.label, call.index, call.attempt);
    let mut rng = seeded_rng(seed, &format!("tool {step} {label} {index:?} {attempt}"));
    if rng.draw_percent(15) {
        return ToolBehavior::failure(TaskErrorKind::ServerError, "not today");
    }
    let command = call.config.get("command").cloned();
    ToolBehavior::Ok(Json::object([
        ("did", command.unwrap_or_default()),
        ("index", Json::from(index)),
    ]))
}

fn play_scripted(call: &SimulatedCall<'_>) -> ToolBehavior {
    let answer = ScriptedOutcomes.answer_call(&ScriptedCall {
        step: call.step,
        run: u64::from(call.run),
        index: call.index.map(|index| index as usize),
        label: call.label,
        kind: call.kind,
        visit: 1,
        attempt: u64::from(call.attempt),
        config: call.config,
        input: call.input,
    });
    match answer {
        Scripted::Ok(data) => ToolBehavior::Ok(data),
        Scripted::Error(error) => {
            let kind = TaskErrorKind::parse(error.kind.as_str()).unwrap_or(TaskErrorKind::Unknown);
            let failed = TaskError::new(kind, error.message.as_str());
            ToolBehavior::Fail(Box::new(failed), error.data)
        }
    }
}

/// Converts a result into the answer that a worker receives. Frames request `max_rows` rows.
pub(crate) fn to_tool_answer(
    behavior: ToolBehavior,
    call: &SimulatedCall<'_>,
    max_rows: Option<u32>,
) -> ToolResult {
    match behavior {
        ToolBehavior::Ok(data) => ToolResult::ok(data),
        ToolBehavior::Fail(error, data) => ToolResult { data, ..ToolResult::failed(*error) },
        ToolBehavior::Configured => ToolResult::ok(match max_rows {
            Some(max_rows) if call.label == "claim" => cursor_rows(call, max_rows),
            Some(_) | None => configured_result(call),
        }),
        ToolBehavior::Lost => unreachable!("no simulated tool loses its worker"),
    }
}

/// Returns the rows of one frame. The statement `rows 7` means a table of seven rows, and the
/// frame number selects among them.
fn cursor_rows(call: &SimulatedCall<'_>, max_rows: u32) -> Json {
    let statement = call.config.get("command").and_then(Json::as_str);
    let row_count = statement.and_then(|text| text.strip_prefix("rows ")?.parse().ok());
    let row_count: u32 = row_count.unwrap_or_default();
    let first = call.index.unwrap_or_default() * max_rows;
    let ids = first..row_count.min(first + max_rows).max(first);
    let rows = ids.map(|id| Json::object([("id", Json::from(id))]));
    Json::object([("rows", Json::list(rows))])
}

fn configured_result(call: &SimulatedCall<'_>) -> Json {
    let field = |key| call.config.get(key).cloned();
    field("result").unwrap_or_else(|| {
        Json::object([
            ("status", Json::from("ok")),
            ("message", field("message").unwrap_or_default()),
        ])
    })
}
