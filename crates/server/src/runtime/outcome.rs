//! The outcome of an ended execution.

use noetl_engine::EventData;
use noetl_engine::event::{Event, EventKind};
use noetl_types::{ExecutionStatus, Text};

/// The final status of an execution, with its result or error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionOutcome {
    pub(crate) status: ExecutionStatus,
    /// Result, which may be stored outside of the event.
    pub(crate) result: Option<EventData>,
    /// Reason of a failure or cancellation.
    pub(crate) error: Option<Text>,
}

impl ExecutionOutcome {
    /// Returns the outcome that a terminal event records.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        let with_status = |status| Self { status, result: None, error: None };
        match &event.kind {
            EventKind::PlaybookCompleted { result } => {
                Some(Self { result: result.clone(), ..with_status(ExecutionStatus::Completed) })
            }
            EventKind::PlaybookFailed(failed) => Some(Self {
                error: Some(failed.error.message.clone()),
                ..with_status(ExecutionStatus::Failed)
            }),
            EventKind::PlaybookCancelled(control) => Some(Self {
                error: control.reason.clone(),
                ..with_status(ExecutionStatus::Cancelled)
            }),
            _ => None,
        }
    }
}
