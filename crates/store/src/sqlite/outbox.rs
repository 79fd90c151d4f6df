//! The outbox, and what was refused.

use std::sync::LazyLock;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{OutboxId, QuarantineId, Text, Timestamp};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{all, execute, failure, first, micros};
use super::query::{put, select};
use crate::error::StoreError;
use crate::model::{
    Claimed, ClaimedMessage, Failed, MAX_CLAIM_BYTES, MAX_COUNTED, OutboxClaim, OutboxFacts,
    OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStatus, QuarantineFilter,
    Quarantined,
};
use crate::row::{
    self, CLAIMED, Cell, CellRef, Cells, Corrupt, LARGEST_COUNT, NEW_OUTBOX, NO_COUNTS, OUTBOX,
    QUARANTINE, Reader, SENT, quarantine_row,
};

/// The parameters are what an append says of a row. One that somebody else wrote for the same event
/// stays.
const WRITE: &str = "INSERT INTO outbox
        (execution_id, event_id, message_id, subject, available_at, created_at, updated_at, bytes)
    VALUES (?1, ?2, (SELECT value FROM meta WHERE key = 'log_epoch') || ':' || ?3, ?4, ?5, ?5, ?5, ?6)
    ON CONFLICT (execution_id, event_id) DO NOTHING";

/// Rows whose time has come, and rows whose publisher let its lease run out. The first are many, and
/// come in order from their index: no more of them are read than are wanted.
const DUE: &str = "SELECT outbox_id, attempts, forgiven FROM (
        SELECT * FROM (
            SELECT outbox_id, attempts, forgiven, available_at FROM outbox
            WHERE status IN ('PENDING', 'FAILED') AND available_at <= ?1
            ORDER BY available_at, outbox_id LIMIT ?2
        )
        UNION ALL
        SELECT outbox_id, attempts, forgiven, available_at FROM outbox
        WHERE status = 'IN_FLIGHT' AND lease_until <= ?1
    ) ORDER BY available_at, outbox_id LIMIT ?2";

/// A row with its event, if it has no payload of its own.
static SELECT_CLAIMED: LazyLock<String> = LazyLock::new(|| {
    let (claimed, event) = (CLAIMED.list_of("outbox."), SENT.list_of("event."));
    format!(
        "SELECT {claimed}, {event} FROM outbox LEFT JOIN event
             ON outbox.payload IS NULL
             AND event.execution_id = outbox.execution_id AND event.event_id = outbox.event_id
         WHERE outbox.outbox_id = ?1"
    )
});

const TAKE: &str = "UPDATE outbox
    SET status = 'IN_FLIGHT', attempts = attempts + 1, claim_owner = ?2, locked_at = ?3,
        lease_until = ?4, updated_at = ?3
    WHERE outbox_id = ?1";

const DIE: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = ?2, lease_until = NULL, updated_at = ?2 WHERE outbox_id = ?1";

/// A row that cannot be read is handed to nobody, and gets counts.
const BURY: &str = "UPDATE outbox
    SET status = 'DEAD', dead_at = ?2, lease_until = NULL, last_error = ?3, updated_at = ?2,
        attempts = CASE WHEN attempts < ?4 THEN max(attempts, 0) ELSE ?5 END,
        forgiven = CASE WHEN forgiven < ?4 THEN max(forgiven, 0) ELSE ?5 END
    WHERE outbox_id = ?1";

const MARK_PUBLISHED: &str = "UPDATE outbox
    SET status = 'PUBLISHED', published_at = ?3, last_error = NULL, lease_until = NULL,
        updated_at = ?3
    WHERE outbox_id = ?1 AND status = 'IN_FLIGHT' AND (?2 IS NULL OR attempts = ?2)";

const IN_HAND: &str = "SELECT outbox_id, attempts, forgiven FROM outbox
    WHERE outbox_id = ?1 AND status = 'IN_FLIGHT'";

const MARK_FAILED: &str = "UPDATE outbox
    SET status = ?2, available_at = coalesce(?3, available_at), dead_at = ?4, lease_until = NULL,
        last_error = ?5, updated_at = ?6
    WHERE outbox_id = ?1";

pub(super) const PENDING: &str = "SELECT '', (
        SELECT count(*) FROM outbox WHERE status IN ('PENDING', 'FAILED') AND available_at <= ?1
    ) + (
        SELECT count(*) FROM outbox WHERE status = 'IN_FLIGHT' AND lease_until <= ?1
    )";

const ANY_STATUS: &str = "(?1 IS NULL OR status = ?1)";

static LIST: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR outbox_id > ?2)
        ORDER BY outbox_id LIMIT ?3";
    select(&OUTBOX, page)
});

/// The few dead ones among all, which have an index of their own.
pub(super) static LIST_DEAD: LazyLock<String> = LazyLock::new(|| {
    let is_dead = "status = 'DEAD' AND ?1 IS NOT NULL";
    let list = LIST.replace("FROM outbox", "FROM outbox INDEXED BY outbox_dead");
    list.replace(ANY_STATUS, is_dead)
});

