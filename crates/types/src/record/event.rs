//! The event as sent by its producer, and the fields that the store adds.

use super::chain::ChainHash;
use super::elapsed::ElapsedTime;
use super::order::{FeedPosition, Seq};
use crate::digest::{Digest, sha256};
use crate::event::{EventName, EventType};
use crate::id::{CatalogId, CommandId, EventId, ExecutionId};
use crate::json::Json;
use crate::limits::MAX_EVENT_TIME_AHEAD;
use crate::name::{OrganizationId, TenantId};
use crate::status::StatusName;
use crate::text::Text;
use crate::time::Timestamp;

/// An event as sent by its producer: all fields that its envelope covers.
///
/// Created from [`NewEvent::new`] with struct update syntax, naming only the fields that differ:
///
/// ```
/// # use noetl_types::{EventId, EventType, ExecutionId, Timestamp, record::NewEvent};
/// # let (execution_id, event_id) = (ExecutionId::new(1)?, EventId::new(2)?);
/// # let now = Timestamp::UNIX_EPOCH;
/// let event = NewEvent {
///     node_name: Some("load".into()),
///     ..NewEvent::new(execution_id, event_id, EventType::StepEnter, now)
/// };
/// assert_eq!(event.status.as_str(), "ENTERED");
/// # Ok::<(), noetl_types::id::IdError>(())
/// ```
///
/// `Some(Json::Null)` is written as absent and counts as absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Execution of the event.
    pub execution_id: ExecutionId,
    /// Id, unique in the execution.
    pub event_id: EventId,
    /// Type of the event.
    pub event_type: EventName,
    /// Status that the event records.
    pub status: StatusName,
    /// Tenant of the execution.
    pub tenant_id: TenantId,
    /// Organization within the tenant.
    pub organization_id: OrganizationId,
    /// Event time according to the producer.
    pub event_time: Timestamp,
    /// Creation time: the event time if it is plausible, see [`NewEvent::plausible_time`].
    pub created_at: Timestamp,
    /// Node of the graph.
    pub node_id: Option<Text>,
    /// Name of the step, or path of the playbook.
    pub node_name: Option<Text>,
    /// Type of the node: `execution`, or a kind of tool.
    pub node_type: Option<Text>,
    /// Definition that the execution runs.
    pub catalog_id: Option<CatalogId>,
    /// Event that caused this one.
    pub parent_event_id: Option<EventId>,
    /// Execution that started this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// Previous event, if the producer maintains such a list.
    pub prev_event_id: Option<EventId>,
    /// Command that the event is about.
    pub command_id: Option<CommandId>,
    /// Stage that the event is about.
    pub stage_id: Option<Text>,
    /// Frame that the event is about.
    pub frame_id: Option<Text>,
    /// Kind of the aggregate that the event belongs to.
    pub aggregate_type: Option<Text>,
    /// Aggregate that the event belongs to.
    pub aggregate_id: Option<Text>,
    /// Stream that the event belongs to.
    pub stream_id: Option<Text>,
    /// Version of the event in its stream.
    pub stream_version: Option<i64>,
    /// Schema name of the body, if it is not the NoETL schema.
    pub schema_name: Option<Text>,
    /// Version of the schema.
    pub schema_version: SchemaVersion,
    /// Elapsed time.
    pub duration: Option<ElapsedTime>,
    /// Context or input.
    pub context: Option<Json>,
    /// Result or output.
    pub result: Option<Json>,
    /// Metadata.
    pub meta: Option<Json>,
    /// Reference to the payload, if it is stored elsewhere.
    pub payload_ref: Option<Json>,
    /// Error message.
    pub error: Option<Text>,
    /// Stack trace of the error.
    pub stack_trace: Option<Text>,
    /// Worker that sent the event.
    pub worker_id: Option<Text>,
    /// Program that wrote the event.
    pub producer: Option<Text>,
    /// Id of the message that caused the event.
    pub causation_id: Option<Text>,
    /// Id that links related events.
    pub correlation_id: Option<Text>,
    /// Idempotency key of the request.
    pub idempotency_key: Option<Text>,
    /// Fields of projected events. Boxed because few events have them.
    pub projected: Option<Box<ProjectedFields>>,
}

