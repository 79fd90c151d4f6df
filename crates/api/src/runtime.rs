//! Workers on the wire: who they are, and that they live.

use noetl_types::{CommandId, Json, JsonMap, PoolName, RuntimeId, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// A worker makes itself known. A classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterWorker {
    /// Its name: the id that it leases with.
    pub name: Text,
    /// `worker_pool`.
    #[serde(
        default,
        alias = "component_type",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<Text>,
    /// Where it can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Text>,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Text>,
    /// Tags; `pool_name` is its pool.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub labels: JsonMap,
    /// The kinds of tools that it has, and the like; `public_key` as in `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Json>,
    /// How many commands it runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// What it runs on; `public_key` is base64 of the 32 bytes of the X25519 key that secrets are sealed
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Json>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
}

/// A process as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeView {
    /// Its id.
    pub runtime_id: RuntimeId,
    /// Its name.
    pub name: Text,
    /// What it is.
    pub kind: Text,
    /// Where it can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<Text>,
    /// `active`, `draining` where it was asked to leave, or `offline` after too long a silence.
    pub status: Text,
    /// Tags.
    pub labels: Json,
    /// How many commands it runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// When it was last heard of.
    pub heartbeat: Timestamp,
    /// When it was first heard of.
    pub created_at: Timestamp,
}

/// A worker lives, or leaves. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerName {
    /// Its name.
    pub name: Text,
    /// `worker_pool`.
    #[serde(
        default,
        alias = "component_type",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<Text>,
}

/// What a worker that lives should know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolHeartbeatAnswer {
    /// `ok`.
    pub status: Text,
    /// Commands that nobody wants any more.
    #[serde(default)]
    pub cancel: Vec<CommandId>,
    /// Whether it should finish and leave.
    #[serde(default)]
    pub drain: bool,
}

/// Processes, and how busy the pools are that have anything to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pools {
    /// The processes, by name.
    pub items: Vec<RuntimeView>,
    /// How many they are.
    pub count: usize,
    /// The pools, by name.
    pub pools: Vec<PoolView>,
}

/// How busy a pool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolView {
    /// The pool.
    pub pool: PoolName,
    /// Commands that wait for a worker.
    pub pending: u64,
    /// Commands that a worker has.
    pub in_flight: u64,
    /// When the lease that is held the longest was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_lease: Option<Timestamp>,
}

/// It is done, and there is nothing more to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Done {
    /// `ok`.
    pub status: Text,
}

impl Done {
    /// The one that there is.
    pub fn ok() -> Self {
        Self {
            status: "ok".into(),
        }
    }
}
