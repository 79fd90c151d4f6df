//! Metrics of the notification channel between servers on one store.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::NoLabels;
use super::registry::MetricRegistry;

#[derive(Debug, Default)]
pub(crate) struct PeerMetrics {
    sent: Counter,
    received: Counter,
    /// Absent until another server was seen.
    up: Family<NoLabels, Gauge>,
}

impl PeerMetrics {
    pub(super) fn register_in(registry: &mut MetricRegistry) -> Self {
        let metrics = Self::default();
        let help = "Notifications sent to other servers";
        registry.register("notify_sent", help, metrics.sent.clone());
        let help = "Notifications received from other servers";
        registry.register("notify_received", help, metrics.received.clone());
        let help = "1 if the notification channel to other servers is connected, else 0";
        registry.register("notify_up", help, metrics.up.clone());
        metrics
    }

    pub(crate) fn count_sent(&self) {
        self.sent.inc();
    }

    pub(crate) fn count_received(&self) {
        self.received.inc();
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.up.get_or_create_owned(&NoLabels {}).set(i64::from(is_connected));
    }
}
