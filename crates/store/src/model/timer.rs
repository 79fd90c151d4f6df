//! Open timers, at which the server must check an execution again.

use noetl_types::{ExecutionId, Text, Timestamp};

/// A change that an append makes to the timers of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimerChange {
    /// Arms a timer, or reschedules it.
    Arm {
        /// Id within the execution.
        timer_id: Text,
        fire_at: Timestamp,
    },
    /// Removes a timer.
    Disarm { timer_id: Text },
}

impl TimerChange {
    pub fn timer_id(&self) -> &Text {
        match self {
            Self::Arm { timer_id, .. } | Self::Disarm { timer_id } => timer_id,
        }
    }
}

/// A timer that is due. It remains until an append disarms it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimer {
    pub execution_id: ExecutionId,
    pub timer_id: Text,
    pub fire_at: Timestamp,
}
