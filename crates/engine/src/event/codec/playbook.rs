//! Records of the run as a whole.

use noetl_types::record::NewEvent;
use noetl_types::{CatalogId, Digest, ExecutionId, Json, PlaybookPath, PoolName, Text, Timestamp};

use super::ExecutionHeader;
use super::fields::{DecodeError, Fields, Key, Parts, names};
use super::park::read_timer_fired;
use super::terms;
use crate::event::{EventKind, Failed, Started, Steering, Timeout};
use crate::payload::Data;

const NODE: &str = "playbook";

/// The record as one of the run and not of a step.
pub(super) fn at_run(record: NewEvent, path: &PlaybookPath) -> NewEvent {
    NewEvent {
        node_id: Some(NODE.into()),
        node_name: Some(Text::from(path)),
        node_type: Some("execution".into()),
        ..record
    }
}

pub(super) fn write_started(record: NewEvent, started: &Started) -> NewEvent {
    let mut parts = Parts::new();
    let at = record.event_time;
    parts.context = parts
        .context
        .put(Key::CatalogId, started.catalog_id.to_string())
        .put(Key::ExecutionId, started.execution_id.to_string())
        .put(Key::Path, &started.path);
    match &started.workload {
        Data::Inline(workload) => {
            parts.context = parts.context.put(Key::Workload, workload.clone());
        }
        Data::External(reference) => parts.reference = Some(reference.as_json().clone()),
    }
    parts.meta = parts
        .meta
        .put(Key::EmittedAt, at)
        .put(Key::Version, started.version)
        .put(Key::DefinitionSha256, started.definition_sha256.to_string())
        .maybe(Key::Emitter, started.emitter.as_ref())
        .maybe(Key::Actor, started.actor.as_ref())
        .maybe(Key::ExecutionPool, started.execution_pool.as_ref())
        .maybe(Key::Depth, (started.depth > 0).then_some(started.depth))
        .maybe(Key::Priority, started.priority.map(i32::from))
        .maybe(
            Key::Concurrency,
            started.concurrency.as_ref().map(terms::run_slot_json),
        )
        .maybe(Key::StartAt, started.start_at)
        .maybe(Key::ServerUrl, started.server_url.as_ref())
        .maybe(Key::Trace, started.trace.clone())
        .maybe(Key::ForkedFrom, started.forked_from.clone())
        .maybe(Key::RerunOf, started.rerun_of.clone())
        .maybe(Key::Dedup, started.dedup.clone());
    let record = NewEvent {
        catalog_id: Some(started.catalog_id),
        parent_execution_id: started.parent_execution_id,
        ..at_run(record, &started.path)
    };
    parts.write(record)
}

pub(super) fn read_started(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let (context, meta) = (&fields.context, &fields.meta);
    let workload = match fields.data(Key::Workload)? {
        Some(external @ Data::External(_)) => external,
        Some(Data::Inline(_)) | None => {
            Data::Inline(context.json(Key::Workload).unwrap_or_default())
        }
    };
    Ok(EventKind::PlaybookStarted(Box::new(Started {
        execution_id: context.need(Key::ExecutionId, "an id", |id| {
            ExecutionId::from_json(id).ok()
        })?,
        catalog_id: context.need(Key::CatalogId, "an id", |id| CatalogId::from_json(id).ok())?,
        path: context.need(Key::Path, "a path", |path| {
            PlaybookPath::new(path.as_str()?).ok()
        })?,
        version: meta.need_number(Key::Version)?,
        definition_sha256: meta.need(Key::DefinitionSha256, "a digest", |digest| {
            Digest::parse(digest.as_str()?).ok()
        })?,
        workload,
        parent_execution_id: fields.record.event.parent_execution_id,
        depth: meta.number(Key::Depth)?.unwrap_or_default(),
        execution_pool: meta.read(Key::ExecutionPool, "a pool", |pool| {
            PoolName::new(pool.as_str()?).ok()
        })?,
        priority: read_priority(fields)?,
        concurrency: terms::read_run_slot(meta)?,
        start_at: meta.time(Key::StartAt)?,
        server_url: meta.text(Key::ServerUrl)?,
        emitter: meta.text(Key::Emitter)?,
        actor: meta.text(Key::Actor)?,
        trace: meta.json(Key::Trace),
        forked_from: meta.json(Key::ForkedFrom),
        rerun_of: meta.json(Key::RerunOf),
        dedup: meta.json(Key::Dedup),
    })))
}

