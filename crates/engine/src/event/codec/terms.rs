//! What records say of slots and caches.

use noetl_playbook::model::{CacheScope, ConcurrencyOverlap};
use noetl_types::record::NewEvent;
use noetl_types::{Digest, ExecutionId, Json, Seq};

use super::fields::{DecodeError, Fields, Key, Map, Part, Parts};
use super::step::at_step;
use crate::cache::{CacheKey, CachedResult, Origin};
use crate::event::{EventKind, TakenOver};
use crate::payload::Data;
use crate::slot::{RunSlot, Slot};

fn slot_map(slot: &Slot) -> Map {
    Map::default()
        .put(Key::SharedBy, &slot.key)
        .put(Key::Limit, slot.limit)
}

pub(super) fn slot_json(slot: &Slot) -> Json {
    slot_map(slot).into_json()
}

pub(super) fn run_slot_json(run: &RunSlot) -> Json {
    slot_map(&run.slot)
        .put(Key::Overlap, run.overlap.as_str())
        .into_json()
}

pub(super) fn read_slot(meta: &Part<'_>) -> Result<Option<Slot>, DecodeError> {
    meta.read(Key::Concurrency, "a slot", |slot| {
        slot_of(&meta.inner(slot.as_map()?))
    })
}

fn slot_of(slot: &Part<'_>) -> Option<Slot> {
    Some(Slot {
        key: slot.text(Key::SharedBy).ok()??,
        limit: slot.need_number(Key::Limit).ok()?,
    })
}

pub(super) fn read_run_slot(meta: &Part<'_>) -> Result<Option<RunSlot>, DecodeError> {
    meta.read(Key::Concurrency, "the slot of a run", |run| {
        let run = meta.inner(run.as_map()?);
        Some(RunSlot {
            slot: slot_of(&run)?,
            overlap: ConcurrencyOverlap::parse(run.get(Key::Overlap)?.as_str()?)?,
        })
    })
}

pub(super) fn cache_key_json(key: CacheKey) -> Json {
    Map::default()
        .put(Key::Scope, key.scope.as_str())
        .put(Key::ResultDigest, key.key_sha256.to_string())
        .into_json()
}

pub(super) fn read_cache_key(meta: &Part<'_>) -> Result<Option<CacheKey>, DecodeError> {
    meta.read(Key::Cache, "the key of a result", |key| {
        let key = meta.inner(key.as_map()?);
        Some(CacheKey {
            scope: CacheScope::parse(key.get(Key::Scope)?.as_str()?)?,
            key_sha256: Digest::parse(key.get(Key::ResultDigest)?.as_str()?).ok()?,
        })
    })
}

pub(super) fn write_taken_over(record: NewEvent, taken: &TakenOver) -> NewEvent {
    let is_nothing = taken.result.data == Data::default();
    let data = (!is_nothing).then_some(&taken.result.data);
    let mut parts = Parts::new().data(Key::Result, data);
    parts.result = parts
        .result
        .maybe(Key::Results, taken.result.labels.clone());
    let origin = Map::default()
        .put(Key::ExecutionId, taken.origin.execution_id.to_string())
        .put(Key::Seq, taken.origin.seq.get())
        .into_json();
    parts.meta = parts
        .meta
        .put(Key::Run, taken.run)
        .put(Key::Final, true)
        .put(Key::Cached, true)
        .put(Key::Origin, origin);
    parts.write(at_step(record, &taken.step))
}

/// Whether a `call.done` tells of a result that was taken over.
pub(super) fn is_taken_over(fields: &Fields<'_>) -> bool {
    fields.meta.get(Key::Cached).and_then(Json::as_bool) == Some(true)
}

pub(super) fn read_taken_over(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let meta = &fields.meta;
    let origin = meta.need(Key::Origin, "the origin of a result", |origin| {
        let origin = meta.inner(origin.as_map()?);
        Some(Origin {
            execution_id: ExecutionId::from_json(origin.get(Key::ExecutionId)?).ok()?,
            seq: Seq::new(origin.get(Key::Seq)?.as_i64()?).ok()?,
        })
    })?;
    Ok(EventKind::TakenOver(Box::new(TakenOver {
        step: fields.step()?,
        run: meta.need_number(Key::Run)?,
        origin,
        result: CachedResult {
            data: fields.data(Key::Result)?.unwrap_or_default(),
            labels: fields.result.json(Key::Results),
        },
    })))
}
