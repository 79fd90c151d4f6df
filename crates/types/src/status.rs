//! Statuses: of an event, of an execution, of a command.
//!
//! Owns their spelling and which of them end something. How an execution gets its status is the
//! engine's business.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{HoldsNul, Text};
use crate::words::words;

words! {
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
        /// Of a stage whose event carries no status.
        Open = "OPEN",
        /// Of a stage whose event carries no status.
        Closed = "CLOSED",
        /// Of a frame whose event carries no status.
        Abandoned = "ABANDONED",
        /// Of a business object whose event carries no status.
        Deleted = "DELETED",
        /// Of an entry of a replay before any event has given it one.
        Unknown = "UNKNOWN",
    }
}

words! {
    /// Status of an execution, as every list and page shows it.
    pub enum ExecutionStatus("an execution status") {
        /// Started, and no step entered yet.
        Pending = "PENDING",
        Running = "RUNNING",
        /// Nothing is entered, issued or fired until somebody resumes it.
        Paused = "PAUSED",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

impl ExecutionStatus {
    /// Whether nothing can follow but audit events.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Running | Self::Paused => false,
        }
    }
}

words! {
    /// Status of a command in the queue.
    pub enum CommandStatus("a command status") {
        /// Waits for a worker.
        Pending = "PENDING",
        /// Leased, not yet known to run.
        Claimed = "CLAIMED",
        /// Leased and running.
        Running = "RUNNING",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

impl CommandStatus {
    /// Whether the command is done with, whatever its outcome.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Claimed | Self::Running => false,
        }
    }

    /// Whether a worker holds it.
    pub const fn is_leased(self) -> bool {
        match self {
            Self::Claimed | Self::Running => true,
            Self::Pending | Self::Completed | Self::Failed | Self::Cancelled => false,
        }
    }
}

/// The status of a stored event: none, one of ours, or whatever a copied event said.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusName {
    /// No status: the empty text.
    #[default]
    None,
    /// One of the vocabulary.
    Known(EventStatus),
    /// Any other text.
    Other(OtherStatus),
}

/// A status outside of the vocabulary; made by [`StatusName::read`] alone, so that no known status
/// can hide in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherStatus(Text);

impl StatusName {
    /// Reads any text; only NUL is refused.
    pub fn read(text: &str) -> Result<Self, HoldsNul> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        match EventStatus::parse(text) {
            Ok(known) => Ok(Self::Known(known)),
            Err(_) => Ok(Self::Other(OtherStatus(Text::new(text)?))),
        }
    }

    /// The text; empty when there is no status.
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Known(known) => known.as_str(),
            Self::Other(OtherStatus(text)) => text,
        }
    }

    /// The status, if it is one of the vocabulary.
    pub fn known(&self) -> Option<EventStatus> {
        match self {
            Self::Known(known) => Some(*known),
            Self::None | Self::Other(_) => None,
        }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// This status, or another one where there is none.
    #[must_use]
    pub fn or(self, other: EventStatus) -> Self {
        if self.is_none() {
            Self::Known(other)
        } else {
            self
        }
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

impl fmt::Debug for OtherStatus {
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
        crate::text::deserialize(deserializer, "a status", Self::read)
    }
}

/// The status of an event that was sent without one, by what its name says.
pub fn default_status_of(event_name: &str) -> EventStatus {
    let says = |words: &[&str]| words.iter().any(|word| event_name.contains(word));
    if says(&["done", "exit", "completed"]) {
        EventStatus::Completed
    } else if says(&["error", "failed"]) {
        EventStatus::Failed
    } else {
        EventStatus::Running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spelling is on disk and on the wire: a change here is a change of both.
    #[test]
    fn spellings() {
        let events: Vec<&str> = EventStatus::ALL.iter().map(|word| word.as_str()).collect();
        let executions: Vec<&str> = ExecutionStatus::ALL
            .iter()
            .map(|word| word.as_str())
            .collect();
        let commands: Vec<&str> = CommandStatus::ALL
            .iter()
            .map(|word| word.as_str())
            .collect();
        insta::assert_snapshot!(
            [events, executions, commands]
                .map(|words| words.join(" "))
                .join("\n")
        );
    }

    #[test]
    fn words_read_back() {
        for status in EventStatus::ALL {
            assert_eq!(EventStatus::parse(status.as_str()), Ok(*status));
        }
        for status in ExecutionStatus::ALL {
            assert_eq!(ExecutionStatus::parse(status.as_str()), Ok(*status));
            assert_eq!(EventStatus::from(*status).as_str(), status.as_str());
        }
        for status in CommandStatus::ALL {
            assert_eq!(CommandStatus::parse(status.as_str()), Ok(*status));
            assert!(!(status.is_leased() && status.is_terminal()));
        }
        assert_eq!(
            ExecutionStatus::parse("completed").unwrap_err().to_string(),
            "`completed` is not an execution status"
        );
    }

    #[test]
    fn a_name_has_one_form() {
        assert_eq!(StatusName::read(""), Ok(StatusName::None));
        assert_eq!(
            StatusName::read("FAILED"),
            Ok(StatusName::Known(EventStatus::Failed))
        );
        let odd = StatusName::read("almost").unwrap();
        assert_eq!((odd.as_str(), odd.known()), ("almost", None));
        assert_eq!(odd.clone().or(EventStatus::Open), odd);
        assert_eq!(StatusName::None.or(EventStatus::Open).as_str(), "OPEN");
        assert_eq!(StatusName::read("a\0"), Err(HoldsNul));
    }

    #[test]
    fn defaults_by_name() {
        for (name, status) in [
            ("call.done", EventStatus::Completed),
            ("step.exit", EventStatus::Completed),
            ("batch.completed", EventStatus::Completed),
            ("call.error", EventStatus::Failed),
            ("frame.failed", EventStatus::Failed),
            ("loop.shard.done", EventStatus::Completed),
            ("order.created", EventStatus::Running),
            ("", EventStatus::Running),
        ] {
            assert_eq!(default_status_of(name), status, "{name}");
        }
    }
}
