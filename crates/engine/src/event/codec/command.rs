//! Records of commands and calls.

use noetl_playbook::carried::Carried;
use noetl_playbook::model::ToolKind;
use noetl_playbook::shift::{Onward, TaskReport, TaskStatus};
use noetl_types::record::{Elapsed, NewEvent};
use noetl_types::{CommandId, Digest, ErrorCode, Json, Millis, TaskError, Text, WorkerId};

use super::cursor;
use super::fields::{DecodeError, Fields, Key, Map, Part, Parts};
use super::park::{read_park, write_park};
use super::playbook::read_priority;
use super::step::{at_step, read_loop_id};
use crate::event::{
    CallDone, CallError, CallOutcome, CommandAt, CommandClaimed, CommandClosed, CommandExpired,
    CommandIssued, Event, EventKind, ExpiryReason, IssuedContext, LoopRef, ResultIgnored, Retried,
};
use crate::payload::{Data, Reference};

/// The record as one of a command.
pub(super) fn of_command(record: NewEvent, at: &CommandAt) -> NewEvent {
    NewEvent {
        command_id: Some(at.command),
        ..at_step(record, &at.step)
    }
}

/// What every record of a command says.
pub(super) fn about(at: &CommandAt) -> Parts {
    let mut parts = Parts::new();
    parts.result = parts.result.put(Key::CommandId, at.command.to_string());
    parts.meta = placed(parts.meta, at.run, at.index, at.looping).maybe(Key::Segment, at.segment);
    parts
}

fn placed(meta: Map, run: u32, index: Option<u32>, looping: Option<LoopRef>) -> Map {
    let meta = meta.put(Key::Run, run).maybe(index_key(looping), index);
    match looping {
        None => meta,
        Some(LoopRef { loop_id, size }) => meta
            .put(Key::LoopId, loop_id.to_string())
            .maybe(Key::CollectionSize, size),
    }
}

/// A loop that does not know how long it is goes over a cursor, in frames.
fn index_key(looping: Option<LoopRef>) -> Key {
    match looping {
        Some(LoopRef { size: None, .. }) => Key::Frame,
        Some(LoopRef { size: Some(_), .. }) | None => Key::Index,
    }
}

pub(super) fn read_at(fields: &Fields<'_>) -> Result<CommandAt, DecodeError> {
    let looping = read_loop(&fields.meta)?;
    Ok(CommandAt {
        command: fields
            .record
            .event
            .command_id
            .ok_or_else(|| fields.wrong("command_id", "an id"))?,
        step: fields.step()?,
        run: fields.meta.need_number(Key::Run)?,
        index: fields.meta.number(index_key(looping))?,
        segment: fields.meta.number(Key::Segment)?,
        looping,
    })
}

fn read_loop(meta: &Part<'_>) -> Result<Option<LoopRef>, DecodeError> {
    let Some(loop_id) = read_loop_id(meta)? else {
        return Ok(None);
    };
    let size = meta.number(Key::CollectionSize)?;
    Ok(Some(LoopRef { loop_id, size }))
}

pub(super) fn write_issued(record: NewEvent, event: &Event, issued: &CommandIssued) -> NewEvent {
    let mut parts = Parts::new();
    parts.context = match &issued.context {
        IssuedContext::Inline(carried) => Map::from(carried.to_json()),
        IssuedContext::External(reference) => parts
            .context
            .put(Key::ContextRef, reference.as_json().clone()),
    };
    let key = format!("{}:{}", record.execution_id, event.seq);
    parts.meta = placed(parts.meta, issued.run, issued.index, issued.looping)
        .put(Key::CommandId, event.event_id.to_string())
        .put(Key::Step, &issued.step)
        .put(Key::ToolKind, issued.tool.as_str())
        .put(Key::Attempt, 1)
        .put(Key::MaxAttempts, issued.max_attempts)
        .put(Key::Idempotency, key)
        .put(Key::DeadlineMs, issued.deadline.as_ms())
        .maybe(Key::Segment, issued.segment)
        .maybe(Key::NotBefore, issued.not_before)
        .maybe(Key::Priority, issued.priority.map(i32::from))
        .maybe(Key::Trace, issued.trace.clone())
        .maybe(Key::Cursor, issued.frame.map(cursor::ask_json));
    if let Some(park) = &issued.parked {
        parts = write_park(parts, park);
    }
    let record = NewEvent {
        command_id: Some(CommandId::from(event.event_id)),
        node_type: Some(issued.tool.as_str().into()),
        ..at_step(record, &issued.step)
    };
    parts.write(record)
}

