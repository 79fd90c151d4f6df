//! The system as people look at it: counters, who they are, where things are placed.

use std::collections::BTreeMap;

use noetl_types::{ExecutionId, Json, Text};
use serde::{Deserialize, Serialize};

use crate::health::Health;

/// How much there is of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stats {
    /// Runs.
    pub total_executions: u64,
    /// Those that ended well.
    pub successful_executions: u64,
    /// Those that failed.
    pub failed_executions: u64,
    /// Those that somebody ended.
    pub cancelled_executions: u64,
    /// Those that go on.
    pub running_executions: u64,
    /// Playbooks.
    pub total_playbooks: u64,
    /// Workers that were heard of lately.
    pub total_workers: u64,
}

/// The same as the dashboard reads it: once below `stats`, and once beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatsAnswer {
    /// `ok`.
    pub status: Text,
    /// The counters.
    pub stats: Stats,
    /// The same counters at the top.
    #[serde(flatten)]
    pub top: Stats,
}

/// What the dashboard shows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Widgets {
    /// One for each counter.
    pub widgets: Vec<Json>,
}

/// Where a run is placed among shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardInfo {
    /// The run.
    pub execution_id: ExecutionId,
    /// Among how many.
    pub shard_count: u32,
    /// Which one, from 0.
    pub shard_index: u32,
    /// Who said how many there are: `query` or `server_config`.
    pub source: Text,
    /// How the place is found.
    pub hash_function: Text,
    /// What that starts from.
    pub seed: u64,
    /// What this server is set to.
    pub server_config: ShardConfig,
}

/// The shard that a server is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardConfig {
    /// How many there are.
    pub shard_count: u32,
    /// Which one it is, from 0.
    pub shard_index: u32,
}

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhoAmI {
    /// As logs tell it.
    pub actor: Text,
    /// Whose data it sees.
    pub tenant_id: Text,
    /// The same inside of the tenant.
    pub organization_id: Text,
    /// What it may do.
    pub scopes: Vec<Text>,
}

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthAnswer {
    /// `ok` or `unhealthy`.
    pub status: Text,
    /// Whether its store answers.
    pub database: Health,
    /// Whether its messages get out; `disabled` where it sends none.
    pub nats: Text,
    /// For how long it has run.
    pub uptime_seconds: u64,
    /// What it is.
    pub version: Text,
}

/// What a server knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerStatus {
    /// Whether it can work.
    pub status: Health,
    /// Its name among servers.
    pub server_name: Text,
    /// What it is.
    pub version: Text,
    /// For how long it has run.
    pub uptime_seconds: u64,
    /// What was looked at.
    pub checks: BTreeMap<Text, Health>,
}

/// Whether the tables of the database are those that the server works with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseAnswer {
    /// `ok` or `error`.
    pub status: Text,
    /// The same in words.
    pub message: Text,
    /// Whether nothing is missing.
    pub valid: bool,
    /// The tables that are there.
    pub tables: Vec<Text>,
    /// Those that are missing.
    pub missing: Vec<Text>,
}