pub(super) fn read_priority(fields: &Fields<'_>) -> Result<Option<i16>, DecodeError> {
    fields
        .meta
        .read(Key::Priority, "a small whole number", |rank| {
            i16::try_from(rank.as_i64()?).ok()
        })
}

pub(super) fn write_steering(
    record: NewEvent,
    header: &ExecutionHeader,
    steering: &Steering,
) -> NewEvent {
    let mut parts = Parts::new();
    parts.meta = parts
        .meta
        .maybe(Key::Actor, steering.actor.as_ref())
        .maybe(Key::Reason, steering.reason.as_ref());
    parts.write(at_run(record, &header.path))
}

pub(super) fn write_cancelled(
    record: NewEvent,
    header: &ExecutionHeader,
    steering: &Steering,
) -> NewEvent {
    let mut parts = Parts::new();
    parts.meta = parts
        .meta
        .put(Key::Status, record.status.as_str())
        .maybe(Key::Actor, steering.actor.as_ref())
        .maybe(Key::Reason, steering.reason.as_ref());
    parts.write(at_run(record, &header.path))
}

pub(super) fn read_steering(fields: &Fields<'_>) -> Result<Steering, DecodeError> {
    Ok(Steering {
        actor: fields.meta.text(Key::Actor)?,
        reason: fields.meta.text(Key::Reason)?,
    })
}

pub(super) fn write_completed(
    record: NewEvent,
    header: &ExecutionHeader,
    result: Option<&Data>,
) -> NewEvent {
    let mut parts = Parts::new().data(Key::Result, result);
    parts.meta = parts.meta.put(Key::Status, record.status.as_str());
    parts.write(at_run(record, &header.path))
}

pub(super) fn read_completed(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let result = fields.data(Key::Result)?;
    Ok(EventKind::PlaybookCompleted { result })
}

pub(super) fn write_failed(
    record: NewEvent,
    header: &ExecutionHeader,
    failed: &Failed,
) -> NewEvent {
    let mut parts = Parts::new();
    parts.meta = parts
        .meta
        .put(Key::Status, record.status.as_str())
        .put(Key::Error, failed.error.to_json())
        .put(Key::FailedSteps, names(&failed.failed_steps));
    let record = NewEvent {
        error: Some(failed.error.message.clone()),
        ..at_run(record, &header.path)
    };
    parts.write(record)
}

pub(super) fn read_failed(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    Ok(EventKind::PlaybookFailed(Box::new(Failed {
        error: fields.meta.error(Key::Error)?,
        failed_steps: fields.meta.names(Key::FailedSteps)?,
    })))
}

pub(super) fn write_timer(
    record: NewEvent,
    header: &ExecutionHeader,
    timer: &Timeout,
    fire_at: Timestamp,
) -> NewEvent {
    let mut parts = Parts::new();
    parts.result = parts.result.put(Key::FireAt, fire_at);
    let record = match timer {
        Timeout::Start => {
            parts.result = parts.result.put(Key::Timer, "start");
            at_run(record, &header.path)
        }
        Timeout::Execution => {
            parts.result = parts.result.put(Key::Timer, "execution");
            at_run(record, &header.path)
        }
        Timeout::Step { step, run } => {
            parts.result = parts.result.put(Key::Timer, "step");
            parts.meta = parts.meta.put(Key::Run, *run);
            NewEvent {
                node_name: Some(Text::from(step)),
                ..record
            }
        }
    };
    parts.write(record)
}

pub(super) fn read_timer(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let fire_at = fields.result.time(Key::FireAt)?;
    let Some(fire_at) = fire_at else {
        return Err(fields.result.wrong(Key::FireAt, "a time"));
    };
    let timer = match fields.result.get(Key::Timer).and_then(Json::as_str) {
        Some("start") => Timeout::Start,
        Some("execution") => Timeout::Execution,
        Some("step") => Timeout::Step {
            step: fields.step()?,
            run: fields.meta.need_number(Key::Run)?,
        },
        Some(_) | None => return read_timer_fired(fields),
    };
    Ok(EventKind::TimerFired { timer, fire_at })
}
