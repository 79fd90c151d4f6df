//! Prometheus metrics of a server.
//!
//! Labels have a bounded number of values: fixed names, pools and routes, never ids or text of
//! callers. Values of the store are read at scrape time ([`store_gauges`]), so that all servers on
//! one store report the same values.

mod labels;
mod optional_gauge;
mod peers;
mod platform;
mod registry;
mod secrets;
mod store_gauges;
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

use labels::{DedupLabels, ExecuteLabels, HttpLabels, WriteLabels};
pub(crate) use labels::{EventLabels, StartEntry, StartOutcome};
use peers::PeerMetrics;
use platform::PlatformMetrics;
use registry::MetricRegistry;
use secrets::SecretMetrics;
pub(crate) use store_gauges::StoreGauges;
use stream::StreamMetrics;

/// Media type of a scrape response.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: MetricRegistry,
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
    store_gauges: StoreGauges,
    platform: PlatformMetrics,
    secrets: SecretMetrics,
    stream: StreamMetrics,
    peers: PeerMetrics,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Creates a histogram with buckets from 0.1 ms to about 90 s.
fn new_seconds_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.5, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = MetricRegistry::new();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of this build", build);
        let mut metrics = Self {
            store_gauges: StoreGauges::register_in(&mut registry),
            platform: PlatformMetrics::register_in(&mut registry),
            secrets: SecretMetrics::register_in(&mut registry),
            stream: StreamMetrics::register_in(&mut registry),
            peers: PeerMetrics::register_in(&mut registry),
            registry,
            events: Family::default(),
            append_seconds: new_seconds_histogram(),
            ingest_seconds: new_seconds_histogram(),
            append_conflicts: Counter::default(),
            leases_expired: Counter::default(),
            results_ignored: Counter::default(),
            command_wait_seconds: new_seconds_histogram(),
            step_latency_seconds: new_seconds_histogram(),
            executes: Family::default(),
            batch_sizes: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            dedups: Family::default(),
            results_put: Counter::default(),
            results_resolved: Counter::default(),
            auth_failures: Counter::default(),
            snapshots_rejected: Counter::default(),
            traces_sent: Counter::default(),
            traces_dropped: Counter::default(),
            http_seconds: Family::new_with_constructor(new_seconds_histogram),
            writes: Family::default(),
            write_seconds: Family::new_with_constructor(new_seconds_histogram),
        };
        metrics.register_own();
        metrics
    }
}

impl Metrics {
    fn register_own(&mut self) {
        macro_rules! register {
            ($($name:literal $help:literal $field:ident)*) => {
                $( self.registry.register($name, $help, self.$field.clone()); )*
            };
        }
        register! {
            "events_ingested" "Events appended to the log" events
            "event_ingest_duration_seconds" "Time to process events that classic workers post" ingest_seconds
            "append_seconds" "Time of an append to the log" append_seconds
            "append_conflicts" "Appends rejected because the log had advanced in the meantime" append_conflicts
            "lease_expired" "Leases that expired before the worker reported" leases_expired
            "result_ignored" "Results ignored because they arrived too late" results_ignored
            "command_wait_seconds" "Time from the creation of a command to its lease" command_wait_seconds
            "step_latency_seconds" "Time from a worker's report to the commit of its effects" step_latency_seconds
            "execute_outcomes" "Requests to start an execution" executes
            "execute_batch_size" "Executions per batch request" batch_sizes
            "dedup" "Outcome of the deduplication of messages with a key" dedups
            "result_store_put" "Results stored outside of the log" results_put
            "result_store_resolve" "References to stored results that were resolved" results_resolved
            "auth_failures" "Requests rejected by authentication or authorization" auth_failures
            "snapshot_rejected" "Snapshots that could not be used and were deleted" snapshots_rejected
            "traces_sent" "Executions whose trace was exported" traces_sent
            "traces_dropped" "Executions whose trace was dropped" traces_dropped
            "http_request_seconds" "Time of HTTP requests" http_seconds
            "write_requests" "HTTP requests that modify data" writes
            "write_requests_duration" "Time of HTTP requests that modify data" write_seconds
        }
    }

