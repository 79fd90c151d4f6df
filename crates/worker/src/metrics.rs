//! What a worker counts, for Prometheus.
//!
//! Labels are bounded: kinds of tools and words of our own, never ids or what playbooks say.

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

/// What stands for every kind that this build does not know.
const OTHER: &str = "other";

/// The kind of a command's first tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// The same, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RenewalLabels {
    outcome: &'static str,
}

/// What became of the wish to keep a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It is the worker's for longer.
    Kept,
    /// It is somebody else's, or nobody wants the command any more.
    Lost,
    /// The server did not answer.
    Unanswered,
}

impl Renewal {
    const ALL: [Self; 3] = [Self::Kept, Self::Lost, Self::Unanswered];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Lost => "lost",
            Self::Unanswered => "unanswered",
        }
    }
}

/// Everything that a worker counts.
pub struct Metrics {
    registry: Registry,
    commands: Family<CommandLabels, Counter>,
    seconds: Family<KindLabels, Histogram>,
    in_flight: Gauge,
    slots: Gauge,
    renewals: Family<RenewalLabels, Counter>,
    dropped: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// From a millisecond to about an hour.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 3.0, 15))
}

impl Metrics {
    /// Of a worker that runs so many commands at once.
    pub(crate) fn of(max_concurrent: u32) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("noetl"),
            commands: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            slots: Gauge::default(),
            renewals: Family::default(),
            dropped: Counter::default(),
        };
        metrics.register();
        metrics.slots.set(max_concurrent.into());
        for renewal in Renewal::ALL {
            // There from the beginning, so that the first of them is seen as a rise.
            metrics.renewed(renewal, 0);
        }
        metrics
    }

    fn register(&mut self) {
        macro_rules! register {
            ($($name:literal $help:literal $field:ident)*) => {
                $( self.registry.register($name, $help, self.$field.clone()); )*
            };
        }
        register! {
            "worker_commands" "Commands that ended here, by what became of them" commands
            "worker_command_seconds" "From the start of a command to its end" seconds
            "worker_in_flight" "Commands that are run right now" in_flight
            "worker_slots" "Commands that may be run at once" slots
            "worker_lease_renewals" "Leases that were asked to be kept" renewals
            "worker_results_dropped" "Results that the server did not take" dropped
        }
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        self.registry
            .register("build", "Which build this is", build);
    }

    /// Everything, as a scrape gets it.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// A command begins.
    pub(crate) fn begins(self: &Arc<Self>, command: &LeasedCommand) -> InFlight {
        self.in_flight.inc();
        let kind = ToolKind::find(&command.action).map_or(OTHER, ToolKind::as_str);
        InFlight {
            metrics: Arc::clone(self),
            kind,
            outcome: "abandoned",
        }
    }

    /// Leases were to be kept.
    pub(crate) fn renewed(&self, renewal: Renewal, leases: u64) {
        let labels = RenewalLabels {
            outcome: renewal.as_str(),
        };
        self.renewals.get_or_create_owned(&labels).inc_by(leases);
    }

    /// A result is told to nobody.
    pub(crate) fn dropped(&self) {
        self.dropped.inc();
    }
}

/// A command that is run. However it ends, it is counted once.
pub(crate) struct InFlight {
    metrics: Arc<Metrics>,
    kind: &'static str,
    outcome: &'static str,
}

impl InFlight {
    /// It ended by itself, so long after it began.
    pub(crate) fn ends(mut self, report: &CommandReport, took: Duration) {
        self.outcome = match report.status {
            ReportStatus::Completed => "completed",
            ReportStatus::Failed => "failed",
            // What goes on without the worker.
            ReportStatus::Parked | ReportStatus::Progress => "parked",
        };
        let labels = KindLabels { kind: self.kind };
        let seconds = self.metrics.seconds.get_or_create_owned(&labels);
        seconds.observe(took.as_secs_f64());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
        let labels = CommandLabels {
            kind: self.kind,
            outcome: self.outcome,
        };
        self.metrics.commands.get_or_create_owned(&labels).inc();
    }
}
