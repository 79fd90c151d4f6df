//! Documents and the root of a playbook.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use super::keychain::KeychainEntry;
use super::schedule::Schedule;
use super::step::Step;
use super::subscription::Subscription;
use super::tool::Task;
use super::value::DurationText;
use super::value::SizeText;
use super::value::{Fields, Setting};
use crate::source::Spanned;
use crate::words;

/// A document of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A workflow.
    Playbook(Box<Playbook>),
    /// A source of messages that start playbooks.
    Subscription(Box<Subscription>),
    /// A clock that starts playbooks.
    Schedule(Box<Schedule>),
    /// Stored as it is, unchecked.
    Other(OtherDocument),
}

/// A document that is only stored.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherDocument {
    /// Its `kind`.
    pub kind: Arc<str>,
    /// The path to store it under: `metadata.path`, else `metadata.name`.
    pub path: Option<Arc<str>>,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    /// Version of the language: `noetl.io/v2` or `noetl.io/v10`, which are the same.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("enum" = ["noetl.io/v2", "noetl.io/v10"]))]
    pub api_version: Arc<str>,
    /// Always `Playbook`.
    #[schemars(extend("const" = "Playbook"))]
    pub kind: Arc<str>,
    /// Name, path and description.
    pub metadata: Metadata,
    /// How it is run.
    #[serde(skip_serializing_if = "Executor::is_default")]
    #[schemars(default)]
    pub executor: Executor,
    /// Defaults of the input; the payload of a run is laid over them.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub workload: Fields,
    /// Secrets that its tasks may read on the worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub keychain: Vec<KeychainEntry>,
    /// Tasks to use by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub workbook: Vec<WorkbookTask>,
    /// The steps.
    #[schemars(length(min = 1))]
    pub workflow: Vec<Step>,
    /// How many runs with the same key may go on at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<RootConcurrency>,
    /// From -100 to 100; higher goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Setting<i64>>")]
    pub priority: Option<Spanned<Setting<i64>>>,
}

impl Playbook {
    /// The path that the catalog stores it under.
    pub fn path(&self) -> &Arc<str> {
        self.metadata.path.as_ref().unwrap_or(&self.metadata.name)
    }

    /// A step by its name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.workflow.iter().find(|step| &**step.name == name)
    }

    /// The step that runs first: the named one, else `start`, else the first.
    pub fn entry(&self) -> Option<&Step> {
        if let Some(name) = &self.executor.spec.entry_step {
            return self.step(name);
        }
        self.step("start").or(self.workflow.first())
    }
}

/// What a document says about itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Metadata {
    /// Its name.
    pub name: Arc<str>,
    /// The path in the catalog; its name where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// Every other key, kept as it is.
    #[serde(flatten)]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub more: Json,
}

/// How a playbook is run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Executor {
    /// Where it is meant to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Version of the runtime it was written for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
    /// What the runtime must have; a run is refused where it is missing.
    #[serde(skip_serializing_if = "Requires::is_empty")]
    pub requires: Requires,
    /// Settings.
    #[serde(skip_serializing_if = "ExecutorSpec::is_default")]
    pub spec: ExecutorSpec,
}

impl Executor {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// Where a playbook is meant to run.
    pub enum Profile {
        /// In one process.
        Local = "local",
        /// On servers and workers.
        Distributed = "distributed",
        /// Wherever it is started.
        Auto = "auto",
    }
}

/// What a runtime must have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Requires {
    /// Tool kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<str>>,
    /// Build features.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Arc<str>>,
}

impl Requires {
    fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.features.is_empty()
    }
}

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorSpec {
    /// The step to begin with; else `start`, else the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_step: Option<Spanned<Arc<str>>>,
    /// A step that runs once when the run is about to end, however it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_step: Option<Spanned<Arc<str>>>,
    /// Whether a step whose arcs all stay untaken is a failure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_next_is_error: bool,
    /// Time for the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
    /// Defaults and bounds.
    #[serde(skip_serializing_if = "ExecutorPolicy::is_default")]
    pub policy: ExecutorPolicy,
}

impl ExecutorSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Defaults and bounds of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutorPolicy {
    /// Defaults of every task.
    #[serde(skip_serializing_if = "TaskDefaults::is_default")]
    pub defaults: TaskDefaults,
    /// Whether results go to the result store whatever their size.
    #[serde(
        skip_serializing_if = "std::ops::Not::not",
        rename = "results",
        serialize_with = "reference_first"
    )]
    #[schemars(schema_with = "results_schema")]
    pub reference_first: bool,
    /// Bounds.
    #[serde(skip_serializing_if = "RunLimits::is_default")]
    pub limits: RunLimits,
    /// What an unresolvable secret does.
    #[serde(skip_serializing_if = "KeychainMode::is_strict")]
    pub keychain: KeychainMode,
}

impl ExecutorPolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn reference_first<S: serde::Serializer>(value: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry("reference_first", value)?;
    map.end()
}

fn results_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": { "reference_first": { "type": "boolean" } },
        "additionalProperties": false
    })
}

/// Defaults of every task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskDefaults {
    /// Time for an attempt of a task whose kind has no default of its own.
    #[serde(rename = "timeout_s", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub timeout: Option<Millis>,
}

impl TaskDefaults {
    fn is_default(&self) -> bool {
        self.timeout.is_none()
    }
}

/// Bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// Size of any task's data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeText>")]
    pub max_payload_bytes: Option<noetl_types::ByteSize>,
    /// How often any one step may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_step_runs: Option<u64>,
}

impl RunLimits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// What an unresolvable secret does.
    #[derive(Default)]
    pub enum KeychainMode {
        /// The task fails.
        #[default]
        Strict = "strict",
        /// It reads as an empty text.
        Lenient = "lenient",
    }
}

impl KeychainMode {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_strict(&self) -> bool {
        *self == Self::Strict
    }
}

/// A task to use by name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkbookTask {
    /// Its name.
    pub name: Spanned<Arc<str>>,
    /// What it runs.
    pub tool: Task,
    /// Names that its caller must pass, and names that its data must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub assert: Option<Json>,
    /// Where its data is saved besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub sink: Option<Json>,
}

/// How many runs with the same key may go on at once.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootConcurrency {
    /// What they share.
    #[schemars(with = "String")]
    pub key: Setting<Arc<str>>,
    /// How many.
    #[schemars(range(min = 1), default = "super::value::one")]
    pub limit: Spanned<u32>,
    /// What happens to one run too many.
    #[schemars(default)]
    pub overlap: ConcurrencyOverlap,
}

words! {
    /// What happens to a run for which there is no room.
    #[derive(Default)]
    pub enum ConcurrencyOverlap {
        /// It waits.
        #[default]
        Queue = "queue",
        /// It does not start.
        Skip = "skip",
        /// It takes the place of the one that runs.
        CancelPrevious = "cancel_previous",
    }
}
