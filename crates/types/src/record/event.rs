//! The row: what a producer says, and what the store adds.

use super::chain::Chain;
use super::elapsed::Elapsed;
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

/// What the producer of an event says: all that its envelope covers.
///
/// Built from [`NewEvent::new`] with the update syntax, naming only what differs:
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
/// `Some(Json::Null)` is written, and so counted, as absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// The execution that it belongs to.
    pub execution_id: ExecutionId,
    /// Its id, unique in the execution.
    pub event_id: EventId,
    /// What happened.
    pub event_type: EventName,
    /// With what outcome.
    pub status: StatusName,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Whose it is, inside of the tenant.
    pub organization_id: OrganizationId,
    /// When it happened, says the producer.
    pub event_time: Timestamp,
    /// When it happened, as far as that is believed; see [`NewEvent::believable_time`].
    pub created_at: Timestamp,
    /// The node of the graph.
    pub node_id: Option<Text>,
    /// The step, or the playbook's path.
    pub node_name: Option<Text>,
    /// What the node is: `execution`, a kind of tool.
    pub node_type: Option<Text>,
    /// The definition that the execution runs.
    pub catalog_id: Option<CatalogId>,
    /// The event that caused it.
    pub parent_event_id: Option<EventId>,
    /// The execution that started this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// The event before it, where its producer keeps such a list.
    pub prev_event_id: Option<EventId>,
    /// The command that it is about.
    pub command_id: Option<CommandId>,
    /// The stage that it is about.
    pub stage_id: Option<Text>,
    /// The frame that it is about.
    pub frame_id: Option<Text>,
    /// Kind of the aggregate that it belongs to.
    pub aggregate_type: Option<Text>,
    /// The aggregate that it belongs to.
    pub aggregate_id: Option<Text>,
    /// The stream that it belongs to.
    pub stream_id: Option<Text>,
    /// Its place in that stream.
    pub stream_version: Option<i64>,
    /// The schema of its body, where it is not ours.
    pub schema_name: Option<Text>,
    /// The version of that schema.
    pub schema_version: SchemaVersion,
    /// How long it took.
    pub duration: Option<Elapsed>,
    /// What it was done with.
    pub context: Option<Json>,
    /// What came out.
    pub result: Option<Json>,
    /// What else is known about it.
    pub meta: Option<Json>,
    /// Where its payload is, when it is stored elsewhere.
    pub payload_ref: Option<Json>,
    /// What went wrong.
    pub error: Option<Text>,
    /// Where it went wrong.
    pub stack_trace: Option<Text>,
    /// The worker that it comes from.
    pub worker_id: Option<Text>,
    /// The program that wrote it.
    pub producer: Option<Text>,
    /// What it is an answer to.
    pub causation_id: Option<Text>,
    /// What it belongs together with.
    pub correlation_id: Option<Text>,
    /// The key under which it was sent.
    pub idempotency_key: Option<Text>,
    /// What only copied events carry; boxed, since hardly any event has it.
    pub copied: Option<Box<CopiedFields>>,
}

/// Fields of events that were written elsewhere and copied into this log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopiedFields {
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
    /// Fields that this version does not know: an object, and never an empty one.
    pub extra: Option<Json>,
}

impl CopiedFields {
    /// The fields, unless all of them are absent: an event without any has one form only.
    pub fn into_option(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Version of the schema of an event's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaVersion(u32);

impl SchemaVersion {
    /// The first, and that of an event that names none.
    pub const FIRST: Self = Self(1);

    /// The version with a number, from 1 to what a database holds.
    pub fn new(number: i64) -> Option<Self> {
        i32::try_from(number)
            .ok()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0)
            .map(Self)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The version after this one.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl NewEvent {
    /// An event that says no more than it must, with the usual status of its type.
    pub fn new(
        execution_id: ExecutionId,
        event_id: EventId,
        event_type: impl Into<EventName>,
        now: Timestamp,
    ) -> Self {
        let event_type = event_type.into();
        Self {
            status: event_type
                .known()
                .and_then(EventType::usual_status)
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
            schema_version: super::upcast::CURRENT,
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
            copied: None,
        }
    }

    /// The producer's time, unless no clock can mean it: not after the Unix epoch, or far in the
    /// future of the server that receives it.
    pub fn believable_time(event_time: Timestamp, ingest_time: Timestamp) -> Option<Timestamp> {
        let latest = ingest_time.saturating_add(MAX_EVENT_TIME_AHEAD);
        (Timestamp::UNIX_EPOCH < event_time && event_time <= latest).then_some(event_time)
    }

    /// Digest of the canonical envelope: equal exactly when the producer said the same.
    pub fn envelope_checksum(&self) -> Digest {
        sha256(self.envelope())
    }
}

/// An event as it is read and sent: what its producer said, with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// What the producer said.
    pub event: NewEvent,
    /// Its place in the execution.
    pub seq: Seq,
    /// When the server took it; never decreases inside of an execution.
    pub ingest_time: Timestamp,
    /// Digest of the envelope, kept where id or body came from a client.
    pub envelope_checksum: Option<Digest>,
}

/// An event as a store keeps it: with what never leaves the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event.
    pub record: EventRecord,
    /// Its link in the hash chain of the execution.
    pub chain: Chain,
    /// Its place in the feed of the log.
    pub feed: FeedPosition,
}
