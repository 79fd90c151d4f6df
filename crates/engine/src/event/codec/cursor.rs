//! What records say of loops over a cursor.

use noetl_playbook::shift::{FrameReport, RowError};
use noetl_types::{ByteSize, Json, Millis, TaskError};

use super::fields::{DecodeError, Fields, Key, Map, Part, Parts};
use crate::event::{CursorEntered, CursorTerms, FrameAsk};

pub(super) fn write_entered(mut parts: Parts, entered: &CursorEntered) -> Parts {
    parts.result = parts
        .result
        .put(Key::Iterator, &entered.iterator)
        .put(Key::Cursor, terms_json(&entered.terms));
    parts
}

fn terms_json(terms: &CursorTerms) -> Json {
    Map::default()
        .put(Key::MaxInFlight, terms.chains)
        .put(Key::MaxRows, terms.max_rows)
        .put(Key::MaxMs, terms.max_time.as_ms())
        .put(Key::MaxBytes, terms.max_bytes.as_bytes())
        .put(Key::LeaseMs, terms.lease.as_ms())
        .put(Key::HeartbeatMs, terms.heartbeat.as_ms())
        .put(Key::MaxAttempts, terms.max_attempts)
        .into_json()
}

pub(super) fn read_entered(result: &Part<'_>) -> Result<Option<CursorEntered>, DecodeError> {
    let terms = result.read(Key::Cursor, "the terms of a cursor", |terms| {
        read_terms(&result.inner(terms.as_map()?)).ok()
    })?;
    let Some(terms) = terms else {
        return Ok(None);
    };
    let iterator = result.text(Key::Iterator)?;
    let iterator = iterator.ok_or_else(|| result.wrong(Key::Iterator, "a text"))?;
    Ok(Some(CursorEntered { iterator, terms }))
}

fn read_terms(terms: &Part<'_>) -> Result<CursorTerms, DecodeError> {
    Ok(CursorTerms {
        chains: terms.need_number(Key::MaxInFlight)?,
        max_rows: terms.need_number(Key::MaxRows)?,
        max_time: Millis::from_ms(terms.need_number(Key::MaxMs)?),
        max_bytes: ByteSize::from_bytes(terms.need_number(Key::MaxBytes)?),
        lease: Millis::from_ms(terms.need_number(Key::LeaseMs)?),
        heartbeat: Millis::from_ms(terms.need_number(Key::HeartbeatMs)?),
        max_attempts: terms.need_number(Key::MaxAttempts)?,
    })
}

pub(super) fn ask_json(ask: FrameAsk) -> Json {
    Map::default()
        .put(Key::MaxRows, ask.max_rows)
        .put(Key::LeaseMs, ask.lease.as_ms())
        .put(Key::HeartbeatMs, ask.heartbeat.as_ms())
        .into_json()
}

pub(super) fn read_ask(ask: &Part<'_>) -> Option<FrameAsk> {
    Some(FrameAsk {
        max_rows: ask.need_number(Key::MaxRows).ok()?,
        lease: Millis::from_ms(ask.need_number(Key::LeaseMs).ok()?),
        heartbeat: Millis::from_ms(ask.need_number(Key::HeartbeatMs).ok()?),
    })
}

/// The count of rows stands by itself, where everybody looks for it.
pub(super) fn write_frame(mut parts: Parts, frame: Option<&FrameReport>) -> Parts {
    let Some(frame) = frame else {
        return parts;
    };
    let told = Map::default()
        .put(Key::Done, frame.done)
        .put(Key::Failed, frame.failed)
        .put(Key::Bytes, frame.bytes)
        .into_json();
    parts.meta = parts.meta.put(Key::Rows, frame.rows).put(Key::Cursor, told);
    if !frame.errors.is_empty() {
        let errors = Json::list(frame.errors.iter().map(|failed| {
            Map::default()
                .put(Key::Row, failed.row)
                .put(Key::Error, failed.error.to_json())
                .into_json()
        }));
        parts.result = parts.result.put(Key::Errors, errors);
    }
    parts
}

pub(super) fn read_frame(fields: &Fields<'_>) -> Result<Option<FrameReport>, DecodeError> {
    let (meta, result) = (&fields.meta, &fields.result);
    let Some(rows) = meta.number(Key::Rows)? else {
        return Ok(None);
    };
    let told = meta.inner(meta.need(Key::Cursor, "what became of rows", Json::as_map)?);
    let errors = result.read(Key::Errors, "a list of errors", |errors| {
        let errors = errors.as_list()?.iter();
        errors.map(|failed| read_error(result, failed)).collect()
    })?;
    Ok(Some(FrameReport {
        rows,
        done: told.need_number(Key::Done)?,
        failed: told.need_number(Key::Failed)?,
        bytes: told.need_number(Key::Bytes)?,
        errors: errors.unwrap_or_default(),
    }))
}

fn read_error(part: &Part<'_>, failed: &Json) -> Option<RowError> {
    let map = part.inner(failed.as_map()?);
    Some(RowError {
        row: map.need_number(Key::Row).ok()?,
        error: TaskError::from_json(map.get(Key::Error)?),
    })
}
