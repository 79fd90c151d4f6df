//! What the platform does for itself, and how its outlets stand.

use noetl_store::OutboxFacts;
use noetl_types::error::RejectCode;
use noetl_types::{Millis, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::book::Book;
use super::gauges::whole;
use super::known::Known;
use super::labels::{CodeLabels, StatusLabels, TableLabels};

#[derive(Debug, Default)]
pub(crate) struct Platform {
    dead: Counter,
    advanced: Counter,
    materialized: Counter,
    rejected: Family<CodeLabels, Counter>,
    purged: Family<TableLabels, Counter>,
    rows: Family<StatusLabels, Gauge>,
    oldest: Known,
    ahead: Known,
}

impl Platform {
    pub(super) fn registered(book: &mut Book) -> Self {
        let it = Self::default();
        let text = "Outbox rows that failed once too often";
        book.register("outbox_dead", text, it.dead.clone());
        let text = "Read models that were compared with their log";
        book.register("projection_advanced", text, it.advanced.clone());
        let text = "Events that were copied as workers tell them";
        book.register("events_materialized", text, it.materialized.clone());
        let text = "Events that could not be copied, by why";
        book.register("projector_rejected", text, it.rejected.clone());
        let text = "What retention dropped, by table; of events whole parts";
        book.register("cleanup_rows_purged", text, it.purged.clone());
        let text = "Outbox rows by status; about, where many are published";
        book.register("outbox_rows", text, it.rows.clone());
        let text = "Age of the oldest event that is still to be published";
        book.register("outbox_oldest_age_seconds", text, it.oldest.clone());
        let text = "Days for which there is room in the log";
        book.register("partitions_ahead_days", text, it.ahead.clone());
        it
    }

    /// A row of the outbox failed once too often.
    pub(crate) fn died(&self) {
        self.dead.inc();
    }

    /// Read models were compared with their logs.
    pub(crate) fn advanced(&self, count: usize) {
        self.advanced.inc_by(count as u64);
    }

    /// Events were copied as workers tell them.
    pub(crate) fn materialized(&self, count: u64) {
        self.materialized.inc_by(count);
    }

    /// An event could not be copied.
    pub(crate) fn rejected(&self, code: RejectCode) {
        let code = code.as_str();
        self.rejected
            .get_or_create_owned(&CodeLabels { code })
            .inc();
    }

    /// Retention dropped something.
    pub(crate) fn purged(&self, table: &'static str, count: u64) {
        let labels = TableLabels { table };
        self.purged.get_or_create_owned(&labels).inc_by(count);
    }

    /// How the outbox stands, as of a scrape, where that is known.
    pub(crate) fn outbox(&self, facts: Option<&OutboxFacts>, now: Timestamp) {
        self.rows.clear();
        let age = |facts: &OutboxFacts| {
            let waits = facts.oldest_unpublished.map(|oldest| now.since(oldest));
            whole(waits.unwrap_or_default().as_ms() / 1000)
        };
        self.oldest.set(facts.map(age));
        for (status, count) in facts.into_iter().flat_map(|facts| &facts.rows) {
            let status = status.as_str();
            let labels = StatusLabels { status };
            self.rows.get_or_create_owned(&labels).set(whole(*count));
        }
    }

    /// How much room there is in the log, as of a scrape: nothing to tell where that is not known, or where
    /// there are no parts.
    pub(crate) fn room(&self, room: Option<Millis>) {
        let days = |room: Millis| whole(room.as_ms() / Millis::from_days(1).as_ms());
        self.ahead.set(room.map(days));
    }
}
