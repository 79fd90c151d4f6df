//! External inputs of a run, as its input and its tasks describe them.
//!
//! A generated playbook contains its external inputs: the key `world` of its input holds the
//! signals to send, the rows that claims find, and the slots that other runs hold. The outcome of
//! an approval is in its `message`, and the outcome of a child in the `does` of its input, so that
//! a template may choose either.
//!
//! Times are in milliseconds since the start of the run.

use noetl_types::json::parse;
use noetl_types::{Json, JsonMap};

/// External inputs of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExternalInputs {
    /// Signals that are sent to the run, in order of time.
    pub signals: Vec<ScriptedSignal>,
    frame_rows: JsonMap,
    slots: JsonMap,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedSignal {
    /// Time of sending.
    pub at: u64,
    pub name: String,
    /// Correlation key.
    pub key: Option<String>,
    pub payload: Json,
}

/// Decision of an approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedDecision {
    /// Delay after the approval request.
    pub after: u64,
    pub actor: String,
    /// True for an approval, false for a rejection.
    pub approves: bool,
}

/// End of a child.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEnd {
    /// Delay after its start.
    pub after: u64,
    pub status: ChildStatus,
    pub result: Json,
}

/// Status with which a child ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildStatus {
    Completed,
    Failed,
    Cancelled,
}

impl ChildStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

impl ExternalInputs {
    /// Reads the external inputs from a recorded input.
    pub fn from_workload(workload: &Json) -> Self {
        let part = |name: &str| workload.get("world").and_then(|world| world.get(name));
        let map = |name: &str| part(name).and_then(Json::as_map).cloned().unwrap_or_default();
        let signals = part("signals").and_then(Json::as_list).unwrap_or_default();
        let mut signals: Vec<ScriptedSignal> = signals.iter().filter_map(parse_signal).collect();
        signals.sort_by_key(|signal| signal.at);
        Self { signals, frame_rows: map("rows"), slots: map("slots") }
    }

    /// Returns the rows that a frame of a step claims, at most `max_rows`. Frames count from 0.
    pub fn frame_rows(&self, step: &str, frame: usize, max_rows: usize) -> Vec<Json> {
        let frames = self.frame_rows.get(step).and_then(Json::as_list);
        let rows = frames.and_then(|frames| frames.get(frame)?.as_list());
        let rows = rows.unwrap_or_default().iter();
        rows.take(max_rows).cloned().collect()
    }

    /// Returns the times at which other runs release the slots of a key that they hold from the
    /// start.
    pub fn slot_release_times(&self, key: &str) -> Vec<u64> {
        let times = self.slots.get(key).and_then(Json::as_list);
        let times = times.unwrap_or_default().iter();
        times.filter_map(Json::as_u64).collect()
    }
}

fn parse_signal(entry: &Json) -> Option<ScriptedSignal> {
    let text = |name: &str| entry.get(name).and_then(Json::as_str).map(str::to_owned);
    Some(ScriptedSignal {
        at: entry.get("at")?.as_u64()?,
        name: text("name")?,
        key: text("key"),
        payload: entry.get("payload").cloned().unwrap_or_default(),
    })
}

/// Parses the decisions in the `message` of an approval, such as `ann approves 20; bob rejects 30`.
/// Sorted by time.
pub fn parse_decisions(message: &str) -> Vec<ScriptedDecision> {
    let mut decisions: Vec<ScriptedDecision> =
        message.split(';').filter_map(parse_decision).collect();
    decisions.sort_by_key(|decision| decision.after);
    decisions
}

fn parse_decision(text: &str) -> Option<ScriptedDecision> {
    let mut parts = text.split_whitespace();
    let (actor, verb, after) = (parts.next()?, parts.next()?, parts.next()?);
    Some(ScriptedDecision {
        after: after.parse().ok()?,
        actor: actor.to_owned(),
        approves: match verb {
            "approves" => true,
            "rejects" => false,
            _ => return None,
        },
    })
}

