//! Statuses of events, executions and commands.
//!
//! Owns their spelling and which of them are terminal. The engine defines how an execution gets its
//! status.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::string_enum::string_enum;
use crate::text::{ContainsNul, Text};

string_enum! {
    /// Status that an event records.
    pub enum EventStatus("an event status") {
        Started = "STARTED",
        Entered = "ENTERED",
        Pending = "PENDING",
        Claimed = "CLAIMED",
        Running = "RUNNING",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        Expired = "EXPIRED",
        Ignored = "IGNORED",
        Skipped = "SKIPPED",
        Fired = "FIRED",
        Received = "RECEIVED",
        Context = "CONTEXT",
        Paused = "PAUSED",
        Audit = "AUDIT",
        Registered = "REGISTERED",
        Active = "ACTIVE",
        Draining = "DRAINING",
        Deactivated = "DEACTIVATED",
        Deduplicated = "DEDUPLICATED",
        /// Default of a stage event.
        Open = "OPEN",
        /// Default of a stage event.
        Closed = "CLOSED",
        /// Default of a frame event.
        Abandoned = "ABANDONED",
        /// Default of a business object event.
        Deleted = "DELETED",
        /// Status of a replay entry before its first event with a status.
        Unknown = "UNKNOWN",
    }
}

string_enum! {
    /// Status of an execution.
    pub enum ExecutionStatus("an execution status") {
        /// Started, with no step entered yet.
        Pending = "PENDING",
        Running = "RUNNING",
        /// No step is entered, no command issued and no timer fired until the execution is resumed.
        Paused = "PAUSED",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

impl ExecutionStatus {
    /// True if only audit events can follow.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

string_enum! {
    /// Status of a command in the queue.
    pub enum CommandStatus("a command status") {
        /// Waiting for a worker.
        Pending = "PENDING",
        /// Leased, not yet reported as running.
        Claimed = "CLAIMED",
        /// Leased and running.
        Running = "RUNNING",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

impl CommandStatus {
    /// True if the command has ended, with any outcome.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// True if a worker holds a lease on the command.
    pub const fn is_leased(self) -> bool {
        matches!(self, Self::Claimed | Self::Running)
    }
}

/// Status of a stored event: none, a known status, or the text of a projected event.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusName {
    /// No status: the empty text.
    #[default]
    None,
    /// A known status.
    Known(EventStatus),
    /// Any other text.
    Other(CustomStatus),
}

/// A status that is not a known one. Only [`StatusName::parse`] creates it, so it never holds a
/// known status.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomStatus(Text);

impl StatusName {
    /// Parses any text. Only NUL is rejected.
    pub fn parse(text: &str) -> Result<Self, ContainsNul> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        match EventStatus::parse(text) {
            Ok(status) => Ok(Self::Known(status)),
            Err(_) => Ok(Self::Other(CustomStatus(Text::new(text)?))),
        }
    }

    /// Returns the text; empty if there is no status.
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Known(status) => status.as_str(),
            Self::Other(CustomStatus(text)) => text,
        }
    }

    /// Returns the status, if it is a known one.
    pub fn known_status(&self) -> Option<EventStatus> {
        match self {
            Self::Known(status) => Some(*status),
            Self::None | Self::Other(_) => None,
        }
    }

    /// True if there is no status.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns this status, or `other` if there is no status.
    #[must_use]
    pub fn or(self, other: EventStatus) -> Self {
        if self.is_none() { Self::Known(other) } else { self }
    }
}

impl From<EventStatus> for StatusName {
    fn from(status: EventStatus) -> Self {
        Self::Known(status)
    }
}

impl From<ExecutionStatus> for EventStatus {
    fn from(status: ExecutionStatus) -> Self {
        match status {
            ExecutionStatus::Pending => Self::Pending,
            ExecutionStatus::Running => Self::Running,
            ExecutionStatus::Paused => Self::Paused,
            ExecutionStatus::Completed => Self::Completed,
            ExecutionStatus::Failed => Self::Failed,
            ExecutionStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl fmt::Display for StatusName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for StatusName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusName({:?})", self.as_str())
    }
}

impl fmt::Debug for CustomStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for StatusName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for StatusName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer, "a status", Self::parse)
    }
}

/// Infers the status of an event that was sent without one from its name.
pub fn infer_event_status(event_name: &str) -> EventStatus {
    let contains_any = |parts: &[&str]| parts.iter().any(|part| event_name.contains(part));
    if contains_any(&["done", "exit", "completed"]) {
        EventStatus::Completed
    } else if contains_any(&["error", "failed"]) {
        EventStatus::Failed
    } else {
        EventStatus::Running
    }
}

#[cfg(test)]
mod tests;
