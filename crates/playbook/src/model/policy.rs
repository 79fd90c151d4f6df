//! Policy of a task: rules that are evaluated after each attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::time::Millis;
use schemars::{JsonSchema, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::set::SetClause;
use super::value::{Condition, DurationText, ValueOrTemplate, is_default};
use crate::schema::impl_schema;
use crate::source::Spanned;
use crate::string_enum;

/// Rules that are evaluated in order after each attempt of a task. The first matching rule decides.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskPolicy {
    /// Behavior if no rule matches an error.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub on_unmatched: OnUnmatched,
    /// Rules, in order of evaluation.
    pub rules: Vec<PolicyRule>,
}

string_enum! {
    /// Behavior if no rule matches an error.
    #[derive(Default)]
    pub enum OnUnmatched {
        /// Fails the task.
        #[default]
        Fail = "fail",
        /// Continues the pipeline.
        Continue = "continue",
    }
}

/// A rule of a task policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRule {
    /// Condition of the rule.
    pub test: RuleTest,
    /// Effect of the rule.
    pub then: RuleEffect,
}

/// Condition of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleTest {
    /// Matches if the condition is true.
    When(Spanned<Condition>),
    /// Always matches.
    Else,
}

/// Effect of a rule.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuleEffect {
    /// Action to take.
    pub action: RuleAction,
    /// Variables to write, regardless of the action.
    pub set: SetClause,
}

/// Continuation of the pipeline after an attempt.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RuleAction {
    /// Runs the next task.
    #[default]
    Continue,
    /// Runs the same task again.
    Retry(RetryPolicy),
    /// Runs the task with the given label.
    Jump(JumpTarget),
    /// Ends the pipeline successfully.
    Break,
    /// Ends the pipeline as failed.
    Fail,
}

/// Target of a jump.
#[derive(Debug, Clone, PartialEq)]
pub enum JumpTarget {
    /// The task with this label.
    Label(Spanned<Arc<str>>),
    /// The preceding task.
    Previous(Spanned<()>),
}

impl JumpTarget {
    /// Keywords for the preceding task.
    pub const PREVIOUS_KEYWORDS: [&'static str; 4] = ["previous", "prev", "_previous", "@previous"];
}

/// Retry settings of a rule.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RetryPolicy {
    /// Maximum attempts, including the first. Defaults to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Spanned<ValueOrTemplate<u32>>>,
    /// Growth of the delay between attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Delay before the first retry. Defaults to one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<ValueOrTemplate<Millis>>,
    /// Maximum delay. Defaults to 300 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<ValueOrTemplate<Millis>>,
    /// Replaces each delay by a random fraction of it.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter: bool,
}

string_enum! {
    /// Growth of the delay between attempts.
    pub enum Backoff {
        /// No delay.
        None = "none",
        /// Constant delay.
        Fixed = "fixed",
        /// Delay grows by the same amount each time.
        Linear = "linear",
        /// Delay doubles each time.
        Exponential = "exponential",
    }
}

impl RuleAction {
    /// Keywords for `do`.
    pub const WORDS: [&'static str; 5] = ["continue", "retry", "jump", "break", "fail"];

    /// Returns the keyword.
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

impl Serialize for PolicyRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.test {
            RuleTest::When(when) => {
                map.serialize_entry("when", when)?;
                map.serialize_entry("then", &self.then)?;
            }
            RuleTest::Else => {
                map.serialize_entry("else", &BTreeMap::from([("then", &self.then)]))?;
            }
        }
        map.end()
    }
}

/// An effect as it is written: the action and its settings are keys of one map.
#[derive(Serialize)]
struct EffectForm<'e> {
    #[serde(rename = "do")]
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'e str>,
    #[serde(flatten)]
    retry: Option<&'e RetryPolicy>,
    #[serde(skip_serializing_if = "SetClause::is_empty")]
    set: &'e SetClause,
}

impl Serialize for RuleEffect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (to, retry) = match &self.action {
            RuleAction::Continue | RuleAction::Break | RuleAction::Fail => (None, None),
            RuleAction::Jump(JumpTarget::Label(label)) => (Some(&*label.value), None),
            RuleAction::Jump(JumpTarget::Previous(_)) => (Some("previous"), None),
            RuleAction::Retry(retry) => (None, Some(retry)),
        };
        EffectForm { action: self.action.as_str(), to, retry, set: &self.set }.serialize(serializer)
    }
}

impl_schema!(PolicyRule, "Rule", |generator| {
    let condition = generator.subschema_for::<Condition>();
    let backoff = generator.subschema_for::<Backoff>();
    let attempts = generator.subschema_for::<ValueOrTemplate<u32>>();
    let delay = generator.subschema_for::<ValueOrTemplate<DurationText>>();
    let then = json_schema!({
        "type": "object",
        "properties": {
            "do": { "enum": RuleAction::WORDS },
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
});
