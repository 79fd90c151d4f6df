//! Records of steps.

use noetl_types::record::NewEvent;
use noetl_types::{EventId, EventStatus, Json, StepName, TaskError, Text};

use super::fields::{DecodeError, Fields, Key, Map, Part, Parts, names};
use super::playbook::read_priority;
use super::{cursor, terms};
use crate::event::{
    CtxSource, CtxUpdated, EventKind, IterationError, LoopDone, LoopEntered, LoopStats, SkipReason,
    StepEnd, StepEntered, StepExited, StepSkipped,
};

pub(super) fn at_step(record: NewEvent, step: &StepName) -> NewEvent {
    NewEvent {
        node_name: Some(Text::from(step)),
        ..record
    }
}

pub(super) fn write_entered(record: NewEvent, id: EventId, entered: &StepEntered) -> NewEvent {
    let mut parts = Parts::new();
    parts.result = parts.result.put(Key::Arrivals, names(&entered.arrivals));
    parts.meta = parts
        .meta
        .put(Key::Run, entered.run)
        .maybe(Key::Priority, entered.priority.map(i32::from))
        .maybe(
            Key::Concurrency,
            entered.slot.as_ref().map(terms::slot_json),
        )
        .maybe(Key::Cache, entered.cache.map(terms::cache_key_json));
    if let Some(entered) = &entered.cursor {
        parts = cursor::write_entered(parts, entered);
        parts.meta = parts.meta.put(Key::LoopId, id.to_string());
    }
    if let Some(looping) = &entered.looping {
        parts = parts.data(Key::In, looping.items.as_ref());
        parts.result = parts
            .result
            .put(Key::Iterations, looping.iterations)
            .put(Key::Iterator, &looping.iterator)
            .maybe(Key::MaxInFlight, looping.max_in_flight);
        parts.meta = parts
            .meta
            .put(Key::LoopId, id.to_string())
            .put(Key::CollectionSize, looping.iterations);
    }
    parts.write(at_step(record, &entered.step))
}

pub(super) fn read_entered(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let result = &fields.result;
    let looping = match result.number(Key::Iterations)? {
        None => None,
        Some(iterations) => Some(LoopEntered {
            iterations,
            iterator: result
                .text(Key::Iterator)?
                .ok_or_else(|| result.wrong(Key::Iterator, "a text"))?,
            items: fields.data(Key::In)?,
            max_in_flight: result.number(Key::MaxInFlight)?,
        }),
    };
    Ok(EventKind::StepEntered(Box::new(StepEntered {
        step: fields.step()?,
        run: fields.meta.need_number(Key::Run)?,
        arrivals: result.names(Key::Arrivals)?,
        looping,
        cursor: cursor::read_entered(result)?.map(Box::new),
        priority: read_priority(fields)?,
        slot: terms::read_slot(&fields.meta)?,
        cache: terms::read_cache_key(&fields.meta)?,
    })))
}

pub(super) fn write_exited(record: NewEvent, exited: &StepExited) -> NewEvent {
    let mut parts = Parts::new().data(Key::Data, exited.data.as_ref());
    let mut record = at_step(record, &exited.step);
    parts.result = parts.result.put(Key::Next, names(&exited.next));
    parts.meta = parts.meta.put(Key::Run, exited.run);
    record.status = match &exited.end {
        StepEnd::Completed => EventStatus::Completed.into(),
        StepEnd::Cancelled => EventStatus::Cancelled.into(),
        StepEnd::Failed { error, caught } => {
            parts.result = parts
                .result
                .put(Key::Error, error.to_json())
                .put(Key::Caught, *caught);
            record.error = Some(error.message.clone());
            EventStatus::Failed.into()
        }
    };
    parts.write(record)
}

pub(super) fn read_exited(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let status = fields.status().known();
    let end = if status == Some(EventStatus::Completed) {
        StepEnd::Completed
    } else if status == Some(EventStatus::Cancelled) {
        StepEnd::Cancelled
    } else if status == Some(EventStatus::Failed) {
        StepEnd::Failed {
            error: fields.result.error(Key::Error)?,
            caught: fields.result.need(Key::Caught, "a bool", Json::as_bool)?,
        }
    } else {
        return Err(fields.wrong("status", "`COMPLETED`, `FAILED` or `CANCELLED`"));
    };
    Ok(EventKind::StepExited(Box::new(StepExited {
        step: fields.step()?,
        run: fields.meta.need_number(Key::Run)?,
        end,
        next: fields.result.names(Key::Next)?,
        data: fields.data(Key::Data)?,
    })))
}

pub(super) fn write_skipped(record: NewEvent, skipped: &StepSkipped) -> NewEvent {
    let mut parts = Parts::new();
    match &skipped.reason {
        SkipReason::NotRouted => parts.meta = parts.meta.put(Key::Reason, "not_routed"),
        SkipReason::Guard { run, value, next } => {
            parts.result = parts.result.put(Key::Next, names(next));
            parts.meta = parts
                .meta
                .put(Key::Reason, "guard")
                .put(Key::Run, *run)
                .put(Key::Value, value.clone());
        }
        SkipReason::Admission { run, next } => {
            parts.result = parts.result.put(Key::Next, names(next));
            parts.meta = parts.meta.put(Key::Reason, "admission").put(Key::Run, *run);
        }
    }
    parts.write(at_step(record, &skipped.step))
}

