//! Outcomes that a playbook writes down itself, in the `command` of its tasks.
//!
//! So a generated playbook is whole: its text alone says what its tools answer, a template may decide
//! it, and making the text smaller needs no second document to follow.

mod world;

use noetl_playbook::model::ToolKind;
use noetl_types::Json;
use noetl_types::json::parse;

use crate::outcome::{Answer, Call, ErrorKind, Outcomes, TaskError};
pub use world::{ChildEnd, ChildStatus, Decided, Signal, World, child_end, decisions};

/// Does what the rendered `command` of a task says:
///
/// - `ok <json>` gives that data;
/// - `error <kind> <json>` fails with that kind and that data, which may be left out;
/// - `flaky <n> <kind> <json>` fails with that kind before attempt `n` and gives the data from then on.
///
/// Anything else gives the command itself. A child that a worker starts in passing is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Script;

impl Outcomes for Script {
    fn answer(&self, call: &Call<'_>) -> Answer {
        if call.kind == ToolKind::Playbook {
            return Answer::Ok(started(call.config));
        }
        let command = call.config.get("command").cloned().unwrap_or_default();
        let read = command
            .as_str()
            .and_then(|text| answer(text.trim(), call.attempt));
        read.unwrap_or(Answer::Ok(command))
    }
}

/// The data of a `playbook` that does not wait.
pub(crate) fn started(config: &Json) -> Json {
    Json::object([
        ("status", Json::from("started")),
        ("execution_id", Json::from("")),
        ("path", config.get("path").cloned().unwrap_or_default()),
        ("async", Json::Bool(true)),
    ])
}

fn answer(text: &str, attempt: u64) -> Option<Answer> {
    let (word, rest) = split(text);
    match word {
        "ok" => Some(Answer::Ok(data(rest)?)),
        "error" => {
            let (kind, rest) = split(rest);
            Some(Answer::Error(failure(kind, rest)?))
        }
        "flaky" => {
            let (until, rest) = split(rest);
            let (kind, rest) = split(rest);
            if attempt < until.parse().ok()? {
                Some(Answer::Error(failure(kind, "")?))
            } else {
                Some(Answer::Ok(data(rest)?))
            }
        }
        _ => None,
    }
}

/// The first word and what follows it.
fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim())
}

fn data(text: &str) -> Option<Json> {
    if text.is_empty() {
        Some(Json::Null)
    } else {
        parse(text.as_bytes()).ok()
    }
}

fn failure(kind: &str, rest: &str) -> Option<TaskError> {
    let kind = ErrorKind::parse(kind)?;
    Some(TaskError::new(kind, format!("scripted {}", kind.as_str())).with_data(data(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_read() {
        let ok = |text| Some(Answer::Ok(parse(text).unwrap()));
        let error = |kind, data: &[u8]| {
            let message = format!("scripted {kind}");
            let kind = ErrorKind::parse(kind).unwrap();
            Some(Answer::Error(
                TaskError::new(kind, message).with_data(parse(data).unwrap()),
            ))
        };
        assert_eq!(answer(r#"ok {"n": 1}"#, 1), ok(br#"{"n":1}"#));
        assert_eq!(answer("ok", 1), ok(b"null"));
        assert_eq!(answer("error timeout", 1), error("timeout", b"null"));
        assert_eq!(
            answer(r#"error parse {"n":2}"#, 4),
            error("parse", br#"{"n":2}"#)
        );
        assert_eq!(answer("flaky 3 lost 7", 2), error("lost", b"null"));
        assert_eq!(answer("flaky 3 lost 7", 3), ok(b"7"));
        for other in ["", "echo hi", "error nonsense", "ok {", "flaky x lost 1"] {
            assert_eq!(answer(other, 1), None, "{other}");
        }
    }
}
