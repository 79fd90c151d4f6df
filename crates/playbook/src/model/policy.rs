//! Policy of a task: what happens after each attempt.

use std::borrow::Cow;
use std::sync::Arc;

use noetl_types::time::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::set::Set;
use super::value::DurationText;
use super::value::{Condition, Setting};
use crate::source::Spanned;
use crate::words;

/// Rules tried in order after every attempt of a task; the first that matches decides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskPolicy {
    /// What an error does that no rule matches.
    #[serde(skip_serializing_if = "OnUnmatched::is_fail")]
    #[schemars(default)]
    pub on_unmatched: OnUnmatched,
    /// The rules.
    pub rules: Vec<Rule>,
}

words! {
    /// What an error does that no rule matches.
    #[derive(Default)]
    pub enum OnUnmatched {
        /// The task fails.
        #[default]
        Fail = "fail",
        /// The pipeline goes on.
        Continue = "continue",
    }
}

impl OnUnmatched {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_fail(&self) -> bool {
        *self == Self::Fail
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// When it matches.
    pub test: RuleTest,
    /// What it does.
    pub then: Then,
}

/// When a rule matches.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleTest {
    /// Where the condition holds.
    When(Spanned<Condition>),
    /// Always.
    Else,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq)]
pub struct Then {
    /// The action.
    pub action: Action,
    /// What it writes, whatever the action.
    pub set: Set,
}

/// What happens next in the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The next task.
    Continue,
    /// The same task again.
    Retry(Retry),
    /// The task with that label.
    Jump(JumpTarget),
    /// The pipeline ends, successfully.
    Break,
    /// The pipeline ends, failed.
    Fail,
}

/// Where a jump goes.
#[derive(Debug, Clone, PartialEq)]
pub enum JumpTarget {
    /// A task by its label.
    Label(Spanned<Arc<str>>),
    /// The task before.
    Previous(Spanned<()>),
}

impl JumpTarget {
    /// The ways to write "the task before".
    pub const PREVIOUS: [&'static str; 4] = ["previous", "prev", "_previous", "@previous"];
}

/// How a task is tried again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Retry {
    /// Executions in all, the first included; 3 where absent.
    pub attempts: Option<Spanned<Setting<u32>>>,
    /// How the delay grows.
    pub backoff: Option<Backoff>,
    /// The first delay; one second where absent.
    pub delay: Option<Setting<Millis>>,
    /// Bound on the delay; 300 seconds where absent.
    pub max_delay: Option<Setting<Millis>>,
    /// Whether a random part of the delay is taken.
    pub jitter: bool,
}

words! {
    /// How the delay between attempts grows.
    pub enum Backoff {
        /// No delay.
        None = "none",
        /// Always the same.
        Fixed = "fixed",
        /// By the same amount each time.
        Linear = "linear",
        /// Twice as long each time.
        Exponential = "exponential",
    }
}

impl Action {
    /// The words for `do`.
    pub const WORDS: [&'static str; 5] = ["continue", "retry", "jump", "break", "fail"];

    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Retry(_) => "retry",
            Self::Jump(_) => "jump",
            Self::Break => "break",
            Self::Fail => "fail",
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.test {
            RuleTest::When(when) => {
                map.serialize_entry("when", when)?;
                map.serialize_entry("then", &self.then)?;
            }
            RuleTest::Else => {
                map.serialize_entry("else", &ElseForm { then: &self.then })?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ElseForm<'t> {
    then: &'t Then,
}

impl Serialize for Then {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("do", self.action.as_str())?;
        match &self.action {
            Action::Continue | Action::Break | Action::Fail => {}
            Action::Jump(JumpTarget::Label(label)) => map.serialize_entry("to", label)?,
            Action::Jump(JumpTarget::Previous(_)) => map.serialize_entry("to", "previous")?,
            Action::Retry(retry) => retry.entries(&mut map)?,
        }
        if !self.set.is_empty() {
            map.serialize_entry("set", &self.set)?;
        }
        map.end()
    }
}

impl Retry {
    fn entries<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if let Some(attempts) = &self.attempts {
            map.serialize_entry("attempts", attempts)?;
        }
        if let Some(backoff) = &self.backoff {
            map.serialize_entry("backoff", backoff)?;
        }
        if let Some(delay) = &self.delay {
            map.serialize_entry("delay", delay)?;
        }
        if let Some(max_delay) = &self.max_delay {
            map.serialize_entry("max_delay", max_delay)?;
        }
        if self.jitter {
            map.serialize_entry("jitter", &true)?;
        }
        Ok(())
    }
}

impl JsonSchema for Rule {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let condition = generator.subschema_for::<Condition>();
        let backoff = generator.subschema_for::<Backoff>();
        let attempts = generator.subschema_for::<Setting<u32>>();
        let delay = generator.subschema_for::<Setting<DurationText>>();
        let then = json_schema!({
            "type": "object",
            "properties": {
                "do": { "enum": Action::WORDS },
                "attempts": attempts,
                "backoff": backoff,
                "delay": delay,
                "max_delay": delay,
                "jitter": { "type": "boolean" },
                "to": { "type": "string", "description": "A label of the pipeline, or `previous`." },
                "set": { "type": "object" }
            }
        });
        json_schema!({
            "type": "object",
            "properties": {
                "when": condition,
                "then": then,
                "else": { "type": ["object", "null"] }
            },
            "anyOf": [{ "required": ["when"] }, { "required": ["else"] }],
            "additionalProperties": false
        })
    }
}
