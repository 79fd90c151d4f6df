//! The outbox, and quarantined items.

use std::sync::LazyLock;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, QuarantineId, Text, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{execute_cached, query_all, query_first, to_micros, to_store_error};
use super::query::{insert_row, select_sql};
use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, ClaimedMessage, FailureOutcome, MAX_CLAIM_BYTES, MAX_EXACT_PUBLISHED_COUNT,
    OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStats, OutboxStatus,
    QuarantineFilter, QuarantinedItem,
};
use crate::row::{
    self, CLAIMED_OUTBOX, Cell, CellRef, CorruptRow, EVENT_BODY, INVALID_ATTEMPTS_ERROR,
    MAX_REPAIRED_ATTEMPTS, NEW_OUTBOX, OUTBOX, QUARANTINE, RowCells, RowReader,
    encode_quarantined_item,
};

/// Inserts an outbox row of an append. A row that another writer inserted for the same event is not
/// changed.
const INSERT_OUTBOX_ROW: &str = "INSERT INTO outbox
        (execution_id, event_id, message_id, subject, available_at, created_at, updated_at, bytes)
    VALUES (?1, ?2, (SELECT value FROM meta WHERE key = 'log_epoch') || ':' || ?3, ?4, ?5, ?5, ?5, ?6)
    ON CONFLICT (execution_id, event_id) DO NOTHING";

/// Selects rows that are due, and rows whose lease has expired. Due rows are many. They come sorted
/// from their index, so no more of them are read than requested.
const SELECT_DUE: &str = "SELECT outbox_id, attempts, forgiven FROM (
        SELECT * FROM (
            SELECT outbox_id, attempts, forgiven, available_at FROM outbox
            WHERE status IN ('PENDING', 'FAILED') AND available_at <= ?1
            ORDER BY available_at, outbox_id LIMIT ?2
        )
        UNION ALL
        SELECT outbox_id, attempts, forgiven, available_at FROM outbox
        WHERE status = 'IN_FLIGHT' AND lease_until <= ?1
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

const MARK_PUBLISHED: &str = "UPDATE outbox
    SET status = 'PUBLISHED', published_at = ?3, last_error = NULL, lease_until = NULL,
        updated_at = ?3
    WHERE outbox_id = ?1 AND status = 'IN_FLIGHT' AND (?2 IS NULL OR attempts = ?2)";

const SELECT_IN_FLIGHT: &str = "SELECT outbox_id, attempts, forgiven FROM outbox
    WHERE outbox_id = ?1 AND status = 'IN_FLIGHT'";

const MARK_FAILED: &str = "UPDATE outbox
    SET status = ?2, available_at = coalesce(?3, available_at), dead_at = ?4, lease_until = NULL,
        last_error = ?5, updated_at = ?6
    WHERE outbox_id = ?1";

pub(super) const COUNT_CLAIMABLE: &str = "SELECT '', (
        SELECT count(*) FROM outbox WHERE status IN ('PENDING', 'FAILED') AND available_at <= ?1
    ) + (
        SELECT count(*) FROM outbox WHERE status = 'IN_FLIGHT' AND lease_until <= ?1
    )";

const ANY_STATUS: &str = "(?1 IS NULL OR status = ?1)";

static LIST_OUTBOX: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR outbox_id > ?2)
        ORDER BY outbox_id LIMIT ?3";
    select_sql(&OUTBOX, page)
});

/// Lists dead rows. They are few and have their own index.
pub(super) static LIST_DEAD_OUTBOX: LazyLock<String> = LazyLock::new(|| {
    let is_dead = "status = 'DEAD' AND ?1 IS NOT NULL";
    let list = LIST_OUTBOX.replace("FROM outbox", "FROM outbox INDEXED BY outbox_dead");
    list.replace(ANY_STATUS, is_dead)
});

/// Counts rows by status. Published rows are counted up to a limit. Each status has its own index,
/// which has to be named because the planner considers a full scan equally cheap.
pub(super) const COUNT_BY_STATUS: &str = "SELECT status, count(*)
        FROM outbox INDEXED BY outbox_ready WHERE status IN ('PENDING', 'FAILED') GROUP BY status
    UNION ALL
    SELECT 'IN_FLIGHT', count(*) FROM outbox INDEXED BY outbox_in_flight
        WHERE status = 'IN_FLIGHT'
    UNION ALL
    SELECT 'DEAD', count(*) FROM outbox INDEXED BY outbox_dead WHERE status = 'DEAD'
    UNION ALL
    SELECT 'PUBLISHED', count(*) FROM (
        SELECT outbox_id FROM outbox INDEXED BY outbox_published
        WHERE status = 'PUBLISHED' LIMIT ?1
    )";

pub(super) const OLDEST_UNPUBLISHED: &str =
    "SELECT min(created_at) FROM outbox INDEXED BY outbox_unpublished
    WHERE status <> 'PUBLISHED' AND discarded_at IS NULL";

const SELECT_NEWEST: &str = "SELECT created_at FROM outbox ORDER BY outbox_id DESC LIMIT 1";

