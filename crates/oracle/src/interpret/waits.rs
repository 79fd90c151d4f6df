//! Suspended tasks: signal waits, approvals and awaited children.

use noetl_types::{Json, JsonMap, Millis};

use super::format_run_time;
use crate::outcome::{ErrorKind, TaskError, ToolAnswer};
use crate::script::{ChildEnd, ChildStatus, ScriptedDecision, parse_decisions};

/// A signal that was received.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReceivedSignal {
    pub(super) received_at: u64,
    pub(super) name: String,
    pub(super) key: Option<String>,
    pub(super) payload: Json,
}

/// Signals that a wait accepts.
#[derive(Debug, Clone)]
pub(super) struct SignalWait {
    requires_all: bool,
    lookback: u64,
    signals: Vec<AwaitedSignal>,
}

/// One awaited signal, with the received one.
#[derive(Debug, Clone)]
struct AwaitedSignal {
    name: String,
    key: Option<String>,
    alias: String,
    received: Option<Json>,
}

impl SignalWait {
    /// Reads the awaited signals from a configuration. Returns `None` if it has none.
    pub(super) fn from_config(config: &JsonMap) -> Option<Self> {
        let key = config.get("key").and_then(json_to_text);
        let parse_entry = |item: &Json| {
            let name = match item {
                Json::Str(name) => name.to_string(),
                other => other.get("name").and_then(json_to_text).unwrap_or_default(),
            };
            AwaitedSignal {
                key: item.get("key").and_then(json_to_text).or_else(|| key.clone()),
                alias: item.get("as").and_then(json_to_text).unwrap_or_else(|| name.clone()),
                name,
                received: None,
            }
        };
        let items = config.get("signals").and_then(Json::as_list);
        let lookback = config.get("lookback").map(Millis::from_json);
        let signals: Vec<AwaitedSignal> = match (config.get("signal"), items) {
            (Some(single), _) => vec![parse_entry(single)],
            (None, items) => items.unwrap_or_default().iter().map(parse_entry).collect(),
        };
        (!signals.is_empty()).then(|| Self {
            requires_all: config.get("mode").and_then(Json::as_str) == Some("all"),
            lookback: lookback.and_then(Result::ok).map_or(0, Millis::as_ms),
            signals,
        })
    }

    /// Returns the earliest time from which signals received before the wait are accepted.
    pub(super) fn lookback_start(&self, now: u64) -> Option<u64> {
        (self.lookback > 0).then(|| now.saturating_sub(self.lookback))
    }

    /// Accepts a signal for the first matching entry that has none yet. An entry without a key
    /// matches any key.
    pub(super) fn accept_signal(&mut self, signal: &ReceivedSignal) -> bool {
        let matches = |entry: &&mut AwaitedSignal| {
            entry.received.is_none()
                && entry.name == signal.name
                && (entry.key.is_none() || entry.key == signal.key)
        };
        let Some(entry) = self.signals.iter_mut().find(matches) else {
            return false;
        };
        entry.received = Some(Json::object([
            ("name", Json::from(signal.name.as_str())),
            ("key", signal.key.as_deref().map(Json::from).unwrap_or_default()),
            ("payload", signal.payload.clone()),
            ("received_at", format_run_time(signal.received_at)),
        ]));
        true
    }

    pub(super) fn is_satisfied(&self) -> bool {
        let mut received = self.signals.iter().map(|entry| entry.received.is_some());
        if self.requires_all {
            received.all(|received| received)
        } else {
            received.any(|received| received)
        }
    }

    /// Returns the received data: in mode `any` the one signal, in mode `all` each under its name.
    pub(super) fn received_data(&self) -> Json {
        let received = self
            .signals
            .iter()
            .filter_map(|entry| Some((entry.alias.as_str(), entry.received.clone()?)));
        if self.requires_all {
            Json::object(received)
        } else {
            received.map(|(_, signal)| signal).next().unwrap_or_default()
        }
    }
}

/// An approval that is pending.
#[derive(Debug, Clone)]
pub(super) struct PendingApproval {
    quorum: usize,
    approvers: Option<Vec<String>>,
    on_timeout: ApprovalTimeoutAction,
    /// Scripted decisions that are still to come.
    upcoming_decisions: Vec<ScriptedDecision>,
    /// Actors who have approved.
    approved: Vec<String>,
}

