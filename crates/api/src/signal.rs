//! Signals, and what waits for people.

use noetl_types::{ExecutionId, Json, SignalId, StepName, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// A signal, to one run or to all that wait for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Its name.
    pub name: Text,
    /// What it is about; a wait with a key takes only signals of that key.
    #[serde(
        default,
        alias = "correlation",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<Text>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

/// A signal is in the log of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignalAnswer {
    /// The end of the log.
    pub seq: i64,
    /// Whether something was waiting for it; else it is kept.
    pub delivered: bool,
}

/// A signal was sent to everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BroadcastAnswer {
    /// The signal.
    pub signal_id: SignalId,
    /// The runs that were waiting for it.
    pub delivered: Vec<ExecutionId>,
}

/// The decision of a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// The step that waits for it.
    pub step: StepName,
    /// The iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// `approve` or `reject`.
    pub decision: Text,
    /// What there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Text>,
    /// The values of the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Json>,
}

/// A decision is in the log of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApproveAnswer {
    /// The end of the log.
    pub seq: i64,
    /// The decision.
    pub decision: Text,
}

/// What waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalList {
    /// In the order of their runs.
    pub approvals: Vec<ApprovalView>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalView {
    /// The run.
    pub execution_id: ExecutionId,
    /// The step that waits.
    pub step: StepName,
    /// The iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// What it is about, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Json>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Json>,
    /// JSON Schema of the values that a decision gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Json>,
    /// Who may decide; anybody where there are none.
    pub approvers: Json,
    /// How many have to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<Json>,
    /// Since when it waits.
    pub since: Timestamp,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}
