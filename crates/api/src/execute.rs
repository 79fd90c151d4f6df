//! Starting a run.

use noetl_types::{
    CatalogId, ExecutionId, ExecutionStatus, Json, PlaybookPath, PoolName, Text, Timestamp,
};
use serde::{Deserialize, Serialize};

/// A wish to run a definition. A classic body: what it does not know it passes over.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteRequest {
    /// The definition, by path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PlaybookPath>,
    /// The definition, by id; wins over the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Its version; the newest where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// What is laid over the defaults of the playbook.
    #[serde(default, alias = "workload", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The run that starts this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// The pool of workers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_pool: Option<PoolName>,
    /// The trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Json>,
    /// What people tag it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Json>,
    /// Its rank in the queue, -100 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// When it is to begin; at once where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// The key under which no second run is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<Dedup>,
    /// What kind of definition the sender means; the definition itself decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_kind: Option<Text>,
    /// How long the answer may wait for the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The key under which no second run is made, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dedup {
    /// Any text.
    pub key: Text,
    /// For how long; see [`noetl_types::limits::DedupWindowSecs`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_secs: Option<i64>,
}

/// Many runs to be started, each by itself. A classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteBatch {
    /// From 1 to [`noetl_types::limits::MAX_EXECUTE_BATCH`].
    pub executions: Vec<Json>,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteBatchAnswer {
    /// How many were asked for.
    pub count: u32,
    /// How many began.
    pub started: u32,
    /// How many had begun before.
    pub duplicates: u32,
    /// How many did not.
    pub failed: u32,
    /// One for each, in order.
    pub results: Vec<ExecuteVerdict>,
}

/// What became of one of many runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteVerdict {
    /// Its place in the request, from 0.
    pub index: u32,
    /// `started`, `duplicate` or `error`.
    pub status: Text,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// How many commands its first decision issued.
    pub commands_generated: u32,
    /// Why it did not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// A wish to run a definition again with the input of an earlier run. A classic body.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RerunRequest {
    /// What is laid over the input of the earlier run.
    #[serde(default, alias = "payload", skip_serializing_if = "Option::is_none")]
    pub workload: Option<Json>,
}

/// A version of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Version {
    /// The one of this number.
    Number(u32),
    /// `latest`, or a number as text.
    Word(Text),
}

/// A run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecuteAnswer {
    /// The run.
    pub execution_id: ExecutionId,
    /// `started`.
    pub status: Text,
    /// How many commands its first decision issued.
    pub commands_generated: u32,
    /// The path of the definition.
    pub path: PlaybookPath,
    /// The version of the definition.
    pub version: u32,
    /// The definition.
    pub catalog_id: CatalogId,
    /// What came of it, where the caller waited and it ended in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// How.
    pub status: ExecutionStatus,
    /// What came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}
