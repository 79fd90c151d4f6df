//! From typed events to stored records and back.
//!
//! Owns where each field of an event sits: `context`, `result.context` or `meta`, and the columns
//! beside them. Writing and reading stand side by side, one file for each family of events; what is
//! written reads back as the same event.

mod command;
mod cursor;
mod fields;
mod park;
mod playbook;
mod step;
mod terms;

use noetl_types::record::{EventRecord, NewEvent};
use noetl_types::{EventType, ExecutionId, OrganizationId, PlaybookPath, TenantId};

use super::{Event, EventKind};
use fields::Fields;

pub use fields::DecodeError;
pub(crate) use step::{errors_json, stats_json};

/// What every record of a run says besides its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionHeader {
    /// The run.
    pub execution_id: ExecutionId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Whose it is, inside of the tenant.
    pub organization_id: OrganizationId,
    /// The path of its definition.
    pub path: PlaybookPath,
}

/// The record of an event. Its `seq` is not part of it: the store gives that when it appends.
pub fn encode(event: &Event, header: &ExecutionHeader) -> NewEvent {
    let record = NewEvent {
        tenant_id: header.tenant_id.clone(),
        organization_id: header.organization_id.clone(),
        parent_event_id: event.cause,
        ..NewEvent::new(
            header.execution_id,
            event.event_id,
            event.kind.name(),
            event.time,
        )
    };
    write(record, event, header)
}

fn write(record: NewEvent, event: &Event, header: &ExecutionHeader) -> NewEvent {
    use EventKind as Kind;

    match &event.kind {
        Kind::PlaybookStarted(started) => playbook::write_started(record, started),
        Kind::PlaybookPaused(steering) | Kind::PlaybookResumed(steering) => {
            playbook::write_steering(record, header, steering)
        }
        Kind::PlaybookCompleted { result } => {
            playbook::write_completed(record, header, result.as_ref())
        }
        Kind::PlaybookFailed(failed) => playbook::write_failed(record, header, failed),
        Kind::PlaybookCancelled(steering) => playbook::write_cancelled(record, header, steering),
        Kind::TimerFired { timer, fire_at } => {
            playbook::write_timer(record, header, timer, *fire_at)
        }
        Kind::TimerStarted(started) => park::write_timer_started(record, started),
        Kind::CommandTimerFired(fired) => park::write_timer_fired(record, fired),
        Kind::SignalReceived(signal) => park::write_signal(record, header, signal),
        Kind::StepEntered(entered) => step::write_entered(record, event.event_id, entered),
        Kind::StepExited(exited) => step::write_exited(record, exited),
        Kind::StepSkipped(skipped) => step::write_skipped(record, skipped),
        Kind::LoopDone(done) => step::write_loop_done(record, done),
        Kind::CtxUpdated(updated) => step::write_ctx(record, updated),
        Kind::CommandIssued(issued) => command::write_issued(record, event, issued),
        Kind::CommandClaimed(claimed) => command::write_claimed(record, claimed),
        Kind::CommandStarted { at, attempt } => command::write_started(record, at, *attempt),
        Kind::CommandHeartbeat { at, progress } => command::write_heartbeat(record, at, progress),
        Kind::CallDone(done) => command::write_call_done(record, done),
        Kind::TakenOver(taken) => terms::write_taken_over(record, taken),
        Kind::CallError(failed) => command::write_call_error(record, failed),
        Kind::CommandCompleted(at) => command::write_completed(record, at),
        Kind::CommandFailed(closed) => command::write_failed(record, closed),
        Kind::CommandCancelled(closed) => command::write_cancelled(record, closed),
        Kind::CommandExpired(expired) => command::write_expired(record, expired),
        Kind::ResultIgnored(ignored) => command::write_ignored(record, ignored),
        Kind::Other(_) => record,
    }
}

/// The event of a record in the current schema version.
pub fn decode(record: &EventRecord) -> Result<Event, DecodeError> {
    let kind = match record.event.event_type.known() {
        Some(kind) => read(kind, &Fields::of(record))?,
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

fn read(kind: EventType, fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    use EventKind as Kind;
    use EventType as Type;

    match kind {
        Type::PlaybookStarted => playbook::read_started(fields),
        Type::PlaybookPaused => playbook::read_steering(fields).map(Kind::PlaybookPaused),
        Type::PlaybookResumed => playbook::read_steering(fields).map(Kind::PlaybookResumed),
        Type::PlaybookCompleted => playbook::read_completed(fields),
        Type::PlaybookFailed => playbook::read_failed(fields),
        Type::PlaybookCancelled => playbook::read_steering(fields).map(Kind::PlaybookCancelled),
        Type::TimerFired => playbook::read_timer(fields),
        Type::TimerStarted => park::read_timer_started(fields),
        Type::SignalReceived => park::read_signal(fields),
        Type::StepEnter => step::read_entered(fields),
        Type::StepExit => step::read_exited(fields),
        Type::StepSkipped => step::read_skipped(fields),
        Type::LoopDone => step::read_loop_done(fields),
        Type::CtxUpdated => step::read_ctx(fields),
        Type::CommandIssued => command::read_issued(fields),
        Type::CommandClaimed => command::read_claimed(fields),
        Type::CommandStarted => command::read_started(fields),
        Type::CommandHeartbeat => command::read_heartbeat(fields),
        Type::CallDone if terms::is_taken_over(fields) => terms::read_taken_over(fields),
        Type::CallDone => command::read_call_done(fields),
        Type::CallError => command::read_call_error(fields),
        Type::CommandCompleted => command::read_at(fields).map(Kind::CommandCompleted),
        Type::CommandFailed => command::read_failed(fields),
        Type::CommandCancelled => command::read_cancelled(fields),
        Type::CommandExpired => command::read_expired(fields),
        Type::CommandResultIgnored => command::read_ignored(fields),
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