/// Outcome of an approval that times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalTimeoutAction {
    Fail,
    Reject,
    Approve,
}

impl PendingApproval {
    pub(super) fn from_config(config: &JsonMap) -> Self {
        let text = |name: &str| config.get(name).and_then(Json::as_str);
        let quorum = config.get("quorum").and_then(Json::as_u64).unwrap_or(1);
        let approvers = config.get("approvers").and_then(Json::as_list);
        Self {
            quorum: usize::try_from(quorum).unwrap_or(usize::MAX),
            approvers: approvers.map(|names| names.iter().filter_map(json_to_text).collect()),
            on_timeout: match text("on_timeout") {
                Some("reject") => ApprovalTimeoutAction::Reject,
                Some("approve") => ApprovalTimeoutAction::Approve,
                Some(_) | None => ApprovalTimeoutAction::Fail,
            },
            upcoming_decisions: parse_decisions(text("message").unwrap_or_default()),
            approved: Vec::new(),
        }
    }

    /// Returns the delay of the next decision after the request.
    pub(super) fn next_decision_delay(&self) -> Option<u64> {
        self.upcoming_decisions.first().map(|decision| decision.after)
    }

    /// Applies the next decision. Returns whether it counts, and the result if it is final.
    pub(super) fn apply_next_decision(&mut self, now: u64) -> Option<(bool, Option<Json>)> {
        if self.upcoming_decisions.is_empty() {
            return None;
        }
        let ScriptedDecision { actor, approves, .. } = self.upcoming_decisions.remove(0);
        let is_allowed =
            self.approvers.as_ref().is_none_or(|names| names.is_empty() || names.contains(&actor));
        // One decision per actor.
        if !is_allowed || self.approved.contains(&actor) {
            return Some((false, None));
        }
        if !approves {
            return Some((true, Some(approval_data(false, Some(&actor), now))));
        }
        self.approved.push(actor.clone());
        let is_enough = self.approved.len() >= self.quorum;
        Some((true, is_enough.then(|| approval_data(true, Some(&actor), now))))
    }

    /// Returns the result of a timeout, or `None` if that is a failure.
    pub(super) fn on_timeout(&self, now: u64) -> Option<Json> {
        match self.on_timeout {
            ApprovalTimeoutAction::Fail => None,
            ApprovalTimeoutAction::Reject => Some(approval_data(false, None, now)),
            ApprovalTimeoutAction::Approve => Some(approval_data(true, None, now)),
        }
    }
}

fn approval_data(approved: bool, by: Option<&str>, now: u64) -> Json {
    Json::object([
        ("approved", Json::Bool(approved)),
        ("by", by.map(Json::from).unwrap_or_default()),
        ("at", format_run_time(now)),
        ("comment", Json::Null),
        ("values", Json::Null),
    ])
}

/// A child execution that is awaited.
#[derive(Debug, Clone)]
pub(super) struct AwaitedChild {
    end: Option<ChildEnd>,
    /// Step whose data is returned.
    return_step: Option<String>,
}

impl AwaitedChild {
    pub(super) fn from_config(config: &JsonMap, end: Option<ChildEnd>) -> Self {
        let step = config.get("return_step").or_else(|| config.get("result_step"));
        Self { end, return_step: step.and_then(json_to_text) }
    }

    /// Returns the delay after which the child ends, if it does.
    pub(super) fn end_delay(&self) -> Option<u64> {
        self.end.as_ref().map(|end| end.after)
    }

    pub(super) fn to_answer(&self) -> ToolAnswer {
        let failed =
            || ToolAnswer::Error(TaskError::new(ErrorKind::Child, "the child did not complete"));
        match &self.end {
            Some(end) if end.status == ChildStatus::Completed => {
                let mut data = match end.step_data(self.return_step.as_deref()) {
                    Json::Map(map) => JsonMap::clone(&map),
                    other => JsonMap::from_iter([("data".into(), other)]),
                };
                let defaults =
                    [("execution_id", Json::from("")), ("status", Json::from(end.status.as_str()))];
                for (name, value) in defaults {
                    data.entry(name.into()).or_insert(value);
                }
                ToolAnswer::Ok(Json::from(data))
            }
            Some(_) | None => failed(),
        }
    }
}

/// Converts a value to text. Null becomes `None`.
pub(super) fn json_to_text(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::Str(text) => Some(text.to_string()),
        other => Some(other.to_string()),
    }
}
