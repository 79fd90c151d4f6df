//! Prometheus metrics of a server.
//!
//! Labels have a bounded number of values: fixed names, pools and routes, never ids or text of
//! callers. Values of the store are read at scrape time ([`StoreGauges`]), so that all servers on
//! one store report the same values.

mod components;
mod labels;
mod registry;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use noetl_types::{EventType, Millis};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;

pub(crate) use components::StoreGauges;
use components::{PeerMetrics, PlatformMetrics, SecretMetrics, StreamMetrics};
use labels::{DedupLabels, ExecuteLabels, HttpLabels, WriteLabels};
pub(crate) use labels::{EventLabels, StartEntry, StartOutcome};
use registry::{MetricRegistry, metric_set};

/// Media type of a scrape response.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: MetricRegistry,
    pub(crate) server: ServerMetrics,
    pub(crate) store_gauges: StoreGauges,
    pub(crate) platform: PlatformMetrics,
    pub(crate) secrets: SecretMetrics,
    pub(crate) stream: StreamMetrics,
    pub(crate) peers: PeerMetrics,
}

metric_set! {
    /// Metrics of executions and of HTTP requests.
    struct ServerMetrics {
        "events_ingested" "Events appended to the log" events: Family<EventLabels, Counter>;
        "event_ingest_duration_seconds" "Time to process events that classic workers post"
            ingest_seconds: Histogram = new_seconds_histogram();
        "append_seconds" "Time of an append to the log"
            append_seconds: Histogram = new_seconds_histogram();
        "append_conflicts" "Appends rejected because the log had advanced in the meantime"
            append_conflicts: Counter;
        "lease_expired" "Leases that expired before the worker reported" leases_expired: Counter;
        "result_ignored" "Results ignored because they arrived too late" results_ignored: Counter;
        "command_wait_seconds" "Time from the creation of a command to its lease"
            command_wait_seconds: Histogram = new_seconds_histogram();
        "step_latency_seconds" "Time from a worker's report to the commit of its effects"
            step_latency_seconds: Histogram = new_seconds_histogram();
        "execute_outcomes" "Requests to start an execution" executes: Family<ExecuteLabels, Counter>;
        "execute_batch_size" "Executions per batch request"
            batch_sizes: Histogram = Histogram::new(exponential_buckets(1.0, 2.0, 11));
        "dedup" "Outcome of the deduplication of messages with a key"
            dedups: Family<DedupLabels, Counter>;
        "result_store_put" "Results stored outside of the log" results_put: Counter;
        "result_store_resolve" "References to stored results that were resolved"
            results_resolved: Counter;
        "auth_failures" "Requests rejected by authentication or authorization"
            auth_failures: Counter;
        "snapshot_rejected" "Snapshots that could not be used and were deleted"
            snapshots_rejected: Counter;
        "traces_sent" "Executions whose trace was exported" traces_sent: Counter;
        "traces_dropped" "Executions whose trace was dropped" traces_dropped: Counter;
        "http_request_seconds" "Time of HTTP requests"
            http_seconds: Family<HttpLabels, Histogram> =
                Family::new_with_constructor(new_seconds_histogram);
        "write_requests" "HTTP requests that modify data" writes: Family<WriteLabels, Counter>;
        "write_requests_duration" "Time of HTTP requests that modify data"
            write_seconds: Family<WriteLabels, Histogram> =
                Family::new_with_constructor(new_seconds_histogram);
    }
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
        Self {
            server: ServerMetrics::register_in(&mut registry),
            store_gauges: StoreGauges::register_in(&mut registry),
            platform: PlatformMetrics::register_in(&mut registry),
            secrets: SecretMetrics::register_in(&mut registry),
            stream: StreamMetrics::register_in(&mut registry),
            peers: PeerMetrics::register_in(&mut registry),
            registry,
        }
    }
}

impl Metrics {
    /// Encodes all metrics as text.
    pub(crate) fn encode_text(&self) -> Result<String, fmt::Error> {
        self.registry.encode_text()
    }

    /// Records an append of events.
    pub(crate) fn record_append(&self, events: &[EventLabels], elapsed: Duration) {
        self.server.append_seconds.observe(elapsed.as_secs_f64());
        for labels in events {
            self.server.events.get_or_create_owned(labels).inc();
            if labels.has_type(EventType::CommandExpired) {
                self.server.leases_expired.inc();
            } else if labels.has_type(EventType::CommandResultIgnored) {
                self.server.results_ignored.inc();
            }
        }
    }

    /// Records the time that a command waited for its lease.
    pub(crate) fn record_lease_wait(&self, waited: Millis) {
        self.server.command_wait_seconds.observe(to_seconds(waited));
    }

    /// Counts a request to start an execution.
    pub(crate) fn count_start_request(
        &self,
        entry: StartEntry,
        outcome: StartOutcome,
        has_key: bool,
    ) {
        let labels = ExecuteLabels { entry: entry.as_str(), outcome: outcome.as_str() };
        self.server.executes.get_or_create_owned(&labels).inc();
        if let Some(verdict) = outcome.dedup_verdict().filter(|_| has_key) {
            let labels = DedupLabels { verdict };
            self.server.dedups.get_or_create_owned(&labels).inc();
        }
    }

    pub(crate) fn record_batch_size(&self, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.server.batch_sizes.observe(f64::from(size));
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
        self.server.http_seconds.get_or_create_owned(&labels).observe(elapsed);
        if is_write {
            let labels = WriteLabels { endpoint: route, status: code };
            self.server.writes.get_or_create_owned(&labels).inc();
            self.server.write_seconds.get_or_create_owned(&labels).observe(elapsed);
        }
    }
}

fn to_seconds(time: Millis) -> f64 {
    Duration::from_millis(time.as_ms()).as_secs_f64()
}
