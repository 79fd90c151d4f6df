//! The wire of classic workers: commands by the id of their event, and events told one by one.
//!
//! Unlike elsewhere ids travel as numbers here, since that is how these workers read them. Both are
//! read. Unknown fields are passed over.

use noetl_types::id::as_number;
use noetl_types::{
    CommandId, EventId, ExecutionId, Json, JsonMap, Seq, StepName, Text, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};

use crate::token::LeaseToken;

/// A command with what a classic worker needs to run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassicCommand {
    /// The run.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub execution_id: ExecutionId,
    /// The step, as an id.
    pub node_id: StepName,
    /// The step.
    pub node_name: StepName,
    /// The kind of its first tool.
    pub action: Text,
    /// `tool_config` and `args` as the playbook has them, and the `render_context` of their
    /// templates.
    pub context: ClassicContext,
    /// Where it belongs.
    pub meta: JsonMap,
}

/// What a classic worker renders and runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassicContext {
    /// The tool as the playbook has it; a list for a pipeline.
    pub tool_config: Json,
    /// The input of the step and of its task.
    pub args: JsonMap,
    /// The names that the templates of both read.
    pub render_context: JsonMap,
}

/// A wish to have a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimRequest {
    /// Who.
    pub worker_id: WorkerId,
}

/// The command is the worker's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimAnswer {
    /// `ok`.
    pub status: Text,
    /// The event that issued it.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub event_id: EventId,
    /// The command.
    #[serde(flatten)]
    pub command: ClassicCommand,
    /// What proves the lease, for a worker that sends it back.
    pub lease_token: LeaseToken,
    /// Until when it is the worker's, unless a pool heartbeat renews it.
    pub lease_until: Timestamp,
    /// The attempt that begins, from 1.
    pub attempt: u32,
}

/// How the result of an event is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// In the payload.
    #[default]
    Data,
    /// By the address of where it is kept.
    Ref,
    /// By the events that hold its parts.
    Refs,
}

/// Something that a worker tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventPost {
    /// The run.
    pub execution_id: ExecutionId,
    /// What is told, and of which step.
    #[serde(flatten)]
    pub event: TaleOfEvent,
    /// Who tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
}

/// What is told, and of which step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaleOfEvent {
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// What happened.
    #[serde(alias = "name")]
    pub event_type: Text,
    /// With what.
    #[serde(
        default,
        alias = "context",
        skip_serializing_if = "noetl_types::Json::is_null"
    )]
    pub payload: Json,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonMap>,
    /// How its result is told.
    #[serde(default)]
    pub result_kind: ResultKind,
    /// Where its result is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_uri: Option<Text>,
    /// The events that hold the parts of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_ids: Option<Vec<Json>>,
    /// Whether it asks for something to happen. What follows from an event depends on what it says,
    /// so this is only kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actionable: Option<bool>,
    /// Whether it is for people to read; only kept too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub informative: Option<bool>,
    /// Its id, where the worker has made one: the same event again is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// With what outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Text>,
    /// When it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventAnswer {
    /// `ok`, or `ignored` where it came too late or from somebody whose command it is not.
    pub status: Text,
    /// Its id.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub event_id: EventId,
    /// How many commands followed.
    pub commands_generated: u32,
    /// Its place, or the end of the run's log after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

/// Several things that a worker tells of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventBatch {
    /// The run.
    pub execution_id: ExecutionId,
    /// Who tells them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// What is told, in order; at most [`noetl_types::limits::MAX_EVENT_BATCH`].
    pub events: Vec<TaleOfEvent>,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventBatchAnswer {
    /// `ok`.
    pub status: Text,
    /// Their ids, in order.
    #[serde(with = "as_number::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<noetl_types::schema::IdNumber>")
    )]
    pub event_ids: Vec<EventId>,
    /// How many commands followed.
    pub commands_generated: u32,
}

/// A page of the queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandList {
    /// The commands, oldest first.
    pub commands: Vec<CommandLine>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// A command as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandLine {
    /// The command.
    pub command_id: CommandId,
    /// The run.
    pub execution_id: ExecutionId,
    /// The step.
    pub step: StepName,
    /// The run of the step, from 1.
    pub run: u32,
    /// The iteration, in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The kind of tool that it needs.
    pub tool_kind: Text,
    /// The pool whose workers may take it.
    pub pool: Text,
    /// Its rank in the pool.
    pub priority: i16,
    /// Where it stands.
    pub status: Text,
    /// Whether it waits for its run to be resumed.
    pub held: bool,
    /// Attempts so far.
    pub attempt: u32,
    /// Attempts in all.
    pub max_attempts: u32,
    /// The last worker that had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// Until when it is that worker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// Not to be handed out before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// When it was granted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    /// When it was last known to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}
