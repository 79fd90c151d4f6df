//! Errands: what the server owes since an append, until it is done.

use noetl_types::{ExecutionId, Json, Text, Timestamp};

/// What an append does to the errands of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrandChange {
    /// Something is owed from now on, or again.
    Add {
        /// Which errand, inside of the execution.
        errand_id: Text,
        /// What is to be done; the store does not look into it.
        body: Json,
        /// When it is to be tried.
        due_at: Timestamp,
    },
    /// It is done, or no longer wanted.
    Done {
        /// Which one.
        errand_id: Text,
    },
}

impl ErrandChange {
    /// The errand that changes.
    pub fn errand_id(&self) -> &Text {
        match self {
            Self::Add { errand_id, .. } | Self::Done { errand_id } => errand_id,
        }
    }
}

/// Something that is still owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// The execution that asked for it.
    pub execution_id: ExecutionId,
    /// Which errand.
    pub errand_id: Text,
    /// What is to be done.
    pub body: Json,
    /// When it is to be tried.
    pub due_at: Timestamp,
}

/// What came of trying an errand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrandOutcome {
    /// It is done.
    Done,
    /// It is to be tried again.
    Later(Timestamp),
}
