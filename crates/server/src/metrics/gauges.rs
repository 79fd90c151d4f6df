//! What the store knows, as of a scrape.

use noetl_store::{PoolCount, StatusCounts};
use noetl_types::ExecutionStatus;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::book::Book;
use super::labels::{PoolLabels, StatusLabels};

#[derive(Debug, Default)]
pub(crate) struct Gauges {
    executions: Family<StatusLabels, Gauge>,
    commands: Family<PoolLabels, Gauge>,
}

impl Gauges {
    pub(super) fn registered(book: &mut Book) -> Self {
        let gauges = Self::default();
        let executions = gauges.executions.clone();
        book.register("executions", "Executions by status", executions);
        let commands = gauges.commands.clone();
        book.register("commands", "Commands that are open, by pool", commands);
        gauges
    }

    /// How many executions there are, where that is known; where none stands so, that is told too. A number
    /// of before would be taken for one of now.
    pub(crate) fn count(&self, counts: Option<&StatusCounts>) {
        let Some(counts) = counts else {
            self.executions.clear();
            return;
        };
        for status in ExecutionStatus::ALL {
            let count = counts.get(status).copied().unwrap_or(0);
            let status = status.as_str();
            let gauge = self
                .executions
                .get_or_create_owned(&StatusLabels { status });
            gauge.set(whole(count));
        }
    }

    /// How much the pools have to do, where that is known. A pool that nobody asks anything of any more is
    /// forgotten.
    pub(crate) fn count_pools(&self, pools: Option<&[PoolCount]>) {
        self.commands.clear();
        for pool in pools.unwrap_or_default() {
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
