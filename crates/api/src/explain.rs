//! Why a run waits, or how it came to its end.

use noetl_types::{EventName, ExecutionId, ExecutionStatus, Json, Seq, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// What is explained of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainQuery {
    /// Only what has to do with this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// As it was then: after this event, or by this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub at: Option<At>,
}

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// After the event at this place.
    Seq(Seq),
    /// After what was written by this time.
    Time(Timestamp),
}

impl At {
    /// Reads a place or a time.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse::<i64>() {
            let seq = Seq::new(number).map_err(|error| error.to_string())?;
            return Ok(Self::Seq(seq));
        }
        let time = Timestamp::parse(text).map_err(|error| error.to_string())?;
        Ok(Self::Time(time))
    }
}

impl Serialize for At {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Seq(seq) => serializer.collect_str(seq),
            Self::Time(time) => serializer.collect_str(time),
        }
    }
}

/// Why a run stands where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The run.
    pub execution_id: ExecutionId,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// The answer in one sentence.
    pub summary: Text,
    /// What it waits for, what hinders it most first; empty once it has ended.
    pub waiting_on: Vec<WaitingOn>,
    /// How many things more it waits for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// The first error that nothing caught.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// What led here, the last event first, each the cause of the one before.
    pub cause: Vec<Cause>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingOn {
    /// What kind of thing.
    pub kind: WaitingKind,
    /// The step that waits; absent where the whole run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// How many of its commands wait for the same.
    pub count: u64,
    /// The same in words.
    pub detail: Text,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when, where time ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who has what is waited for: workers, runs, steps. At most [`MAX_HOLDERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Text>,
}

/// Holders of a thing that are told.
pub const MAX_HOLDERS: usize = 10;

/// What kind of thing a run waits for.
///
/// They stand in the order in which they hinder: what nobody but a person can change comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitingKind {
    /// Somebody holds the run.
    Paused,
    /// A worker of a pool.
    Pool,
    /// A person decides.
    Approval,
    /// A signal.
    Signal,
    /// Others have all slots of a key.
    Limit,
    /// The next attempt.
    Retry,
    /// Another run.
    Child,
    /// A time.
    Timer,
    /// A worker is at it.
    Lease,
    /// What the server does by itself, or what tells its end by itself.
    Command,
    /// Other steps of the run that may still lead here.
    Join,
}

impl WaitingKind {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Pool => "pool",
            Self::Approval => "approval",
            Self::Signal => "signal",
            Self::Limit => "limit",
            Self::Retry => "retry",
            Self::Child => "child",
            Self::Timer => "timer",
            Self::Lease => "lease",
            Self::Command => "command",
            Self::Join => "join",
        }
    }
}

/// An error that nothing caught.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureView {
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// The error, whole.
    pub error: Json,
    /// The line of the playbook that it comes from, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column of the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// An event that led to something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// Its place in the run.
    pub seq: Seq,
    /// What happened.
    pub event_type: EventName,
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// When.
    pub at: Timestamp,
    /// What is known of it, in words.
    pub why: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_kind_is_the_one_on_the_wire() {
        for kind in [
            WaitingKind::Paused,
            WaitingKind::Pool,
            WaitingKind::Approval,
            WaitingKind::Signal,
            WaitingKind::Limit,
            WaitingKind::Retry,
            WaitingKind::Child,
            WaitingKind::Timer,
            WaitingKind::Lease,
            WaitingKind::Command,
            WaitingKind::Join,
        ] {
            let word = serde_json::to_string(&kind).unwrap();
            assert_eq!(word, format!("\"{}\"", kind.as_str()));
        }
    }
}
