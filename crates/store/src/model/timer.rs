//! Open timers: when the runtime has to look at an execution again.

use noetl_types::{ExecutionId, Text, Timestamp};

/// What an append does to the timers of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimerChange {
    /// A timer opens, or gets another time.
    Arm {
        /// Which one, inside of the execution.
        timer_id: Text,
        /// When it is due.
        fire_at: Timestamp,
    },
    /// A timer is done with.
    Disarm {
        /// Which one.
        timer_id: Text,
    },
}

impl TimerChange {
    /// The timer that changes.
    pub fn timer_id(&self) -> &Text {
        match self {
            Self::Arm { timer_id, .. } | Self::Disarm { timer_id } => timer_id,
        }
    }
}

/// A timer whose time has come; it stays until an append disarms it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimer {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The timer.
    pub timer_id: Text,
    /// When it was due.
    pub fire_at: Timestamp,
}
