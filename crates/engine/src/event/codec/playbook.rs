//! Records of the execution as a whole.

use noetl_types::record::NewEvent;
use noetl_types::{CatalogId, Digest, ExecutionId, Json, PlaybookPath, PoolName, Text, Timestamp};

use super::ExecutionHeader;
use super::fields::{DecodeError, Key, RecordFields, RecordParts, step_names_json};
use super::slots_and_cache;
use super::suspension::read_timer_fired;
use crate::event::{ControlInfo, EventKind, ExecutionTimer, PlaybookFailed, PlaybookStarted};
use crate::payload::EventData;

const EXECUTION_NODE_ID: &str = "playbook";

/// Sets the columns of a record of the execution as a whole.
pub(super) fn set_execution_columns(record: NewEvent, path: &PlaybookPath) -> NewEvent {
    NewEvent {
        node_id: Some(EXECUTION_NODE_ID.into()),
        node_name: Some(Text::from(path)),
        node_type: Some("execution".into()),
        ..record
    }
}

pub(super) fn write_playbook_started(record: NewEvent, started: &PlaybookStarted) -> NewEvent {
    let mut parts = RecordParts::new();
    let emitted_at = record.event_time;
    parts.context = parts
        .context
        .with_field(Key::CatalogId, started.catalog_id.to_string())
        .with_field(Key::ExecutionId, started.execution_id.to_string())
        .with_field(Key::Path, &started.path);
    match &started.workload {
        EventData::Inline(workload) => {
            parts.context = parts.context.with_field(Key::Workload, workload.clone());
        }
        EventData::External(reference) => parts.reference = Some(reference.as_json().clone()),
    }
    parts.meta = parts
        .meta
        .with_field(Key::EmittedAt, emitted_at)
        .with_field(Key::Version, started.version)
        .with_field(Key::DefinitionSha256, started.definition_sha256.to_string())
        .with_optional(Key::Emitter, started.emitter.as_ref())
        .with_optional(Key::Actor, started.actor.as_ref())
        .with_optional(Key::ExecutionPool, started.execution_pool.as_ref())
        .with_optional(Key::Depth, (started.depth > 0).then_some(started.depth))
        .with_optional(Key::Priority, started.priority.map(i32::from))
        .with_optional(
            Key::Concurrency,
            started.concurrency.as_ref().map(slots_and_cache::execution_slot_json),
        )
        .with_optional(Key::StartAt, started.start_at)
        .with_optional(Key::ServerUrl, started.server_url.as_ref())
        .with_optional(Key::Trace, started.trace.clone())
        .with_optional(Key::ForkedFrom, started.forked_from.clone())
        .with_optional(Key::RerunOf, started.rerun_of.clone())
        .with_optional(Key::Dedup, started.dedup.clone());
    let record = NewEvent {
        catalog_id: Some(started.catalog_id),
        parent_execution_id: started.parent_execution_id,
        ..set_execution_columns(record, &started.path)
    };
    parts.into_record(record)
}

pub(super) fn read_playbook_started(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let (context, meta) = (&fields.context, &fields.meta);
    let workload = match fields.read_data(Key::Workload)? {
        Some(external @ EventData::External(_)) => external,
        Some(EventData::Inline(_)) | None => {
            EventData::Inline(context.read_json(Key::Workload).unwrap_or_default())
        }
    };
    Ok(EventKind::PlaybookStarted(Box::new(PlaybookStarted {
        execution_id: context
            .read_required(Key::ExecutionId, "an id", |id| ExecutionId::from_json(id).ok())?,
        catalog_id: context
            .read_required(Key::CatalogId, "an id", |id| CatalogId::from_json(id).ok())?,
        path: context
            .read_required(Key::Path, "a path", |path| PlaybookPath::new(path.as_str()?).ok())?,
        version: meta.require_number(Key::Version)?,
        definition_sha256: meta.read_required(Key::DefinitionSha256, "a digest", |digest| {
            Digest::parse(digest.as_str()?).ok()
        })?,
        workload,
        parent_execution_id: fields.record.event.parent_execution_id,
        depth: meta.read_number(Key::Depth)?.unwrap_or_default(),
        execution_pool: meta.read_optional(Key::ExecutionPool, "a pool", |pool| {
            PoolName::new(pool.as_str()?).ok()
        })?,
        priority: read_priority(fields)?,
        concurrency: slots_and_cache::read_execution_slot(meta)?,
        start_at: meta.read_time(Key::StartAt)?,
        server_url: meta.read_text(Key::ServerUrl)?,
        emitter: meta.read_text(Key::Emitter)?,
        actor: meta.read_text(Key::Actor)?,
        trace: meta.read_json(Key::Trace),
        forked_from: meta.read_json(Key::ForkedFrom),
        rerun_of: meta.read_json(Key::RerunOf),
        dedup: meta.read_json(Key::Dedup),
    })))
}

