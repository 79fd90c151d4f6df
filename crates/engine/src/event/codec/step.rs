//! Records of steps.

use noetl_types::record::NewEvent;
use noetl_types::{EventId, EventStatus, Json, StepName, TaskError, Text};

use super::fields::{
    DecodeError, Key, MapBuilder, RecordFields, RecordPart, RecordParts, step_names_json,
};
use super::playbook::read_priority;
use super::{cursor, slots_and_cache};
use crate::event::{
    CtxSource, CtxUpdated, EventKind, IterationError, LoopDone, LoopEntered, LoopStats, SkipReason,
    StepEnd, StepEntered, StepExited, StepSkipped,
};

pub(super) fn set_step_column(record: NewEvent, step: &StepName) -> NewEvent {
    NewEvent { node_name: Some(Text::from(step)), ..record }
}

pub(super) fn write_step_entered(record: NewEvent, id: EventId, entered: &StepEntered) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.result = parts.result.with_field(Key::Arrivals, step_names_json(&entered.arrivals));
    parts.meta = parts
        .meta
        .with_field(Key::Run, entered.run)
        .with_optional(Key::Priority, entered.priority.map(i32::from))
        .with_optional(Key::Concurrency, entered.slot.as_ref().map(slots_and_cache::slot_json))
        .with_optional(Key::Cache, entered.cache.map(slots_and_cache::cache_key_json));
    if let Some(entered) = &entered.cursor {
        parts = cursor::write_cursor_entered(parts, entered);
        parts.meta = parts.meta.with_field(Key::LoopId, id.to_string());
    }
    if let Some(looping) = &entered.looping {
        parts = parts.with_data(Key::In, looping.items.as_ref());
        parts.result = parts
            .result
            .with_field(Key::Iterations, looping.iterations)
            .with_field(Key::Iterator, &looping.iterator)
            .with_optional(Key::MaxInFlight, looping.max_in_flight);
        parts.meta = parts
            .meta
            .with_field(Key::LoopId, id.to_string())
            .with_field(Key::CollectionSize, looping.iterations);
    }
    parts.into_record(set_step_column(record, &entered.step))
}

pub(super) fn read_step_entered(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let result = &fields.result;
    let looping = match result.read_number(Key::Iterations)? {
        None => None,
        Some(iterations) => Some(LoopEntered {
            iterations,
            iterator: result
                .read_text(Key::Iterator)?
                .ok_or_else(|| result.key_error(Key::Iterator, "a string"))?,
            items: fields.read_data(Key::In)?,
            max_in_flight: result.read_number(Key::MaxInFlight)?,
        }),
    };
    Ok(EventKind::StepEntered(Box::new(StepEntered {
        step: fields.step_name()?,
        run: fields.meta.require_number(Key::Run)?,
        arrivals: result.read_step_names(Key::Arrivals)?,
        looping,
        cursor: cursor::read_cursor_entered(result)?.map(Box::new),
        priority: read_priority(fields)?,
        slot: slots_and_cache::read_slot(&fields.meta)?,
        cache: slots_and_cache::read_cache_key(&fields.meta)?,
    })))
}

pub(super) fn write_step_exited(record: NewEvent, exited: &StepExited) -> NewEvent {
    let mut parts = RecordParts::new().with_data(Key::Data, exited.data.as_ref());
    let mut record = set_step_column(record, &exited.step);
    parts.result = parts.result.with_field(Key::Next, step_names_json(&exited.next));
    parts.meta = parts.meta.with_field(Key::Run, exited.run);
    record.status = match &exited.end {
        StepEnd::Completed => EventStatus::Completed.into(),
        StepEnd::Cancelled => EventStatus::Cancelled.into(),
        StepEnd::Failed { error, caught } => {
            parts.result = parts
                .result
                .with_field(Key::Error, error.to_json())
                .with_field(Key::Caught, *caught);
            record.error = Some(error.message.clone());
            EventStatus::Failed.into()
        }
    };
    parts.into_record(record)
}

pub(super) fn read_step_exited(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let status = fields.status().known_status();
    let end = if status == Some(EventStatus::Completed) {
        StepEnd::Completed
    } else if status == Some(EventStatus::Cancelled) {
        StepEnd::Cancelled
    } else if status == Some(EventStatus::Failed) {
        StepEnd::Failed {
            error: fields.result.read_error(Key::Error)?,
            caught: fields.result.read_required(Key::Caught, "a bool", Json::as_bool)?,
        }
    } else {
        return Err(fields.decode_error("status", "`COMPLETED`, `FAILED` or `CANCELLED`"));
    };
    Ok(EventKind::StepExited(Box::new(StepExited {
        step: fields.step_name()?,
        run: fields.meta.require_number(Key::Run)?,
        end,
        next: fields.result.read_step_names(Key::Next)?,
        data: fields.read_data(Key::Data)?,
    })))
}

