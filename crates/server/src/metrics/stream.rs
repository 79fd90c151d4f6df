//! How the stream of the log stands, as of a scrape.

use std::sync::atomic::Ordering;

use noetl_api::stream::StreamStatus;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::book::Book;
use super::gauges::whole;
use super::known::Known;
use super::labels::NoLabels;

#[derive(Debug, Default)]
pub(crate) struct Stream {
    published: Counter,
    duplicates: Counter,
    oversized: Counter,
    parked: Counter,
    restored: Counter,
    rebuilds: Counter,
    skipped: Counter,
    is_publisher: Gauge,
    cursor: Known,
    epoch: Known,
    lag_events: Known,
    lag_seconds: Known,
    horizon: Known,
    /// Only where there is a NATS server to reach.
    nats: Family<NoLabels, Gauge>,
}

impl Stream {
    pub(super) fn registered(book: &mut Book) -> Self {
        let it = Self::default();
        let counters = [
            (
                "published",
                "Events that the broker has acknowledged",
                &it.published,
            ),
            (
                "duplicates",
                "Those of them that it had already",
                &it.duplicates,
            ),
            (
                "oversized",
                "Events that went out as a reference, being too large",
                &it.oversized,
            ),
            (
                "parked",
                "Events that no broker takes, which were put aside",
                &it.parked,
            ),
            (
                "restored",
                "Messages that the broker had lost",
                &it.restored,
            ),
            (
                "rebuilds",
                "How often the stream was made anew",
                &it.rebuilds,
            ),
            (
                "skipped",
                "Events that were left out: there are none",
                &it.skipped,
            ),
        ];
        for (name, text, counter) in counters {
            book.register(format!("event_stream_{name}"), text, counter.clone());
        }
        let text = "Whether this server publishes";
        book.register("event_stream_is_publisher", text, it.is_publisher.clone());
        it.register_gauges(book);
        let text = "Whether the NATS server is reached";
        book.register("nats_up", text, it.nats.clone());
        it
    }

    fn register_gauges(&self, book: &mut Book) {
        let gauges = [
            (
                "event_stream_cursor",
                "The place up to which the log is published",
                &self.cursor,
            ),
            (
                "event_stream_epoch",
                "How often the stream changed hands",
                &self.epoch,
            ),
            (
                "event_stream_lag_events",
                "Events that are still to be published",
                &self.lag_events,
            ),
            (
                "event_stream_lag_seconds",
                "Age of the oldest of them",
                &self.lag_seconds,
            ),
            (
                "commit_horizon_age_seconds",
                "For how long a transaction holds the log back",
                &self.horizon,
            ),
        ];
        for (name, text, gauge) in gauges {
            book.register(name, text, gauge.clone());
        }
    }

    /// What this process does about it. Its numbers only grow, so a counter takes them over as they are.
    pub(crate) fn counted(&self, status: &StreamStatus) {
        for (counter, seen) in [
            (&self.published, status.published),
            (&self.duplicates, status.duplicates),
            (&self.oversized, status.by_reference),
            (&self.parked, status.parked),
            (&self.restored, status.restored),
            (&self.rebuilds, status.rebuilds),
        ] {
            counter.inner().fetch_max(seen, Ordering::Relaxed);
        }
        self.is_publisher
            .set(i64::from(&*status.state == "publishing"));
    }

    /// How it stands, where the store tells.
    pub(crate) fn stands(&self, status: Option<&StreamStatus>) {
        let told = |number: fn(&StreamStatus) -> i64| status.map(number);
        self.cursor
            .set(told(|it| it.position.map_or(0, |place| place.position)));
        self.epoch.set(told(|it| whole(it.epoch.unwrap_or(0))));
        self.lag_events.set(told(|it| whole(it.lag_events)));
        self.lag_seconds.set(told(|it| whole(it.lag_ms / 1000)));
        self.horizon.set(told(|it| whole(it.horizon_age_ms / 1000)));
    }

    /// Whether the NATS server is reached.
    pub(crate) fn reaches_nats(&self, is_reached: bool) {
        self.nats
            .get_or_create_owned(&NoLabels {})
            .set(i64::from(is_reached));
    }
}