    pub(crate) fn count_rejected_snapshot(&self) {
        self.snapshots_rejected.inc();
    }

    pub(crate) fn count_sent_traces(&self, count: u64) {
        self.traces_sent.inc_by(count);
    }

    pub(crate) fn count_dropped_traces(&self, count: u64) {
        self.traces_dropped.inc_by(count);
    }

    /// Encodes all metrics as text.
    pub(crate) fn encode_text(&self) -> Result<String, fmt::Error> {
        self.registry.encode_text()
    }

    pub(crate) const fn store_gauges(&self) -> &StoreGauges {
        &self.store_gauges
    }

    pub(crate) const fn platform(&self) -> &PlatformMetrics {
        &self.platform
    }

    pub(crate) const fn secrets(&self) -> &SecretMetrics {
        &self.secrets
    }

    pub(crate) const fn stream(&self) -> &StreamMetrics {
        &self.stream
    }

    pub(crate) const fn peers(&self) -> &PeerMetrics {
        &self.peers
    }

    /// Records an append of events.
    pub(crate) fn record_append(&self, events: &[EventLabels], elapsed: Duration) {
        self.append_seconds.observe(elapsed.as_secs_f64());
        for labels in events {
            self.events.get_or_create_owned(labels).inc();
            if labels.has_type(EventType::CommandExpired) {
                self.leases_expired.inc();
            } else if labels.has_type(EventType::CommandResultIgnored) {
                self.results_ignored.inc();
            }
        }
    }

    /// Records the processing time of events of a classic worker.
    pub(crate) fn record_ingest(&self, elapsed: Duration) {
        self.ingest_seconds.observe(elapsed.as_secs_f64());
    }

    /// Counts an append that was rejected because the log had advanced.
    pub(crate) fn count_append_conflict(&self) {
        self.append_conflicts.inc();
    }

    /// Records the time that a command waited for its lease.
    pub(crate) fn record_lease_wait(&self, waited: Millis) {
        self.command_wait_seconds.observe(to_seconds(waited));
    }

    /// Records the time from a report to the commit of its effects.
    pub(crate) fn record_report_latency(&self, elapsed: Duration) {
        self.step_latency_seconds.observe(elapsed.as_secs_f64());
    }

    /// Counts a request to start an execution.
    pub(crate) fn count_start_request(
        &self,
        entry: StartEntry,
        outcome: StartOutcome,
        has_key: bool,
    ) {
        let labels = ExecuteLabels { entry: entry.as_str(), outcome: outcome.as_str() };
        self.executes.get_or_create_owned(&labels).inc();
        if let Some(verdict) = outcome.dedup_verdict().filter(|_| has_key) {
            let labels = DedupLabels { verdict };
            self.dedups.get_or_create_owned(&labels).inc();
        }
    }

    pub(crate) fn record_batch_size(&self, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.batch_sizes.observe(f64::from(size));
    }

    pub(crate) fn count_stored_result(&self) {
        self.results_put.inc();
    }

    pub(crate) fn count_resolved_result(&self) {
        self.results_resolved.inc();
    }

    pub(crate) fn count_auth_failure(&self) {
        self.auth_failures.inc();
    }

    /// Records a request and its duration.
    pub(crate) fn record_http_request(
        &self,
        route: &'static str,
        is_write: bool,
        code: u16,
        elapsed: Duration,
    ) {
        let elapsed = elapsed.as_secs_f64();
        let labels = HttpLabels { route, code };
        self.http_seconds.get_or_create_owned(&labels).observe(elapsed);
        if is_write {
            let labels = WriteLabels { endpoint: route, status: code };
            self.writes.get_or_create_owned(&labels).inc();
            self.write_seconds.get_or_create_owned(&labels).observe(elapsed);
        }
    }
}

fn to_seconds(time: Millis) -> f64 {
    Duration::from_millis(time.as_ms()).as_secs_f64()
}
