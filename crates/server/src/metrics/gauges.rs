//! What the store knows, as of a scrape.

use noetl_store::{Counts, PoolCount};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{PoolLabels, StatusLabels};

#[derive(Debug, Default)]
pub(crate) struct Gauges {
    executions: Family<StatusLabels, Gauge>,
    commands: Family<PoolLabels, Gauge>,
}

impl Gauges {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        let executions = gauges.executions.clone();
        registry.register("executions", "Executions by status", executions);
        let commands = gauges.commands.clone();
        registry.register("commands", "Commands that are open, by pool", commands);
        gauges
    }

    /// How many executions there are.
    pub(crate) fn count(&self, counts: &Counts) {
        for (status, count) in &counts.executions {
            let status = status.as_str();
            let gauge = self
                .executions
                .get_or_create_owned(&StatusLabels { status });
            gauge.set(whole(*count));
        }
    }

    /// How much the pools have to do. A pool that nobody asks anything of any more is forgotten.
    pub(crate) fn count_pools(&self, pools: &[PoolCount]) {
        self.commands.clear();
        for pool in pools {
            for (status, count) in [("PENDING", pool.pending), ("CLAIMED", pool.leased)] {
                let labels = PoolLabels {
                    pool: pool.pool.as_str().to_owned(),
                    status,
                };
                self.commands.get_or_create_owned(&labels).set(whole(count));
            }
        }
    }
}

pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
