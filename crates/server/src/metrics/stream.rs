//! Metrics of the event stream, set at scrape time.

use std::sync::atomic::Ordering;

use noetl_api::stream::StreamStatus;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::NoLabels;
use super::optional_gauge::OptionalGauge;
use super::registry::MetricRegistry;
use super::store_gauges::to_gauge_value;

#[derive(Debug, Default)]
pub(crate) struct StreamMetrics {
    published: Counter,
    duplicates: Counter,
    oversized: Counter,
    undeliverable: Counter,
    restored: Counter,
    rebuilds: Counter,
    skipped: Counter,
    is_publisher: Gauge,
    cursor: OptionalGauge,
    epoch: OptionalGauge,
    lag_events: OptionalGauge,
    lag_seconds: OptionalGauge,
    horizon_age: OptionalGauge,
    /// Absent if no NATS server is configured.
    nats_up: Family<NoLabels, Gauge>,
}

impl StreamMetrics {
    pub(super) fn register_in(registry: &mut MetricRegistry) -> Self {
        let metrics = Self::default();
        let counters = [
            ("published", "Events acknowledged by the broker", &metrics.published),
            ("duplicates", "Acknowledged events that the broker already had", &metrics.duplicates),
            (
                "oversized",
                "Events published as a reference because they are too large",
                &metrics.oversized,
            ),
            (
                "undeliverable",
                "Events that the broker rejects, moved to quarantine",
                &metrics.undeliverable,
            ),
            ("restored", "Messages published again after the broker lost them", &metrics.restored),
            ("rebuilds", "Rebuilds of the stream", &metrics.rebuilds),
            ("skipped", "Events that were skipped; always 0", &metrics.skipped),
        ];
        for (name, help, counter) in counters {
            registry.register(format!("event_stream_{name}"), help, counter.clone());
        }
        let help = "1 if this server publishes the stream, else 0";
        registry.register("event_stream_is_publisher", help, metrics.is_publisher.clone());
        metrics.register_gauges(registry);
        let help = "1 if the NATS server is connected, else 0";
        registry.register("nats_up", help, metrics.nats_up.clone());
        metrics
    }

    fn register_gauges(&self, registry: &mut MetricRegistry) {
        let gauges = [
            ("event_stream_cursor", "Feed position up to which the log is published", &self.cursor),
            ("event_stream_epoch", "Number of changes of the publishing server", &self.epoch),
            ("event_stream_lag_events", "Events not yet published", &self.lag_events),
            (
                "event_stream_lag_seconds",
                "Age of the oldest event not yet published",
                &self.lag_seconds,
            ),
            (
                "commit_horizon_age_seconds",
                "Age of the oldest open transaction, which delays publishing",
                &self.horizon_age,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }

    /// Sets the counters of this process. The totals never decrease.
    pub(crate) fn set_counters(&self, status: &StreamStatus) {
        for (counter, total) in [
            (&self.published, status.published),
            (&self.duplicates, status.duplicates),
            (&self.oversized, status.by_reference),
            (&self.undeliverable, status.undeliverable),
            (&self.restored, status.restored),
            (&self.rebuilds, status.rebuilds),
        ] {
            counter.inner().fetch_max(total, Ordering::Relaxed);
        }
        self.is_publisher.set(i64::from(&*status.state == "publishing"));
    }

    /// Sets the gauges of the stream. `None` clears them.
    pub(crate) fn set_gauges(&self, status: Option<&StreamStatus>) {
        let value = |number: fn(&StreamStatus) -> i64| status.map(number);
        self.cursor.set(value(|status| status.position.map_or(0, |position| position.position)));
        self.epoch.set(value(|status| to_gauge_value(status.epoch.unwrap_or(0))));
        self.lag_events.set(value(|status| to_gauge_value(status.lag_events)));
        self.lag_seconds.set(value(|status| to_gauge_value(status.lag_ms / 1000)));
        self.horizon_age.set(value(|status| to_gauge_value(status.horizon_age_ms / 1000)));
    }

    pub(crate) fn set_nats_connected(&self, is_connected: bool) {
        self.nats_up.get_or_create_owned(&NoLabels {}).set(i64::from(is_connected));
    }
}
