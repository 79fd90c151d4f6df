//! Label sets of metrics.

use noetl_types::{EventName, EventType, NewEvent, StatusName};
use prometheus_client::encoding::EncodeLabelSet;

/// Label value for all names that are not predefined.
const OTHER_NAME: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EventLabels {
    event_type: &'static str,
    status: &'static str,
}

impl EventLabels {
    pub(crate) fn from_event(event: &NewEvent) -> Self {
        let event_type = match &event.event_type {
            EventName::Known(known) => known.as_str(),
            EventName::Other(_) => OTHER_NAME,
        };
        let status = match &event.status {
            StatusName::None => "",
            StatusName::Known(known) => known.as_str(),
            StatusName::Other(_) => OTHER_NAME,
        };
        Self { event_type, status }
    }

    pub(super) fn has_type(&self, event_type: EventType) -> bool {
        self.event_type == event_type.as_str()
    }
}

/// Labels of requests to start an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExecuteLabels {
    pub(super) entry: &'static str,
    pub(super) outcome: &'static str,
}

/// Kind of request that starts an execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum StartEntry {
    /// A request for one execution.
    #[default]
    Single,
    /// A batch request.
    Batch,
}

impl StartEntry {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
        }
    }
}

/// Outcome of a request to start an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StartOutcome {
    /// A new execution started.
    Started,
    /// The execution existed already.
    Duplicate,
    /// No execution started.
    Refused,
}

impl StartOutcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Duplicate => "duplicate",
            Self::Refused => "refused",
        }
    }

    /// Verdict about the deduplication key of the request.
    pub(super) const fn dedup_verdict(self) -> Option<&'static str> {
        match self {
            Self::Started => Some("fresh"),
            Self::Duplicate => Some("duplicate"),
            Self::Refused => None,
        }
    }
}

/// Labels of messages with a deduplication key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DedupLabels {
    pub(super) verdict: &'static str,
}

/// Labels of requests: route and response status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HttpLabels {
    pub(super) route: &'static str,
    pub(super) code: u16,
}

/// Labels of write requests, with the label names of earlier releases.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) endpoint: &'static str,
    pub(super) status: u16,
}

/// Labels of open commands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolLabels {
    pub(super) pool: String,
    pub(super) status: &'static str,
}

/// Labels of values by status.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StatusLabels {
    pub(super) status: &'static str,
}

/// Empty label set, for a metric that is absent until it is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NoLabels {}

/// Labels of rejections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CodeLabels {
    pub(super) code: &'static str,
}

/// Labels of operations on secrets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SecretLabels {
    pub(super) operation: &'static str,
    pub(super) outcome: &'static str,
}

/// Labels of values by outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) outcome: &'static str,
}

/// Labels of values by table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TableLabels {
    pub(super) table: &'static str,
}
