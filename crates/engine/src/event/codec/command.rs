//! Records of commands and calls.

use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::{Continuation, TaskReport, TaskStatus};
use noetl_playbook::model::ToolKind;
use noetl_types::record::{ElapsedTime, NewEvent};
use noetl_types::{CommandId, Digest, ErrorCode, Json, Millis, TaskError, Text, WorkerId};

use super::cursor;
use super::fields::{DecodeError, Key, MapBuilder, RecordFields, RecordPart, RecordParts};
use super::playbook::read_priority;
use super::step::{read_loop_id, set_step_column};
use super::suspension::{read_suspension, write_suspension};
use crate::event::{
    CallDone, CallError, CallOutcome, CommandClaimed, CommandClosed, CommandExpired, CommandIssued,
    CommandRef, Event, EventKind, ExpiryReason, IssuedContext, LoopRef, ResultIgnored,
    ScheduledRetry,
};
use crate::payload::{EventData, Reference};

/// Sets the columns of a record of a command.
pub(super) fn set_command_columns(record: NewEvent, at: &CommandRef) -> NewEvent {
    NewEvent { command_id: Some(at.command), ..set_step_column(record, &at.step) }
}

/// Returns the parts that every record of a command contains.
pub(super) fn command_parts(at: &CommandRef) -> RecordParts {
    let mut parts = RecordParts::new();
    parts.result = parts.result.with_field(Key::CommandId, at.command.to_string());
    parts.meta = with_position(parts.meta, at.run, at.index, at.looping)
        .with_optional(Key::Segment, at.segment);
    parts
}

fn with_position(
    meta: MapBuilder,
    run: u32,
    index: Option<u32>,
    looping: Option<LoopRef>,
) -> MapBuilder {
    let meta = meta.with_field(Key::Run, run).with_optional(index_key(looping), index);
    match looping {
        None => meta,
        Some(LoopRef { loop_id, size }) => meta
            .with_field(Key::LoopId, loop_id.to_string())
            .with_optional(Key::CollectionSize, size),
    }
}

/// Returns the key of the index. A loop of unknown size goes over a cursor, in frames.
fn index_key(looping: Option<LoopRef>) -> Key {
    match looping {
        Some(LoopRef { size: None, .. }) => Key::Frame,
        Some(LoopRef { size: Some(_), .. }) | None => Key::Index,
    }
}

pub(super) fn read_command_ref(fields: &RecordFields<'_>) -> Result<CommandRef, DecodeError> {
    let looping = read_loop(&fields.meta)?;
    Ok(CommandRef {
        command: fields
            .record
            .event
            .command_id
            .ok_or_else(|| fields.decode_error("command_id", "an id"))?,
        step: fields.step_name()?,
        run: fields.meta.require_number(Key::Run)?,
        index: fields.meta.read_number(index_key(looping))?,
        segment: fields.meta.read_number(Key::Segment)?,
        looping,
    })
}

fn read_loop(meta: &RecordPart<'_>) -> Result<Option<LoopRef>, DecodeError> {
    let Some(loop_id) = read_loop_id(meta)? else {
        return Ok(None);
    };
    let size = meta.read_number(Key::CollectionSize)?;
    Ok(Some(LoopRef { loop_id, size }))
}

pub(super) fn write_command_issued(
    record: NewEvent,
    event: &Event,
    issued: &CommandIssued,
) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.context = match &issued.context {
        IssuedContext::Inline(context) => MapBuilder::from(context.to_json()),
        IssuedContext::External(reference) => {
            parts.context.with_field(Key::ContextRef, reference.as_json().clone())
        }
    };
    let key = format!("{}:{}", record.execution_id, event.seq);
    parts.meta = with_position(parts.meta, issued.run, issued.index, issued.looping)
        .with_field(Key::CommandId, event.event_id.to_string())
        .with_field(Key::Step, &issued.step)
        .with_field(Key::ToolKind, issued.tool.as_str())
        .with_field(Key::Attempt, 1)
        .with_field(Key::MaxAttempts, issued.max_attempts)
        .with_field(Key::Idempotency, key)
        .with_field(Key::DeadlineMs, issued.deadline.as_ms())
        .with_optional(Key::Segment, issued.segment)
        .with_optional(Key::NotBefore, issued.not_before)
        .with_optional(Key::Priority, issued.priority.map(i32::from))
        .with_optional(Key::Trace, issued.trace.clone())
        .with_optional(Key::Cursor, issued.frame.map(cursor::frame_request_json));
    if let Some(suspension) = &issued.suspension {
        parts = write_suspension(parts, suspension);
    }
    let record = NewEvent {
        command_id: Some(CommandId::from(event.event_id)),
        node_type: Some(issued.tool.as_str().into()),
        ..set_step_column(record, &issued.step)
    };
    parts.into_record(record)
}

