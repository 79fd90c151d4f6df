//! How an execution ended.

use noetl_engine::Data;
use noetl_engine::event::{Event, EventKind};
use noetl_types::{ExecutionStatus, Text};

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: ExecutionStatus,
    /// What came out; it may be kept elsewhere.
    pub(crate) result: Option<Data>,
    /// Why it failed.
    pub(crate) error: Option<Text>,
}

impl Outcome {
    /// What an event says about the end, if it is one.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let ended = |status| Self {
            status,
            result: None,
            error: None,
        };
        match &event.kind {
            EventKind::PlaybookCompleted { result } => Some(Self {
                result: result.clone(),
                ..ended(ExecutionStatus::Completed)
            }),
            EventKind::PlaybookFailed(failed) => Some(Self {
                error: Some(failed.error.message.clone()),
                ..ended(ExecutionStatus::Failed)
            }),
            EventKind::PlaybookCancelled(steering) => Some(Self {
                error: steering.reason.clone(),
                ..ended(ExecutionStatus::Cancelled)
            }),
            _ => None,
        }
    }
}
