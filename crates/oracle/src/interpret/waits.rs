//! What signals, decisions and children come to.

use noetl_types::{Json, JsonMap, Millis};

use super::moment;
use crate::outcome::{Answer, ErrorKind, TaskError};
use crate::script::{ChildEnd, ChildStatus, Decided, decisions};

/// A signal that has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heard {
    pub(super) at: u64,
    pub(super) name: String,
    pub(super) key: Option<String>,
    pub(super) payload: Json,
}

/// The signals that a wait wants.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    all: bool,
    lookback: u64,
    signals: Vec<One>,
}

/// One of them, and what came for it.
#[derive(Debug, Clone)]
struct One {
    name: String,
    key: Option<String>,
    called: String,
    came: Option<Json>,
}

impl Wanted {
    /// The signals that a configuration names, if it names any.
    pub(super) fn of(config: &JsonMap) -> Option<Self> {
        let key = config.get("key").and_then(text);
        let one = |named: &Json| {
            let name = match named {
                Json::Str(name) => name.to_string(),
                other => other.get("name").and_then(text).unwrap_or_default(),
            };
            One {
                key: named.get("key").and_then(text).or_else(|| key.clone()),
                called: named
                    .get("as")
                    .and_then(text)
                    .unwrap_or_else(|| name.clone()),
                name,
                came: None,
            }
        };
        let many = config.get("signals").and_then(Json::as_list);
        let lookback = config.get("lookback").map(Millis::from_json);
        let signals: Vec<One> = match (config.get("signal"), many) {
            (Some(single), _) => vec![one(single)],
            (None, many) => many.unwrap_or_default().iter().map(one).collect(),
        };
        (!signals.is_empty()).then(|| Self {
            all: config.get("mode").and_then(Json::as_str) == Some("all"),
            lookback: lookback.and_then(Result::ok).map_or(0, Millis::as_ms),
            signals,
        })
    }

    /// From when on it accepts signals that came before it.
    pub(super) fn looks_back_to(&self, now: u64) -> Option<u64> {
        (self.lookback > 0).then(|| now.saturating_sub(self.lookback))
    }

    /// Takes a signal for the first it fits that has none yet. A key that is not given fits any.
    pub(super) fn take(&mut self, heard: &Heard) -> bool {
        let fits = |one: &&mut One| {
            one.came.is_none()
                && one.name == heard.name
                && (one.key.is_none() || one.key == heard.key)
        };
        let Some(one) = self.signals.iter_mut().find(fits) else {
            return false;
        };
        one.came = Some(Json::object([
            ("name", Json::from(heard.name.as_str())),
            (
                "key",
                heard.key.as_deref().map(Json::from).unwrap_or_default(),
            ),
            ("payload", heard.payload.clone()),
            ("received_at", moment(heard.at)),
        ]));
        true
    }

    pub(super) fn is_met(&self) -> bool {
        let mut came = self.signals.iter().map(|one| one.came.is_some());
        if self.all {
            came.all(|came| came)
        } else {
            came.any(|came| came)
        }
    }

    /// What came: of any, the one; of all, each under its name.
    pub(super) fn data(&self) -> Json {
        let came = self
            .signals
            .iter()
            .filter_map(|one| Some((one.called.as_str(), one.came.clone()?)));
        if self.all {
            Json::object(came)
        } else {
            came.map(|(_, told)| told).next().unwrap_or_default()
        }
    }
}

/// An approval that is asked for.
#[derive(Debug, Clone)]
pub(super) struct Approving {
    quorum: usize,
    approvers: Option<Vec<String>>,
    on_timeout: OnTimeout,
    /// What people will say.
    to_come: Vec<Decided>,
    /// Who has approved.
    approved: Vec<String>,
}

/// What an approval that nobody decides comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnTimeout {
    Fail,
    Reject,
    Approve,
}