pub(super) fn read_skipped(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let reason = match fields.meta.get(Key::Reason).and_then(Json::as_str) {
        Some("not_routed") => SkipReason::NotRouted,
        Some("guard") => SkipReason::Guard {
            run: fields.meta.need_number(Key::Run)?,
            value: fields.meta.json(Key::Value).unwrap_or_default(),
            next: fields.result.names(Key::Next)?,
        },
        Some("admission") => SkipReason::Admission {
            run: fields.meta.need_number(Key::Run)?,
            next: fields.result.names(Key::Next)?,
        },
        Some(_) | None => {
            let expected = "`not_routed`, `guard` or `admission`";
            return Err(fields.meta.wrong(Key::Reason, expected));
        }
    };
    Ok(EventKind::StepSkipped(StepSkipped {
        step: fields.step()?,
        reason,
    }))
}

pub(super) fn write_loop_done(record: NewEvent, done: &LoopDone) -> NewEvent {
    let mut parts = Parts::new();
    parts.result = parts.result.put(Key::Stats, stats_json(done.stats));
    if !done.errors.is_empty() {
        parts.result = parts.result.put(Key::Errors, errors_json(&done.errors));
    }
    parts.meta = parts
        .meta
        .put(Key::Run, done.run)
        .put(Key::LoopId, done.loop_id.to_string());
    if done.stats.frames.is_none() {
        parts.meta = parts.meta.put(Key::CollectionSize, done.stats.total);
    }
    parts.write(at_step(record, &done.step))
}

/// The counts as templates and the log see them.
pub(crate) fn stats_json(stats: LoopStats) -> Json {
    Map::default()
        .put(Key::Total, stats.total)
        .put(Key::Success, stats.success)
        .put(Key::Failed, stats.failed)
        .maybe(Key::Frames, stats.frames)
        .into_json()
}

/// Failed iterations as templates and the log see them.
pub(crate) fn errors_json<'e>(errors: impl IntoIterator<Item = &'e IterationError>) -> Json {
    Json::list(errors.into_iter().map(|failed| {
        Map::default()
            .put(Key::Index, failed.index)
            .put(Key::Error, failed.error.to_json())
            .into_json()
    }))
}

pub(super) fn read_loop_done(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let result = &fields.result;
    let stats = result.need(Key::Stats, "a map", Json::as_map)?;
    let stats = result.inner(stats);
    let errors = result.read(Key::Errors, "a list of errors", |errors| {
        let errors = errors.as_list()?.iter();
        errors
            .map(|failed| iteration_error(result, failed))
            .collect()
    })?;
    Ok(EventKind::LoopDone(Box::new(LoopDone {
        step: fields.step()?,
        run: fields.meta.need_number(Key::Run)?,
        loop_id: read_loop_id(&fields.meta)?
            .ok_or_else(|| fields.meta.wrong(Key::LoopId, "an id"))?,
        stats: LoopStats {
            total: stats.need_number(Key::Total)?,
            success: stats.need_number(Key::Success)?,
            failed: stats.need_number(Key::Failed)?,
            frames: stats.number(Key::Frames)?,
        },
        errors: errors.unwrap_or_default(),
    })))
}

fn iteration_error(part: &Part<'_>, failed: &Json) -> Option<IterationError> {
    let map = part.inner(failed.as_map()?);
    Some(IterationError {
        index: map.need_number(Key::Index).ok()?,
        error: TaskError::from_json(map.get(Key::Error)?),
    })
}

pub(super) fn read_loop_id(meta: &Part<'_>) -> Result<Option<EventId>, DecodeError> {
    meta.read(Key::LoopId, "an id", |id| EventId::from_json(id).ok())
}

pub(super) fn write_ctx(record: NewEvent, updated: &CtxUpdated) -> NewEvent {
    let mut parts = Parts::new();
    parts.result = parts.result.put(Key::Values, updated.values.clone());
    parts.meta = parts
        .meta
        .put(Key::Source, updated.source.as_str())
        .put(Key::Run, updated.run)
        .maybe(Key::Index, updated.index);
    parts.write(at_step(record, &updated.step))
}

pub(super) fn read_ctx(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let meta = &fields.meta;
    Ok(EventKind::CtxUpdated(Box::new(CtxUpdated {
        step: fields.step()?,
        run: meta.need_number(Key::Run)?,
        index: meta.number(Key::Index)?,
        source: meta.need(Key::Source, "`task`, `step` or `arc`", |source| {
            CtxSource::parse(source.as_str()?)
        })?,
        values: fields.result.map(Key::Values)?,
    })))
}
