//! What a server counts, for Prometheus.
//!
//! Labels are bounded: names of our own, of pools and of routes, never ids or what callers write.
//! What the store knows is read from it when somebody asks ([`gauges`]), so that several servers on
//! one store tell the same.

mod book;
mod gauges;
mod known;
mod labels;
mod neighbours;
mod platform;
mod secrets;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use noetl_types::{EventType, Millis};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;

use book::Book;
pub(crate) use gauges::Gauges;
use labels::{DedupLabels, ExecuteLabels, HttpLabels, WriteLabels};
pub(crate) use labels::{Entry, EventLabels, Outcome};
use neighbours::Neighbours;
use platform::Platform;
use secrets::Secrets;
use stream::Stream;

/// What an answer to a scrape is.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that is counted as it happens.
pub(crate) struct Metrics {
    book: Book,
    events: Family<EventLabels, Counter>,
    append_seconds: Histogram,
    ingest_seconds: Histogram,
    append_conflicts: Counter,
    leases_expired: Counter,
    results_ignored: Counter,
    command_wait_seconds: Histogram,
    step_latency_seconds: Histogram,
    executes: Family<ExecuteLabels, Counter>,
    batch_sizes: Histogram,
    dedups: Family<DedupLabels, Counter>,
    results_put: Counter,
    results_resolved: Counter,
    auth_failures: Counter,
    snapshots_rejected: Counter,
    http_seconds: Family<HttpLabels, Histogram>,
    writes: Family<WriteLabels, Counter>,
    write_seconds: Family<WriteLabels, Histogram>,
    traces_sent: Counter,
    traces_dropped: Counter,
    gauges: Gauges,
    platform: Platform,
    secrets: Secrets,
    stream: Stream,
    neighbours: Neighbours,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// From a tenth of a millisecond to about a minute and a half.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.5, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut book = Book::new();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        book.register("build", "Which build this is", build);
        let mut metrics = Self {
            gauges: Gauges::registered(&mut book),
            platform: Platform::registered(&mut book),
            secrets: Secrets::registered(&mut book),
            stream: Stream::registered(&mut book),
            neighbours: Neighbours::registered(&mut book),
            book,
            events: Family::default(),
            append_seconds: seconds(),
            ingest_seconds: seconds(),
            append_conflicts: Counter::default(),
            leases_expired: Counter::default(),
            results_ignored: Counter::default(),
            command_wait_seconds: seconds(),
            step_latency_seconds: seconds(),
            executes: Family::default(),
            batch_sizes: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            dedups: Family::default(),
            results_put: Counter::default(),
            results_resolved: Counter::default(),
            auth_failures: Counter::default(),
            snapshots_rejected: Counter::default(),
            traces_sent: Counter::default(),
            traces_dropped: Counter::default(),
            http_seconds: Family::new_with_constructor(seconds),
            writes: Family::default(),
            write_seconds: Family::new_with_constructor(seconds),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        macro_rules! register {
            ($($name:literal $help:literal $field:ident)*) => {
                $( self.book.register($name, $help, self.$field.clone()); )*
            };
        }
        register! {
            "events_ingested" "Events that came into the log" events
            "event_ingest_duration_seconds" "How long it took to take events that workers tell one by one" ingest_seconds
            "append_seconds" "How long an append to the log took" append_seconds
            "append_conflicts" "Appends that found the log further than they believed" append_conflicts
            "lease_expired" "Leases that ran out before their worker reported" leases_expired
            "result_ignored" "Results that came too late to count" results_ignored
            "command_wait_seconds" "From the issue of a command to its grant" command_wait_seconds
            "step_latency_seconds" "From a worker's report to the commit of what follows from it" step_latency_seconds
            "execute_outcomes" "Requests to start an execution" executes
            "execute_batch_size" "Executions that one batch asks for" batch_sizes
            "dedup" "What became of messages that carry a key" dedups
            "result_store_put" "Results that were put aside" results_put
            "result_store_resolve" "References that were resolved" results_resolved
            "auth_failures" "Requests without an identity, or beyond what it may do" auth_failures
            "snapshot_rejected" "Snapshots that could not be used, and were dropped" snapshots_rejected
            "traces_sent" "Runs whose trace was sent" traces_sent
            "traces_dropped" "Runs whose trace was lost" traces_dropped
            "http_request_seconds" "How long requests took" http_seconds
            "write_requests" "Requests that change something" writes
            "write_requests_duration" "How long requests that change something took" write_seconds
        }
    }

