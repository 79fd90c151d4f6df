//! Explanation of why an execution waits, or how it ended.

use noetl_types::{EventName, ExecutionId, ExecutionStatus, Json, Seq, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::is_default;

/// Selects the part of an execution to explain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct ExplainQuery {
    /// Restrict the explanation to a step.
    pub step: Option<Text>,
    /// Point in time: a sequence number, or a timestamp.
    #[schemars(with = "Option<String>")]
    pub at: Option<PointInTime>,
}

/// A point in the history of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointInTime {
    /// After the event with this sequence number.
    Seq(Seq),
    /// After the events written by this time.
    Time(Timestamp),
}

impl PointInTime {
    /// Parses a sequence number or a timestamp.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse::<i64>() {
            let seq = Seq::new(number).map_err(|error| error.to_string())?;
            return Ok(Self::Seq(seq));
        }
        let time = Timestamp::parse(text).map_err(|error| error.to_string())?;
        Ok(Self::Time(time))
    }
}

impl Serialize for PointInTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Seq(seq) => serializer.collect_str(seq),
            Self::Time(time) => serializer.collect_str(time),
        }
    }
}

/// Explanation of the state of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionExplanation {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Current status.
    pub status: ExecutionStatus,
    /// Summary in one sentence.
    pub summary: Text,
    /// Conditions that the execution waits for, the most severe first; empty once it has ended.
    pub waiting_on: Vec<WaitCondition>,
    /// Number of further conditions that are not listed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more: u64,
    /// First uncaught error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// Events that led here. The last event comes first, and each event caused the one before it in
    /// the list.
    pub cause: Vec<CausalEvent>,
}

/// A condition that an execution waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitCondition {
    /// Kind of the condition.
    pub kind: WaitConditionKind,
    /// Waiting step; absent if the whole execution waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// Number of commands that wait for the condition.
    pub count: u64,
    /// Human-readable description.
    pub detail: Text,
    /// Start of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// End of the wait, if it is limited by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Holders of the awaited resource: workers, executions or steps. At most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Text>,
}

/// Maximum number of listed holders.
pub const MAX_LISTED_HOLDERS: usize = 10;

/// Kind of a condition that an execution waits for.
///
/// Ordered by severity: conditions that only a person can resolve come first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitConditionKind {
    /// The execution is paused.
    Paused,
    /// Waits for a worker of a pool.
    Pool,
    /// Waits for an approval.
    Approval,
    /// Waits for a signal.
    Signal,
    /// All slots of a concurrency key are in use.
    Limit,
    /// Waits for the next attempt.
    Retry,
    /// Waits for a child execution.
    Child,
    /// Waits for a timer.
    Timer,
    /// A worker is processing the command.
    Lease,
    /// Waits for a server-side operation, or for an external one that reports its end.
    Command,
    /// Waits for other steps that may still lead to the join.
    Join,
}

impl WaitConditionKind {
    /// Returns the wire form.
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

/// An uncaught error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureView {
    /// Step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// The complete error.
    pub error: Json,
    /// Line in the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// An event in a causal chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CausalEvent {
    /// Sequence number in the execution.
    pub seq: Seq,
    /// Type of the event.
    pub event_type: EventName,
    /// Name of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// Time of the event.
    pub at: Timestamp,
    /// Human-readable description.
    pub why: Text,
}

#[cfg(test)]
mod tests;
