//! Steps.

use std::sync::Arc;

use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::looping::Loop;
use super::output::OutputSpec;
use super::routing::Router;
use super::set::SetClause;
use super::tool::Tool;
use super::value::{Condition, DurationText, NamedValues, ValueOrTemplate, is_default};
use crate::source::Spanned;
use crate::string_enum;

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name of the step, unique in the playbook.
    #[serde(rename = "step")]
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_-]*$"))]
    pub name: Spanned<Arc<str>>,
    /// Description for readers. Not rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desc: Option<Arc<str>>,
    /// Condition of the step. If it is false, the step is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Spanned<Condition>>,
    /// Timeout, policy and cache.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub spec: StepSpec,
    /// Input values available to every task of the step.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub input: NamedValues,
    /// Runs the tool once for each item.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub looping: Option<Loop>,
    /// Task or pipeline of tasks to run.
    pub tool: Tool,
    /// Variables to write after the step succeeds.
    #[serde(skip_serializing_if = "SetClause::is_empty")]
    #[schemars(default)]
    pub set: SetClause,
    /// Storage of the step's data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSpec>,
    /// Arcs to the following steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Router>,
    /// Limits concurrently running steps that have the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<ConcurrencyLimit>,
    /// Priority from -100 to 100. Higher values run first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<i64>>")]
    pub priority: Option<Spanned<ValueOrTemplate<i64>>>,
}

/// Timeout, policy and cache of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepSpec {
    /// Time limit of the step, including all attempts and iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
    /// Admission, lifecycle and failure handling.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: StepPolicy,
    /// Reuses an earlier result instead of running the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<StepCache>,
}

/// Admission, lifecycle and failure handling of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StepPolicy {
    /// Rules that allow or deny entry to the step. The first matching rule decides.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_rules")]
    #[schemars(schema_with = "admit_schema")]
    pub admit: Vec<AdmitRule>,
    /// Deadline, in addition to the timeout.
    #[serde(skip_serializing_if = "is_default")]
    pub lifecycle: Lifecycle,
    /// Effect of a failed iteration on its loop.
    #[serde(skip_serializing_if = "is_default")]
    pub failure: FailurePolicy,
}

impl StepPolicy {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 1] = ["emit"];
}

fn serialize_rules<S: Serializer>(rules: &[AdmitRule], serializer: S) -> Result<S::Ok, S::Error> {
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

/// An admission rule.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmitRule {
    /// Condition of the rule. `None` means `else`.
    pub when: Option<Spanned<Condition>>,
    /// Allows entry to the step.
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

/// Deadline of a step, in addition to its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lifecycle {
    /// Time limit, counted from the first arrival at the step.
    #[serde(rename = "deadline_s", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub deadline: Option<Millis>,
}

/// Effect of a failed iteration on its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FailurePolicy {
    /// Failure mode.
    pub mode: FailureMode,
}

string_enum! {
    /// Effect of a failed iteration on its loop.
    #[derive(Default)]
    pub enum FailureMode {
        /// Fails the step at the first failed iteration.
        #[default]
        FailFast = "fail_fast",
        /// Counts the failure and continues the loop.
        BestEffort = "best_effort",
    }
}

/// Reuses an earlier result instead of running the step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepCache {
    /// Cache key. A result is reused if its key is equal.
    #[schemars(with = "String")]
    pub key: Spanned<ValueOrTemplate<Arc<str>>>,
    /// Maximum age of a reused result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub ttl: Option<Millis>,
    /// Playbooks that share the cached result.
    #[schemars(default)]
    pub scope: CacheScope,
}

string_enum! {
    /// Playbooks that share a cached result.
    #[derive(Default)]
    pub enum CacheScope {
        /// Executions of the same playbook.
        #[default]
        Playbook = "playbook",
        /// All playbooks of the tenant.
        Tenant = "tenant",
    }
}

/// Limits concurrent executions or steps that have the same key.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyLimit {
    /// Key that the limited executions or steps have in common.
    #[schemars(with = "String")]
    pub key: Spanned<ValueOrTemplate<Arc<str>>>,
    /// Maximum number that run concurrently.
    #[schemars(range(min = 1), default = "super::value::default_limit")]
    pub limit: Spanned<u32>,
}