pub(super) fn read_issued(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let (context, meta) = (&fields.context, &fields.meta);
    let looping = read_loop(meta)?;
    let tool = meta.need(Key::ToolKind, "a kind of tool", |kind| {
        ToolKind::parse(kind.as_str()?)
    })?;
    let parked = read_park(fields, tool)?;
    let reference = context.read(Key::ContextRef, "a reference", |reference| {
        Reference::new(reference.clone()).ok()
    })?;
    let context = match reference {
        Some(reference) => IssuedContext::External(reference),
        None if parked.is_some() => IssuedContext::Inline(Carried::default()),
        None => IssuedContext::Inline(
            Carried::from_json(context.all())
                .ok_or_else(|| fields.wrong("context", "the values that a command carries"))?,
        ),
    };
    Ok(EventKind::CommandIssued(Box::new(CommandIssued {
        step: fields.step()?,
        run: meta.need_number(Key::Run)?,
        index: meta.number(index_key(looping))?,
        segment: meta.number(Key::Segment)?,
        looping,
        frame: meta.read(Key::Cursor, "what is asked of a cursor", |ask| {
            cursor::read_ask(&meta.inner(ask.as_map()?))
        })?,
        tool,
        max_attempts: meta.need_number(Key::MaxAttempts)?,
        deadline: Millis::from_ms(meta.need_number(Key::DeadlineMs)?),
        priority: read_priority(fields)?,
        not_before: meta.time(Key::NotBefore)?,
        trace: meta.text(Key::Trace)?,
        parked,
        context,
    })))
}

pub(super) fn write_claimed(record: NewEvent, claimed: &CommandClaimed) -> NewEvent {
    let mut parts = about(&claimed.at);
    parts.result = parts.result.put(Key::WorkerId, &claimed.worker);
    parts.meta = parts
        .meta
        .put(Key::Attempt, claimed.attempt)
        .maybe(Key::LeaseUntil, claimed.lease_until);
    let record = NewEvent {
        worker_id: Some(Text::from(&claimed.worker)),
        ..of_command(record, &claimed.at)
    };
    parts.write(record)
}

pub(super) fn read_claimed(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CommandClaimed(Box::new(CommandClaimed {
        at: read_at(fields)?,
        attempt: fields.meta.need_number(Key::Attempt)?,
        worker: read_worker(&fields.result)?,
        lease_until: fields.meta.time(Key::LeaseUntil)?,
    })))
}

fn read_worker(part: &Part<'_>) -> Result<WorkerId, DecodeError> {
    part.need(Key::WorkerId, "the name of a worker", |worker| {
        WorkerId::new(worker.as_str()?).ok()
    })
}

pub(super) fn write_started(record: NewEvent, at: &CommandAt, attempt: u32) -> NewEvent {
    let mut parts = about(at);
    parts.meta = parts.meta.put(Key::Attempt, attempt);
    parts.write(of_command(record, at))
}

pub(super) fn read_started(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let at = read_at(fields)?;
    let attempt = fields.meta.need_number(Key::Attempt)?;
    Ok(EventKind::CommandStarted { at, attempt })
}

pub(super) fn write_heartbeat(record: NewEvent, at: &CommandAt, progress: &Json) -> NewEvent {
    let mut parts = about(at);
    parts.result = parts.result.put(Key::Progress, progress.clone());
    parts.write(of_command(record, at))
}

pub(super) fn read_heartbeat(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let at = read_at(fields)?;
    let progress = fields.result.json(Key::Progress).unwrap_or_default();
    Ok(EventKind::CommandHeartbeat { at, progress })
}

