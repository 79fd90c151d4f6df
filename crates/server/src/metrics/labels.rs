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

/// Declares label sets. Label values are fixed texts unless a type is given.
macro_rules! label_sets {
    ($($set:ident { $($label:ident $(: $kind:ty)?),* })+) => {$(
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(crate) struct $set { $(pub(super) $label: label_sets!(@kind $($kind)?),)* }
    )+};
    (@kind) => { &'static str };
    (@kind $kind:ty) => { $kind };
}

label_sets! {
    ExecuteLabels { entry, outcome }
    DedupLabels { verdict }
    HttpLabels { route, code: u16 }
    // The label names are those of earlier releases.
    WriteLabels { endpoint, status: u16 }
    PoolLabels { pool: String, status }
    StatusLabels { status }
    CodeLabels { code }
    SecretLabels { operation, outcome }
    OutcomeLabels { outcome }
    TableLabels { table }
    // For a metric that is absent until it is set.
    NoLabels {}
}
