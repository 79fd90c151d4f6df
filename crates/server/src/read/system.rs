//! System status and dashboard.

use noetl_api::health::HealthStatus;
use noetl_api::system::{
    DashboardStatsResponse, DashboardWidgets, HealthResponse, ServerStatus, ShardConfig, ShardInfo,
};
use noetl_types::{ExecutionId, Json, Text};

use super::sharding::shard_for_execution;
use crate::runtime::{Runtime, RuntimeError};

const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");

impl Runtime {
    /// Returns the shard of an execution, for the given shard count or this server's.
    pub fn shard_info(&self, execution_id: ExecutionId, shard_count: Option<u32>) -> ShardInfo {
        let settings = self.settings();
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
    pub async fn dashboard_stats(&self) -> Result<DashboardStatsResponse, RuntimeError> {
        let stats = self.load_stats().await?;
        Ok(DashboardStatsResponse { status: "ok".into(), stats, top: stats })
    }

    /// Returns the counters of the dashboard as widgets.
    pub async fn dashboard_widgets(&self) -> Result<DashboardWidgets, RuntimeError> {
        let stats = self.load_stats().await?;
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
            nats: match self.messaging_health() {
                None => "disabled".into(),
                Some(Ok(())) => "ok".into(),
                Some(Err(_)) => "degraded".into(),
            },
            uptime_seconds: self.uptime().as_ms() / 1000,
            version: SERVER_VERSION.into(),
        }
    }

    /// Returns the server's status and the results of its checks.
    pub async fn server_status(&self) -> ServerStatus {
        let ready = self.check_readiness().await;
        ServerStatus {
            status: ready.status,
            server_name: self.settings().server_name.clone(),
            version: SERVER_VERSION.into(),
            uptime_seconds: self.uptime().as_ms() / 1000,
            checks: ready.checks,
        }
    }
}