impl Approving {
    pub(super) fn of(config: &JsonMap) -> Self {
        let word = |name: &str| config.get(name).and_then(Json::as_str);
        let quorum = config.get("quorum").and_then(Json::as_u64).unwrap_or(1);
        let approvers = config.get("approvers").and_then(Json::as_list);
        Self {
            quorum: usize::try_from(quorum).unwrap_or(usize::MAX),
            approvers: approvers.map(|names| names.iter().filter_map(text).collect()),
            on_timeout: match word("on_timeout") {
                Some("reject") => OnTimeout::Reject,
                Some("approve") => OnTimeout::Approve,
                Some(_) | None => OnTimeout::Fail,
            },
            to_come: decisions(word("message").unwrap_or_default()),
            approved: Vec::new(),
        }
    }

    /// How long after the question the next of them speaks.
    pub(super) fn next(&self) -> Option<u64> {
        self.to_come.first().map(|decided| decided.after)
    }

    /// Hears the next of them: whether he counts, and what it comes to once it is decided.
    pub(super) fn hear_next(&mut self, now: u64) -> Option<(bool, Option<Json>)> {
        if self.to_come.is_empty() {
            return None;
        }
        let Decided {
            actor, approves, ..
        } = self.to_come.remove(0);
        let may = self
            .approvers
            .as_ref()
            .is_none_or(|names| names.is_empty() || names.contains(&actor));
        // One decision per actor.
        if !may || self.approved.contains(&actor) {
            return Some((false, None));
        }
        if !approves {
            return Some((true, Some(verdict(false, Some(&actor), now))));
        }
        self.approved.push(actor.clone());
        let is_enough = self.approved.len() >= self.quorum;
        Some((true, is_enough.then(|| verdict(true, Some(&actor), now))))
    }

    /// What it comes to when its time is over; nothing where that is a failure.
    pub(super) fn on_timeout(&self, now: u64) -> Option<Json> {
        match self.on_timeout {
            OnTimeout::Fail => None,
            OnTimeout::Reject => Some(verdict(false, None, now)),
            OnTimeout::Approve => Some(verdict(true, None, now)),
        }
    }
}

fn verdict(approved: bool, by: Option<&str>, now: u64) -> Json {
    Json::object([
        ("approved", Json::Bool(approved)),
        ("by", by.map(Json::from).unwrap_or_default()),
        ("at", moment(now)),
        ("comment", Json::Null),
        ("values", Json::Null),
    ])
}

/// A child that is waited for.
#[derive(Debug, Clone)]
pub(super) struct Child {
    end: Option<ChildEnd>,
    /// The step whose data is wanted.
    named: Option<String>,
}

impl Child {
    pub(super) fn of(config: &JsonMap, end: Option<ChildEnd>) -> Self {
        let named = config
            .get("return_step")
            .or_else(|| config.get("result_step"));
        Self {
            end,
            named: named.and_then(text),
        }
    }

    /// How long after its start it ends, if it does.
    pub(super) fn ends(&self) -> Option<u64> {
        self.end.as_ref().map(|end| end.after)
    }

    pub(super) fn answer(&self) -> Answer {
        let failed = || {
            Answer::Error(TaskError::new(
                ErrorKind::Child,
                "the child did not complete",
            ))
        };
        match &self.end {
            Some(end) if end.status == ChildStatus::Completed => {
                let mut data = match end.data_of(self.named.as_deref()) {
                    Json::Map(map) => JsonMap::clone(&map),
                    other => JsonMap::from_iter([("data".into(), other)]),
                };
                let about = [
                    ("execution_id", Json::from("")),
                    ("status", Json::from(end.status.as_str())),
                ];
                for (name, value) in about {
                    data.entry(name.into()).or_insert(value);
                }
                Answer::Ok(Json::from(data))
            }
            Some(_) | None => failed(),
        }
    }
}

/// A name as text; null is none.
pub(super) fn text(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::Str(text) => Some(text.to_string()),
        other => Some(other.to_string()),
    }
}
