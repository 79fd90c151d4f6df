//! Metrics, as Prometheus reads them.
//!
//! What the store knows is asked of it when somebody looks; what happens in this process is counted
//! where it happens. Labels have few values, and never an id.

use std::fmt::{self, Write as _};

use noetl_types::error::RejectCode;

use super::identity;
use crate::runtime::{Runtime, RuntimeError};

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a metric does over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until the process ends.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it does over time.
    pub kind: MetricKind,
    /// What it says.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    let kind = MetricKind::Counter;
    Metric { name, kind, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    let kind = MetricKind::Gauge;
    Metric { name, kind, help }
}

/// Every metric, in the order in which they are written.
pub static METRICS: [Metric; 11] = [
    BUILD,
    EXECUTIONS,
    COMMANDS,
    OUTBOX,
    OLDEST,
    DEAD,
    REJECTED,
    ADVANCED,
    MATERIALIZED,
    PURGED,
    AHEAD,
];

const BUILD: Metric = gauge("noetl_build_info", "What runs here");
const EXECUTIONS: Metric = gauge("noetl_executions", "Runs, by status");
const COMMANDS: Metric = gauge("noetl_commands", "Open commands, by pool and status");
const OUTBOX: Metric = gauge("noetl_outbox_rows", "Rows of the outbox, by status");
const OLDEST: Metric = gauge(
    "noetl_outbox_oldest_age_seconds",
    "Age of the oldest event that is still to be published",
);
const DEAD: Metric = counter("noetl_outbox_dead_total", "Rows that failed once too often");
const REJECTED: Metric = counter(
    "noetl_projector_rejected_total",
    "Events that could not be copied, by why",
);
const ADVANCED: Metric = counter(
    "noetl_projection_advanced_total",
    "Read models that followed",
);
const MATERIALIZED: Metric = counter(
    "noetl_events_materialized_total",
    "Events that were copied as workers tell them",
);
const PURGED: Metric = counter(
    "noetl_cleanup_rows_purged_total",
    "What retention dropped: rows, or of events whole parts, by table",
);
const AHEAD: Metric = gauge(
    "noetl_partitions_ahead_days",
    "Days for which there is room in the log",
);

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Labels of a sample.
type Labels<'l> = &'l [(&'l str, &'l str)];

/// The text that grows.
#[derive(Default)]
struct Page(String);

impl Page {
    fn begin(&mut self, metric: &Metric) -> &mut Self {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        // Writing into a text cannot fail.
        let _ = writeln!(self.0, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(self.0, "# TYPE {} {kind}", metric.name);
        self
    }

    fn sample(&mut self, metric: &Metric, labels: Labels<'_>, value: impl fmt::Display) {
        self.0.push_str(metric.name);
        for (place, (name, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let text = text.replace('\n', "\\n");
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{name}=\"{text}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    fn one(&mut self, metric: &Metric, value: impl fmt::Display) {
        self.begin(metric).sample(metric, &[], value);
    }
}

impl Runtime {
    /// The metrics as text.
    pub async fn metrics(&self) -> Result<String, RuntimeError> {
        let mut page = Page::default();
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.begin(&BUILD).sample(&BUILD, &version, 1);
        self.of_executions(&mut page).await?;
        self.of_outbox(&mut page).await?;
        self.of_process(&mut page);
        Ok(page.0)
    }

    async fn of_executions(&self, page: &mut Page) -> Result<(), RuntimeError> {
        let counts = self.store().counts(&identity::tenant()).await?;
        page.begin(&EXECUTIONS);
        for (status, count) in counts.executions {
            page.sample(&EXECUTIONS, &[("status", status.as_str())], count);
        }
        page.begin(&COMMANDS);
        for one in self.store().pool_counts().await? {
            let pool = one.pool.as_str();
            let pending = [("pool", pool), ("status", "PENDING")];
            page.sample(&COMMANDS, &pending, one.pending);
            let claimed = [("pool", pool), ("status", "CLAIMED")];
            page.sample(&COMMANDS, &claimed, one.leased);
        }
        Ok(())
    }

    async fn of_outbox(&self, page: &mut Page) -> Result<(), RuntimeError> {
        let facts = self.store().outbox_facts().await?;
        page.begin(&OUTBOX);
        for (status, count) in facts.rows {
            page.sample(&OUTBOX, &[("status", status.as_str())], count);
        }
        let now = self.now();
        let age = facts
            .oldest_unpublished
            .map_or(0, |oldest| now.since(oldest).as_ms());
        page.one(&OLDEST, age / 1000);
        if let Some(until) = self.store().months_until().await? {
            page.one(&AHEAD, until.since(now).as_ms() / DAY_MS);
        }
        Ok(())
    }

    fn of_process(&self, page: &mut Page) {
        let tally = self.tally();
        page.one(&DEAD, tally.outbox_dead.get());
        page.begin(&REJECTED);
        for code in RejectCode::ALL {
            let count = tally.rejected(*code).get();
            page.sample(&REJECTED, &[("code", code.as_str())], count);
        }
        page.one(&ADVANCED, tally.advanced.get());
        page.one(&MATERIALIZED, tally.materialized.get());
        page.begin(&PURGED);
        for (table, count) in [
            ("command", &tally.purged_commands),
            ("event", &tally.purged_parts),
            ("outbox", &tally.purged_outbox),
            ("runtime", &tally.purged_runtimes),
        ] {
            page.sample(&PURGED, &[("table", table)], count.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted() {
        let mut page = Page::default();
        page.sample(&OUTBOX, &[("a", "x\"y\\z\n"), ("b", "")], 3);
        assert_eq!(page.0, "noetl_outbox_rows{a=\"x\\\"y\\\\z\\n\",b=\"\"} 3\n");
    }
}
