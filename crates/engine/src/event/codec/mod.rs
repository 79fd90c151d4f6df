//! Encodes typed events as stored records and decodes them.
//!
//! Owns the location of each field of an event: `context`, `result.context` or `meta`, and the
//! columns beside them. A written record decodes to the same event. The bytes of a record are part
//! of the hash chain of its log, so they never change.

mod command;
mod fields;
mod playbook;
mod step;
mod suspension;
mod values;

use noetl_types::record::{EventRecord, NewEvent};
use noetl_types::{EventType, ExecutionId, OrganizationId, PlaybookPath, TenantId};

use super::{Event, EventKind};
use fields::{EventFields, FieldError, Key, RecordReader, RecordWriter};

pub use fields::DecodeError;
pub(crate) use step::{errors_json, stats_json};

/// Fields that every record of an execution contains besides its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionHeader {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Tenant of the execution.
    pub tenant_id: TenantId,
    /// Organization within the tenant.
    pub organization_id: OrganizationId,
    /// Path of its definition.
    pub path: PlaybookPath,
}

/// Encodes an event as a record. The record has no `seq`: the store assigns it on append.
pub fn encode_event(event: &Event, header: &ExecutionHeader) -> NewEvent {
    let columns = NewEvent {
        tenant_id: header.tenant_id.clone(),
        organization_id: header.organization_id.clone(),
        parent_event_id: event.cause,
        ..NewEvent::new(header.execution_id, event.event_id, event.kind.name(), event.time)
    };
    let mut record = RecordWriter::new(event, header, columns);
    write_payload(&mut record);
    record.into_record()
}

fn write_payload(record: &mut RecordWriter<'_>) {
    use EventKind as Kind;

    match &record.event.kind {
        Kind::PlaybookStarted(started) => started.write(record),
        Kind::PlaybookPaused(control)
        | Kind::PlaybookResumed(control)
        | Kind::PlaybookCancelRequested(control) => control.write(record),
        Kind::PlaybookCompleted { result } => {
            record.set_execution_columns();
            record.put_status();
            record.put_data(Key::Result, result.as_ref());
        }
        Kind::PlaybookFailed(failed) => failed.write(record),
        Kind::PlaybookCancelled(control) => {
            control.write(record);
            record.put_status();
        }
        Kind::TimerFired { timer, fire_at } => playbook::write_timer(record, timer, *fire_at),
        Kind::TimerStarted(started) => started.write(record),
        Kind::CommandTimerFired(fired) => fired.write(record),
        Kind::SignalReceived(signal) => signal.write(record),
        Kind::StepEntered(entered) => entered.write(record),
        Kind::StepExited(exited) => exited.write(record),
        Kind::StepSkipped(skipped) => skipped.write(record),
        Kind::LoopDone(done) => done.write(record),
        Kind::CtxUpdated(updated) => updated.write(record),
        Kind::CommandIssued(issued) => issued.write(record),
        Kind::CommandClaimed(claimed) => claimed.write(record),
        Kind::CommandStarted { at, attempt } => {
            at.write(record);
            record.meta.put(Key::Attempt, attempt);
        }
        Kind::CommandHeartbeat { at, progress } => {
            at.write(record);
            record.result.put(Key::Progress, progress);
        }
        Kind::CallDone(done) => done.write(record),
        Kind::CachedResultUsed(used) => used.write(record),
        Kind::CallError(failed) => failed.write(record),
        Kind::CommandCompleted(at) => at.write(record),
        Kind::CommandFailed(closed) => closed.write(record),
        Kind::CommandCancelled(closed) => closed.write(record),
        Kind::CommandExpired(expired) => expired.write(record),
        Kind::ResultIgnored(ignored) => ignored.write(record),
        Kind::Other(_) => {}
    }
}

/// Decodes a record of the current schema version.
pub fn decode_record(record: &EventRecord) -> Result<Event, DecodeError> {
    let event_type = &record.event.event_type;
    let kind = match event_type.known_type() {
        Some(known) => {
            read_payload(known, &RecordReader::new(record)).map_err(|error| DecodeError {
                seq: record.seq,
                event: event_type.clone(),
                field: error.field,
                expected: error.expected,
            })?
        }
        None => EventKind::Other(event_type.clone()),
    };
    Ok(Event {
        seq: record.seq,
        event_id: record.event.event_id,
        time: record.event.event_time,
        cause: record.event.parent_event_id,
        kind,
    })
}

fn read_payload(event_type: EventType, record: &RecordReader<'_>) -> Result<EventKind, FieldError> {
    use EventKind as Kind;
    use EventType as Type;

    Ok(match event_type {
        Type::PlaybookStarted => Kind::PlaybookStarted(EventFields::read(record)?),
        Type::PlaybookPaused => Kind::PlaybookPaused(EventFields::read(record)?),
        Type::PlaybookResumed => Kind::PlaybookResumed(EventFields::read(record)?),
        Type::PlaybookCancelRequested => Kind::PlaybookCancelRequested(EventFields::read(record)?),
        Type::PlaybookCompleted => {
            Kind::PlaybookCompleted { result: record.read_data(Key::Result)? }
        }
        Type::PlaybookFailed => Kind::PlaybookFailed(EventFields::read(record)?),
        Type::PlaybookCancelled => Kind::PlaybookCancelled(EventFields::read(record)?),
        Type::TimerFired => {
            let fire_at = record.result.read(Key::FireAt)?;
            match playbook::read_timer(record)? {
                Some(timer) => Kind::TimerFired { timer, fire_at },
                None => Kind::CommandTimerFired(EventFields::read(record)?),
            }
        }
        Type::TimerStarted => Kind::TimerStarted(EventFields::read(record)?),
        Type::SignalReceived => Kind::SignalReceived(EventFields::read(record)?),
        Type::StepEnter => Kind::StepEntered(EventFields::read(record)?),
        Type::StepExit => Kind::StepExited(EventFields::read(record)?),
        Type::StepSkipped => Kind::StepSkipped(EventFields::read(record)?),
        Type::LoopDone => Kind::LoopDone(EventFields::read(record)?),
        Type::CtxUpdated => Kind::CtxUpdated(EventFields::read(record)?),
        Type::CommandIssued => Kind::CommandIssued(EventFields::read(record)?),
        Type::CommandClaimed => Kind::CommandClaimed(EventFields::read(record)?),
        Type::CommandStarted => Kind::CommandStarted {
            at: EventFields::read(record)?,
            attempt: record.meta.read(Key::Attempt)?,
        },
        Type::CommandHeartbeat => Kind::CommandHeartbeat {
            at: EventFields::read(record)?,
            progress: record.result.read(Key::Progress)?,
        },
        Type::CallDone if record.meta.get(Key::Cached) == Some(&true.into()) => {
            Kind::CachedResultUsed(EventFields::read(record)?)
        }
        Type::CallDone => Kind::CallDone(EventFields::read(record)?),
        Type::CallError => Kind::CallError(EventFields::read(record)?),
        Type::CommandCompleted => Kind::CommandCompleted(EventFields::read(record)?),
        Type::CommandFailed => Kind::CommandFailed(EventFields::read(record)?),
        Type::CommandCancelled => Kind::CommandCancelled(EventFields::read(record)?),
        Type::CommandExpired => Kind::CommandExpired(EventFields::read(record)?),
        Type::CommandResultIgnored => Kind::ResultIgnored(EventFields::read(record)?),
        // These have no effect on the state of an execution.
        _ => Kind::Other(event_type.into()),
    })
}