pub(super) fn read_command_issued(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let (context, meta) = (&fields.context, &fields.meta);
    let looping = read_loop(meta)?;
    let tool =
        meta.read_required(Key::ToolKind, "a tool kind", |kind| ToolKind::parse(kind.as_str()?))?;
    let suspension = read_suspension(fields, tool)?;
    let reference = context.read_optional(Key::ContextRef, "a reference", |reference| {
        Reference::new(reference.clone()).ok()
    })?;
    let context = match reference {
        Some(reference) => IssuedContext::External(reference),
        None if suspension.is_some() => IssuedContext::Inline(CommandContext::default()),
        None => IssuedContext::Inline(
            CommandContext::from_json(context.as_map())
                .ok_or_else(|| fields.decode_error("context", "a command context"))?,
        ),
    };
    Ok(EventKind::CommandIssued(Box::new(CommandIssued {
        step: fields.step_name()?,
        run: meta.require_number(Key::Run)?,
        index: meta.read_number(index_key(looping))?,
        segment: meta.read_number(Key::Segment)?,
        looping,
        frame: meta.read_optional(Key::Cursor, "a frame request", |request| {
            cursor::read_frame_request(&meta.nested(request.as_map()?))
        })?,
        tool,
        max_attempts: meta.require_number(Key::MaxAttempts)?,
        deadline: Millis::from_ms(meta.require_number(Key::DeadlineMs)?),
        priority: read_priority(fields)?,
        not_before: meta.read_time(Key::NotBefore)?,
        trace: meta.read_text(Key::Trace)?,
        suspension,
        context,
    })))
}

pub(super) fn write_command_claimed(record: NewEvent, claimed: &CommandClaimed) -> NewEvent {
    let mut parts = command_parts(&claimed.at);
    parts.result = parts.result.with_field(Key::WorkerId, &claimed.worker);
    parts.meta = parts
        .meta
        .with_field(Key::Attempt, claimed.attempt)
        .with_optional(Key::LeaseUntil, claimed.lease_until);
    let record = NewEvent {
        worker_id: Some(Text::from(&claimed.worker)),
        ..set_command_columns(record, &claimed.at)
    };
    parts.into_record(record)
}

pub(super) fn read_command_claimed(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CommandClaimed(Box::new(CommandClaimed {
        at: read_command_ref(fields)?,
        attempt: fields.meta.require_number(Key::Attempt)?,
        worker: read_worker(&fields.result)?,
        lease_until: fields.meta.read_time(Key::LeaseUntil)?,
    })))
}

fn read_worker(part: &RecordPart<'_>) -> Result<WorkerId, DecodeError> {
    part.read_required(Key::WorkerId, "a worker id", |worker| WorkerId::new(worker.as_str()?).ok())
}

pub(super) fn write_command_started(record: NewEvent, at: &CommandRef, attempt: u32) -> NewEvent {
    let mut parts = command_parts(at);
    parts.meta = parts.meta.with_field(Key::Attempt, attempt);
    parts.into_record(set_command_columns(record, at))
}

pub(super) fn read_command_started(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let at = read_command_ref(fields)?;
    let attempt = fields.meta.require_number(Key::Attempt)?;
    Ok(EventKind::CommandStarted { at, attempt })
}

pub(super) fn write_heartbeat(record: NewEvent, at: &CommandRef, progress: &Json) -> NewEvent {
    let mut parts = command_parts(at);
    parts.result = parts.result.with_field(Key::Progress, progress.clone());
    parts.into_record(set_command_columns(record, at))
}

pub(super) fn read_heartbeat(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let at = read_command_ref(fields)?;
    let progress = fields.result.read_json(Key::Progress).unwrap_or_default();
    Ok(EventKind::CommandHeartbeat { at, progress })
}

