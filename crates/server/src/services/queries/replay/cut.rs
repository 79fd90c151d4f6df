//! Position at which a replay stops.

use noetl_api::replay::{MIN_EVENT_ID, ReplayCutoff};
use noetl_store::{Execution, LogPageLimit, Store};
use noetl_types::{ErrorCode, EventId, ExecutionVersion, Timestamp};

use crate::error::{Result, RuntimeError};

/// Returns the last version to fold. Every kind of cut selects a prefix of the log.
pub(crate) async fn cut_version(
    store: &dyn Store,
    row: &Execution,
    cut: ReplayCutoff,
) -> Result<ExecutionVersion> {
    let end = row.head.version;
    match cut {
        ReplayCutoff::End => Ok(end),
        ReplayCutoff::Event(id) => version_of_event(store, row, id).await,
        ReplayCutoff::Position(number) if number >= MIN_EVENT_ID => {
            let id = EventId::new(number).map_err(|error| {
                RuntimeError::refused(ErrorCode::BadId, format!("as_of_position: {error}"))
            })?;
            version_of_event(store, row, id).await
        }
        ReplayCutoff::Position(number) => {
            let requested = ExecutionVersion::new(number).map_err(|_| {
                let text = format!("as_of_position = {number} is out of range 0..");
                RuntimeError::out_of_range(text)
            })?;
            Ok(requested.min(end))
        }
        ReplayCutoff::Time(time) => version_at_time(store, row, time).await,
    }
}

async fn version_of_event(
    store: &dyn Store,
    row: &Execution,
    id: EventId,
) -> Result<ExecutionVersion> {
    let event = store.find_event(row.execution_id, id).await?;
    let event = event.ok_or_else(|| {
        let text = format!("the execution has no event {id}");
        RuntimeError::not_found(text)
    })?;
    Ok(ExecutionVersion::from(event.record.seq).min(row.head.version))
}

/// Returns the last version recorded at or before a time. Recording times never decrease within a
/// log, so a binary search needs only a few dozen reads.
async fn version_at_time(
    store: &dyn Store,
    row: &Execution,
    time: Timestamp,
) -> Result<ExecutionVersion> {
    if row.head.ingest_time <= time {
        return Ok(row.head.version);
    }
    // Invariant: `low` is not after the time, `high` is.
    let (mut low, mut high) = (0, row.head.version.get());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let before = ExecutionVersion::new(middle - 1).unwrap_or_default();
        let page = LogPageLimit::clamped(1);
        let events = store.read_events(row.execution_id, before, page).await?;
        match events.first() {
            Some(event) if event.record.ingest_time <= time => low = middle,
            Some(_) | None => high = middle,
        }
    }
    Ok(ExecutionVersion::new(low).unwrap_or_default())
}