/// Reports if there are dead rows, and the approximate number of all rows.
pub(super) const ESTIMATE_ROWS: &str = "SELECT
    (EXISTS (
        SELECT 1 FROM outbox INDEXED BY outbox_dead WHERE status = 'DEAD' AND discarded_at IS NULL
    )) || '',
    coalesce(
        (SELECT max(outbox_id) FROM outbox) - (SELECT min(outbox_id) FROM outbox) + 1, 0
    )";

/// Requeues a dead row. Its previous attempts no longer count towards the limit, but `attempts` is
/// not reset because it is also the fence.
pub(super) const REQUEUE_DEAD: &str = "UPDATE outbox
    SET status = 'PENDING', available_at = ?2, dead_at = NULL, forgiven = attempts, updated_at = ?2
    WHERE outbox_id = ?1 AND status = 'DEAD' AND discarded_at IS NULL";

/// Discards a dead row.
pub(super) const DISCARD_DEAD: &str = "UPDATE outbox
    SET discarded_at = ?2, updated_at = ?2
    WHERE outbox_id = ?1 AND status = 'DEAD' AND discarded_at IS NULL";

pub(super) const COUNT_OLD: &str = "SELECT '', (
        SELECT count(*) FROM outbox WHERE status = 'PUBLISHED' AND published_at < ?1
    ) + (
        SELECT count(*) FROM outbox WHERE status = 'DEAD' AND discarded_at < ?1
    )";

pub(super) const PURGE_OUTBOX: &str = "DELETE FROM outbox WHERE outbox_id IN (
        SELECT * FROM (
            SELECT outbox_id FROM outbox WHERE status = 'PUBLISHED' AND published_at < ?1
            ORDER BY published_at, outbox_id LIMIT ?2
        )
        UNION ALL
        SELECT * FROM (
            SELECT outbox_id FROM outbox INDEXED BY outbox_dead
            WHERE status = 'DEAD' AND discarded_at < ?1
            ORDER BY discarded_at, outbox_id LIMIT ?2
        )
        LIMIT ?2
    )";

static LIST_QUARANTINED: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE (?1 IS NULL OR source = ?1) AND (?2 IS NULL OR quarantine_id > ?2)
        ORDER BY quarantine_id LIMIT ?3";
    select_sql(&QUARANTINE, page)
});

/// Deletes old quarantined items. Ids increase with time, so the id bound excludes newer items.
const PURGE_QUARANTINE: &str = "DELETE FROM outbox_quarantine WHERE quarantine_id IN (
        SELECT quarantine_id FROM outbox_quarantine
        WHERE quarantine_id < ?3 AND created_at < ?1 ORDER BY quarantine_id LIMIT ?2
    )";

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

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

/// Returns the id of a row, its number of attempts, and how many of these do not count.
fn read_attempts(cells: RowCells<'_>) -> Result<(OutboxId, u32, u32), CorruptRow> {
    let mut row = RowReader::new(&OUTBOX, cells);
    Ok((row.read_next()?, row.read_next()?, row.read_next()?))
}

/// Returns the id of a due row and its number of counted attempts, or `None` if the counts are
/// invalid.
fn read_due_row(cells: RowCells<'_>) -> Result<(i64, Option<u32>), CorruptRow> {
    let mut row = RowReader::new(&OUTBOX, cells);
    let id = row.read_next()?;
    let (attempts, forgiven) = (row.read_next::<i64>()?, row.read_next::<i64>()?);
    let attempts = u32::try_from(attempts).ok().filter(|it| *it < u32::MAX);
    let forgiven = u32::try_from(forgiven).ok();
    let counts = attempts.zip(forgiven);
    Ok((id, counts.map(|(attempts, forgiven)| attempts.saturating_sub(forgiven))))
}