pub(super) fn write_call_done(record: NewEvent, done: &CallDone) -> NewEvent {
    let mut parts = write_outcome(about(&done.at), &done.outcome);
    parts.result = parts
        .result
        .put(Key::CallIndex, done.call_index)
        .maybe(Key::Results, done.labels.clone())
        .maybe(Key::Onward, done.onward.as_ref().map(Onward::to_json));
    parts.meta = parts.meta.put(Key::Final, true);
    let record = NewEvent {
        duration: done.outcome.duration().map(Elapsed::from),
        ..of_command(record, &done.at)
    };
    parts.write(record)
}

pub(super) fn read_call_done(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CallDone(Box::new(CallDone {
        at: read_at(fields)?,
        call_index: fields.result.need_number(Key::CallIndex)?,
        outcome: read_outcome(fields)?,
        labels: fields.result.json(Key::Results),
        onward: fields
            .result
            .read(Key::Onward, "where to go on", |onward| {
                Onward::from_json(onward.as_map()?)
            })?,
    })))
}

pub(super) fn write_call_error(record: NewEvent, failed: &CallError) -> NewEvent {
    let mut parts = write_outcome(about(&failed.at), &failed.outcome);
    parts.result = parts
        .result
        .put(Key::CallIndex, failed.call_index)
        .put(Key::Error, failed.error.to_json());
    parts.meta = parts.meta.put(Key::Final, failed.retried.is_none()).maybe(
        Key::RetryInMs,
        failed.retried.map(|retried| retried.retry_in.as_ms()),
    );
    let record = NewEvent {
        error: Some(failed.error.message.clone()),
        duration: failed.outcome.duration().map(Elapsed::from),
        ..of_command(record, &failed.at)
    };
    parts.write(record)
}

pub(super) fn read_call_error(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let is_final = fields.meta.need(Key::Final, "a bool", Json::as_bool)?;
    let retried = if is_final {
        None
    } else {
        let retry_in = Millis::from_ms(fields.meta.need_number(Key::RetryInMs)?);
        Some(Retried { retry_in })
    };
    Ok(EventKind::CallError(Box::new(CallError {
        at: read_at(fields)?,
        call_index: fields.result.need_number(Key::CallIndex)?,
        error: fields.result.error(Key::Error)?,
        outcome: read_outcome(fields)?,
        retried,
    })))
}

fn write_outcome(parts: Parts, outcome: &CallOutcome) -> Parts {
    let is_nothing = outcome.data == Data::default();
    let mut parts = parts.data(Key::Result, (!is_nothing).then_some(&outcome.data));
    parts.result = parts.result.full(Key::Set, &outcome.set);
    parts.meta = parts.meta.put(Key::Attempt, outcome.attempt);
    if !outcome.tasks.is_empty() {
        let tasks = Json::list(outcome.tasks.iter().map(task_json));
        parts.meta = parts.meta.put(Key::Tasks, tasks);
    }
    cursor::write_frame(parts, outcome.frame.as_ref())
}

fn read_outcome(fields: &Fields<'_>) -> Result<CallOutcome, DecodeError> {
    let meta = &fields.meta;
    let tasks = meta.read(Key::Tasks, "a list of tasks", |tasks| {
        let tasks = tasks.as_list()?.iter();
        tasks
            .map(|task| read_task(&meta.inner(task.as_map()?)))
            .collect()
    })?;
    Ok(CallOutcome {
        data: fields.data(Key::Result)?.unwrap_or_default(),
        set: fields.result.map(Key::Set)?,
        attempt: meta.need_number(Key::Attempt)?,
        tasks: tasks.unwrap_or_default(),
        frame: cursor::read_frame(fields)?,
    })
}

fn task_json(task: &TaskReport) -> Json {
    Map::default()
        .put(Key::Label, &task.label)
        .put(Key::Status, task.status.as_str())
        .put(Key::Attempts, task.attempts)
        .maybe(Key::DurationMs, task.duration.map(Millis::as_ms))
        .maybe(Key::Stdout, task.stdout.as_ref())
        .maybe(Key::Stderr, task.stderr.as_ref())
        .into_json()
}

