//! Reading an event that was written elsewhere and is copied into this log.
//!
//! The envelope is tolerated as far as it can be: unknown fields are kept, times come in several
//! forms or not at all. What cannot be kept is refused by itself, with a code, so that one bad
//! event never fails its batch.

use super::event::{EventRecord, NewEvent};
use super::read::{Fields, Misfit, RecordError, text_of};
use crate::error::RejectCode;
use crate::event::EventName;
use crate::id::{CommandId, EventId, ExecutionId};
use crate::json::Json;
use crate::limits::MAX_ID_AHEAD;
use crate::name::{OrganizationId, TenantId};
use crate::text::Text;
use crate::time::Timestamp;

/// How an envelope arrives: when, and on whose behalf.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The server's clock.
    pub now: Timestamp,
    /// The tenant of the caller; never the envelope's word.
    pub tenant_id: TenantId,
    /// The organization of the caller; never the envelope's word.
    pub organization_id: OrganizationId,
}

/// An event read from an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projected {
    /// The event, ready to be appended.
    pub event: NewEvent,
    /// The tenant that the envelope names, for the caller to compare.
    pub said_tenant: Option<Text>,
    /// The organization that the envelope names, for the caller to compare.
    pub said_organization: Option<Text>,
    filled_in: FilledIn,
}

/// What the server adds to an event because its envelope does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FilledIn {
    /// There is no time at all, so the event happens when it arrives.
    event_time: bool,
    /// No believable time of creation is given: it is the event's own time, or that of its arrival.
    created_at: bool,
    /// The command is only told by the meta data.
    command_id: bool,
}

/// Why an envelope cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// The code that the answer carries.
    pub code: RejectCode,
    /// What is wrong, for a person.
    pub message: String,
}

impl From<RecordError> for Rejection {
    fn from(error: RecordError) -> Self {
        Self {
            code: RejectCode::BadValue,
            message: error.to_string(),
        }
    }
}

/// Reads an envelope.
pub fn read_projected(envelope: &Json, arrival: &Arrival) -> Result<Projected, Rejection> {
    let mut fields = Fields::of(envelope)?;
    let event_id = fields.id("event_id", Misfit::Refused)?.ok_or(Rejection {
        code: RejectCode::BadValue,
        message: "the event has no event_id".to_owned(),
    })?;
    let execution_id = fields
        .id("execution_id", Misfit::Refused)?
        .ok_or(Rejection {
            code: RejectCode::MissingExecutionId,
            message: "the event has no execution_id".to_owned(),
        })?;
    check_not_in_future(event_id, execution_id, arrival.now)?;
    let name = |value: &Json| Ok(EventName::read_copied(Some(text_of(value)?))?);
    let event_type = fields
        .take("event_type", Misfit::Refused, name)?
        .unwrap_or_else(EventName::unknown);
    let times = Times::take(&mut fields, arrival.now)?;
    let said_tenant = fields.text("tenant_id", Misfit::Refused)?;
    let said_organization = fields.text("organization_id", Misfit::Refused)?;
    let own_command = own_command_id(&mut fields)?;
    let command_id = own_command.or_else(|| command_id_in_meta(envelope));
    // Places that only the log which the event comes from can give.
    for own in [
        "seq",
        "position",
        "tx",
        "chain",
        "ingest_time",
        "envelope_checksum",
    ] {
        fields.ignore(own);
    }
    let event = NewEvent {
        event_time: times.event_time,
        created_at: times.created_at,
        tenant_id: arrival.tenant_id.clone(),
        organization_id: arrival.organization_id.clone(),
        command_id,
        ..NewEvent::new(execution_id, event_id, event_type, arrival.now)
    };
    Ok(Projected {
        event: event.describe(fields, Misfit::Kept)?,
        said_tenant,
        said_organization,
        filled_in: FilledIn {
            command_id: own_command.is_none(),
            ..times.filled_in
        },
    })
}

fn check_not_in_future(
    event_id: EventId,
    execution_id: ExecutionId,
    now: Timestamp,
) -> Result<(), Rejection> {
    let latest = now.saturating_add(MAX_ID_AHEAD).as_unix_ms();
    let made = event_id.unix_ms().max(execution_id.unix_ms());
    if made <= latest {
        return Ok(());
    }
    Err(Rejection {
        code: RejectCode::IdInFuture,
        message: format!(
            "event {event_id} of execution {execution_id} lies {} ms ahead of the clock",
            made - now.as_unix_ms()
        ),
    })
}

/// The command that the event says it is about. A text that names no command of ours is left over.
fn own_command_id(fields: &mut Fields) -> Result<Option<CommandId>, RecordError> {
    fields.take("command_id", Misfit::Kept, |value| {
        match value.as_str().map(CommandId::from_digits_or_label) {
            Some(Ok(id)) => Ok(id),
            Some(Err(_)) | None => Ok(CommandId::from_json(value)?),
        }
    })
}

/// The command that only the meta data tell.
fn command_id_in_meta(envelope: &Json) -> Option<CommandId> {
    let said = envelope.get("meta")?.get("command_id")?;
    match said.as_str() {
        Some(text) => CommandId::from_digits_or_label(text).ok(),
        None => CommandId::from_json(said).ok(),
    }
}

/// The times of an event, as far as its envelope tells them.
struct Times {
    event_time: Timestamp,
    created_at: Timestamp,
    filled_in: FilledIn,
}

impl Times {
    fn take(fields: &mut Fields, now: Timestamp) -> Result<Self, RecordError> {
        let mut time = |field| {
            fields
                .take(field, Misfit::Refused, |value| {
                    Ok(Timestamp::parse_lenient(text_of(value)?)?)
                })
                .map(Option::flatten)
        };
        let (event_time, timestamp, created_at) =
            (time("event_time")?, time("timestamp")?, time("created_at")?);
        let happened = event_time.or(timestamp);
        let producers = happened.or(created_at);
        let believed = |time| NewEvent::believable_time(time, now);
        // Where it is the only time, the time of creation is that of the event.
        let given = happened.and(created_at).and_then(believed);
        let event_time = producers.unwrap_or(now);
        Ok(Self {
            event_time,
            created_at: given.or_else(|| believed(event_time)).unwrap_or(now),
            filled_in: FilledIn {
                event_time: producers.is_none(),
                created_at: given.is_none(),
                command_id: false,
            },
        })
    }
}

impl Projected {
    /// Whether the log already holds this event: the same id with the same envelope. What the
    /// server filled in is not the producer's word, so it is not compared.
    pub fn is_same_as(&self, stored: &EventRecord) -> bool {
        let mut event = self.event.clone();
        if self.filled_in.event_time {
            event.event_time = stored.event.event_time;
        }
        if self.filled_in.created_at {
            event.created_at = stored.event.created_at;
        }
        if self.filled_in.command_id {
            event.command_id = stored.event.command_id;
        }
        let of_stored = stored
            .envelope_checksum
            .unwrap_or_else(|| stored.event.envelope_checksum());
        event.envelope_checksum() == of_stored
    }
}
