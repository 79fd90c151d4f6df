//! Runs as lists and pages show them.

use noetl_types::{
    CatalogId, EventId, EventName, ExecutionId, ExecutionStatus, Json, PlaybookPath, Seq, Text,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::explain::Explanation;

/// A line of the list of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionLine {
    /// The run.
    pub execution_id: ExecutionId,
    /// Its definition.
    pub catalog_id: Option<CatalogId>,
    /// The path of its definition.
    pub path: Option<PlaybookPath>,
    /// The version of its definition.
    pub version: Option<u32>,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// When it began, as classic clients read it.
    pub start_time: Timestamp,
    /// When it ended, as classic clients read it.
    pub end_time: Option<Timestamp>,
    /// How long it took, or has taken so far.
    pub duration_seconds: f64,
    /// The same for people.
    pub duration_human: Text,
    /// From 0 to 100.
    pub progress: u8,
    /// The run that started it.
    pub parent_execution_id: Option<ExecutionId>,
    /// How many events its log has.
    pub event_count: i64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// A run with a page of its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionDetail {
    /// The line of the list.
    #[serde(flatten)]
    pub line: ExecutionLine,
    /// What it began with.
    pub workload: Json,
    /// What came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Its events.
    pub events: Vec<EventView>,
    /// Which of them these are.
    pub pagination: Pagination,
}

/// Which part of a log a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pagination {
    /// The page, from 1.
    pub page: u32,
    /// Events on a page.
    pub page_size: u32,
    /// Events in all.
    pub total_events: i64,
    /// Pages in all.
    pub total_pages: i64,
    /// Whether a page follows.
    pub has_next: bool,
    /// Whether a page comes before.
    pub has_prev: bool,
}

/// An event as readers see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventView {
    /// Its id.
    pub event_id: EventId,
    /// Its place in the run.
    pub seq: Seq,
    /// The run.
    pub execution_id: ExecutionId,
    /// What happened.
    pub event_type: EventName,
    /// The node, as an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<Text>,
    /// The node.
    pub node_name: Option<Text>,
    /// The status that the event brings.
    pub status: Text,
    /// When it happened.
    pub created_at: Timestamp,
    /// The same, as classic clients read it.
    pub timestamp: Timestamp,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// What it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Json>,
    /// What came out.
    pub result: Option<Json>,
    /// What went wrong.
    pub error: Option<Text>,
    /// The definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// The event that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_event_id: Option<EventId>,
    /// The worker that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<Text>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A page of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventPage {
    /// The events.
    pub events: Vec<EventView>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the classic form of the answer"
)]
pub struct StatusView {
    /// The run.
    pub execution_id: ExecutionId,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// The step that was last entered or left.
    pub current_step: Option<Text>,
    /// How far it is.
    pub progress: Progress,
    /// Whether somebody ended it.
    pub is_cancelled: bool,
    /// Whether it ended.
    pub completed: bool,
    /// Whether it failed.
    pub failed: bool,
    /// The steps that went well.
    pub completed_steps: Vec<Text>,
    /// Always false: the end of a run is an event, never a guess.
    pub completion_inferred: bool,
    /// Its variables.
    pub variables: Json,
    /// When it began.
    pub start_time: Timestamp,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How long it took, or has taken so far.
    pub duration_seconds: f64,
    /// The same for people.
    pub duration_human: Text,
    /// What came out, once it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// Steps of its playbook.
    pub total_steps: u32,
    /// Those that went well.
    pub completed_steps: u32,
    /// Those that run.
    pub running_steps: u32,
    /// Those that failed.
    pub failed_steps: u32,
}

/// A wish to end a run. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelRequest {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// Whether the runs that it waits for are ended too, as they are where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cascade: Option<bool>,
}

/// A run was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelAnswer {
    /// The run.
    pub execution_id: ExecutionId,
    /// `cancelled`.
    pub status: Text,
    /// The runs that were ended.
    pub cancelled_executions: Vec<ExecutionId>,
    /// The same in words.
    pub message: Text,
}

/// How much of a run is to be analyzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AnalyzeRequest {
    /// How many of its last events are looked at, 1 to 20000.
    pub max_events: u32,
    /// How many of those are shown, 1 to 500.
    pub event_sample_size: u32,
}

impl Default for AnalyzeRequest {
    fn default() -> Self {
        Self {
            max_events: 1200,
            event_sample_size: 120,
        }
    }
}

/// Why a run stands where it stands, and some of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// What is known without the events.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Those that tell of a failure, then the newest, in order.
    pub events: Vec<EventView>,
}

/// Whether somebody ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancellationCheck {
    /// The run.
    pub execution_id: ExecutionId,
    /// Whether somebody did.
    pub is_cancelled: bool,
}

/// A wish to hold a run, or to let it go on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SteerRequest {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// Where a run stands after it was steered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SteerAnswer {
    /// The run.
    pub execution_id: ExecutionId,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// The end of its log.
    pub seq: i64,
}

/// How a run is said to have ended. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FinalizeRequest {
    /// `COMPLETED` or `FAILED`.
    pub status: ExecutionStatus,
    /// What it failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Why it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A run ended as it was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FinalizeAnswer {
    /// The run.
    pub execution_id: ExecutionId,
    /// How it ended.
    pub status: ExecutionStatus,
    /// The same in words.
    pub message: Text,
}

/// A wish to end runs that nothing happens to any more. A classic body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CleanupRequest {
    /// How long ago they must have begun.
    pub older_than_minutes: u32,
    /// Whether they are only to be found.
    pub dry_run: bool,
}

impl Default for CleanupRequest {
    fn default() -> Self {
        Self {
            older_than_minutes: 5,
            dry_run: false,
        }
    }
}

/// Runs that nothing happened to any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CleanupAnswer {
    /// How many were ended.
    pub cancelled_count: u32,
    /// Which ones.
    pub execution_ids: Vec<ExecutionId>,
    /// The same in words.
    pub message: Text,
}
