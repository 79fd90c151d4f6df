//! [`OutboxQueue`] in SQLite, and the outbox rows of appends.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::{OutboxId, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::SqliteStore;
use super::bind::{execute_cached, query_all, query_first, to_micros, to_store_error};
use crate::error::StoreError;
use crate::model::{ClaimedBatch, ClaimedMessage, MAX_CLAIM_BYTES, OutboxClaim, OutboxMark};
use crate::outbox::OutboxQueue;
use crate::row::{
    CLAIMED_OUTBOX, Cell, CellRef, CorruptRow, EVENT_BODY, FromRow, INVALID_ATTEMPTS_ERROR,
    MAX_REPAIRED_ATTEMPTS, NEW_OUTBOX, RowCells, cells,
};
use crate::sql::{Database as _, Durability, Statement};

/// Inserts an outbox row of an append. A row that another writer inserted for the same event is not
/// changed.
const INSERT_OUTBOX_ROW: &str = "INSERT INTO outbox
        (execution_id, event_id, message_id, subject, available_at, created_at, updated_at, bytes)
    VALUES (?1, ?2, (SELECT value FROM meta WHERE key = 'log_epoch') || ':' || ?3, ?4, ?5, ?5, ?5, ?6)
    ON CONFLICT (execution_id, event_id) DO NOTHING";

/// Selects rows that are due, and rows whose lease has expired or was never set. Due rows are many.
/// They come sorted from their index, so no more of them are read than requested.
const SELECT_DUE: &str = "SELECT outbox_id, attempts, forgiven FROM (
        SELECT * FROM (
            SELECT outbox_id, attempts, forgiven, available_at FROM outbox
            WHERE status IN ('PENDING', 'FAILED') AND available_at <= ?1
            ORDER BY available_at, outbox_id LIMIT ?2
        )
        UNION ALL
        SELECT outbox_id, attempts, forgiven, available_at FROM outbox
        WHERE status = 'IN_FLIGHT' AND (lease_until <= ?1 OR lease_until IS NULL)
    ) ORDER BY available_at, outbox_id LIMIT ?2";

/// Selects a row with its event, if the row has no payload.
static SELECT_CLAIMED: LazyLock<String> = LazyLock::new(|| {
    let (claimed, event) =
        (CLAIMED_OUTBOX.prefixed_column_list("outbox."), EVENT_BODY.prefixed_column_list("event."));
    format!(
        "SELECT {claimed}, {event} FROM outbox LEFT JOIN event
             ON outbox.payload IS NULL
             AND event.execution_id = outbox.execution_id AND event.event_id = outbox.event_id
         WHERE outbox.outbox_id = ?1"
    )
});

const MARK_IN_FLIGHT: &str = "UPDATE outbox
    SET status = 'IN_FLIGHT', attempts = attempts + 1, claim_owner = ?2, locked_at = ?3,
        lease_until = ?4, updated_at = ?3
    WHERE outbox_id = ?1";

const MARK_EXHAUSTED: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = ?2, lease_until = NULL, updated_at = ?2 WHERE outbox_id = ?1";

/// Marks an unreadable row as dead, and replaces invalid attempt counts with valid ones.
const MARK_UNREADABLE: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = ?2, lease_until = NULL, last_error = ?3, updated_at = ?2,
        attempts = CASE WHEN attempts < ?4 THEN max(attempts, 0) ELSE ?5 END,
        forgiven = CASE WHEN forgiven < ?4 THEN max(forgiven, 0) ELSE ?5 END
    WHERE outbox_id = ?1";

static MARK_PUBLISHED: Statement = Statement::new(
    "UPDATE outbox
     SET status = 'PUBLISHED', published_at = $3, last_error = NULL, lease_until = NULL,
         updated_at = $3
     WHERE outbox_id = $1 AND status = 'IN_FLIGHT' AND ($2 IS NULL OR attempts = $2)",
);

