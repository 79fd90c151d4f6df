//! The fields of an event that a replay reads.

use crate::event::EventName;
use crate::id::{CommandId, EventId, ExecutionId};
use crate::json::JsonRef;
use crate::record::{EventRecord, Seq};
use crate::status::StatusName;

/// The fields of an event that a replay reads, borrowed from a row. A store returns only these
/// fields and copies nothing.
///
/// The row has the current schema version. Older events are upcast as a whole first.
#[derive(Debug, Clone, Copy)]
pub struct ReplayRow<'e> {
    /// Execution of the event.
    pub execution_id: ExecutionId,
    /// Id of the event.
    pub event_id: EventId,
    /// Position in the execution.
    pub seq: Seq,
    /// Type of the event.
    pub event_type: &'e EventName,
    /// Status that the event records.
    pub status: &'e StatusName,
    /// Command that the event is about.
    pub command_id: Option<CommandId>,
    /// Name of the step, or path of the playbook.
    pub node_name: Option<&'e str>,
    /// Stage that the event is about.
    pub stage_id: Option<&'e str>,
    /// Frame that the event is about.
    pub frame_id: Option<&'e str>,
    /// Kind of the aggregate that the event belongs to.
    pub aggregate_type: Option<&'e str>,
    /// Aggregate that the event belongs to.
    pub aggregate_id: Option<&'e str>,
    /// Worker that sent the event.
    pub worker_id: Option<&'e str>,
    /// Context, present only if it may describe a business object.
    pub context: Option<JsonRef<'e>>,
    /// Result.
    pub result: Option<JsonRef<'e>>,
    /// Metadata.
    pub meta: Option<JsonRef<'e>>,
    /// Reference to the payload, if it is stored elsewhere.
    pub payload_ref: Option<JsonRef<'e>>,
}

impl<'e> From<&'e EventRecord> for ReplayRow<'e> {
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
