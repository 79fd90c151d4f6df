//! Workers on the wire: who they are, and that they live.

use noetl_types::{CommandId, Json, JsonMap, RuntimeId, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// A worker makes itself known. A classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// The kinds of tools that it has, and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Json>,
    /// How many commands it runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// What it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Json>,
    /// The machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
}

/// A process as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// `active`, or `offline` after too long a silence.
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
