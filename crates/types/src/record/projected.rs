//! Parsing of projected events, which were written elsewhere and are copied into this log.
//!
//! The parser is lenient: unknown fields are preserved, and times may have several forms or be
//! absent. An event that cannot be stored is rejected alone, with a code, so that one bad event
//! never fails its batch.

use super::event::{EventRecord, NewEvent};
use super::read::{JsonFields, MismatchPolicy, RecordError, str_from_json};
use crate::error::RejectCode;
use crate::event::EventName;
use crate::id::{CommandId, EventId, ExecutionId};
use crate::json::Json;
use crate::limits::MAX_ID_AHEAD;
use crate::name::{OrganizationId, TenantId};
use crate::text::Text;
use crate::time::Timestamp;

/// Context in which an envelope is received: the time and the caller.
#[derive(Debug, Clone)]
pub struct ProjectionContext {
    /// Current time of the server.
    pub now: Timestamp,
    /// Tenant of the caller. Never taken from the envelope.
    pub tenant_id: TenantId,
    /// Organization of the caller. Never taken from the envelope.
    pub organization_id: OrganizationId,
}

/// An event parsed from an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedEvent {
    /// The event, ready to be appended.
    pub event: NewEvent,
    /// Tenant named by the envelope, for the caller to compare.
    pub envelope_tenant: Option<Text>,
    /// Organization named by the envelope, for the caller to compare.
    pub envelope_organization: Option<Text>,
    defaulted: DefaultedFields,
}

/// Fields that the server fills in because the envelope lacks them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DefaultedFields {
    /// The envelope has no time at all, so the event time is the time of arrival.
    event_time: bool,
    /// The envelope has no plausible creation time. The event time or the time of arrival is used.
    created_at: bool,
    /// The command id is present only in the metadata.
    command_id: bool,
}

/// Reason why an envelope cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EventRejection {
    /// Code for the response.
    pub code: RejectCode,
    /// Human-readable message.
    pub message: String,
}

impl From<RecordError> for EventRejection {
    fn from(error: RecordError) -> Self {
        Self { code: RejectCode::BadValue, message: error.to_string() }
    }
}

/// Parses an envelope.
pub fn parse_projected_event(
    envelope: &Json,
    context: &ProjectionContext,
) -> Result<ProjectedEvent, EventRejection> {
    let mut fields = JsonFields::from_json(envelope)?;
    let event_id = fields.take_id("event_id", MismatchPolicy::Reject)?.ok_or(EventRejection {
        code: RejectCode::BadValue,
        message: "the event has no event_id".to_owned(),
    })?;
    let execution_id =
        fields.take_id("execution_id", MismatchPolicy::Reject)?.ok_or(EventRejection {
            code: RejectCode::MissingExecutionId,
            message: "the event has no execution_id".to_owned(),
        })?;
    check_not_in_future(event_id, execution_id, context.now)?;
    let name = |value: &Json| Ok(EventName::parse_lenient(Some(str_from_json(value)?))?);
    let event_type = fields
        .take_field("event_type", MismatchPolicy::Reject, name)?
        .unwrap_or_else(EventName::unknown);
    let times = EventTimes::from_fields(&mut fields, context.now)?;
    let envelope_tenant = fields.take_text("tenant_id", MismatchPolicy::Reject)?;
    let envelope_organization = fields.take_text("organization_id", MismatchPolicy::Reject)?;
    let own_command = take_command_id(&mut fields)?;
    let command_id = own_command.or_else(|| command_id_from_meta(envelope));
    // Fields that only the log of origin can assign.
    for field in ["seq", "position", "tx", "chain", "ingest_time", "envelope_checksum"] {
        fields.drop_field(field);
    }
    let event = NewEvent {
        event_time: times.event_time,
        created_at: times.created_at,
        tenant_id: context.tenant_id.clone(),
        organization_id: context.organization_id.clone(),
        command_id,
        ..NewEvent::new(execution_id, event_id, event_type, context.now)
    };
    Ok(ProjectedEvent {
        event: event.fill_from_fields(fields, MismatchPolicy::KeepAsExtra)?,
        envelope_tenant,
        envelope_organization,
        defaulted: DefaultedFields { command_id: own_command.is_none(), ..times.defaulted },
    })
}

fn check_not_in_future(
    event_id: EventId,
    execution_id: ExecutionId,
    now: Timestamp,
) -> Result<(), EventRejection> {
    let latest = now.saturating_add(MAX_ID_AHEAD).as_unix_ms();
    let created_ms = event_id.unix_ms().max(execution_id.unix_ms());
    if created_ms <= latest {
        return Ok(());
    }
    Err(EventRejection {
        code: RejectCode::IdInFuture,
        message: format!(
            "event {event_id} of execution {execution_id} is {} ms ahead of the clock",
            created_ms - now.as_unix_ms()
        ),
    })
}

/// Takes the command id of the event. A text that is not one of our command ids is left in the
/// fields.
fn take_command_id(fields: &mut JsonFields) -> Result<Option<CommandId>, RecordError> {
    fields.take_field("command_id", MismatchPolicy::KeepAsExtra, |value| {
        match value.as_str().map(CommandId::from_digits_or_label) {
            Some(Ok(id)) => Ok(id),
            Some(Err(_)) | None => Ok(CommandId::from_json(value)?),
        }
    })
}

/// Returns the command id in the metadata.
fn command_id_from_meta(envelope: &Json) -> Option<CommandId> {
    let id = envelope.get("meta")?.get("command_id")?;
    match id.as_str() {
        Some(text) => CommandId::from_digits_or_label(text).ok(),
        None => CommandId::from_json(id).ok(),
    }
}

/// Times of an event, as far as the envelope has them.
struct EventTimes {
    event_time: Timestamp,
    created_at: Timestamp,
    defaulted: DefaultedFields,
}

impl EventTimes {
    fn from_fields(fields: &mut JsonFields, now: Timestamp) -> Result<Self, RecordError> {
        let mut time = |field| {
            fields
                .take_field(field, MismatchPolicy::Reject, |value| {
                    Ok(Timestamp::parse_lenient(str_from_json(value)?)?)
                })
                .map(Option::flatten)
        };
        let (event_time, timestamp, created_at) =
            (time("event_time")?, time("timestamp")?, time("created_at")?);
        let producer_event_time = event_time.or(timestamp);
        let producer_time = producer_event_time.or(created_at);
        let plausible = |time| NewEvent::plausible_time(time, now);
        // If it is the only time, the creation time is the event time.
        let plausible_creation = producer_event_time.and(created_at).and_then(plausible);
        let event_time = producer_time.unwrap_or(now);
        Ok(Self {
            event_time,
            created_at: plausible_creation.or_else(|| plausible(event_time)).unwrap_or(now),
            defaulted: DefaultedFields {
                event_time: producer_time.is_none(),
                created_at: plausible_creation.is_none(),
                command_id: false,
            },
        })
    }
}

impl ProjectedEvent {
    /// True if the log already holds this event: the same id with the same envelope. Fields that
    /// the server filled in do not come from the producer, so they are not compared.
    pub fn is_same_as(&self, stored: &EventRecord) -> bool {
        let mut event = self.event.clone();
        if self.defaulted.event_time {
            event.event_time = stored.event.event_time;
        }
        if self.defaulted.created_at {
            event.created_at = stored.event.created_at;
        }
        if self.defaulted.command_id {
            event.command_id = stored.event.command_id;
        }
        let stored_checksum =
            stored.envelope_checksum.unwrap_or_else(|| stored.event.envelope_checksum());
        event.envelope_checksum() == stored_checksum
    }
}
