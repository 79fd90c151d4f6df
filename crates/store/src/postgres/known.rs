//! What the log has of events that somebody wants to copy into it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::bind::read_all;
use super::pool::Pool;
use super::query::select;
use crate::error::StoreError;
use crate::model::{EventKey, Known};
use crate::row::{self, EVENT, EXECUTION};

static KNOWN_EXECUTIONS: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = ANY ($1::bigint[]) ORDER BY execution_id";
    select(&EXECUTION, by_id)
});

/// As for one event, the order says which index is meant.
static KNOWN_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT.list_of("event.");
    format!(
        "SELECT {columns}, event.tx::text::bigint, event.position
         FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution_id, event_id)
         CROSS JOIN LATERAL (
             SELECT * FROM event AS candidate
             WHERE candidate.execution_id = wanted.execution_id
                 AND candidate.event_id >= wanted.event_id
             ORDER BY candidate.execution_id, candidate.event_id LIMIT 1
         ) AS event
         WHERE event.event_id = wanted.event_id
         ORDER BY event.execution_id, event.event_id"
    )
});

/// Both looks are sent behind each other. An event that is written between them is in the second and
/// its execution perhaps not in the first: an append that believes the first then meets a conflict.
pub(super) async fn known(pool: &Pool, events: &[EventKey]) -> Result<Known, StoreError> {
    let mut client = pool.get().await?;
    let keys: BTreeSet<_> = events.iter().copied().collect();
    let executions: Vec<_> = keys.iter().map(|key| key.execution_id.get()).collect();
    let ids: Vec<_> = keys.iter().map(|key| key.event_id.get()).collect();
    let (executions, events) = client
        .two(
            (&KNOWN_EXECUTIONS, &[&executions]),
            (&KNOWN_EVENTS, &[&executions, &ids]),
        )
        .await?;
    Ok(Known {
        executions: read_all(&executions, row::execution)?,
        events: read_all(&events, row::stored_event)?,
    })
}