pub(super) fn write_call_done(record: NewEvent, done: &CallDone) -> NewEvent {
    let mut parts = write_outcome(command_parts(&done.at), &done.outcome);
    parts.result = parts
        .result
        .with_field(Key::CallIndex, done.call_index)
        .with_optional(Key::Results, done.labels.clone())
        .with_optional(Key::Onward, done.continuation.as_ref().map(Continuation::to_json));
    parts.meta = parts.meta.with_field(Key::Final, true);
    let record = NewEvent {
        duration: done.outcome.duration().map(ElapsedTime::from),
        ..set_command_columns(record, &done.at)
    };
    parts.into_record(record)
}

pub(super) fn read_call_done(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CallDone(Box::new(CallDone {
        at: read_command_ref(fields)?,
        call_index: fields.result.require_number(Key::CallIndex)?,
        outcome: read_outcome(fields)?,
        labels: fields.result.read_json(Key::Results),
        continuation: fields.result.read_optional(
            Key::Onward,
            "a continuation",
            |continuation| Continuation::from_json(continuation.as_map()?),
        )?,
    })))
}

pub(super) fn write_call_error(record: NewEvent, failed: &CallError) -> NewEvent {
    let mut parts = write_outcome(command_parts(&failed.at), &failed.outcome);
    parts.result = parts
        .result
        .with_field(Key::CallIndex, failed.call_index)
        .with_field(Key::Error, failed.error.to_json());
    parts.meta = parts
        .meta
        .with_field(Key::Final, failed.retried.is_none())
        .with_optional(Key::RetryInMs, failed.retried.map(|retried| retried.retry_in.as_ms()));
    let record = NewEvent {
        error: Some(failed.error.message.clone()),
        duration: failed.outcome.duration().map(ElapsedTime::from),
        ..set_command_columns(record, &failed.at)
    };
    parts.into_record(record)
}

pub(super) fn read_call_error(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let is_final = fields.meta.read_required(Key::Final, "a bool", Json::as_bool)?;
    let retried = if is_final {
        None
    } else {
        let retry_in = Millis::from_ms(fields.meta.require_number(Key::RetryInMs)?);
        Some(ScheduledRetry { retry_in })
    };
    Ok(EventKind::CallError(Box::new(CallError {
        at: read_command_ref(fields)?,
        call_index: fields.result.require_number(Key::CallIndex)?,
        error: fields.result.read_error(Key::Error)?,
        outcome: read_outcome(fields)?,
        retried,
    })))
}

fn write_outcome(parts: RecordParts, outcome: &CallOutcome) -> RecordParts {
    let is_empty = outcome.data == EventData::default();
    let mut parts = parts.with_data(Key::Result, (!is_empty).then_some(&outcome.data));
    parts.result = parts.result.with_nonempty(Key::Set, &outcome.set);
    parts.meta = parts.meta.with_field(Key::Attempt, outcome.attempt);
    if !outcome.tasks.is_empty() {
        let tasks = Json::list(outcome.tasks.iter().map(task_json));
        parts.meta = parts.meta.with_field(Key::Tasks, tasks);
    }
    cursor::write_frame(parts, outcome.frame.as_ref())
}

fn read_outcome(fields: &RecordFields<'_>) -> Result<CallOutcome, DecodeError> {
    let meta = &fields.meta;
    let tasks = meta.read_optional(Key::Tasks, "a list of tasks", |tasks| {
        let tasks = tasks.as_list()?.iter();
        tasks.map(|task| read_task(&meta.nested(task.as_map()?))).collect()
    })?;
    Ok(CallOutcome {
        data: fields.read_data(Key::Result)?.unwrap_or_default(),
        set: fields.result.read_map(Key::Set)?,
        attempt: meta.require_number(Key::Attempt)?,
        tasks: tasks.unwrap_or_default(),
        frame: cursor::read_frame(fields)?,
    })
}

fn task_json(task: &TaskReport) -> Json {
    MapBuilder::default()
        .with_field(Key::Label, &task.label)
        .with_field(Key::Status, task.status.as_str())
        .with_field(Key::Attempts, task.attempts)
        .with_optional(Key::DurationMs, task.duration.map(Millis::as_ms))
        .with_optional(Key::Stdout, task.stdout.as_ref())
        .with_optional(Key::Stderr, task.stderr.as_ref())
        .into_json()
}

