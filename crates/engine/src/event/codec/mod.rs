//! Encodes typed events as stored records and decodes them.
//!
//! Owns the location of each field of an event: `context`, `result.context` or `meta`, and the
//! columns beside them. Writing and reading are side by side, one file per family of events. A
//! written record decodes to the same event.

mod command;
mod cursor;
mod fields;
mod playbook;
mod slots_and_cache;
mod step;
mod suspension;

use noetl_types::record::{EventRecord, NewEvent};
use noetl_types::{EventType, ExecutionId, OrganizationId, PlaybookPath, TenantId};

use super::{Event, EventKind};
use fields::RecordFields;

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
    let record = NewEvent {
        tenant_id: header.tenant_id.clone(),
        organization_id: header.organization_id.clone(),
        parent_event_id: event.cause,
        ..NewEvent::new(header.execution_id, event.event_id, event.kind.name(), event.time)
    };
    write_payload(record, event, header)
}

fn write_payload(record: NewEvent, event: &Event, header: &ExecutionHeader) -> NewEvent {
    use EventKind as Kind;

    match &event.kind {
        Kind::PlaybookStarted(started) => playbook::write_playbook_started(record, started),
        Kind::PlaybookPaused(control) | Kind::PlaybookResumed(control) => {
            playbook::write_control(record, header, control)
        }
        Kind::PlaybookCompleted { result } => {
            playbook::write_playbook_completed(record, header, result.as_ref())
        }
        Kind::PlaybookFailed(failed) => playbook::write_playbook_failed(record, header, failed),
        Kind::PlaybookCancelled(control) => {
            playbook::write_playbook_cancelled(record, header, control)
        }
        Kind::TimerFired { timer, fire_at } => {
            playbook::write_execution_timer(record, header, timer, *fire_at)
        }
        Kind::TimerStarted(started) => suspension::write_timer_started(record, started),
        Kind::CommandTimerFired(fired) => suspension::write_timer_fired(record, fired),
        Kind::SignalReceived(signal) => suspension::write_signal(record, header, signal),
        Kind::StepEntered(entered) => step::write_step_entered(record, event.event_id, entered),
        Kind::StepExited(exited) => step::write_step_exited(record, exited),
        Kind::StepSkipped(skipped) => step::write_step_skipped(record, skipped),
        Kind::LoopDone(done) => step::write_loop_done(record, done),
        Kind::CtxUpdated(updated) => step::write_ctx_updated(record, updated),
        Kind::CommandIssued(issued) => command::write_command_issued(record, event, issued),
        Kind::CommandClaimed(claimed) => command::write_command_claimed(record, claimed),
        Kind::CommandStarted { at, attempt } => {
            command::write_command_started(record, at, *attempt)
        }
        Kind::CommandHeartbeat { at, progress } => command::write_heartbeat(record, at, progress),
        Kind::CallDone(done) => command::write_call_done(record, done),
        Kind::CachedResultUsed(used) => slots_and_cache::write_cached_result_used(record, used),
        Kind::CallError(failed) => command::write_call_error(record, failed),
        Kind::CommandCompleted(at) => command::write_command_completed(record, at),
        Kind::CommandFailed(closed) => command::write_command_failed(record, closed),
        Kind::CommandCancelled(closed) => command::write_command_cancelled(record, closed),
        Kind::CommandExpired(expired) => command::write_command_expired(record, expired),
        Kind::ResultIgnored(ignored) => command::write_result_ignored(record, ignored),
        Kind::Other(_) => record,
    }
}

/// Decodes a record of the current schema version.
pub fn decode_record(record: &EventRecord) -> Result<Event, DecodeError> {
    let kind = match record.event.event_type.known_type() {
        Some(kind) => read_payload(kind, &RecordFields::from_record(record))?,
        None => EventKind::Other(record.event.event_type.clone()),
    };
    Ok(Event {
        seq: record.seq,
        event_id: record.event.event_id,
        time: record.event.event_time,
        cause: record.event.parent_event_id,
        kind,
    })
}

fn read_payload(kind: EventType, fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    use EventKind as Kind;
    use EventType as Type;

    match kind {
        Type::PlaybookStarted => playbook::read_playbook_started(fields),
        Type::PlaybookPaused => playbook::read_control(fields).map(Kind::PlaybookPaused),
        Type::PlaybookResumed => playbook::read_control(fields).map(Kind::PlaybookResumed),
        Type::PlaybookCompleted => playbook::read_playbook_completed(fields),
        Type::PlaybookFailed => playbook::read_playbook_failed(fields),
        Type::PlaybookCancelled => playbook::read_control(fields).map(Kind::PlaybookCancelled),
        Type::TimerFired => playbook::read_timer_event(fields),
        Type::TimerStarted => suspension::read_timer_started(fields),
        Type::SignalReceived => suspension::read_signal(fields),
        Type::StepEnter => step::read_step_entered(fields),
        Type::StepExit => step::read_step_exited(fields),
        Type::StepSkipped => step::read_step_skipped(fields),
        Type::LoopDone => step::read_loop_done(fields),
        Type::CtxUpdated => step::read_ctx_updated(fields),
        Type::CommandIssued => command::read_command_issued(fields),
        Type::CommandClaimed => command::read_command_claimed(fields),
        Type::CommandStarted => command::read_command_started(fields),
        Type::CommandHeartbeat => command::read_heartbeat(fields),
        Type::CallDone => read_call_done(fields),
        Type::CallError => command::read_call_error(fields),
        Type::CommandCompleted => command::read_command_ref(fields).map(Kind::CommandCompleted),
        Type::CommandFailed => command::read_command_failed(fields),
        Type::CommandCancelled => command::read_command_cancelled(fields),
        Type::CommandExpired => command::read_command_expired(fields),
        Type::CommandResultIgnored => command::read_result_ignored(fields),
        Type::LoopItem
        | Type::LoopShardDone
        | Type::LoopShardFailed
        | Type::LoopFaninCompleted
        | Type::LoopStalled
        | Type::ExecutionForked
        | Type::ExecutionExported
        | Type::ExecutionVerified
        | Type::StageOpened
        | Type::StageClosed
        | Type::FrameDispatched
        | Type::FrameStarted
        | Type::FrameHeartbeat
        | Type::FrameCommitted
        | Type::FrameFailed
        | Type::FrameAbandoned
        | Type::BatchAccepted
        | Type::BatchProcessing
        | Type::BatchCompleted
        | Type::BatchFailed
        | Type::SubscriptionRegistered
        | Type::SubscriptionActivated
        | Type::SubscriptionPaused
        | Type::SubscriptionResumed
        | Type::SubscriptionDraining
        | Type::SubscriptionDeactivated
        | Type::SubscriptionRateLimited
        | Type::SubscriptionMessageDeduplicated
        | Type::SubscriptionMessageDirectivesApplied
        | Type::SubscriptionMessageSpooled
        | Type::SubscriptionMessageReplayed
        | Type::SubscriptionMessageDropped
        | Type::SubscriptionMessageDeadLettered
        | Type::SubscriptionSpoolRecovered
        | Type::SubscriptionSpoolDraining
        | Type::SubscriptionSpoolAlert
        | Type::SubscriptionCircuitOpened
        | Type::SubscriptionCircuitClosed
        | Type::WorkflowCompleted
        | Type::WorkflowFailed => Ok(Kind::Other(kind.into())),
    }
}

/// Decodes a `call.done`: of a command, or of a reused cached result.
fn read_call_done(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    if slots_and_cache::is_cached_result(fields) {
        return slots_and_cache::read_cached_result_used(fields);
    }
    command::read_call_done(fields)
}
