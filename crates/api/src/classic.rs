//! Wire types of classic workers: commands by the id of their event, and single events.
//!
//! Unlike elsewhere, ids are sent as numbers, because these workers expect numbers. Both forms are
//! accepted. Unknown fields are ignored.

use noetl_types::id::IdNumber;
use noetl_types::{
    CommandId, EventId, ExecutionId, Json, JsonMap, LeaseToken, Seq, StepName, Text, Timestamp,
    WorkerId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A command for a classic worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassicCommand {
    /// Id of the execution.
    pub execution_id: IdNumber<ExecutionId>,
    /// Id of the node: the name of the step.
    pub node_id: StepName,
    /// Name of the step.
    pub node_name: StepName,
    /// Kind of the first tool.
    pub action: Text,
    /// `tool_config` and `args` as in the playbook, and the `render_context` of their templates.
    pub context: ClassicContext,
    /// Metadata of the command.
    pub meta: JsonMap,
}

/// Input of a classic worker.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClassicContext {
    /// Tool configuration as in the playbook; a list for a pipeline.
    pub tool_config: Json,
    /// Input of the step and of its task.
    pub args: JsonMap,
    /// Template variables.
    pub render_context: JsonMap,
}

/// Claims a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRequest {
    /// Worker that claims the command.
    pub worker_id: WorkerId,
}

/// A claimed command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimResponse {
    /// `ok`.
    pub status: Text,
    /// Event that issued the command.
    pub event_id: IdNumber<EventId>,
    /// The command.
    #[serde(flatten)]
    pub command: ClassicCommand,
    /// Token that proves the lease, for workers that send it back.
    pub lease_token: LeaseToken,
    /// End of the lease, unless a pool heartbeat renews it.
    pub lease_until: Timestamp,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Form of the result in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// Inline in the payload.
    #[default]
    Data,
    /// Address of the stored result.
    Ref,
    /// Ids of the events that hold the parts of the result.
    Refs,
}

/// An event sent by a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassicEventRequest {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// The event.
    #[serde(flatten)]
    pub event: ClassicEvent,
    /// Worker that sends the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
}

/// An event as a classic worker reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassicEvent {
    /// Name of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// Type of the event.
    #[serde(alias = "name")]
    pub event_type: Text,
    /// Payload of the event.
    #[serde(default, alias = "context", skip_serializing_if = "noetl_types::Json::is_null")]
    pub payload: Json,
    /// Metadata of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonMap>,
    /// Form of the result.
    #[serde(default)]
    pub result_kind: ResultKind,
    /// Address of the stored result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_uri: Option<Text>,
    /// Ids of the events that hold the parts of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_ids: Option<Vec<Json>>,
    /// True if the event requests an action. The effect of an event depends on its content, so this
    /// value is only recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actionable: Option<bool>,
    /// True if the event is informational. Only recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub informative: Option<bool>,
    /// Id of the event, if the worker assigned one. Sending the same event again has no further
    /// effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// Status of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Text>,
    /// Time of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

/// Result of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassicEventResponse {
    /// `ok`, or `ignored` if the event was late or the sender does not hold the command.
    pub status: Text,
    /// Id of the event.
    pub event_id: IdNumber<EventId>,
    /// Number of commands issued.
    pub commands_generated: u32,
    /// Sequence number of the event, or of the last event of the log after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

/// Several events of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassicEventBatch {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Worker that sends the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The events in order; at most 1000.
    pub events: Vec<ClassicEvent>,
}

/// Result of an event batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassicEventBatchResponse {
    /// `ok`.
    pub status: Text,
    /// Ids of the events, in order.
    pub event_ids: Vec<IdNumber<EventId>>,
    /// Number of commands issued.
    pub commands_generated: u32,
}

/// A page of the command queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CommandList {
    /// The commands, oldest first.
    pub commands: Vec<CommandSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// A command in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandSummary {
    /// Id of the command.
    pub command_id: CommandId,
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Name of the step.
    pub step: StepName,
    /// Number of the pass through the step, from 1.
    pub run: u32,
    /// Iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Kind of tool that the command needs.
    pub tool_kind: Text,
    /// Worker pool of the command.
    pub pool: Text,
    /// Priority within the pool.
    pub priority: i16,
    /// Current status.
    pub status: Text,
    /// True if the command waits for its execution to be resumed.
    pub held: bool,
    /// Number of attempts so far.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Last worker that held the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// End of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// Earliest time of the next lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Time of the last lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    /// Last known start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}
