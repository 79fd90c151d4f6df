//! Prometheus metrics of a worker.
//!
//! Labels are bounded: kinds of tools and fixed strings, never ids or values from playbooks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{CommandReport, LeasedCommand, ReportStatus};
use noetl_playbook::model::ToolKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Label of all tool kinds that this build does not know.
const OTHER_KIND: &str = "other";

/// Label: the kind of a command's first tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// Labels: the kind of a command's first tool, and the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RenewalLabels {
    outcome: &'static str,
}

/// Outcome of a lease renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenewalOutcome {
    /// The lease was extended.
    Kept,
    /// The lease belongs to another worker, or the command was cancelled.
    Lost,
    /// The server did not respond.
    Unanswered,
}

impl RenewalOutcome {
    const ALL: [Self; 3] = [Self::Kept, Self::Lost, Self::Unanswered];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Lost => "lost",
            Self::Unanswered => "unanswered",
        }
    }
}

/// All metrics of a worker.
pub struct WorkerMetrics {
    registry: Registry,
    commands: Family<CommandLabels, Counter>,
    seconds: Family<KindLabels, Histogram>,
    in_flight: Gauge,
    slots: Gauge,
    renewals: Family<RenewalLabels, Counter>,
    dropped: Counter,
}

impl fmt::Debug for WorkerMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WorkerMetrics").finish_non_exhaustive()
    }
}

/// Buckets from a millisecond to about an hour.
fn duration_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 3.0, 15))
}

impl WorkerMetrics {
    /// Creates the metrics of a worker with this concurrency.
    pub(crate) fn for_concurrency(max_concurrent: u32) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("noetl"),
            commands: Family::default(),
            seconds: Family::new_with_constructor(duration_histogram),
            in_flight: Gauge::default(),
            slots: Gauge::default(),
            renewals: Family::default(),
            dropped: Counter::default(),
        };
        metrics.register_all();
        metrics.slots.set(max_concurrent.into());
        for renewal in RenewalOutcome::ALL {
            // Initialized to zero, so that the first renewal is visible as an increase.
            metrics.count_renewals(renewal, 0);
        }
        metrics
    }

    fn register_all(&mut self) {
        macro_rules! register {
            ($($name:literal $help:literal $field:ident)*) => {
                $( self.registry.register($name, $help, self.$field.clone()); )*
            };
        }
        register! {
            "worker_commands" "Commands that ended on this worker, by outcome" commands
            "worker_command_seconds" "Duration of commands" seconds
            "worker_in_flight" "Commands that are running" in_flight
            "worker_slots" "Maximum number of concurrent commands" slots
            "worker_lease_renewals" "Lease renewals, by outcome" renewals
            "worker_results_dropped" "Results that were dropped because the server did not accept them" dropped
        }
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        self.registry.register("build", "Version of this build", build);
    }

    /// Encodes all metrics in the Prometheus text format.
    pub fn to_text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts the start of a command.
    pub(crate) fn start_command(self: &Arc<Self>, command: &LeasedCommand) -> InFlight {
        self.in_flight.inc();
        let kind = ToolKind::find_by_name(&command.action).map_or(OTHER_KIND, ToolKind::as_str);
        InFlight { metrics: Arc::clone(self), kind, outcome: "abandoned" }
    }

    /// Counts lease renewals.
    pub(crate) fn count_renewals(&self, renewal: RenewalOutcome, leases: u64) {
        let labels = RenewalLabels { outcome: renewal.as_str() };
        self.renewals.get_or_create_owned(&labels).inc_by(leases);
    }

    /// Counts a dropped result.
    pub(crate) fn count_dropped(&self) {
        self.dropped.inc();
    }
}

/// A running command. It is counted exactly once when it is dropped.
pub(crate) struct InFlight {
    metrics: Arc<WorkerMetrics>,
    kind: &'static str,
    outcome: &'static str,
}

impl InFlight {
    /// Records the outcome and the duration of the command.
    pub(crate) fn finish_command(mut self, report: &CommandReport, duration: Duration) {
        self.outcome = match report.status {
            ReportStatus::Completed => "completed",
            ReportStatus::Failed => "failed",
            // The command continues without the worker.
            ReportStatus::Suspended | ReportStatus::Progress => "suspended",
        };
        let labels = KindLabels { kind: self.kind };
        let seconds = self.metrics.seconds.get_or_create_owned(&labels);
        seconds.observe(duration.as_secs_f64());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
        let labels = CommandLabels { kind: self.kind, outcome: self.outcome };
        self.metrics.commands.get_or_create_owned(&labels).inc();
    }
}