/// Fields of events that were written elsewhere and projected into this log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectedFields {
    /// Index of an iteration.
    pub current_index: Option<i64>,
    /// Item of an iteration.
    pub current_item: Option<Text>,
    /// Key of a context entry.
    pub context_key: Option<Text>,
    /// Value of a context entry.
    pub context_value: Option<Text>,
    /// State shared between brokers.
    pub distributed_state: Option<Text>,
    /// Trace of the component.
    pub trace_component: Option<Json>,
    /// Fields that this version does not know: an object that is never empty.
    pub extra: Option<Json>,
}

impl ProjectedFields {
    /// Returns `None` if all fields are absent, so that an event without such fields has one form
    /// only.
    pub fn into_option(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Version of the schema of an event body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaVersion(u32);

impl SchemaVersion {
    /// The first version. Also the version of an event that names none.
    pub const FIRST: Self = Self(1);

    /// Wraps a number between 1 and the maximum of a database integer.
    pub fn new(number: i64) -> Option<Self> {
        i32::try_from(number)
            .ok()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0)
            .map(Self)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the next version.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl NewEvent {
    /// Creates an event with only the required fields and the default status of its type.
    pub fn new(
        execution_id: ExecutionId,
        event_id: EventId,
        event_type: impl Into<EventName>,
        now: Timestamp,
    ) -> Self {
        let event_type = event_type.into();
        Self {
            status: event_type
                .known_type()
                .and_then(EventType::default_status)
                .map_or(StatusName::None, StatusName::Known),
            execution_id,
            event_id,
            event_type,
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
            event_time: now,
            created_at: now,
            node_id: None,
            node_name: None,
            node_type: None,
            catalog_id: None,
            parent_event_id: None,
            parent_execution_id: None,
            prev_event_id: None,
            command_id: None,
            stage_id: None,
            frame_id: None,
            aggregate_type: None,
            aggregate_id: None,
            stream_id: None,
            stream_version: None,
            schema_name: None,
            schema_version: super::upcast::CURRENT_SCHEMA_VERSION,
            duration: None,
            context: None,
            result: None,
            meta: None,
            payload_ref: None,
            error: None,
            stack_trace: None,
            worker_id: None,
            producer: None,
            causation_id: None,
            correlation_id: None,
            idempotency_key: None,
            projected: None,
        }
    }

    /// Returns the producer's time if it is plausible: after the Unix epoch, and not far ahead of
    /// the clock of the server that receives the event.
    pub fn plausible_time(event_time: Timestamp, ingest_time: Timestamp) -> Option<Timestamp> {
        let latest = ingest_time.saturating_add(MAX_EVENT_TIME_AHEAD);
        (Timestamp::UNIX_EPOCH < event_time && event_time <= latest).then_some(event_time)
    }

    /// Returns the digest of the canonical envelope. Equal digests mean equal envelopes.
    pub fn envelope_checksum(&self) -> Digest {
        sha256(self.to_envelope())
    }
}

/// An event as it is read and sent: the producer's fields and its position in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Fields from the producer.
    pub event: NewEvent,
    /// Position in the execution.
    pub seq: Seq,
    /// Time at which the server received the event. Never decreases within an execution.
    pub ingest_time: Timestamp,
    /// Digest of the envelope, stored if the id or the body came from a client.
    pub envelope_checksum: Option<Digest>,
}

/// An event as stored, with the fields that never leave the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event.
    pub record: EventRecord,
    /// Link in the hash chain of the execution.
    pub chain: ChainHash,
    /// Position in the feed of the log.
    pub feed: FeedPosition,
}
