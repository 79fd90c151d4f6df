//! Tool outcomes that a playbook contains itself, in the `command` of its tasks.
//!
//! A generated playbook is therefore complete: its text alone determines the tool outcomes, a
//! template may choose them, and shrinking the text needs no second document.

mod external_inputs;

use noetl_playbook::model::ToolKind;
use noetl_types::Json;
use noetl_types::json::parse;

use crate::outcome::{ErrorKind, TaskCall, TaskError, ToolAnswer, ToolOutcomes};
pub use external_inputs::{
    ChildEnd, ChildStatus, ExternalInputs, ScriptedDecision, ScriptedSignal, parse_child_end,
    parse_decisions,
};

/// Tool outcomes as the rendered `command` of a task describes them:
///
/// - `ok <json>` returns that data;
/// - `error <kind> <json>` fails with that kind and that optional data;
/// - `flaky <n> <kind> <json>` fails with that kind before attempt `n` and returns the data from
///   then on.
///
/// Any other command returns itself as data. A `playbook` task returns the data of a started child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptedOutcomes;

impl ToolOutcomes for ScriptedOutcomes {
    fn answer_call(&self, call: &TaskCall<'_>) -> ToolAnswer {
        if call.kind == ToolKind::Playbook {
            return ToolAnswer::Ok(started_child_data(call.config));
        }
        let command = call.config.get("command").cloned().unwrap_or_default();
        let answer = command.as_str().and_then(|text| parse_answer(text.trim(), call.attempt));
        answer.unwrap_or(ToolAnswer::Ok(command))
    }
}

/// Data of a `playbook` task that does not wait.
pub(crate) fn started_child_data(config: &Json) -> Json {
    Json::object([
        ("status", Json::from("started")),
        ("execution_id", Json::from("")),
        ("path", config.get("path").cloned().unwrap_or_default()),
        ("async", Json::Bool(true)),
    ])
}

fn parse_answer(text: &str, attempt: u64) -> Option<ToolAnswer> {
    let (keyword, rest) = split_first_word(text);
    match keyword {
        "ok" => Some(ToolAnswer::Ok(parse_data(rest)?)),
        "error" => {
            let (kind, rest) = split_first_word(rest);
            Some(ToolAnswer::Error(parse_task_error(kind, rest)?))
        }
        "flaky" => {
            let (first_success, rest) = split_first_word(rest);
            let (kind, rest) = split_first_word(rest);
            if attempt < first_success.parse().ok()? {
                Some(ToolAnswer::Error(parse_task_error(kind, "")?))
            } else {
                Some(ToolAnswer::Ok(parse_data(rest)?))
            }
        }
        _ => None,
    }
}

/// Splits off the first word.
fn split_first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim())
}

fn parse_data(text: &str) -> Option<Json> {
    if text.is_empty() { Some(Json::Null) } else { parse(text.as_bytes()).ok() }
}

fn parse_task_error(kind: &str, rest: &str) -> Option<TaskError> {
    let kind = ErrorKind::parse(kind)?;
    Some(TaskError::new(kind, format!("scripted {}", kind.as_str())).with_data(parse_data(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_scripted_commands() {
        let ok = |text| Some(ToolAnswer::Ok(parse(text).unwrap()));
        let error = |kind, data: &[u8]| {
            let message = format!("scripted {kind}");
            let kind = ErrorKind::parse(kind).unwrap();
            Some(ToolAnswer::Error(TaskError::new(kind, message).with_data(parse(data).unwrap())))
        };
        assert_eq!(parse_answer(r#"ok {"n": 1}"#, 1), ok(br#"{"n":1}"#));
        assert_eq!(parse_answer("ok", 1), ok(b"null"));
        assert_eq!(parse_answer("error timeout", 1), error("timeout", b"null"));
        assert_eq!(parse_answer(r#"error parse {"n":2}"#, 4), error("parse", br#"{"n":2}"#));
        assert_eq!(parse_answer("flaky 3 lost 7", 2), error("lost", b"null"));
        assert_eq!(parse_answer("flaky 3 lost 7", 3), ok(b"7"));
        for other in ["", "echo hi", "error nonsense", "ok {", "flaky x lost 1"] {
            assert_eq!(parse_answer(other, 1), None, "{other}");
        }
    }
}
