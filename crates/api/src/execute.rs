//! Starting executions.

use noetl_types::{
    CatalogId, ExecutionId, ExecutionStatus, Json, PlaybookPath, PoolName, Text, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Starts an execution of a definition. A classic body: unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteRequest {
    /// Path of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PlaybookPath>,
    /// Id of the definition; takes precedence over the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Version of the definition; the newest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionSelector>,
    /// Input, merged over the defaults of the playbook.
    #[serde(default, alias = "workload", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// Parent execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// Worker pool of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_pool: Option<PoolName>,
    /// Trace that the execution belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Json>,
    /// Labels of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Json>,
    /// Priority in the queue, -100 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Start time; immediately if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// Dedup key: no second execution starts with the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupKey>,
    /// Kind of definition according to the sender. The definition itself decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_kind: Option<Text>,
    /// Maximum time to wait for the end of the execution, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Dedup key: within the window, no second execution starts with the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DedupKey {
    /// The key; any text.
    pub key: Text,
    /// Length of the window in seconds, 1 to 2592000; default 300.
    #[serde(
        default,
        deserialize_with = "crate::integer::clamp_to_i64",
        skip_serializing_if = "Option::is_none"
    )]
    pub window_secs: Option<i64>,
}

/// Starts many executions independently. A classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteBatchRequest {
    /// 1 to 1000 requests.
    pub executions: Vec<Json>,
}

/// Results of a batch start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteBatchResponse {
    /// Number of requested executions.
    pub count: u32,
    /// Number of started executions.
    pub started: u32,
    /// Number of executions that already existed.
    pub duplicates: u32,
    /// Number of rejected requests.
    pub failed: u32,
    /// One result per request, in request order.
    pub results: Vec<ExecuteBatchResult>,
}

/// Result for one execution of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteBatchResult {
    /// Position in the request, from 0.
    pub index: u32,
    /// `started`, `duplicate` or `error`.
    pub status: Text,
    /// Id of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Number of commands issued at the start.
    pub commands_generated: u32,
    /// Error message if the execution was not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// Runs a definition again with the input of an earlier execution. A classic body.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RerunRequest {
    /// Input, merged over the input of the earlier execution.
    #[serde(default, alias = "payload", skip_serializing_if = "Option::is_none")]
    pub workload: Option<Json>,
    /// Worker pool of the new execution; that of the earlier execution if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_pool: Option<PoolName>,
}

/// Version of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum VersionSelector {
    /// A version number.
    Number(u32),
    /// `latest`, or a version number as a string.
    Label(Text),
}

/// A started execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecuteResponse {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// `started`.
    pub status: Text,
    /// Number of commands issued at the start.
    pub commands_generated: u32,
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Version of the definition.
    pub version: u32,
    /// Id of the definition.
    pub catalog_id: CatalogId,
    /// Result of the execution, if the caller waited and it ended in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ExecutionResult>,
}

/// Result of an ended execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionResult {
    /// Final status.
    pub status: ExecutionStatus,
    /// Result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}
