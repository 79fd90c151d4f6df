//! Signals and approvals.

use noetl_types::{ExecutionId, Json, SignalId, StepName, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends a signal to one execution, or to all that wait for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Name of the signal.
    pub name: Text,
    /// Correlation key. A wait with a key accepts only signals with that key.
    #[serde(default, alias = "correlation", skip_serializing_if = "Option::is_none")]
    pub key: Option<Text>,
    /// Payload of the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

/// A recorded signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalResponse {
    /// Last sequence number of the log.
    pub seq: i64,
    /// True if the execution was waiting for the signal. Otherwise the signal is stored until a
    /// wait needs it.
    pub delivered: bool,
}

/// A broadcast signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BroadcastResponse {
    /// Id of the signal.
    pub signal_id: SignalId,
    /// Executions that were waiting for it.
    pub delivered: Vec<ExecutionId>,
}

/// Decides an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// Step that waits for the approval.
    pub step: StepName,
    /// Iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// `approve` or `reject`.
    pub decision: Text,
    /// Comment of the approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Text>,
    /// Values of the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Json>,
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApproveResponse {
    /// Last sequence number of the log.
    pub seq: i64,
    /// The decision.
    pub decision: Text,
}

/// A page of pending approvals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    /// Approvals in the order of their executions.
    pub approvals: Vec<ApprovalView>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// A pending approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Waiting step.
    pub step: StepName,
    /// Iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Title of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Json>,
    /// Message of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Json>,
    /// JSON Schema of the values of a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Json>,
    /// Allowed approvers; any caller if empty.
    pub approvers: Json,
    /// Number of required approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<Json>,
    /// Start of the wait.
    pub since: Timestamp,
    /// End of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}