    /// A snapshot could not be used.
    pub(crate) fn snapshot_rejected(&self) {
        self.snapshots_rejected.inc();
    }

    /// Traces of runs were sent.
    pub(crate) fn traces_sent(&self, runs: u64) {
        self.traces_sent.inc_by(runs);
    }

    /// Traces of runs were lost.
    pub(crate) fn traces_dropped(&self, runs: u64) {
        self.traces_dropped.inc_by(runs);
    }

    /// Everything, as a scrape gets it.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        self.book.text()
    }

    /// What is read from the store.
    pub(crate) const fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// What the platform does for itself.
    pub(crate) const fn platform(&self) -> &Platform {
        &self.platform
    }

    /// What is done to secrets.
    pub(crate) const fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// How the log goes out.
    pub(crate) const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// How the servers on one store hear each other.
    pub(crate) const fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Events were appended.
    pub(crate) fn appended(&self, events: &[EventLabels], took: Duration) {
        self.append_seconds.observe(took.as_secs_f64());
        for labels in events {
            self.events.get_or_create_owned(labels).inc();
            if labels.is(EventType::CommandExpired) {
                self.leases_expired.inc();
            } else if labels.is(EventType::CommandResultIgnored) {
                self.results_ignored.inc();
            }
        }
    }

    /// Events that a worker told one by one were taken, in so long.
    pub(crate) fn ingested(&self, took: Duration) {
        self.ingest_seconds.observe(took.as_secs_f64());
    }

    /// An append found the log further than its decision believed.
    pub(crate) fn conflicted(&self) {
        self.append_conflicts.inc();
    }

    /// A command was granted, so long after its issue.
    pub(crate) fn granted(&self, waited: Millis) {
        self.command_wait_seconds.observe(in_seconds(waited));
    }

    /// A report came and what follows from it is written.
    pub(crate) fn reported(&self, took: Duration) {
        self.step_latency_seconds.observe(took.as_secs_f64());
    }

    /// An execution was asked for.
    pub(crate) fn executed(&self, entry: Entry, outcome: Outcome, has_key: bool) {
        let labels = ExecuteLabels {
            entry: entry.as_str(),
            outcome: outcome.as_str(),
        };
        self.executes.get_or_create_owned(&labels).inc();
        if let Some(verdict) = outcome.verdict().filter(|_| has_key) {
            let labels = DedupLabels { verdict };
            self.dedups.get_or_create_owned(&labels).inc();
        }
    }

    /// So many executions were asked for at once.
    pub(crate) fn batched(&self, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.batch_sizes.observe(f64::from(size));
    }

    /// A result was put aside.
    pub(crate) fn put_result(&self) {
        self.results_put.inc();
    }

    /// A reference was resolved.
    pub(crate) fn resolved_result(&self) {
        self.results_resolved.inc();
    }

    /// Somebody was nobody, or not allowed.
    pub(crate) fn denied(&self) {
        self.auth_failures.inc();
    }

    /// A request to a route was answered.
    pub(crate) fn answered(&self, route: &'static str, is_write: bool, code: u16, took: Duration) {
        let took = took.as_secs_f64();
        let labels = HttpLabels { route, code };
        self.http_seconds.get_or_create_owned(&labels).observe(took);
        if is_write {
            let labels = WriteLabels {
                endpoint: route,
                status: code,
            };
            self.writes.get_or_create_owned(&labels).inc();
            self.write_seconds
                .get_or_create_owned(&labels)
                .observe(took);
        }
    }
}

fn in_seconds(time: Millis) -> f64 {
    Duration::from_millis(time.as_ms()).as_secs_f64()
}
