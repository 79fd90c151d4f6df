//! How the servers on one store hear each other.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::book::Book;
use super::labels::NoLabels;

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    sent: Counter,
    received: Counter,
    /// Only where there was another server.
    up: Family<NoLabels, Gauge>,
}

impl Neighbours {
    pub(super) fn registered(book: &mut Book) -> Self {
        let it = Self::default();
        let text = "How often other servers were told where to look";
        book.register("notify_sent", text, it.sent.clone());
        let text = "How often other servers told this one where to look";
        book.register("notify_received", text, it.received.clone());
        let text = "Whether there is a line to other servers";
        book.register("notify_up", text, it.up.clone());
        it
    }

    /// Others were told.
    pub(crate) fn told(&self) {
        self.sent.inc();
    }

    /// Others have told something.
    pub(crate) fn was_told(&self) {
        self.received.inc();
    }

    /// Whether others are heard.
    pub(crate) fn heard(&self, is_so: bool) {
        self.up
            .get_or_create_owned(&NoLabels {})
            .set(i64::from(is_so));
    }
}
