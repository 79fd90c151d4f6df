//! The system as people look at it.

use noetl_api::health::Health;
use noetl_api::system::{HealthAnswer, ServerStatus, ShardConfig, ShardInfo, StatsAnswer, Widgets};
use noetl_types::{ExecutionId, Json, Text};

use super::placement::shard_of;
use crate::runtime::{Runtime, RuntimeError};

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Runtime {
    /// Where an execution is placed among shards: as many as the caller says, or this server.
    pub fn shard_info(&self, execution_id: ExecutionId, shard_count: Option<u32>) -> ShardInfo {
        let settings = self.settings();
        let count = shard_count.unwrap_or(settings.shard_count).max(1);
        ShardInfo {
            execution_id,
            shard_count: count,
            shard_index: shard_of(execution_id, count),
            source: if shard_count.is_some() {
                "query".into()
            } else {
                "server_config".into()
            },
            hash_function: "xxhash64".into(),
            seed: 0,
            server_config: ShardConfig {
                shard_count: settings.shard_count,
                shard_index: settings.shard_index,
            },
        }
    }

    /// The counters of the dashboard.
    pub async fn dashboard(&self) -> Result<StatsAnswer, RuntimeError> {
        let stats = self.stats().await?;
        Ok(StatsAnswer {
            status: "ok".into(),
            stats,
            top: stats,
        })
    }

    /// The same as tiles.
    pub async fn widgets(&self) -> Result<Widgets, RuntimeError> {
        let stats = self.stats().await?;
        let tiles = [
            ("total_executions", "Executions", stats.total_executions),
            ("running_executions", "Running", stats.running_executions),
            (
                "successful_executions",
                "Completed",
                stats.successful_executions,
            ),
            ("failed_executions", "Failed", stats.failed_executions),
            (
                "cancelled_executions",
                "Cancelled",
                stats.cancelled_executions,
            ),
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
        Ok(Widgets {
            widgets: tiles.map(widget).to_vec(),
        })
    }

    /// How the server is, as far as a caller with a token may know.
    pub async fn health(&self) -> HealthAnswer {
        let ready = self.ready().await;
        let database = ready.checks.get(&Text::from("store"));
        HealthAnswer {
            status: match ready.status {
                Health::Ok | Health::Degraded => "ok".into(),
                Health::Failed => "unhealthy".into(),
            },
            database: database.copied().unwrap_or(Health::Failed),
            nats: match self.messaging_trouble() {
                None => "disabled".into(),
                Some(Ok(())) => "ok".into(),
                Some(Err(_)) => "degraded".into(),
            },
            uptime_seconds: self.uptime().as_ms() / 1000,
            version: VERSION.into(),
        }
    }

    /// What the server knows of itself.
    pub async fn server_status(&self) -> ServerStatus {
        let ready = self.ready().await;
        ServerStatus {
            status: ready.status,
            server_name: self.settings().server_name.clone(),
            version: VERSION.into(),
            uptime_seconds: self.uptime().as_ms() / 1000,
            checks: ready.checks,
        }
    }
}