/// Rows by status; of published ones no more than are counted. Each kind has an index of its own, which
/// has to be named, since a look at the whole table seems to be as cheap.
pub(super) const COUNTS: &str = "SELECT status, count(*)
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

pub(super) const OLDEST: &str = "SELECT min(created_at) FROM outbox INDEXED BY outbox_unpublished
    WHERE status <> 'PUBLISHED' AND discarded_at IS NULL";

const NEWEST: &str = "SELECT created_at FROM outbox ORDER BY outbox_id DESC LIMIT 1";

/// Whether there are dead rows, and about how many there are in all.
pub(super) const ABOUT: &str = "SELECT
    (EXISTS (
        SELECT 1 FROM outbox INDEXED BY outbox_dead WHERE status = 'DEAD' AND discarded_at IS NULL
    )) || '',
    coalesce(
        (SELECT max(outbox_id) FROM outbox) - (SELECT min(outbox_id) FROM outbox) + 1, 0
    )";

/// Sends a dead row out again. The attempts so far do not count any more, but stay used as fences.
pub(super) const REPLAY: &str = "UPDATE outbox
    SET status = 'PENDING', available_at = ?2, dead_at = NULL, forgiven = attempts, updated_at = ?2
    WHERE outbox_id = ?1 AND status = 'DEAD' AND discarded_at IS NULL";

/// Gives a dead row up.
pub(super) const DISCARD: &str = "UPDATE outbox
    SET discarded_at = ?2, updated_at = ?2
    WHERE outbox_id = ?1 AND status = 'DEAD' AND discarded_at IS NULL";

pub(super) const OLD: &str = "SELECT '', (
        SELECT count(*) FROM outbox WHERE status = 'PUBLISHED' AND published_at < ?1
    ) + (
        SELECT count(*) FROM outbox WHERE status = 'DEAD' AND discarded_at < ?1
    )";

pub(super) const PURGE: &str = "DELETE FROM outbox WHERE outbox_id IN (
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

static QUARANTINED: LazyLock<String> = LazyLock::new(|| {
    let page = "WHERE (?1 IS NULL OR source = ?1) AND (?2 IS NULL OR quarantine_id > ?2)
        ORDER BY quarantine_id LIMIT ?3";
    select(&QUARANTINE, page)
});

/// Ids rise with time, so that those of later times need not be looked at.
const PURGE_QUARANTINE: &str = "DELETE FROM outbox_quarantine WHERE quarantine_id IN (
        SELECT quarantine_id FROM outbox_quarantine
        WHERE quarantine_id < ?3 AND created_at < ?1 ORDER BY quarantine_id LIMIT ?2
    )";

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Writes the rows of an append.
pub(super) fn write(connection: &Connection, rows: &[Vec<Cell>]) -> Result<(), rusqlite::Error> {
    for row in rows {
        debug_assert_eq!(row.len(), NEW_OUTBOX.columns.len());
        execute(connection, WRITE, params_from_iter(row))?;
    }
    Ok(())
}

/// The id of a row and how often it was claimed, with and without those that count.
fn tries(cells: Cells<'_>) -> Result<(OutboxId, u32, u32), Corrupt> {
    let mut row = Reader::new(&OUTBOX, cells);
    Ok((row.take()?, row.take()?, row.take()?))
}

/// The id of a row and how many of its claims count, if they are numbers.
fn due(cells: Cells<'_>) -> Result<(i64, Option<u32>), Corrupt> {
    let mut row = Reader::new(&OUTBOX, cells);
    let id = row.take()?;
    let (attempts, forgiven) = (row.take::<i64>()?, row.take::<i64>()?);
    let attempts = u32::try_from(attempts).ok().filter(|it| *it < u32::MAX);
    let forgiven = u32::try_from(forgiven).ok();
    let tries = attempts.zip(forgiven);
    Ok((
        id,
        tries.map(|(all, forgiven)| all.saturating_sub(forgiven)),
    ))
}

/// A row as it is handed out, with about how many bytes it has.
fn message(cells: Cells<'_>) -> Result<(usize, ClaimedMessage), Corrupt> {
    let size: usize = cells.clone().map(CellRef::bytes_about).sum();
    Ok((size + 1024, row::claimed_message(cells)?))
}

fn bury(connection: &Connection, id: i64, error: &str, now: i64) -> Result<(), StoreError> {
    let params = params![id, now, error, u32::MAX, LARGEST_COUNT];
    let buried = execute(connection, BURY, params);
    buried.map(drop).map_err(failure)
}

