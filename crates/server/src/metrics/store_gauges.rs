//! Gauges with values of the store, set at scrape time.

use noetl_store::{PoolCount, StatusCounts};
use noetl_types::ExecutionStatus;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::{PoolLabels, StatusLabels};
use super::registry::MetricRegistry;

#[derive(Debug, Default)]
pub(crate) struct StoreGauges {
    executions: Family<StatusLabels, Gauge>,
    commands: Family<PoolLabels, Gauge>,
}

impl StoreGauges {
    pub(super) fn register_in(registry: &mut MetricRegistry) -> Self {
        let gauges = Self::default();
        let executions = gauges.executions.clone();
        registry.register("executions", "Executions by status", executions);
        let commands = gauges.commands.clone();
        registry.register("commands", "Open commands by pool and status", commands);
        gauges
    }

    /// Sets the number of executions per status, including zeros. `None` clears all values, so that
    /// old numbers are not reported as current.
    pub(crate) fn set_execution_counts(&self, counts: Option<&StatusCounts>) {
        let Some(counts) = counts else {
            self.executions.clear();
            return;
        };
        for status in ExecutionStatus::ALL {
            let count = counts.get(status).copied().unwrap_or(0);
            let status = status.as_str();
            let gauge = self.executions.get_or_create_owned(&StatusLabels { status });
            gauge.set(to_gauge_value(count));
        }
    }

    /// Sets the number of open commands per pool. Pools without open commands are removed, and
    /// `None` clears all values.
    pub(crate) fn set_pool_counts(&self, pools: Option<&[PoolCount]>) {
        self.commands.clear();
        for pool in pools.unwrap_or_default() {
            for (status, count) in [("PENDING", pool.pending), ("CLAIMED", pool.leased)] {
                let labels = PoolLabels { pool: pool.pool.as_str().to_owned(), status };
                self.commands.get_or_create_owned(&labels).set(to_gauge_value(count));
            }
        }
    }
}

pub(super) fn to_gauge_value(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
