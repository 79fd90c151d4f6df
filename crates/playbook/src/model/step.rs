//! A step.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::looping::Loop;
use super::output::OutputSpec;
use super::routing::Router;
use super::set::Set;
use super::tool::Tool;
use super::value::DurationText;
use super::value::{Condition, Fields, Setting};
use crate::source::Spanned;
use crate::words;

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name, unique in the playbook.
    #[serde(rename = "step")]
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_-]*$"))]
    pub name: Spanned<Arc<str>>,
    /// What it is for; never rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desc: Option<Arc<str>>,
    /// Guard: the step is skipped where it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Spanned<Condition>>,
    /// Timeouts, policy and cache.
    #[serde(skip_serializing_if = "StepSpec::is_default")]
    #[schemars(default)]
    pub spec: StepSpec,
    /// Values that every task of the step sees.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub input: Fields,
    /// Runs the tool once for each item.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub looping: Option<Loop>,
    /// What it runs.
    pub tool: Tool,
    /// What it writes after success.
    #[serde(skip_serializing_if = "Set::is_empty")]
    #[schemars(default)]
    pub set: Set,
    /// How its data is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSpec>,
    /// Where it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Router>,
    /// How many runs of steps with the same key may go on at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// From -100 to 100; higher goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<i64>>")]
    pub priority: Option<Spanned<Setting<i64>>>,
}

/// Timeouts, policy and cache of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepSpec {
    /// Time from entering to leaving, all attempts and iterations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
    /// Admission, lifecycle and failure.
    #[serde(skip_serializing_if = "StepPolicy::is_default")]
    pub policy: StepPolicy,
    /// Takes over an earlier result instead of running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<StepCache>,
}

impl StepSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Admission, lifecycle and failure of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepPolicy {
    /// Rules that let the step in or not; the first that matches decides.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "rules")]
    #[schemars(schema_with = "admit_schema")]
    pub admit: Vec<AdmitRule>,
    /// A deadline besides the timeout.
    #[serde(skip_serializing_if = "Lifecycle::is_default")]
    pub lifecycle: Lifecycle,
    /// What a failed iteration does to its loop.
    #[serde(skip_serializing_if = "Failure::is_default")]
    pub failure: Failure,
    /// Kept for other runtimes; has no effect here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub emit: Option<Json>,
}

impl StepPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn rules<S: Serializer>(rules: &[AdmitRule], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry("rules", rules)?;
    map.end()
}

fn admit_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": { "rules": { "type": "array", "items": { "type": "object" } } },
        "additionalProperties": false
    })
}

/// One rule of admission.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmitRule {
    /// When it applies; `None` is `else`.
    pub when: Option<Spanned<Condition>>,
    /// What it decides.
    pub allow: bool,
}

impl Serialize for AdmitRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let then = serde_json::json!({ "allow": self.allow });
        let mut map = serializer.serialize_map(None)?;
        if let Some(when) = &self.when {
            map.serialize_entry("when", when)?;
            map.serialize_entry("then", &then)?;
        } else {
            map.serialize_entry("else", &serde_json::json!({ "then": then }))?;
        }
        map.end()
    }
}

/// A deadline besides the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lifecycle {
    /// Time from the first arrival at the step.
    #[serde(rename = "deadline_s", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub deadline: Option<Millis>,
}

impl Lifecycle {
    fn is_default(&self) -> bool {
        self.deadline.is_none()
    }
}

/// What a failed iteration does to its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Failure {
    /// The way to take it.
    pub mode: FailureMode,
}

impl Failure {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// What a failed iteration does to its loop.
    #[derive(Default)]
    pub enum FailureMode {
        /// The step fails with the first one.
        #[default]
        FailFast = "fail_fast",
        /// It is counted, and the loop goes on.
        BestEffort = "best_effort",
    }
}

/// Takes over an earlier result instead of running.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepCache {
    /// What must be equal.
    #[schemars(with = "String")]
    pub key: Spanned<Setting<Arc<str>>>,
    /// How long a result may be taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub ttl: Option<Millis>,
    /// Who shares it.
    #[schemars(default)]
    pub scope: CacheScope,
}

words! {
    /// Who shares a cached result.
    #[derive(Default)]
    pub enum CacheScope {
        /// Runs of the same playbook.
        #[default]
        Playbook = "playbook",
        /// Every playbook of the tenant.
        Tenant = "tenant",
    }
}

/// How many runs of steps with the same key may go on at once.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// What they share.
    #[schemars(with = "String")]
    pub key: Spanned<Setting<Arc<str>>>,
    /// How many.
    #[schemars(range(min = 1), default = "super::value::one")]
    pub limit: Spanned<u32>,
}
