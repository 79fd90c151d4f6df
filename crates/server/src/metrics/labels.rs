//! What counts are told apart by.

use noetl_types::{EventName, EventType, NewEvent, StatusName};
use prometheus_client::encoding::EncodeLabelSet;

/// What stands for every name that is not of our vocabulary.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EventLabels {
    event_type: &'static str,
    status: &'static str,
}

impl EventLabels {
    pub(crate) fn of(event: &NewEvent) -> Self {
        let event_type = match &event.event_type {
            EventName::Known(known) => known.as_str(),
            EventName::Other(_) => OTHER,
        };
        let status = match &event.status {
            StatusName::None => "",
            StatusName::Known(known) => known.as_str(),
            StatusName::Other(_) => OTHER,
        };
        Self { event_type, status }
    }

    pub(super) fn is(&self, event_type: EventType) -> bool {
        self.event_type == event_type.as_str()
    }
}

/// Where an execution was asked for, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExecuteLabels {
    pub(super) entry: &'static str,
    pub(super) outcome: &'static str,
}

/// Where an execution was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    /// Alone.
    #[default]
    Single,
    /// Among others.
    Batch,
}

impl Entry {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
        }
    }
}

/// What came of the wish for an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// It began.
    Started,
    /// It had begun before.
    Duplicate,
    /// It did not begin.
    Refused,
}

impl Outcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Duplicate => "duplicate",
            Self::Refused => "refused",
        }
    }

    /// What became of its key, where it has one.
    pub(super) const fn verdict(self) -> Option<&'static str> {
        match self {
            Self::Started => Some("fresh"),
            Self::Duplicate => Some("duplicate"),
            Self::Refused => None,
        }
    }
}

/// What became of a message that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DedupLabels {
    pub(super) verdict: &'static str,
}

/// A request, by its route and the status of its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HttpLabels {
    pub(super) route: &'static str,
    pub(super) code: u16,
}

/// The same, under the names of earlier releases.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) endpoint: &'static str,
    pub(super) status: u16,
}

/// Commands of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolLabels {
    pub(super) pool: String,
    pub(super) status: &'static str,
}

/// Executions by where they stand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StatusLabels {
    pub(super) status: &'static str,
}

/// For what is there once, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NoLabels {}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CodeLabels {
    pub(super) code: &'static str,
}

/// Something that was done to a secret, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SecretLabels {
    pub(super) operation: &'static str,
    pub(super) outcome: &'static str,
}

/// What came of something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) outcome: &'static str,
}

/// What rows are of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TableLabels {
    pub(super) table: &'static str,
}
