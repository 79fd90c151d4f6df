//! Document kinds and the top level of a playbook.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use super::keychain::KeychainEntry;
use super::step::Step;
use super::tool::Task;
use super::value::{DurationText, NamedValues, SizeText, ValueOrTemplate, is_default};
use crate::source::Spanned;
use crate::string_enum;

/// A document of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A workflow.
    Playbook(Box<Playbook>),
    /// A document of another kind, stored unchecked.
    Other(OtherDocument),
}

/// A document that is stored without being checked.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherDocument {
    /// The `kind` of the document.
    pub kind: Arc<str>,
    /// Catalog path: `metadata.path`, or else `metadata.name`.
    pub path: Option<Arc<str>>,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    /// Language version: `noetl.io/v2` or `noetl.io/v10`. Both are equivalent.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("enum" = ["noetl.io/v2", "noetl.io/v10"]))]
    pub api_version: Arc<str>,
    /// Always `Playbook`.
    #[schemars(extend("const" = "Playbook"))]
    pub kind: Arc<str>,
    /// Name, path and description.
    pub metadata: DocumentMetadata,
    /// Requirements, timeouts, limits and special steps of an execution.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub executor: ExecutorConfig,
    /// Default input values. The payload of an execution overrides them.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub workload: NamedValues,
    /// Secrets that tasks can read on the worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub keychain: Vec<KeychainEntry>,
    /// Reusable tasks, referenced by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub workbook: Vec<WorkbookTask>,
    /// Steps of the workflow.
    #[schemars(length(min = 1))]
    pub workflow: Vec<Step>,
    /// Limits concurrent executions that have the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<RootConcurrency>,
    /// Priority from -100 to 100. Higher values run first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ValueOrTemplate<i64>>")]
    pub priority: Option<Spanned<ValueOrTemplate<i64>>>,
}

impl Playbook {
    /// Returns the path under which the catalog stores the playbook.
    pub fn path(&self) -> &Arc<str> {
        self.metadata.path.as_ref().unwrap_or(&self.metadata.name)
    }

    /// Finds a step by name.
    pub fn find_step(&self, name: &str) -> Option<&Step> {
        self.workflow.iter().find(|step| &**step.name == name)
    }

    /// Returns the first step to run: `entry_step` if set, else `start`, else the first step
    /// listed.
    pub fn entry_step(&self) -> Option<&Step> {
        if let Some(name) = &self.executor.spec.entry_step {
            return self.find_step(name);
        }
        self.find_step("start").or(self.workflow.first())
    }
}

/// Name, path and description of a document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct DocumentMetadata {
    /// Name of the document.
    pub name: Arc<str>,
    /// Path in the catalog. Defaults to `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Description of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// Additional keys, stored unchanged.
    #[serde(flatten)]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub more: Json,
}

impl DocumentMetadata {
    /// Keys that other tools read.
    pub(crate) const OTHER_KEYS: [&str; 7] =
        ["version", "labels", "tags", "capabilities", "exposed_in_ui", "exposes_as_mcp", "agent"];
}

/// Requirements and settings of an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorConfig {
    /// Required capabilities. The document is rejected if the build lacks one.
    #[serde(skip_serializing_if = "is_default")]
    pub requires: RuntimeRequirements,
    /// Execution settings.
    #[serde(skip_serializing_if = "is_default")]
    pub spec: ExecutorSpec,
}

impl ExecutorConfig {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 2] = ["profile", "version"];
}

/// Capabilities that the runtime must provide.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeRequirements {
    /// Required tool kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Spanned<Arc<str>>>,
    /// Required build features.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Spanned<Arc<str>>>,
}

/// Settings of an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorSpec {
    /// First step to run. Defaults to `start`, or else the first step listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_step: Option<Spanned<Arc<str>>>,
    /// Step that runs once before the execution ends, however it ends: completed, failed, timed
    /// out or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_step: Option<Spanned<Arc<str>>>,
    /// Maximum time of the final step and the steps after it. Defaults to 5 minutes after a timeout
    /// or a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub final_step_timeout: Option<Millis>,
    /// Treats a step that has arcs but takes none of them as failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_next_is_error: bool,
    /// Timeout of the whole execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
    /// Task defaults and limits.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: ExecutorPolicy,
}

/// Task defaults and limits of an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorPolicy {
    /// Defaults for every task.
    #[serde(skip_serializing_if = "is_default")]
    pub defaults: TaskDefaults,
    /// Storage of results.
    #[serde(skip_serializing_if = "is_default")]
    pub results: ResultsPolicy,
    /// Size and repetition limits.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: RunLimits,
    /// Behavior if a secret cannot be resolved.
    #[serde(skip_serializing_if = "is_default")]
    pub keychain: KeychainMode,
}

/// Storage of the results of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResultsPolicy {
    /// Moves every result to the result store, regardless of its size.
    pub reference_first: bool,
}

/// Defaults for every task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskDefaults {
    /// Timeout of one attempt, for tasks whose kind has no default timeout.
    #[serde(rename = "timeout_s", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
}

/// Limits of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// Maximum size of the data of a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeText>")]
    pub max_payload_bytes: Option<noetl_types::ByteSize>,
    /// Maximum number of times each step may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_step_runs: Option<u64>,
}

string_enum! {
    /// Behavior if a secret cannot be resolved.
    #[derive(Default)]
    pub enum KeychainMode {
        /// Fails the task.
        #[default]
        Strict = "strict",
        /// Uses an empty string.
        Lenient = "lenient",
    }
}

/// A reusable task, referenced by name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkbookTask {
    /// Name by which steps refer to the task.
    pub name: Spanned<Arc<str>>,
    /// Task to run.
    pub tool: Task,
}

impl WorkbookTask {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 2] = ["assert", "sink"];
}

/// Limits concurrent executions that have the same key.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootConcurrency {
    /// Key that the limited executions have in common.
    #[schemars(with = "String")]
    pub key: ValueOrTemplate<Arc<str>>,
    /// Maximum number of concurrent executions.
    #[schemars(range(min = 1), default = "super::value::default_limit")]
    pub limit: Spanned<u32>,
    /// Behavior if the limit is reached.
    #[schemars(default)]
    pub overlap: ConcurrencyOverlap,
}

string_enum! {
    /// Behavior of a new execution if the concurrency limit is reached.
    #[derive(Default)]
    pub enum ConcurrencyOverlap {
        /// Waits until another execution ends.
        #[default]
        Queue = "queue",
        /// Does not start.
        Skip = "skip",
        /// Cancels a running execution and starts in its place.
        CancelPrevious = "cancel_previous",
    }
}
