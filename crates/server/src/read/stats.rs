//! Counters of executions, playbooks and workers.

use noetl_api::query::PoolsQuery;
use noetl_api::system::DashboardStats;
use noetl_types::ExecutionStatus;

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    pub(super) async fn load_stats(&self) -> Result<DashboardStats, RuntimeError> {
        let counts = self.store().tenant_counts(self.tenant()).await?;
        let mut stats = DashboardStats::default();
        for (status, count) in counts.executions {
            add_status_count(&mut stats, status, count);
        }
        let playbooks = counts.definitions.get("playbook");
        stats.total_playbooks = playbooks.copied().unwrap_or(0);
        let active = PoolsQuery { status: Some("active".into()), ..PoolsQuery::default() };
        stats.total_workers = self.list_pools(active).await?.count as u64;
        Ok(stats)
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
