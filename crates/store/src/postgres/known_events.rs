//! Finds which projected events the log already contains.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::bind::decode_rows;
use super::pool::ConnectionPool;
use super::query::select_sql;
use crate::error::StoreError;
use crate::model::{EventKey, KnownEvents};
use crate::row::{self, EVENT, EXECUTION};

static KNOWN_EXECUTIONS: LazyLock<String> = LazyLock::new(|| {
    let by_id = "WHERE execution_id = ANY ($1::bigint[]) ORDER BY execution_id";
    select_sql(&EXECUTION, by_id)
});

/// Selects events by id. As for a single event, the `ORDER BY` makes the planner use the right
/// index.
static KNOWN_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let columns = EVENT.prefixed_column_list("event.");
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

/// Finds executions and events with two pipelined statements, which see different snapshots. An
/// event that is written between them may be found without its execution. An append based on that
/// result fails with a conflict.
pub(super) async fn find_known_events(
    pool: &ConnectionPool,
    events: &[EventKey],
) -> Result<KnownEvents, StoreError> {
    let mut client = pool.acquire().await?;
    let keys: BTreeSet<_> = events.iter().copied().collect();
    let executions: Vec<_> = keys.iter().map(|key| key.execution_id.get()).collect();
    let ids: Vec<_> = keys.iter().map(|key| key.event_id.get()).collect();
    let (executions, events) = client
        .query_pipelined((&KNOWN_EXECUTIONS, &[&executions]), (&KNOWN_EVENTS, &[&executions, &ids]))
        .await?;
    Ok(KnownEvents {
        executions: decode_rows(&executions, row::decode_execution)?,
        events: decode_rows(&events, row::decode_stored_event)?,
    })
}
