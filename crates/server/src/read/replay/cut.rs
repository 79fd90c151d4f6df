//! Which event a replay stops at.

use noetl_api::replay::{Cut, LEAST_EVENT_ID};
use noetl_store::{Execution, LogPage, Store};
use noetl_types::{ErrorCode, EventId, Timestamp, Version};

use crate::runtime::RuntimeError;

/// The last event to fold: a prefix of the log, whatever the cut is given by.
pub(super) async fn version_of(
    log: &dyn Store,
    row: &Execution,
    cut: Cut,
) -> Result<Version, RuntimeError> {
    let end = row.head.version;
    match cut {
        Cut::End => Ok(end),
        Cut::Event(id) => of_event(log, row, id).await,
        Cut::Position(number) if number >= LEAST_EVENT_ID => {
            let id = EventId::new(number).map_err(|error| {
                RuntimeError::refused(ErrorCode::BadId, format!("as_of_position: {error}"))
            })?;
            of_event(log, row, id).await
        }
        Cut::Position(number) => {
            let asked = Version::new(number).map_err(|_| {
                let text = format!("as_of_position = {number} is out of range 0..");
                RuntimeError::refused(ErrorCode::OutOfRange, text)
            })?;
            Ok(asked.min(end))
        }
        Cut::Time(time) => of_time(log, row, time).await,
    }
}

async fn of_event(log: &dyn Store, row: &Execution, id: EventId) -> Result<Version, RuntimeError> {
    let found = log.event(row.execution_id, id).await?;
    let found = found.ok_or_else(|| {
        let text = format!("the execution has no event {id}");
        RuntimeError::refused(ErrorCode::NotFound, text)
    })?;
    Ok(Version::from(found.record.seq).min(row.head.version))
}

/// The last event that was recorded by a time. The time of recording never falls inside of a log, so
/// its half is looked at, and the half of that: a few dozen looks at the longest of logs.
async fn of_time(
    log: &dyn Store,
    row: &Execution,
    time: Timestamp,
) -> Result<Version, RuntimeError> {
    if row.head.ingest_time <= time {
        return Ok(row.head.version);
    }
    // Behind `low` everything may be late, at `high` it is.
    let (mut low, mut high) = (0, row.head.version.get());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let before = Version::new(middle - 1).unwrap_or_default();
        let page = LogPage::clamped(1);
        let events = log.events(row.execution_id, before, page).await?;
        match events.first() {
            Some(event) if event.record.ingest_time <= time => low = middle,
            Some(_) | None => high = middle,
        }
    }
    Ok(Version::new(low).unwrap_or_default())
}
