//! Metrics of platform tasks: outbox, projection and retention.

use noetl_store::OutboxStats;
use noetl_types::error::RejectCode;
use noetl_types::{Millis, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::{CodeLabels, StatusLabels, TableLabels};
use super::optional_gauge::OptionalGauge;
use super::registry::MetricRegistry;
use super::store_gauges::to_gauge_value;

#[derive(Debug, Default)]
pub(crate) struct PlatformMetrics {
    dead_rows: Counter,
    advanced_models: Counter,
    materialized_events: Counter,
    rejected_events: Family<CodeLabels, Counter>,
    purged_rows: Family<TableLabels, Counter>,
    rows: Family<StatusLabels, Gauge>,
    oldest_age: OptionalGauge,
    days_ahead: OptionalGauge,
}

impl PlatformMetrics {
    pub(super) fn register_in(registry: &mut MetricRegistry) -> Self {
        let metrics = Self::default();
        let help = "Outbox rows that reached the maximum number of attempts";
        registry.register("outbox_dead", help, metrics.dead_rows.clone());
        let help = "Read models compared with their log";
        registry.register("projection_advanced", help, metrics.advanced_models.clone());
        let help = "Events of classic workers that were copied into the log";
        registry.register("events_materialized", help, metrics.materialized_events.clone());
        let help = "Events that could not be copied, by error code";
        registry.register("projector_rejected", help, metrics.rejected_events.clone());
        let help = "Rows deleted by retention, by table; for events, dropped partitions";
        registry.register("cleanup_rows_purged", help, metrics.purged_rows.clone());
        let help = "Outbox rows by status; approximate if many are published";
        registry.register("outbox_rows", help, metrics.rows.clone());
        let help = "Age of the oldest unpublished event";
        registry.register("outbox_oldest_age_seconds", help, metrics.oldest_age.clone());
        let help = "Days for which partitions of the log exist in advance";
        registry.register("partitions_ahead_days", help, metrics.days_ahead.clone());
        metrics
    }

    pub(crate) fn count_dead_row(&self) {
        self.dead_rows.inc();
    }

    pub(crate) fn count_advanced(&self, count: usize) {
        self.advanced_models.inc_by(count as u64);
    }

    pub(crate) fn count_materialized(&self, count: u64) {
        self.materialized_events.inc_by(count);
    }

    pub(crate) fn count_rejected(&self, code: RejectCode) {
        let code = code.as_str();
        self.rejected_events.get_or_create_owned(&CodeLabels { code }).inc();
    }

    pub(crate) fn count_purged(&self, table: &'static str, count: u64) {
        let labels = TableLabels { table };
        self.purged_rows.get_or_create_owned(&labels).inc_by(count);
    }

    /// Sets the gauges of the outbox. `None` clears them.
    pub(crate) fn set_outbox(&self, stats: Option<&OutboxStats>, now: Timestamp) {
        self.rows.clear();
        let age = |stats: &OutboxStats| {
            let age = stats.oldest_unpublished.map(|oldest| now.duration_since(oldest));
            to_gauge_value(age.unwrap_or_default().as_ms() / 1000)
        };
        self.oldest_age.set(stats.map(age));
        for (status, count) in stats.into_iter().flat_map(|stats| &stats.rows) {
            let status = status.as_str();
            let labels = StatusLabels { status };
            self.rows.get_or_create_owned(&labels).set(to_gauge_value(*count));
        }
    }

    /// Sets the partition headroom. `None` if it is unknown or the store has no partitions.
    pub(crate) fn set_partition_headroom(&self, headroom: Option<Millis>) {
        let days =
            |headroom: Millis| to_gauge_value(headroom.as_ms() / Millis::from_days(1).as_ms());
        self.days_ahead.set(headroom.map(days));
    }
}
