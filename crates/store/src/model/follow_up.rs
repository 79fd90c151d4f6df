//! Follow-ups: work that an append requires from the server, stored until it is done.

use noetl_types::{ExecutionId, Json, Text, Timestamp};

/// A change that an append makes to the follow-ups of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUpChange {
    /// Adds or reschedules a follow-up.
    Add {
        /// Id within the execution.
        errand_id: Text,
        /// Description of the work. The store does not interpret it.
        body: Json,
        /// Time of the next attempt.
        due_at: Timestamp,
    },
    /// Removes a follow-up that is done or no longer needed.
    Done { errand_id: Text },
}

impl FollowUpChange {
    pub fn follow_up_id(&self) -> &Text {
        match self {
            Self::Add { errand_id, .. } | Self::Done { errand_id } => errand_id,
        }
    }
}

/// A follow-up that is not done yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFollowUp {
    pub execution_id: ExecutionId,
    pub follow_up_id: Text,
    /// Description of the work.
    pub body: Json,
    /// Time of the next attempt.
    pub due_at: Timestamp,
}

/// Outcome of an attempt at a follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUpOutcome {
    Done,
    /// Retry at this time.
    RetryAt(Timestamp),
}