fn read_task(task: &Part<'_>) -> Option<TaskReport> {
    Some(TaskReport {
        label: task.text(Key::Label).ok()??,
        status: TaskStatus::parse(task.get(Key::Status)?.as_str()?)?,
        attempts: task.need_number(Key::Attempts).ok()?,
        duration: task.number(Key::DurationMs).ok()?.map(Millis::from_ms),
        stdout: task.text(Key::Stdout).ok()?,
        stderr: task.text(Key::Stderr).ok()?,
    })
}

pub(super) fn write_completed(record: NewEvent, at: &CommandAt) -> NewEvent {
    about(at).write(of_command(record, at))
}

pub(super) fn write_failed(record: NewEvent, closed: &CommandClosed<TaskError>) -> NewEvent {
    let mut parts = about(&closed.at);
    parts.result = parts.result.put(Key::Error, closed.why.to_json());
    let record = NewEvent {
        error: Some(closed.why.message.clone()),
        ..of_command(record, &closed.at)
    };
    parts.write(record)
}

pub(super) fn read_failed(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CommandFailed(Box::new(CommandClosed {
        at: read_at(fields)?,
        why: fields.result.error(Key::Error)?,
    })))
}

pub(super) fn write_cancelled(record: NewEvent, closed: &CommandClosed<Text>) -> NewEvent {
    let mut parts = about(&closed.at);
    parts.result = parts.result.put(Key::Reason, &closed.why);
    parts.write(of_command(record, &closed.at))
}

pub(super) fn read_cancelled(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let why = fields.result.text(Key::Reason)?;
    Ok(EventKind::CommandCancelled(Box::new(CommandClosed {
        at: read_at(fields)?,
        why: why.ok_or_else(|| fields.result.wrong(Key::Reason, "a text"))?,
    })))
}

pub(super) fn write_expired(record: NewEvent, expired: &CommandExpired) -> NewEvent {
    let mut parts = about(&expired.at);
    parts.meta = parts
        .meta
        .put(Key::Attempt, expired.attempt)
        .put(Key::Reason, expired.reason.as_str())
        .maybe(Key::NotBefore, expired.not_before);
    parts.write(of_command(record, &expired.at))
}

pub(super) fn read_expired(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::CommandExpired(Box::new(CommandExpired {
        at: read_at(fields)?,
        attempt: fields.meta.need_number(Key::Attempt)?,
        reason: fields.meta.need(Key::Reason, "a reason", |reason| {
            ExpiryReason::parse(reason.as_str()?)
        })?,
        not_before: fields.meta.time(Key::NotBefore)?,
    })))
}

pub(super) fn write_ignored(record: NewEvent, ignored: &ResultIgnored) -> NewEvent {
    let mut parts = Parts::new();
    parts.result = parts
        .result
        .put(Key::CommandId, ignored.command.to_string())
        .put(Key::Sha256, ignored.sha256.to_string())
        .put(Key::Bytes, ignored.bytes);
    parts.meta = parts
        .meta
        .put(Key::Attempt, ignored.attempt)
        .put(Key::WorkerId, &ignored.worker)
        .put(Key::Code, ignored.code.as_str());
    let record = NewEvent {
        command_id: Some(ignored.command),
        node_name: ignored.step.as_ref().map(Text::from),
        worker_id: Some(Text::from(&ignored.worker)),
        ..record
    };
    parts.write(record)
}

pub(super) fn read_ignored(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let command = fields.record.event.command_id;
    Ok(EventKind::ResultIgnored(Box::new(ResultIgnored {
        command: command.ok_or_else(|| fields.wrong("command_id", "an id"))?,
        step: fields.step_if_any()?,
        attempt: fields.meta.need_number(Key::Attempt)?,
        worker: read_worker(&fields.meta)?,
        sha256: fields.result.need(Key::Sha256, "a digest", |digest| {
            Digest::parse(digest.as_str()?).ok()
        })?,
        bytes: fields.result.need_number(Key::Bytes)?,
        code: fields.meta.need(Key::Code, "a code", |code| {
            ErrorCode::parse(code.as_str()?).ok()
        })?,
    })))
}
