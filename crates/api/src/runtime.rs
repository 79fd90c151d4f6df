//! Registration and heartbeats of workers.

use noetl_types::{CommandId, Json, JsonMap, PoolName, RuntimeId, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Registers a worker. A classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterWorkerRequest {
    /// Name of the worker: the worker id of its leases.
    pub name: Text,
    /// `worker_pool`.
    #[serde(default, alias = "component_type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Text>,
    /// Address of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Text>,
    /// Status of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Text>,
    /// Labels; `pool_name` is the pool of the worker.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub labels: JsonMap,
    /// Capabilities, such as kinds of tools. May contain `public_key`, as in `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Json>,
    /// Maximum concurrent commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Runtime environment. `public_key` is the base64 of the 32-byte X25519 key for sealed
    /// secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Json>,
    /// Host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
}

/// A registered process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeView {
    /// Id of the process.
    pub runtime_id: RuntimeId,
    /// Name of the process.
    pub name: Text,
    /// Kind of the process.
    pub kind: Text,
    /// Address of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Text>,
    /// `active`, `draining` if it was asked to stop, or `offline` without recent heartbeats.
    pub status: Text,
    /// Labels.
    pub labels: Json,
    /// Maximum concurrent commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Time of the last heartbeat.
    pub heartbeat: Timestamp,
    /// Time of the first registration.
    pub created_at: Timestamp,
}

/// Name of a worker, for heartbeat, deregistration and drain. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerName {
    /// Name of the worker.
    pub name: Text,
    /// `worker_pool`.
    #[serde(default, alias = "component_type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Text>,
}

/// Response to a pool heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PoolHeartbeatResponse {
    /// `ok`.
    pub status: Text,
    /// Commands to cancel.
    #[serde(default)]
    pub cancel: Vec<CommandId>,
    /// True if the worker should finish its commands and stop.
    #[serde(default)]
    pub drain: bool,
}

/// Registered processes, and the load of the pools in use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PoolListResponse {
    /// Processes in the order of their names.
    pub items: Vec<RuntimeView>,
    /// Number of processes.
    pub count: usize,
    /// Pools in the order of their names.
    pub pools: Vec<PoolView>,
}

/// Load of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolView {
    /// Name of the pool.
    pub pool: PoolName,
    /// Number of commands that wait for a worker.
    pub pending: u64,
    /// Number of leased commands.
    pub in_flight: u64,
    /// Start time of the oldest active lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_lease: Option<Timestamp>,
}

/// Success response without data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OkResponse {
    /// `ok`.
    pub status: Text,
}

impl OkResponse {
    /// Creates the response.
    pub fn ok() -> Self {
        Self { status: "ok".into() }
    }
}
