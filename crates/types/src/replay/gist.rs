//! What a replay reads of an event.

use crate::event::EventName;
use crate::id::{CommandId, EventId, ExecutionId};
use crate::json::JsonRef;
use crate::record::{EventRecord, Seq};
use crate::status::StatusName;

/// What a replay reads of an event, where it lies: a store hands out no more of its rows than this,
/// and nobody copies it on the way.
///
/// It is of the current schema version: what is older is lifted first, as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Gist<'e> {
    /// The execution that it belongs to.
    pub execution_id: ExecutionId,
    /// Its id.
    pub event_id: EventId,
    /// Its place in the execution.
    pub seq: Seq,
    /// What happened.
    pub event_type: &'e EventName,
    /// With what outcome.
    pub status: &'e StatusName,
    /// The command that it is about.
    pub command_id: Option<CommandId>,
    /// The step, or the playbook's path.
    pub node_name: Option<&'e str>,
    /// The stage that it is about.
    pub stage_id: Option<&'e str>,
    /// The frame that it is about.
    pub frame_id: Option<&'e str>,
    /// Kind of the aggregate that it belongs to.
    pub aggregate_type: Option<&'e str>,
    /// The aggregate that it belongs to.
    pub aggregate_id: Option<&'e str>,
    /// The worker that it comes from.
    pub worker_id: Option<&'e str>,
    /// What it was done with; only where it may tell of a business object.
    pub context: Option<JsonRef<'e>>,
    /// What came out.
    pub result: Option<JsonRef<'e>>,
    /// What else is known about it.
    pub meta: Option<JsonRef<'e>>,
    /// Where its payload is, when it is stored elsewhere.
    pub payload_ref: Option<JsonRef<'e>>,
}

impl<'e> From<&'e EventRecord> for Gist<'e> {
    fn from(record: &'e EventRecord) -> Self {
        let event = &record.event;
        Self {
            execution_id: event.execution_id,
            event_id: event.event_id,
            seq: record.seq,
            event_type: &event.event_type,
            status: &event.status,
            command_id: event.command_id,
            node_name: event.node_name.as_deref(),
            stage_id: event.stage_id.as_deref(),
            frame_id: event.frame_id.as_deref(),
            aggregate_type: event.aggregate_type.as_deref(),
            aggregate_id: event.aggregate_id.as_deref(),
            worker_id: event.worker_id.as_deref(),
            context: event.context.as_ref().map(JsonRef::Tree),
            result: event.result.as_ref().map(JsonRef::Tree),
            meta: event.meta.as_ref().map(JsonRef::Tree),
            payload_ref: event.payload_ref.as_ref().map(JsonRef::Tree),
        }
    }
}