pub(super) fn write_step_skipped(record: NewEvent, skipped: &StepSkipped) -> NewEvent {
    let mut parts = RecordParts::new();
    match &skipped.reason {
        SkipReason::NotRouted => parts.meta = parts.meta.with_field(Key::Reason, "not_routed"),
        SkipReason::Guard { run, value, next } => {
            parts.result = parts.result.with_field(Key::Next, step_names_json(next));
            parts.meta = parts
                .meta
                .with_field(Key::Reason, "guard")
                .with_field(Key::Run, *run)
                .with_field(Key::Value, value.clone());
        }
        SkipReason::Admission { run, next } => {
            parts.result = parts.result.with_field(Key::Next, step_names_json(next));
            parts.meta = parts.meta.with_field(Key::Reason, "admission").with_field(Key::Run, *run);
        }
    }
    parts.into_record(set_step_column(record, &skipped.step))
}

pub(super) fn read_step_skipped(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let reason = match fields.meta.get(Key::Reason).and_then(Json::as_str) {
        Some("not_routed") => SkipReason::NotRouted,
        Some("guard") => SkipReason::Guard {
            run: fields.meta.require_number(Key::Run)?,
            value: fields.meta.read_json(Key::Value).unwrap_or_default(),
            next: fields.result.read_step_names(Key::Next)?,
        },
        Some("admission") => SkipReason::Admission {
            run: fields.meta.require_number(Key::Run)?,
            next: fields.result.read_step_names(Key::Next)?,
        },
        Some(_) | None => {
            let expected = "`not_routed`, `guard` or `admission`";
            return Err(fields.meta.key_error(Key::Reason, expected));
        }
    };
    Ok(EventKind::StepSkipped(StepSkipped { step: fields.step_name()?, reason }))
}

pub(super) fn write_loop_done(record: NewEvent, done: &LoopDone) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.result = parts.result.with_field(Key::Stats, stats_json(done.stats));
    if !done.errors.is_empty() {
        parts.result = parts.result.with_field(Key::Errors, errors_json(&done.errors));
    }
    parts.meta =
        parts.meta.with_field(Key::Run, done.run).with_field(Key::LoopId, done.loop_id.to_string());
    if done.stats.frames.is_none() {
        parts.meta = parts.meta.with_field(Key::CollectionSize, done.stats.total);
    }
    parts.into_record(set_step_column(record, &done.step))
}

/// Converts loop counts to the form that templates and the log contain.
pub(crate) fn stats_json(stats: LoopStats) -> Json {
    MapBuilder::default()
        .with_field(Key::Total, stats.total)
        .with_field(Key::Success, stats.success)
        .with_field(Key::Failed, stats.failed)
        .with_optional(Key::Frames, stats.frames)
        .into_json()
}

/// Converts failed iterations to the form that templates and the log contain.
pub(crate) fn errors_json<'e>(errors: impl IntoIterator<Item = &'e IterationError>) -> Json {
    Json::list(errors.into_iter().map(|failed| {
        MapBuilder::default()
            .with_field(Key::Index, failed.index)
            .with_field(Key::Error, failed.error.to_json())
            .into_json()
    }))
}

pub(super) fn read_loop_done(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let result = &fields.result;
    let stats = result.read_required(Key::Stats, "a map", Json::as_map)?;
    let stats = result.nested(stats);
    let errors = result.read_optional(Key::Errors, "a list of errors", |errors| {
        let errors = errors.as_list()?.iter();
        errors.map(|failed| read_iteration_error(result, failed)).collect()
    })?;
    Ok(EventKind::LoopDone(Box::new(LoopDone {
        step: fields.step_name()?,
        run: fields.meta.require_number(Key::Run)?,
        loop_id: read_loop_id(&fields.meta)?
            .ok_or_else(|| fields.meta.key_error(Key::LoopId, "an id"))?,
        stats: LoopStats {
            total: stats.require_number(Key::Total)?,
            success: stats.require_number(Key::Success)?,
            failed: stats.require_number(Key::Failed)?,
            frames: stats.read_number(Key::Frames)?,
        },
        errors: errors.unwrap_or_default(),
    })))
}

fn read_iteration_error(part: &RecordPart<'_>, failed: &Json) -> Option<IterationError> {
    let map = part.nested(failed.as_map()?);
    Some(IterationError {
        index: map.require_number(Key::Index).ok()?,
        error: TaskError::from_json(map.get(Key::Error)?),
    })
}

pub(super) fn read_loop_id(meta: &RecordPart<'_>) -> Result<Option<EventId>, DecodeError> {
    meta.read_optional(Key::LoopId, "an id", |id| EventId::from_json(id).ok())
}

pub(super) fn write_ctx_updated(record: NewEvent, updated: &CtxUpdated) -> NewEvent {
    let mut parts = RecordParts::new();
    parts.result = parts.result.with_field(Key::Values, updated.values.clone());
    parts.meta = parts
        .meta
        .with_field(Key::Source, updated.source.as_str())
        .with_field(Key::Run, updated.run)
        .with_optional(Key::Index, updated.index);
    parts.into_record(set_step_column(record, &updated.step))
}

pub(super) fn read_ctx_updated(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let meta = &fields.meta;
    Ok(EventKind::CtxUpdated(Box::new(CtxUpdated {
        step: fields.step_name()?,
        run: meta.require_number(Key::Run)?,
        index: meta.read_number(Key::Index)?,
        source: meta.read_required(Key::Source, "`task`, `step` or `arc`", |source| {
            CtxSource::parse(source.as_str()?)
        })?,
        values: fields.result.read_map(Key::Values)?,
    })))
}
