//! Executions in lists and detail views.

use noetl_types::{
    CatalogId, EventId, EventName, ExecutionId, ExecutionStatus, Json, PlaybookPath, Seq, Text,
    Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::ExecutionExplanation;

/// An execution in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionSummary {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Id of the definition.
    pub catalog_id: Option<CatalogId>,
    /// Path of the definition.
    pub path: Option<PlaybookPath>,
    /// Version of the definition.
    pub version: Option<u32>,
    /// Current status.
    pub status: ExecutionStatus,
    /// Start time.
    pub started_at: Timestamp,
    /// End time.
    pub completed_at: Option<Timestamp>,
    /// Start time, for classic clients.
    pub start_time: Timestamp,
    /// End time, for classic clients.
    pub end_time: Option<Timestamp>,
    /// Duration so far, or in total.
    pub duration_seconds: f64,
    /// Human-readable duration.
    pub duration_human: Text,
    /// Progress in percent, 0 to 100.
    pub progress: u8,
    /// Parent execution.
    pub parent_execution_id: Option<ExecutionId>,
    /// Number of events in the log.
    pub event_count: i64,
    /// Error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// An execution with a page of its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionDetail {
    /// Summary of the execution.
    #[serde(flatten)]
    pub summary: ExecutionSummary,
    /// Input of the execution.
    pub workload: Json,
    /// Result of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Events of the page.
    pub events: Vec<EventView>,
    /// Position of the page in the log.
    pub pagination: PageInfo,
    /// Child executions, newest first; at most 100. `GET /api/executions?parent=` lists all.
    #[serde(default)]
    pub children: Vec<ExecutionSummary>,
}

/// Position of a page in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageInfo {
    /// Number of the page, from 1.
    pub page: u32,
    /// Events per page.
    pub page_size: u32,
    /// Total number of events.
    pub total_events: i64,
    /// Total number of pages.
    pub total_pages: i64,
    /// True if there is a next page.
    pub has_next: bool,
    /// True if there is a previous page.
    pub has_prev: bool,
}

/// An event of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Id of the event.
    pub event_id: EventId,
    /// Sequence number in the execution.
    pub seq: Seq,
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Type of the event.
    pub event_type: EventName,
    /// Id of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<Text>,
    /// Name of the node.
    pub node_name: Option<Text>,
    /// Status that the event records.
    pub status: Text,
    /// Time of the event.
    pub created_at: Timestamp,
    /// Time of the event, for classic clients.
    pub timestamp: Timestamp,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Context or input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Json>,
    /// Result.
    pub result: Option<Json>,
    /// Error message.
    pub error: Option<Text>,
    /// Id of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Event that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_event_id: Option<EventId>,
    /// Worker that sent the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<Text>,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// The events.
    pub events: Vec<EventView>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// Status of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the classic form of the response")]
pub struct ExecutionStatusView {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Current status.
    pub status: ExecutionStatus,
    /// Step that was last entered or left.
    pub current_step: Option<Text>,
    /// Progress of the steps.
    pub progress: StepProgress,
    /// True if the execution was cancelled.
    pub is_cancelled: bool,
    /// True if the execution has ended.
    pub completed: bool,
    /// True if the execution failed.
    pub failed: bool,
    /// Completed steps.
    pub completed_steps: Vec<Text>,
    /// Always false: the end of an execution is an event, never inferred.
    pub completion_inferred: bool,
    /// Variables of the execution.
    pub variables: Json,
    /// Start time.
    pub start_time: Timestamp,
    /// End time.
    pub end_time: Option<Timestamp>,
    /// Duration so far, or in total.
    pub duration_seconds: f64,
    /// Human-readable duration.
    pub duration_human: Text,
    /// Result, once the execution has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// Progress of the steps of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StepProgress {
    /// Steps in the playbook.
    pub total_steps: u32,
    /// Completed steps.
    pub completed_steps: u32,
    /// Running steps.
    pub running_steps: u32,
    /// Failed steps.
    pub failed_steps: u32,
}

/// Cancels an execution. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequest {
    /// Reason for the cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// Also cancel the child executions that it waits for; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cascade: Option<bool>,
    /// End it without its final step, or end the final step that runs; default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// A cancelled execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelResponse {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// `cancelled`, or `cancelling` while its final step runs. A second request ends the final step.
    pub status: Text,
    /// All cancelled executions.
    pub cancelled_executions: Vec<ExecutionId>,
    /// Human-readable message.
    pub message: Text,
}

/// Limits of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnalyzeRequest {
    /// Number of recent events to analyze, 1 to 20000.
    pub max_events: u32,
    /// Number of events to return, 1 to 500.
    pub event_sample_size: u32,
}

impl Default for AnalyzeRequest {
    fn default() -> Self {
        Self { max_events: 1200, event_sample_size: 120 }
    }
}

/// Explanation of the state of an execution, with some of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionAnalysis {
    /// The explanation.
    #[serde(flatten)]
    pub explanation: ExecutionExplanation,
    /// Failure events, then the newest events, in order.
    pub events: Vec<EventView>,
}

/// Cancellation state of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancellationCheck {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// True if the execution has ended as cancelled. False while its final step runs.
    pub is_cancelled: bool,
}

/// Pauses or resumes an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// Reason for the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// State of an execution after it was paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlResponse {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Current status.
    pub status: ExecutionStatus,
    /// Last sequence number of the log.
    pub seq: i64,
}

/// Ends an execution with a given status. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FinalizeRequest {
    /// `COMPLETED` or `FAILED`.
    pub status: ExecutionStatus,
    /// Error message, for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Reason for the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// An execution that was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FinalizeResponse {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Final status.
    pub status: ExecutionStatus,
    /// Human-readable message.
    pub message: Text,
}

/// Cancels stale executions, which make no progress any more. A classic body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CleanupRequest {
    /// Minimum age in minutes.
    pub older_than_minutes: u32,
    /// Only find the executions, without cancelling them.
    pub dry_run: bool,
}

impl Default for CleanupRequest {
    fn default() -> Self {
        Self { older_than_minutes: 5, dry_run: false }
    }
}

/// Result of cancelling stale executions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CleanupResponse {
    /// Number of cancelled executions.
    pub cancelled_count: u32,
    /// Ids of the executions.
    pub execution_ids: Vec<ExecutionId>,
    /// Human-readable message.
    pub message: Text,
}