fn read_task(task: &RecordPart<'_>) -> Option<TaskReport> {
    Some(TaskReport {
        label: task.read_text(Key::Label).ok()??,
        status: TaskStatus::parse(task.get(Key::Status)?.as_str()?)?,
        attempts: task.require_number(Key::Attempts).ok()?,
        duration: task.read_number(Key::DurationMs).ok()?.map(Millis::from_ms),
        stdout: task.read_text(Key::Stdout).ok()?,
        stderr: task.read_text(Key::Stderr).ok()?,
    })
}

pub(super) fn write_command_completed(record: NewEvent, at: &CommandRef) -> NewEvent {
    command_parts(at).into_record(set_command_columns(record, at))
}

pub(super) fn write_command_failed(
    record: NewEvent,
    closed: &CommandClosed<TaskError>,
) -> NewEvent {
    let mut parts = command_parts(&closed.at);
    parts.result = parts.result.with_field(Key::Error, closed.reason.to_json());
    let record = NewEvent {
        error: Some(closed.reason.message.clone()),
        ..set_command_columns(record, &closed.at)
    };
    parts.into_record(record)
}

pub(super) fn read_command_failed(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CommandFailed(Box::new(CommandClosed {
        at: read_command_ref(fields)?,
        reason: fields.result.read_error(Key::Error)?,
    })))
}

pub(super) fn write_command_cancelled(record: NewEvent, closed: &CommandClosed<Text>) -> NewEvent {
    let mut parts = command_parts(&closed.at);
    parts.result = parts.result.with_field(Key::Reason, &closed.reason);
    parts.into_record(set_command_columns(record, &closed.at))
}

pub(super) fn read_command_cancelled(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let reason = fields.result.read_text(Key::Reason)?;
    Ok(EventKind::CommandCancelled(Box::new(CommandClosed {
        at: read_command_ref(fields)?,
        reason: reason.ok_or_else(|| fields.result.key_error(Key::Reason, "a string"))?,
    })))
}

pub(super) fn write_command_expired(record: NewEvent, expired: &CommandExpired) -> NewEvent {
    let mut parts = command_parts(&expired.at);
    parts.meta = parts
        .meta
        .with_field(Key::Attempt, expired.attempt)
        .with_field(Key::Reason, expired.reason.as_str())
        .with_optional(Key::NotBefore, expired.not_before);
    parts.into_record(set_command_columns(record, &expired.at))
}

pub(super) fn read_command_expired(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CommandExpired(Box::new(CommandExpired {
        at: read_command_ref(fields)?,
        attempt: fields.meta.require_number(Key::Attempt)?,
        reason: fields.meta.read_required(Key::Reason, "a reason", |reason| {
            ExpiryReason::parse(reason.as_str()?)
        })?,
        not_before: fields.meta.read_time(Key::NotBefore)?,
    })))
}

pub(super) fn write_result_ignored(record: NewEvent, ignored: &ResultIgnored) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.result = parts
        .result
        .with_field(Key::CommandId, ignored.command.to_string())
        .with_field(Key::Sha256, ignored.sha256.to_string())
        .with_field(Key::Bytes, ignored.bytes);
    parts.meta = parts
        .meta
        .with_field(Key::Attempt, ignored.attempt)
        .with_field(Key::WorkerId, &ignored.worker)
        .with_field(Key::Code, ignored.code.as_str());
    let record = NewEvent {
        command_id: Some(ignored.command),
        node_name: ignored.step.as_ref().map(Text::from),
        worker_id: Some(Text::from(&ignored.worker)),
        ..record
    };
    parts.into_record(record)
}

pub(super) fn read_result_ignored(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let command = fields.record.event.command_id;
    Ok(EventKind::ResultIgnored(Box::new(ResultIgnored {
        command: command.ok_or_else(|| fields.decode_error("command_id", "an id"))?,
        step: fields.optional_step_name()?,
        attempt: fields.meta.require_number(Key::Attempt)?,
        worker: read_worker(&fields.meta)?,
        sha256: fields.result.read_required(Key::Sha256, "a digest", |digest| {
            Digest::parse(digest.as_str()?).ok()
        })?,
        bytes: fields.result.require_number(Key::Bytes)?,
        code: fields
            .meta
            .read_required(Key::Code, "a code", |code| ErrorCode::parse(code.as_str()?).ok())?,
    })))
}
