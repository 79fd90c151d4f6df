//! Fields of records about loops over a cursor.

use noetl_playbook::command_machine::{FrameReport, RowError};
use noetl_types::{ByteSize, Json, Millis, TaskError};

use super::fields::{DecodeError, Key, MapBuilder, RecordFields, RecordPart, RecordParts};
use crate::event::{CursorEntered, CursorSettings, FrameRequest};

pub(super) fn write_cursor_entered(mut parts: RecordParts, entered: &CursorEntered) -> RecordParts {
    parts.result = parts
        .result
        .with_field(Key::Iterator, &entered.iterator)
        .with_field(Key::Cursor, settings_json(&entered.terms));
    parts
}

fn settings_json(settings: &CursorSettings) -> Json {
    MapBuilder::default()
        .with_field(Key::MaxInFlight, settings.chains)
        .with_field(Key::MaxRows, settings.max_rows)
        .with_field(Key::MaxMs, settings.max_time.as_ms())
        .with_field(Key::MaxBytes, settings.max_bytes.as_bytes())
        .with_field(Key::LeaseMs, settings.lease.as_ms())
        .with_field(Key::HeartbeatMs, settings.heartbeat.as_ms())
        .with_field(Key::MaxAttempts, settings.max_attempts)
        .into_json()
}

pub(super) fn read_cursor_entered(
    result: &RecordPart<'_>,
) -> Result<Option<CursorEntered>, DecodeError> {
    let settings = result.read_optional(Key::Cursor, "cursor settings", |settings| {
        read_settings(&result.nested(settings.as_map()?)).ok()
    })?;
    let Some(settings) = settings else {
        return Ok(None);
    };
    let iterator = result.read_text(Key::Iterator)?;
    let iterator = iterator.ok_or_else(|| result.key_error(Key::Iterator, "a string"))?;
    Ok(Some(CursorEntered { iterator, terms: settings }))
}

fn read_settings(settings: &RecordPart<'_>) -> Result<CursorSettings, DecodeError> {
    Ok(CursorSettings {
        chains: settings.require_number(Key::MaxInFlight)?,
        max_rows: settings.require_number(Key::MaxRows)?,
        max_time: Millis::from_ms(settings.require_number(Key::MaxMs)?),
        max_bytes: ByteSize::from_bytes(settings.require_number(Key::MaxBytes)?),
        lease: Millis::from_ms(settings.require_number(Key::LeaseMs)?),
        heartbeat: Millis::from_ms(settings.require_number(Key::HeartbeatMs)?),
        max_attempts: settings.require_number(Key::MaxAttempts)?,
    })
}

pub(super) fn frame_request_json(request: FrameRequest) -> Json {
    MapBuilder::default()
        .with_field(Key::MaxRows, request.max_rows)
        .with_field(Key::LeaseMs, request.lease.as_ms())
        .with_field(Key::HeartbeatMs, request.heartbeat.as_ms())
        .into_json()
}

pub(super) fn read_frame_request(request: &RecordPart<'_>) -> Option<FrameRequest> {
    Some(FrameRequest {
        max_rows: request.require_number(Key::MaxRows).ok()?,
        lease: Millis::from_ms(request.require_number(Key::LeaseMs).ok()?),
        heartbeat: Millis::from_ms(request.require_number(Key::HeartbeatMs).ok()?),
    })
}

/// Writes the report of a frame. The row count is a separate `meta` field, where all readers expect
/// it.
pub(super) fn write_frame(mut parts: RecordParts, frame: Option<&FrameReport>) -> RecordParts {
    let Some(frame) = frame else {
        return parts;
    };
    let counts = MapBuilder::default()
        .with_field(Key::Done, frame.done)
        .with_field(Key::Failed, frame.failed)
        .with_field(Key::Bytes, frame.bytes)
        .into_json();
    parts.meta = parts.meta.with_field(Key::Rows, frame.rows).with_field(Key::Cursor, counts);
    if !frame.errors.is_empty() {
        let errors = Json::list(frame.errors.iter().map(|failed| {
            MapBuilder::default()
                .with_field(Key::Row, failed.row)
                .with_field(Key::Error, failed.error.to_json())
                .into_json()
        }));
        parts.result = parts.result.with_field(Key::Errors, errors);
    }
    parts
}

pub(super) fn read_frame(fields: &RecordFields<'_>) -> Result<Option<FrameReport>, DecodeError> {
    let (meta, result) = (&fields.meta, &fields.result);
    let Some(rows) = meta.read_number(Key::Rows)? else {
        return Ok(None);
    };
    let counts = meta.nested(meta.read_required(Key::Cursor, "row counts", Json::as_map)?);
    let errors = result.read_optional(Key::Errors, "a list of errors", |errors| {
        let errors = errors.as_list()?.iter();
        errors.map(|failed| read_row_error(result, failed)).collect()
    })?;
    Ok(Some(FrameReport {
        rows,
        done: counts.require_number(Key::Done)?,
        failed: counts.require_number(Key::Failed)?,
        bytes: counts.require_number(Key::Bytes)?,
        errors: errors.unwrap_or_default(),
    }))
}

fn read_row_error(part: &RecordPart<'_>, failed: &Json) -> Option<RowError> {
    let map = part.nested(failed.as_map()?);
    Some(RowError {
        row: map.require_number(Key::Row).ok()?,
        error: TaskError::from_json(map.get(Key::Error)?),
    })
}
