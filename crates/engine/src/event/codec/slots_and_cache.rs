//! Fields of records about slots and caches.

use noetl_playbook::model::{CacheScope, ConcurrencyOverlap};
use noetl_types::record::NewEvent;
use noetl_types::{Digest, ExecutionId, Json, Seq};

use super::fields::{DecodeError, Key, MapBuilder, RecordFields, RecordPart, RecordParts};
use super::step::set_step_column;
use crate::cache::{CacheKey, CachedResult, ResultOrigin};
use crate::event::{CachedResultUsed, EventKind};
use crate::payload::EventData;
use crate::slot::{ExecutionSlot, Slot};

fn slot_map(slot: &Slot) -> MapBuilder {
    MapBuilder::default().with_field(Key::SlotName, &slot.key).with_field(Key::Limit, slot.limit)
}

pub(super) fn slot_json(slot: &Slot) -> Json {
    slot_map(slot).into_json()
}

pub(super) fn execution_slot_json(slot: &ExecutionSlot) -> Json {
    slot_map(&slot.slot).with_field(Key::Overlap, slot.overlap.as_str()).into_json()
}

pub(super) fn read_slot(meta: &RecordPart<'_>) -> Result<Option<Slot>, DecodeError> {
    meta.read_optional(Key::Concurrency, "a slot", |slot| {
        slot_from_part(&meta.nested(slot.as_map()?))
    })
}

fn slot_from_part(slot: &RecordPart<'_>) -> Option<Slot> {
    Some(Slot {
        key: slot.read_text(Key::SlotName).ok()??,
        limit: slot.require_number(Key::Limit).ok()?,
    })
}

pub(super) fn read_execution_slot(
    meta: &RecordPart<'_>,
) -> Result<Option<ExecutionSlot>, DecodeError> {
    meta.read_optional(Key::Concurrency, "an execution slot", |slot| {
        let slot = meta.nested(slot.as_map()?);
        Some(ExecutionSlot {
            slot: slot_from_part(&slot)?,
            overlap: ConcurrencyOverlap::parse(slot.get(Key::Overlap)?.as_str()?)?,
        })
    })
}

pub(super) fn cache_key_json(key: CacheKey) -> Json {
    MapBuilder::default()
        .with_field(Key::Scope, key.scope.as_str())
        .with_field(Key::ResultDigest, key.key_sha256.to_string())
        .into_json()
}

pub(super) fn read_cache_key(meta: &RecordPart<'_>) -> Result<Option<CacheKey>, DecodeError> {
    meta.read_optional(Key::Cache, "a cache key", |key| {
        let key = meta.nested(key.as_map()?);
        Some(CacheKey {
            scope: CacheScope::parse(key.get(Key::Scope)?.as_str()?)?,
            key_sha256: Digest::parse(key.get(Key::ResultDigest)?.as_str()?).ok()?,
        })
    })
}

pub(super) fn write_cached_result_used(record: NewEvent, used: &CachedResultUsed) -> NewEvent {
    let is_empty = used.result.data == EventData::default();
    let data = (!is_empty).then_some(&used.result.data);
    let mut parts = RecordParts::new().with_data(Key::Result, data);
    parts.result = parts.result.with_optional(Key::Results, used.result.labels.clone());
    let origin = MapBuilder::default()
        .with_field(Key::ExecutionId, used.origin.execution_id.to_string())
        .with_field(Key::Seq, used.origin.seq.get())
        .into_json();
    parts.meta = parts
        .meta
        .with_field(Key::Run, used.run)
        .with_field(Key::Final, true)
        .with_field(Key::Cached, true)
        .with_field(Key::Origin, origin);
    parts.into_record(set_step_column(record, &used.step))
}

/// Returns true if a `call.done` is about a reused cached result.
pub(super) fn is_cached_result(fields: &RecordFields<'_>) -> bool {
    fields.meta.get(Key::Cached).and_then(Json::as_bool) == Some(true)
}

pub(super) fn read_cached_result_used(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let meta = &fields.meta;
    let origin = meta.read_required(Key::Origin, "a result origin", |origin| {
        let origin = meta.nested(origin.as_map()?);
        Some(ResultOrigin {
            execution_id: ExecutionId::from_json(origin.get(Key::ExecutionId)?).ok()?,
            seq: Seq::new(origin.get(Key::Seq)?.as_i64()?).ok()?,
        })
    })?;
    Ok(EventKind::CachedResultUsed(Box::new(CachedResultUsed {
        step: fields.step_name()?,
        run: meta.require_number(Key::Run)?,
        origin,
        result: CachedResult {
            data: fields.read_data(Key::Result)?.unwrap_or_default(),
            labels: fields.result.read_json(Key::Results),
        },
    })))
}