pub(super) fn read_priority(fields: &RecordFields<'_>) -> Result<Option<i16>, DecodeError> {
    fields.meta.read_optional(Key::Priority, "a small whole number", |priority| {
        i16::try_from(priority.as_i64()?).ok()
    })
}

pub(super) fn write_control(
    record: NewEvent,
    header: &ExecutionHeader,
    control: &ControlInfo,
) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.meta = parts
        .meta
        .with_optional(Key::Actor, control.actor.as_ref())
        .with_optional(Key::Reason, control.reason.as_ref());
    parts.into_record(set_execution_columns(record, &header.path))
}

pub(super) fn write_playbook_cancelled(
    record: NewEvent,
    header: &ExecutionHeader,
    control: &ControlInfo,
) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.meta = parts
        .meta
        .with_field(Key::Status, record.status.as_str())
        .with_optional(Key::Actor, control.actor.as_ref())
        .with_optional(Key::Reason, control.reason.as_ref());
    parts.into_record(set_execution_columns(record, &header.path))
}

pub(super) fn read_control(fields: &RecordFields<'_>) -> Result<ControlInfo, DecodeError> {
    Ok(ControlInfo {
        actor: fields.meta.read_text(Key::Actor)?,
        reason: fields.meta.read_text(Key::Reason)?,
    })
}

pub(super) fn write_playbook_completed(
    record: NewEvent,
    header: &ExecutionHeader,
    result: Option<&EventData>,
) -> NewEvent {
    let mut parts = RecordParts::new().with_data(Key::Result, result);
    parts.meta = parts.meta.with_field(Key::Status, record.status.as_str());
    parts.into_record(set_execution_columns(record, &header.path))
}

pub(super) fn read_playbook_completed(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let result = fields.read_data(Key::Result)?;
    Ok(EventKind::PlaybookCompleted { result })
}

pub(super) fn write_playbook_failed(
    record: NewEvent,
    header: &ExecutionHeader,
    failed: &PlaybookFailed,
) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.meta = parts
        .meta
        .with_field(Key::Status, record.status.as_str())
        .with_field(Key::Error, failed.error.to_json())
        .with_field(Key::FailedSteps, step_names_json(&failed.failed_steps));
    let record = NewEvent {
        error: Some(failed.error.message.clone()),
        ..set_execution_columns(record, &header.path)
    };
    parts.into_record(record)
}

pub(super) fn read_playbook_failed(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::PlaybookFailed(Box::new(PlaybookFailed {
        error: fields.meta.read_error(Key::Error)?,
        failed_steps: fields.meta.read_step_names(Key::FailedSteps)?,
    })))
}

pub(super) fn write_execution_timer(
    record: NewEvent,
    header: &ExecutionHeader,
    timer: &ExecutionTimer,
    fire_at: Timestamp,
) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.result = parts.result.with_field(Key::FireAt, fire_at);
    let record = match timer {
        ExecutionTimer::Start => {
            parts.result = parts.result.with_field(Key::Timer, "start");
            set_execution_columns(record, &header.path)
        }
        ExecutionTimer::Execution => {
            parts.result = parts.result.with_field(Key::Timer, "execution");
            set_execution_columns(record, &header.path)
        }
        ExecutionTimer::Step { step, run } => {
            parts.result = parts.result.with_field(Key::Timer, "step");
            parts.meta = parts.meta.with_field(Key::Run, *run);
            NewEvent { node_name: Some(Text::from(step)), ..record }
        }
    };
    parts.into_record(record)
}

pub(super) fn read_timer_event(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let fire_at = fields.result.read_time(Key::FireAt)?;
    let Some(fire_at) = fire_at else {
        return Err(fields.result.key_error(Key::FireAt, "a time"));
    };
    let timer = match fields.result.get(Key::Timer).and_then(Json::as_str) {
        Some("start") => ExecutionTimer::Start,
        Some("execution") => ExecutionTimer::Execution,
        Some("step") => ExecutionTimer::Step {
            step: fields.step_name()?,
            run: fields.meta.require_number(Key::Run)?,
        },
        Some(_) | None => return read_timer_fired(fields),
    };
    Ok(EventKind::TimerFired { timer, fire_at })
}