/// Writes the outbox rows of an append.
pub(super) fn write_outbox_rows(
    connection: &Connection,
    rows: &[Vec<Cell>],
) -> Result<(), rusqlite::Error> {
    for row in rows {
        debug_assert_eq!(row.len(), NEW_OUTBOX.columns.len());
        execute_cached(connection, INSERT_OUTBOX_ROW, params_from_iter(row))?;
    }
    Ok(())
}

/// Returns the number of counted attempts of a row, or `None` if the counts are invalid.
fn counted_attempts(attempts: i64, forgiven: i64) -> Option<u32> {
    let attempts = u32::try_from(attempts).ok().filter(|it| *it < u32::MAX)?;
    Some(attempts.saturating_sub(u32::try_from(forgiven).ok()?))
}

/// A claimed row with its approximate size in bytes, or the damage that makes it unreadable.
struct MeasuredMessage(Result<(usize, ClaimedMessage), CorruptRow>);

impl FromRow for MeasuredMessage {
    fn from_row(cells: RowCells<'_>) -> Result<Self, CorruptRow> {
        let size: usize = cells.clone().map(CellRef::approximate_bytes).sum();
        Ok(Self(ClaimedMessage::from_row(cells).map(|message| (size + 1024, message))))
    }
}

fn mark_unreadable(
    connection: &Connection,
    id: i64,
    error: &str,
    now: i64,
) -> Result<(), StoreError> {
    let params = params![id, now, error, u32::MAX, MAX_REPAIRED_ATTEMPTS];
    let updated = execute_cached(connection, MARK_UNREADABLE, params);
    updated.map(drop).map_err(to_store_error)
}

/// Claims due rows. An unreadable row is marked dead with the reason as its error, so that it does
/// not block the others.
fn claim_outbox(connection: &Connection, claim: &OutboxClaim) -> Result<ClaimedBatch, StoreError> {
    let now = to_micros(claim.now);
    let due = query_all(connection, SELECT_DUE, (now, claim.limit.get()))?;
    let mut bytes = 0;
    let mut claimed = ClaimedBatch::default();
    for (id, attempts, forgiven) in due {
        let Some(attempts) = counted_attempts(attempts, forgiven) else {
            mark_unreadable(connection, id, INVALID_ATTEMPTS_ERROR, now)?;
            claimed.dead.extend(OutboxId::new(id));
            continue;
        };
        if attempts >= claim.max_attempts {
            execute_cached(connection, MARK_EXHAUSTED, (id, now)).map_err(to_store_error)?;
            claimed.dead.extend(OutboxId::new(id));
            continue;
        }
        let (size, mut message) = match query_first(connection, &SELECT_CLAIMED, [id])? {
            Some(MeasuredMessage(Ok(found))) => found,
            Some(MeasuredMessage(Err(corrupt))) => {
                mark_unreadable(connection, id, &corrupt.message_with_cause(), now)?;
                claimed.dead.extend(OutboxId::new(id));
                continue;
            }
            None => continue,
        };
        bytes += size;
        if bytes > MAX_CLAIM_BYTES && !claimed.rows.is_empty() {
            break;
        }
        let until = to_micros(claim.lease_until);
        let params = params![id, claim.owner.as_str(), now, until];
        execute_cached(connection, MARK_IN_FLIGHT, params).map_err(to_store_error)?;
        message.attempts = message.attempts.saturating_add(1);
        claimed.rows.push(message);
    }
    Ok(claimed)
}

#[async_trait]
impl OutboxQueue for SqliteStore {
    /// A power failure may lose a claim. The rows are then claimed again and may be published
    /// twice, as after any crash of a publisher.
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| claim_outbox(connection, &claim))
            .await
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let rows = marks.iter().map(|mark| cells![mark.outbox_id, mark.attempts, now]).collect();
        self.execute_many(Durability::Synced, &MARK_PUBLISHED, rows).await
    }
}