/// Decodes a claimed row, and returns it with its approximate size in bytes.
fn read_claimed_message(cells: RowCells<'_>) -> Result<(usize, ClaimedMessage), CorruptRow> {
    let size: usize = cells.clone().map(CellRef::approximate_bytes).sum();
    Ok((size + 1024, row::decode_claimed_message(cells)?))
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
pub(super) fn claim_outbox(
    connection: &Connection,
    claim: &OutboxClaim,
) -> Result<ClaimedBatch, StoreError> {
    let now = to_micros(claim.now);
    let due = query_all(connection, SELECT_DUE, (now, claim.limit.get()), read_due_row)?;
    let mut bytes = 0;
    let mut claimed = ClaimedBatch::default();
    for (id, attempts) in due {
        let Some(attempts) = attempts else {
            mark_unreadable(connection, id, INVALID_ATTEMPTS_ERROR, now)?;
            claimed.dead.extend(OutboxId::new(id));
            continue;
        };
        if attempts >= claim.max_attempts {
            execute_cached(connection, MARK_EXHAUSTED, (id, now)).map_err(to_store_error)?;
            claimed.dead.extend(OutboxId::new(id));
            continue;
        }
        let found = query_first(connection, &SELECT_CLAIMED, [id], |cells| {
            Ok(read_claimed_message(cells))
        })?;
        let (size, mut message) = match found {
            Some(Ok(found)) => found,
            Some(Err(corrupt)) => {
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

pub(super) fn mark_published(
    connection: &Connection,
    marks: &[OutboxMark],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut changed = 0;
    for mark in marks {
        let params = params![mark.outbox_id.get(), mark.attempts, to_micros(now)];
        changed += execute_cached(connection, MARK_PUBLISHED, params).map_err(to_store_error)?;
    }
    Ok(to_u64(changed))
}

pub(super) fn mark_failed(
    connection: &Connection,
    failure: &OutboxFailure,
) -> Result<Option<FailureOutcome>, StoreError> {
    let id = failure.outbox_id.get();
    let Some((_, attempts, forgiven)) =
        query_first(connection, SELECT_IN_FLIGHT, [id], read_attempts)?
    else {
        return Ok(None);
    };
    if failure.required_attempt().is_some_and(|fence| fence != attempts) {
        return Ok(None);
    }
    let outcome = failure.to_outcome(attempts, forgiven);
    let now = to_micros(failure.now);
    let (status, retry_at, dead_at) = match outcome {
        FailureOutcome::Retry { delay } => {
            let retry_at = to_micros(failure.now.saturating_add(delay));
            (OutboxStatus::Failed, Some(retry_at), None)
        }
        FailureOutcome::Dead => (OutboxStatus::Dead, None, Some(now)),
    };
    let error = failure.truncated_error();
    let params = params![id, status.as_str(), retry_at, dead_at, error.as_str(), now];
    execute_cached(connection, MARK_FAILED, params).map_err(to_store_error)?;
    Ok(Some(outcome))
}

/// Returns the number of rows that a counting statement finds at a given time.
pub(super) fn count_rows_at(
    connection: &Connection,
    sql: &str,
    time: Timestamp,
) -> Result<u64, StoreError> {
    let found = query_first(connection, sql, [to_micros(time)], row::decode_count::<Text>)?;
    Ok(found.map_or(0, |(_, count)| count))
}

pub(super) fn list_outbox_rows(
    connection: &Connection,
    filter: &OutboxFilter,
) -> Result<Vec<OutboxRow>, StoreError> {
    let params = params![
        filter.status.map(OutboxStatus::as_str),
        filter.after.map(OutboxId::get),
        filter.limit.get()
    ];
    let sql = match filter.status {
        Some(OutboxStatus::Dead) => &LIST_DEAD_OUTBOX,
        _ => &LIST_OUTBOX,
    };
    query_all(connection, sql, params, row::decode_outbox_row)
}

pub(super) fn outbox_stats(connection: &Connection) -> Result<OutboxStats, StoreError> {
    let counts =
        query_all(connection, COUNT_BY_STATUS, [MAX_EXACT_PUBLISHED_COUNT], row::decode_count)?;
    let oldest = query_first(connection, OLDEST_UNPUBLISHED, [], |cells| {
        RowReader::new(&OUTBOX, cells).read_next()
    })?;
    let estimate = query_first(connection, ESTIMATE_ROWS, [], row::decode_count::<Text>)?;
    let (has_dead, estimate) = estimate.unwrap_or_default();
    Ok(OutboxStats::from_counts(counts, estimate, oldest.flatten(), has_dead == "1"))
}

pub(super) fn newest_outbox_row_at(
    connection: &Connection,
) -> Result<Option<Timestamp>, StoreError> {
    query_first(connection, SELECT_NEWEST, [], |cells| RowReader::new(&OUTBOX, cells).read_next())
}

pub(super) fn update_dead_rows(
    connection: &Connection,
    sql: &str,
    ids: &[OutboxId],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut changed = 0;
    for id in ids {
        changed +=
            execute_cached(connection, sql, (id.get(), to_micros(now))).map_err(to_store_error)?;
    }
    Ok(to_u64(changed))
}

pub(super) fn purge_outbox_rows(
    connection: &Connection,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let params = (to_micros(before), limit.get());
    Ok(to_u64(execute_cached(connection, PURGE_OUTBOX, params).map_err(to_store_error)?))
}

pub(super) fn quarantine_items(
    connection: &Connection,
    items: &[QuarantinedItem],
) -> Result<(), StoreError> {
    for item in items {
        insert_row(connection, "INSERT OR IGNORE", &QUARANTINE, encode_quarantined_item(item))?;
    }
    Ok(())
}

pub(super) fn purge_quarantined_items(
    connection: &Connection,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let params = (to_micros(before), limit.get(), first_id_at(before.as_unix_ms()));
    let purged = execute_cached(connection, PURGE_QUARANTINE, params).map_err(to_store_error)?;
    Ok(to_u64(purged))
}

pub(super) fn list_quarantined_items(
    connection: &Connection,
    filter: &QuarantineFilter,
) -> Result<Vec<QuarantinedItem>, StoreError> {
    let params = params![
        filter.source.as_ref().map(Text::as_str),
        filter.after.map(QuarantineId::get),
        filter.limit.get()
    ];
    query_all(connection, &LIST_QUARANTINED, params, row::decode_quarantined_item)
}
