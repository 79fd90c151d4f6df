//! Errands: what the server owes the world since a decision.
//!
//! A decision performs nothing. What has to happen outside of the run is named here, to be written
//! down in the same append as the events that it follows from, and done until it is done.

use noetl_types::{CommandId, ExecutionId, Text, Timestamp};

use crate::event::ChildCall;

/// Something that the server owes since a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// Start a run. Its id is given, so that doing it twice is doing it once.
    StartChild {
        /// What is to be run.
        call: Box<ChildCall>,
        /// How many runs stand above it.
        depth: u32,
    },
    /// Cancel a run that nobody waits for any more.
    CancelChild {
        /// The run.
        child: ExecutionId,
    },
    /// Look for broadcasts that a wait may still take, and send each as a signal with the time at
    /// which it came, oldest first.
    LookBack(LookBack),
}

/// Broadcasts that a wait may still take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookBack {
    /// The command that waits.
    pub command: CommandId,
    /// Names, each with its key where only that one is wanted.
    pub names: Vec<(Text, Option<Text>)>,
    /// The earliest time that counts.
    pub since: Timestamp,
}
