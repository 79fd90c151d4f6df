//! Follow-ups: effects that the server must perform after a decision.
//!
//! A decision performs nothing. Effects outside of the execution are listed here, stored in the
//! same append as the events that they follow from, and retried until they succeed.

use noetl_types::{CommandId, ExecutionId, Text, Timestamp};

use crate::event::ChildCall;

/// An effect that the server must perform after a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// Start a child execution. Its id is fixed, so that repeating the start is idempotent.
    StartChild {
        /// The child to start.
        call: Box<ChildCall>,
        /// Nesting depth of the child.
        depth: u32,
    },
    /// Cancel a child execution that is no longer awaited.
    CancelChild {
        /// Id of the child execution.
        child: ExecutionId,
    },
    /// Find earlier broadcasts that match a wait, and send each as a signal with its time of
    /// receipt, oldest first.
    DeliverBroadcasts(BroadcastLookback),
}

/// Selects earlier broadcasts for a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastLookback {
    /// The waiting command.
    pub command: CommandId,
    /// Signal names, each with its key if the wait requires one.
    pub names: Vec<(Text, Option<Text>)>,
    /// Earliest time of receipt.
    pub since: Timestamp,
}
