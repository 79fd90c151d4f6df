//! Status of the server: health, counters, tables and sharding.

mod readiness;
mod scrape;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use noetl_api::health::HealthStatus;
use noetl_api::query::PoolsQuery;
use noetl_api::system::{
    DashboardStats, DashboardStatsResponse, DashboardWidgets, DatabaseCheckResponse,
    HealthResponse, ServerStatus, ShardConfig, ShardInfo,
};
use noetl_types::{ExecutionId, ExecutionStatus, Json, Text};

use crate::access::CallContext;
use crate::error::Result;
use crate::services::{Infrastructure, Maintenance, Publishing, WorkerRegistry};

const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Health, metrics and counters of the server.
pub struct SystemStatus {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) workers: Arc<WorkerRegistry>,
    pub(crate) publishing: Arc<Publishing>,
    pub(crate) maintenance: Arc<Maintenance>,
    /// True once a check has found all tables.
    pub(crate) tables_found: AtomicBool,
}

impl SystemStatus {
    /// Returns the shard of an execution, for the given shard count or this server's.
    pub fn shard_info(&self, execution_id: ExecutionId, shard_count: Option<u32>) -> ShardInfo {
        let settings = &self.infra.settings;
        let count = shard_count.unwrap_or(settings.shard_count).max(1);
        ShardInfo {
            execution_id,
            shard_count: count,
            shard_index: shard_for_execution(execution_id, count),
            source: if shard_count.is_some() { "query".into() } else { "server_config".into() },
            hash_function: "xxhash64".into(),
            seed: 0,
            server_config: ShardConfig {
                shard_count: settings.shard_count,
                shard_index: settings.shard_index,
            },
        }
    }

    /// Returns the counters of the dashboard.
    pub async fn dashboard_stats(&self, ctx: &CallContext) -> Result<DashboardStatsResponse> {
        let stats = self.load_stats(ctx).await?;
        Ok(DashboardStatsResponse { status: "ok".into(), stats, top: stats })
    }

    /// Returns the counters of the dashboard as widgets.
    pub async fn dashboard_widgets(&self, ctx: &CallContext) -> Result<DashboardWidgets> {
        let stats = self.load_stats(ctx).await?;
        let tiles = [
            ("total_executions", "Executions", stats.total_executions),
            ("running_executions", "Running", stats.running_executions),
            ("successful_executions", "Completed", stats.successful_executions),
            ("failed_executions", "Failed", stats.failed_executions),
            ("cancelled_executions", "Cancelled", stats.cancelled_executions),
            ("total_playbooks", "Playbooks", stats.total_playbooks),
            ("total_workers", "Workers", stats.total_workers),
        ];
        let widget = |(id, title, value): (&str, &str, u64)| {
            Json::object([
                ("id", Json::from(id)),
                ("type", Json::from("metric")),
                ("title", Json::from(title)),
                ("value", Json::from(value)),
            ])
        };
        Ok(DashboardWidgets { widgets: tiles.map(widget).to_vec() })
    }

    /// Returns the server's health for authenticated callers.
    pub async fn check_health(&self) -> HealthResponse {
        let ready = self.check_readiness().await;
        let database = ready.checks.get(&Text::from("store"));
        HealthResponse {
            status: match ready.status {
                HealthStatus::Ok | HealthStatus::Degraded => "ok".into(),
                HealthStatus::Failed => "unhealthy".into(),
            },
            database: database.copied().unwrap_or(HealthStatus::Failed),
            nats: match self.publishing.messaging_health() {
                None => "disabled".into(),
                Some(Ok(())) => "ok".into(),
                Some(Err(_)) => "degraded".into(),
            },
            uptime_seconds: self.infra.now().duration_since(self.infra.opened_at).as_ms() / 1000,
            version: SERVER_VERSION.into(),
        }
    }

    /// Returns the server's status and the results of its checks.
    pub async fn server_status(&self) -> ServerStatus {
        let ready = self.check_readiness().await;
        ServerStatus {
            status: ready.status,
            server_name: self.infra.settings.server_name.clone(),
            version: SERVER_VERSION.into(),
            uptime_seconds: self.infra.now().duration_since(self.infra.opened_at).as_ms() / 1000,
            checks: ready.checks,
        }
    }

    pub(crate) async fn load_stats(&self, ctx: &CallContext) -> Result<DashboardStats> {
        let counts = self.infra.store().tenant_counts(ctx.tenant()).await?;
        let mut stats = DashboardStats::default();
        for (status, count) in counts.executions {
            add_status_count(&mut stats, status, count);
        }
        let playbooks = counts.definitions.get("playbook");
        stats.total_playbooks = playbooks.copied().unwrap_or(0);
        let active = PoolsQuery { status: Some("active".into()), ..PoolsQuery::default() };
        stats.total_workers = self.workers.list_pools(ctx, active).await?.count as u64;
        Ok(stats)
    }

    /// Checks that every table exists.
    pub async fn validate_database(&self) -> Result<DatabaseCheckResponse> {
        let stats = self.infra.store().store_stats().await?;
        let tables = self.infra.store().check_tables().await?;
        let tables_where = |is_present: bool| -> Vec<Text> {
            let tables = tables.iter().filter(|(_, exists)| **exists == is_present);
            tables.map(|(name, _)| Text::from(*name)).collect()
        };
        let (tables, missing) = (tables_where(true), tables_where(false));
        let (backend, version) = (stats.backend, stats.schema_version);
        let message = if missing.is_empty() {
            format!("{backend}: all tables of schema {version} exist")
        } else {
            let count = missing.len();
            format!("{backend}: {count} tables of schema {version} are missing; restore a backup")
        };
        Ok(DatabaseCheckResponse {
            status: if missing.is_empty() { "ok" } else { "error" }.into(),
            message: message.into(),
            valid: missing.is_empty(),
            tables,
            missing,
        })
    }

    /// Prepares the store as at server start: tables are migrated when the store is opened, and log
    /// partitions are created in advance here.
    pub async fn init_database(&self) -> Result<DatabaseCheckResponse> {
        let partitions_ahead = self.infra.settings.partitions_ahead;
        self.infra.store().ensure_log_partitions(self.infra.now(), partitions_ahead).await?;
        self.validate_database().await
    }
}

fn add_status_count(stats: &mut DashboardStats, status: ExecutionStatus, count: u64) {
    stats.total_executions += count;
    match status {
        ExecutionStatus::Completed => stats.successful_executions += count,
        ExecutionStatus::Failed => stats.failed_executions += count,
        ExecutionStatus::Cancelled => stats.cancelled_executions += count,
        ExecutionStatus::Pending | ExecutionStatus::Running | ExecutionStatus::Paused => {
            stats.running_executions += count;
        }
    }
}

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

/// Returns the shard of an execution, from 0 to `count - 1`.
pub(crate) fn shard_for_execution(execution_id: ExecutionId, count: u32) -> u32 {
    let hash = xxhash64(execution_id.get().to_le_bytes());
    u32::try_from(hash % u64::from(count.max(1))).unwrap_or(0)
}

/// xxHash64 with seed 0 of eight bytes, the only length hashed here.
fn xxhash64(bytes: [u8; 8]) -> u64 {
    let word =
        u64::from_le_bytes(bytes).wrapping_mul(PRIME_2).rotate_left(31).wrapping_mul(PRIME_1);
    let mut hash = PRIME_5.wrapping_add(8) ^ word;
    hash = hash.rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests;
