//! What comes to a run from outside, as its own input and its own tasks say.
//!
//! A generated playbook carries its world with it: under `world` of its input stand the signals that
//! are sent, the rows that claims find, and the slots that others hold. What becomes of an approval stands in its `message`, and what becomes of a child in the
//! `does` of its input, so that a template may decide either.
//!
//! Time is counted in milliseconds from the start of the run.

use noetl_types::json::parse;
use noetl_types::{Json, JsonMap};

/// What a run meets without having called for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct World {
    /// The signals that are sent to the run, in order of time.
    pub signals: Vec<Signal>,
    rows: JsonMap,
    slots: JsonMap,
}

/// A signal.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// When it is sent.
    pub at: u64,
    /// Its name.
    pub name: String,
    /// What it is about.
    pub key: Option<String>,
    /// What it says.
    pub payload: Json,
}

/// What an approver does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// How long after the approval was asked for.
    pub after: u64,
    /// Who.
    pub actor: String,
    /// Whether he approves.
    pub approves: bool,
}

/// How a child ends.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEnd {
    /// How long after it was started.
    pub after: u64,
    /// In which way.
    pub status: ChildStatus,
    /// Its result.
    pub result: Json,
}

/// In which way a child ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildStatus {
    /// Well.
    Completed,
    /// It failed.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

impl ChildStatus {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

impl World {
    /// The world that a recorded input describes.
    pub fn of(workload: &Json) -> Self {
        let part = |name: &str| workload.get("world").and_then(|world| world.get(name));
        let map = |name: &str| {
            part(name)
                .and_then(Json::as_map)
                .cloned()
                .unwrap_or_default()
        };
        let signals = part("signals").and_then(Json::as_list).unwrap_or_default();
        let mut signals: Vec<Signal> = signals.iter().filter_map(signal).collect();
        signals.sort_by_key(|signal| signal.at);
        Self {
            signals,
            rows: map("rows"),
            slots: map("slots"),
        }
    }

    /// The rows that a frame of a step claims, at most so many. Frames are counted from 0.
    pub fn rows(&self, step: &str, frame: usize, most: usize) -> Vec<Json> {
        let frames = self.rows.get(step).and_then(Json::as_list);
        let rows = frames.and_then(|frames| frames.get(frame)?.as_list());
        let rows = rows.unwrap_or_default().iter();
        rows.take(most).cloned().collect()
    }

    /// Until when each of those others holds a slot of a key who hold one from the start.
    pub fn held_until(&self, key: &str) -> Vec<u64> {
        let times = self.slots.get(key).and_then(Json::as_list);
        let times = times.unwrap_or_default().iter();
        times.filter_map(Json::as_u64).collect()
    }
}

fn signal(told: &Json) -> Option<Signal> {
    let text = |name: &str| told.get(name).and_then(Json::as_str).map(str::to_owned);
    Some(Signal {
        at: told.get("at")?.as_u64()?,
        name: text("name")?,
        key: text("key"),
        payload: told.get("payload").cloned().unwrap_or_default(),
    })
}

/// What approvers do, as the `message` of an approval says: `ann approves 20; bob rejects 30`. In
/// order of time.
pub fn decisions(message: &str) -> Vec<Decided> {
    let mut found: Vec<Decided> = message.split(';').filter_map(decided).collect();
    found.sort_by_key(|decided| decided.after);
    found
}

fn decided(text: &str) -> Option<Decided> {
    let mut words = text.split_whitespace();
    let (actor, verb, after) = (words.next()?, words.next()?, words.next()?);
    Some(Decided {
        after: after.parse().ok()?,
        actor: actor.to_owned(),
        approves: match verb {
            "approves" => true,
            "rejects" => false,
            _ => return None,
        },
    })
}

/// What becomes of a child in an attempt, as the `does` of its input says:
///
/// - `completes <after> <json>`, `fails <after>` or `cancelled <after>`;
/// - `flaky <n> <after> <json>` fails before attempt `n` and completes from then on.
///
/// Any other child does not end.
pub fn child_end(input: &Json, attempt: u64) -> Option<ChildEnd> {
    let text = input.get("does")?.as_str()?;
    let mut words = text.splitn(2, ' ');
    let (verb, rest) = (words.next()?, words.next().unwrap_or_default());
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
            let (until, rest) = rest.split_once(' ')?;
            let status = if attempt < until.parse().ok()? {
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
    /// The data of a step of the child, or its result where none is named.
    pub fn data_of(&self, step: Option<&str>) -> Json {
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
    fn the_world_is_read_from_the_input() {
        let world = World::of(&json(
            r#"{"world":{
                "signals":[{"at":9,"name":"b","key":"k"},{"at":3,"name":"a","payload":{"n":1}},{"name":"lost"}],
                "rows":{"s":[[{"n":1},{"n":2}],[]]},
                "slots":{"k":[10,20]}}}"#,
        ));
        let names: Vec<&str> = world.signals.iter().map(|told| &*told.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(world.signals[1].key.as_deref(), Some("k"));
        assert_eq!(
            world.rows("s", 0, 9),
            [json(r#"{"n":1}"#), json(r#"{"n":2}"#)]
        );
        assert_eq!(world.rows("s", 0, 1), [json(r#"{"n":1}"#)]);
        assert!(world.rows("s", 2, 9).is_empty() && world.rows("t", 0, 9).is_empty());
        assert_eq!(world.held_until("k"), [10, 20]);
        assert_eq!(World::of(&Json::Null), World::default());
    }

    #[test]
    fn decisions_and_children_are_read_from_text() {
        let told = decisions("bob rejects 30; ann approves 20; nobody");
        let told: Vec<_> = told
            .iter()
            .map(|told| (&*told.actor, told.approves, told.after))
            .collect();
        assert_eq!(told, [("ann", true, 20), ("bob", false, 30)]);
        let end =
            |text: &str, attempt| child_end(&Json::object([("does", Json::from(text))]), attempt);
        let completed = end("completes 20 {\"n\": 1}", 1).unwrap();
        assert_eq!(
            (completed.after, completed.status),
            (20, ChildStatus::Completed)
        );
        assert_eq!(completed.data_of(None), json(r#"{"n":1}"#));
        assert_eq!(completed.data_of(Some("a")), json(r#"{"n":1,"step":"a"}"#));
        assert_eq!(end("flaky 2 10 7", 1).unwrap().status, ChildStatus::Failed);
        assert_eq!(end("flaky 2 10 7", 2).unwrap().result, Json::from(7));
        assert_eq!(
            end("cancelled 5", 1).unwrap().status,
            ChildStatus::Cancelled
        );
        assert_eq!((end("hangs", 1), end("fails soon", 1)), (None, None));
    }
}