/// Parses the end of a child in an attempt from the `does` of its input:
///
/// - `completes <after> <json>`, `fails <after>` or `cancelled <after>`;
/// - `flaky <n> <after> <json>` fails before attempt `n` and completes from then on.
///
/// Any other child does not end.
pub fn parse_child_end(input: &Json, attempt: u64) -> Option<ChildEnd> {
    let text = input.get("does")?.as_str()?;
    let mut parts = text.splitn(2, ' ');
    let (verb, rest) = (parts.next()?, parts.next().unwrap_or_default());
    let end = |status, rest: &str| {
        let (after, result) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(ChildEnd {
            after: after.parse().ok()?,
            status,
            result: parse(result.as_bytes()).unwrap_or_default(),
        })
    };
    match verb {
        "completes" => end(ChildStatus::Completed, rest),
        "fails" => end(ChildStatus::Failed, rest),
        "cancelled" => end(ChildStatus::Cancelled, rest),
        "flaky" => {
            let (first_success, rest) = rest.split_once(' ')?;
            let status = if attempt < first_success.parse().ok()? {
                ChildStatus::Failed
            } else {
                ChildStatus::Completed
            };
            end(status, rest)
        }
        _ => None,
    }
}

impl ChildEnd {
    /// Returns the data of a step of the child, or its result if no step is named.
    pub fn step_data(&self, step: Option<&str>) -> Json {
        match step {
            None => self.result.clone(),
            Some("nothing") => Json::Null,
            Some(step) => Json::object([
                ("step", Json::from(step)),
                ("n", self.result.get("n").cloned().unwrap_or_default()),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn reads_external_inputs_from_workload() {
        let inputs = ExternalInputs::from_workload(&json(
            r#"{"world":{
                "signals":[{"at":9,"name":"b","key":"k"},{"at":3,"name":"a","payload":{"n":1}},{"name":"lost"}],
                "rows":{"s":[[{"n":1},{"n":2}],[]]},
                "slots":{"k":[10,20]}}}"#,
        ));
        let names: Vec<&str> = inputs.signals.iter().map(|signal| &*signal.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(inputs.signals[1].key.as_deref(), Some("k"));
        assert_eq!(inputs.frame_rows("s", 0, 9), [json(r#"{"n":1}"#), json(r#"{"n":2}"#)]);
        assert_eq!(inputs.frame_rows("s", 0, 1), [json(r#"{"n":1}"#)]);
        assert!(inputs.frame_rows("s", 2, 9).is_empty() && inputs.frame_rows("t", 0, 9).is_empty());
        assert_eq!(inputs.slot_release_times("k"), [10, 20]);
        assert_eq!(ExternalInputs::from_workload(&Json::Null), ExternalInputs::default());
    }

    #[test]
    fn parses_decisions_and_child_ends() {
        let decisions = parse_decisions("bob rejects 30; ann approves 20; nobody");
        let decisions: Vec<_> = decisions
            .iter()
            .map(|decision| (&*decision.actor, decision.approves, decision.after))
            .collect();
        assert_eq!(decisions, [("ann", true, 20), ("bob", false, 30)]);
        let end = |text: &str, attempt| {
            parse_child_end(&Json::object([("does", Json::from(text))]), attempt)
        };
        let completed = end("completes 20 {\"n\": 1}", 1).unwrap();
        assert_eq!((completed.after, completed.status), (20, ChildStatus::Completed));
        assert_eq!(completed.step_data(None), json(r#"{"n":1}"#));
        assert_eq!(completed.step_data(Some("a")), json(r#"{"n":1,"step":"a"}"#));
        assert_eq!(end("flaky 2 10 7", 1).unwrap().status, ChildStatus::Failed);
        assert_eq!(end("flaky 2 10 7", 2).unwrap().result, Json::from(7));
        assert_eq!(end("cancelled 5", 1).unwrap().status, ChildStatus::Cancelled);
        assert_eq!((end("hangs", 1), end("fails soon", 1)), (None, None));
    }
}
