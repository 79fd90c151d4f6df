//! System information: counters, identity of the caller, sharding, health.

use std::collections::BTreeMap;

use noetl_types::{ExecutionId, Json, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::health::HealthStatus;

/// Counters of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DashboardStats {
    /// Total executions.
    pub total_executions: u64,
    /// Completed executions.
    pub successful_executions: u64,
    /// Failed executions.
    pub failed_executions: u64,
    /// Cancelled executions.
    pub cancelled_executions: u64,
    /// Running executions.
    pub running_executions: u64,
    /// Playbooks in the catalog.
    pub total_playbooks: u64,
    /// Workers with a recent heartbeat.
    pub total_workers: u64,
}

/// Counters for the dashboard, below `stats` and at the top level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DashboardStatsResponse {
    /// `ok`.
    pub status: Text,
    /// The counters.
    pub stats: DashboardStats,
    /// The counters at the top level.
    #[serde(flatten)]
    pub top: DashboardStats,
}

/// Widgets of the dashboard.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DashboardWidgets {
    /// One widget per counter.
    pub widgets: Vec<Json>,
}

/// Shard of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardInfo {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Number of shards.
    pub shard_count: u32,
    /// Shard of the execution, from 0.
    pub shard_index: u32,
    /// Source of the shard count: `query` or `server_config`.
    pub source: Text,
    /// Hash function.
    pub hash_function: Text,
    /// Seed of the hash function.
    pub seed: u64,
    /// Shard configuration of this server.
    pub server_config: ShardConfig,
}

/// Shard configuration of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardConfig {
    /// Number of shards.
    pub shard_count: u32,
    /// Shard of the server, from 0.
    pub shard_index: u32,
}

/// Identity of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhoAmI {
    /// Actor name, as in the logs.
    pub actor: Text,
    /// Tenant of the caller.
    pub tenant_id: Text,
    /// Organization within the tenant.
    pub organization_id: Text,
    /// Scopes of the caller.
    pub scopes: Vec<Text>,
}

/// Health of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthResponse {
    /// `ok` or `unhealthy`.
    pub status: Text,
    /// Health of the store.
    pub database: HealthStatus,
    /// State of the NATS connection; `disabled` if NATS is not configured.
    pub nats: Text,
    /// Uptime in seconds.
    pub uptime_seconds: u64,
    /// Version of the server.
    pub version: Text,
}

/// Status of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStatus {
    /// Health of the server.
    pub status: HealthStatus,
    /// Name of the server.
    pub server_name: Text,
    /// Version of the server.
    pub version: Text,
    /// Uptime in seconds.
    pub uptime_seconds: u64,
    /// Result of each check.
    pub checks: BTreeMap<Text, HealthStatus>,
}

/// Result of a database schema check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseCheckResponse {
    /// `ok` or `error`.
    pub status: Text,
    /// Human-readable message.
    pub message: Text,
    /// True if no table is missing.
    pub valid: bool,
    /// Existing tables.
    pub tables: Vec<Text>,
    /// Missing tables.
    pub missing: Vec<Text>,
}