/// One row that cannot be read keeps nobody from the others: it dies, and its error says why.
pub(super) fn claim(connection: &Connection, claim: &OutboxClaim) -> Result<Claimed, StoreError> {
    let now = micros(claim.now);
    let due = all(connection, DUE, (now, claim.limit.get()), due)?;
    let mut bytes = 0;
    let mut claimed = Claimed::default();
    for (id, tries) in due {
        let Some(tries) = tries else {
            bury(connection, id, NO_COUNTS, now)?;
            claimed.dead.extend(OutboxId::new(id));
            continue;
        };
        if tries >= claim.max_attempts {
            execute(connection, DIE, (id, now)).map_err(failure)?;
            claimed.dead.extend(OutboxId::new(id));
            continue;
        }
        let found = first(connection, &SELECT_CLAIMED, [id], |cells| {
            Ok(message(cells))
        })?;
        let (size, mut message) = match found {
            Some(Ok(found)) => found,
            Some(Err(damage)) => {
                bury(connection, id, &damage.with_cause(), now)?;
                claimed.dead.extend(OutboxId::new(id));
                continue;
            }
            None => continue,
        };
        bytes += size;
        if bytes > MAX_CLAIM_BYTES && !claimed.rows.is_empty() {
            break;
        }
        let until = micros(claim.lease_until);
        let taken = params![id, claim.owner.as_str(), now, until];
        execute(connection, TAKE, taken).map_err(failure)?;
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
        let params = params![mark.outbox_id.get(), mark.attempts, micros(now)];
        changed += execute(connection, MARK_PUBLISHED, params).map_err(failure)?;
    }
    Ok(count(changed))
}

pub(super) fn mark_failed(
    connection: &Connection,
    failed: &OutboxFailure,
) -> Result<Option<Failed>, StoreError> {
    let id = failed.outbox_id.get();
    let Some((_, attempts, forgiven)) = first(connection, IN_HAND, [id], tries)? else {
        return Ok(None);
    };
    if failed.fence().is_some_and(|fence| fence != attempts) {
        return Ok(None);
    }
    let outcome = failed.outcome(attempts, forgiven);
    let now = micros(failed.now);
    let (status, again, dead_at) = match outcome {
        Failed::Retry { delay } => {
            let again = micros(failed.now.saturating_add(delay));
            (OutboxStatus::Failed, Some(again), None)
        }
        Failed::Dead => (OutboxStatus::Dead, None, Some(now)),
    };
    let error = failed.kept_error();
    let params = params![id, status.as_str(), again, dead_at, error.as_str(), now];
    execute(connection, MARK_FAILED, params).map_err(failure)?;
    Ok(Some(outcome))
}

/// How many rows a statement counts at a time.
pub(super) fn number(
    connection: &Connection,
    sql: &str,
    time: Timestamp,
) -> Result<u64, StoreError> {
    let found = first(connection, sql, [micros(time)], row::count_of::<Text>)?;
    Ok(found.map_or(0, |(_, count)| count))
}

pub(super) fn list(
    connection: &Connection,
    filter: &OutboxFilter,
) -> Result<Vec<OutboxRow>, StoreError> {
    let params = params![
        filter.status.map(OutboxStatus::as_str),
        filter.after.map(OutboxId::get),
        filter.limit.get()
    ];
    let sql = match filter.status {
        Some(OutboxStatus::Dead) => &LIST_DEAD,
        _ => &LIST,
    };
    all(connection, sql, params, row::outbox_row)
}

pub(super) fn facts(connection: &Connection) -> Result<OutboxFacts, StoreError> {
    let counts = all(connection, COUNTS, [MAX_COUNTED], row::count_of)?;
    let oldest = first(connection, OLDEST, [], |cells| {
        Reader::new(&OUTBOX, cells).take()
    })?;
    let about = first(connection, ABOUT, [], row::count_of::<Text>)?;
    let (has_dead, about) = about.unwrap_or_default();
    Ok(OutboxFacts::of(
        counts,
        about,
        oldest.flatten(),
        has_dead == "1",
    ))
}

pub(super) fn newest(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    first(connection, NEWEST, [], |cells| {
        Reader::new(&OUTBOX, cells).take()
    })
}

pub(super) fn settle(
    connection: &Connection,
    sql: &str,
    rows: &[OutboxId],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut changed = 0;
    for id in rows {
        changed += execute(connection, sql, (id.get(), micros(now))).map_err(failure)?;
    }
    Ok(count(changed))
}

pub(super) fn purge(
    connection: &Connection,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let params = (micros(before), limit.get());
    Ok(count(execute(connection, PURGE, params).map_err(failure)?))
}

pub(super) fn quarantine(
    connection: &Connection,
    refused: &[Quarantined],
) -> Result<(), StoreError> {
    for it in refused {
        put(
            connection,
            "INSERT OR IGNORE",
            &QUARANTINE,
            quarantine_row(it),
        )?;
    }
    Ok(())
}

pub(super) fn purge_quarantine(
    connection: &Connection,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let params = (
        micros(before),
        limit.get(),
        first_id_at(before.as_unix_ms()),
    );
    let purged = execute(connection, PURGE_QUARANTINE, params).map_err(failure)?;
    Ok(count(purged))
}

pub(super) fn quarantined(
    connection: &Connection,
    filter: &QuarantineFilter,
) -> Result<Vec<Quarantined>, StoreError> {
    let params = params![
        filter.source.as_ref().map(Text::as_str),
        filter.after.map(QuarantineId::get),
        filter.limit.get()
    ];
    all(connection, &QUARANTINED, params, row::quarantined)
}
