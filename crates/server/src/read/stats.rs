//! How much there is of everything.

use noetl_api::query::PoolsQuery;
use noetl_api::system::Stats;
use noetl_types::ExecutionStatus;

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    pub(super) async fn stats(&self) -> Result<Stats, RuntimeError> {
        let counts = self.store().counts(self.tenant()).await?;
        let mut stats = Stats::default();
        for (status, count) in counts.executions {
            add(&mut stats, status, count);
        }
        let playbooks = counts.definitions.get("playbook");
        stats.total_playbooks = playbooks.copied().unwrap_or(0);
        let active = PoolsQuery {
            status: Some("active".into()),
            ..PoolsQuery::default()
        };
        stats.total_workers = self.pools(active).await?.count as u64;
        Ok(stats)
    }
}

fn add(stats: &mut Stats, status: ExecutionStatus, count: u64) {
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
