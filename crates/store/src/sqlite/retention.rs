//! Dropping old parts of the log.
//!
//! The executions of a part go in steps of a few hundred: each step notes the range so far and
//! deletes the rows of its executions in one transaction. Whatever would read the whole part is asked
//! once before, by a reader: a step looks at its own executions, and at events that came meanwhile.
//! Events and all else are cleaned up afterwards, in small steps too: nobody finds them any more.

use std::collections::BTreeSet;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, Month, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::bind::{all, execute, failure, first, micros};
use super::stream;
use crate::error::StoreError;
use crate::model::{EnabledOutlets, LogPart, OldPart, Pinned};
use crate::row::{CLEANED, Cleaned, Corrupt, EXECUTION, Reader};

/// Executions that one step drops.
const STEP: i64 = 500;

/// Bytes behind which a step of cleaning up ends, however few rows it has: every page of a large value is
/// read when it goes.
const STEP_BYTES: i64 = 8 << 20;

/// The log, as far as it is cleaned up like other tables.
pub(super) static EVENTS: Cleaned = Cleaned {
    table: "event",
    execution: "execution_id",
    key: "position",
    large: &["context", "result", "meta", "extra", "error", "stack_trace"],
};

const LIVE: &str = "SELECT execution_id FROM execution
    WHERE ?1 <= execution_id AND execution_id < ?2 AND ended = 0 ORDER BY execution_id LIMIT 1";

const OWED: &str = "SELECT execution_id FROM errand
    WHERE ?1 <= execution_id AND execution_id < ?2 ORDER BY execution_id LIMIT 1";

const UNPUBLISHED: &str = "SELECT execution_id FROM outbox
    WHERE ?1 <= execution_id AND execution_id < ?2
        AND status <> 'PUBLISHED' AND discarded_at IS NULL
    ORDER BY execution_id LIMIT 1";

const LAST_POSITION: &str = "SELECT max(position) FROM event
    WHERE ?1 <= execution_id AND execution_id < ?2";

/// Events of a part that came behind a place, which are few: found by their places.
const LAST_BEHIND: &str = "SELECT max(position) FROM event
    WHERE position > ?3 AND ?1 <= +execution_id AND +execution_id < ?2";

/// What is known of the events of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The position of the last one.
    last: Option<i64>,
    /// Up to where the log was looked at.
    end: i64,
}

/// What came of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// There are more executions.
    More(Seen),
    /// All are gone.
    Done,
    /// Something keeps them.
    Pinned(Pinned),
}

fn one_id(
    connection: &Connection,
    sql: &str,
    part: &LogPart,
) -> Result<Option<ExecutionId>, StoreError> {
    first(connection, sql, (part.lo, part.hi), |cells| {
        Reader::new(&EXECUTION, cells).take()
    })
}

/// What keeps executions of a part, whose last event is at a position. One with a row that nobody can read
/// stays, since nobody can tell, and keeps no other.
fn pinned(
    connection: &Connection,
    part: &LogPart,
    outlets: &EnabledOutlets,
    last: Option<i64>,
) -> Result<Option<Pinned>, StoreError> {
    let error = match kept_by(connection, part, outlets, last) {
        Ok(pinned) => return Ok(pinned),
        Err(error) => error,
    };
    let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = &error;
    match cause.downcast_ref::<Corrupt>() {
        Some(corrupt) => Ok(Some(Pinned::Refused(corrupt.with_cause()))),
        None => Err(error),
    }
}

/// What keeps executions of a part whose rows can be read.
fn kept_by(
    connection: &Connection,
    part: &LogPart,
    outlets: &EnabledOutlets,
    last: Option<i64>,
) -> Result<Option<Pinned>, StoreError> {
    if let Some(id) = one_id(connection, LIVE, part)? {
        return Ok(Some(Pinned::Live(id)));
    }
    if let Some(id) = one_id(connection, OWED, part)? {
        return Ok(Some(Pinned::Owed(id)));
    }
    if outlets.outbox
        && let Some(id) = one_id(connection, UNPUBLISHED, part)?
    {
        return Ok(Some(Pinned::Outbox(id)));
    }
    let Some(position) = last else {
        return Ok(None);
    };
    for name in &outlets.streams {
        // A stream that never began, or that is of an earlier life, has published nothing.
        let published = stream::published(connection, name)?;
        if published.is_none_or(|published| published < FeedPosition { tx: 0, position }) {
            return Ok(Some(Pinned::Stream(name.clone())));
        }
    }
    Ok(None)
}

fn position(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Option<i64>, StoreError> {
    let found = first(connection, sql, params, |cells| {
        Reader::new(&EXECUTION, cells).take::<Option<i64>>()
    })?;
    Ok(found.flatten())
}

const END: &str = "SELECT max(position) FROM event";

/// Looks at all events of a part.
fn look(connection: &Connection, part: &LogPart) -> Result<Seen, StoreError> {
    let end = position(connection, END, [])?;
    Ok(Seen {
        last: position(connection, LAST_POSITION, (part.lo, part.hi))?,
        end: end.unwrap_or_default(),
    })
}

/// Looks at those that came since.
fn look_again(connection: &Connection, part: &LogPart, seen: Seen) -> Result<Seen, StoreError> {
    let behind = (part.lo, part.hi, seen.end);
    let end = position(connection, END, [])?;
    Ok(Seen {
        last: position(connection, LAST_BEHIND, behind)?.or(seen.last),
        end: end.unwrap_or(seen.end),
    })
}

/// What keeps a part, or else what is known of its events.
pub(super) fn whole(
    connection: &Connection,
    part: &LogPart,
    outlets: &EnabledOutlets,
) -> Result<Result<Seen, Pinned>, StoreError> {
    let seen = look(connection, part)?;
    let pinned = pinned(connection, part, outlets, seen.last)?;
    Ok(pinned.map_or(Ok(seen), Err))
}

/// Months that have executions, by looking for the first one behind each. A number that is no id is of the
/// month that ids begin in.
fn months(connection: &Connection, cut: i64) -> Result<BTreeSet<Month>, StoreError> {
    let mut months = BTreeSet::new();
    let mut behind = 0;
    let sql = "SELECT execution_id FROM execution
        WHERE ?1 <= execution_id AND execution_id < ?2 ORDER BY execution_id LIMIT 1";
    loop {
        let next: Option<i64> = first(connection, sql, (behind, cut), |cells| {
            Reader::new(&EXECUTION, cells).take()
        })?;
        let Some(number) = next else {
            return Ok(months);
        };
        let id = ExecutionId::new(number.max(1)).map_err(StoreError::fatal)?;
        let month = Month::of(id.time());
        behind = LogPart::of(month).hi;
        months.insert(month);
    }
}

pub(super) fn old_parts(
    connection: &Connection,
    before: Timestamp,
    outlets: &EnabledOutlets,
) -> Result<Vec<OldPart>, StoreError> {
    let cut = first_id_at(before.as_unix_ms());
    let mut old = Vec::new();
    for month in months(connection, cut)? {
        let part = LogPart::of(month);
        if part.hi > cut {
            continue;
        }
        old.push(OldPart {
            pinned: whole(connection, &part, outlets)?.err(),
            part,
        });
    }
    Ok(old)
}

/// Drops the first executions of a part. The range that is noted ends where the next step begins.
pub(super) fn drop_some(
    connection: &Connection,
    part: &LogPart,
    outlets: &EnabledOutlets,
    seen: Seen,
    now: Timestamp,
) -> Result<Step, StoreError> {
    let sql = "SELECT execution_id FROM execution
        WHERE ?1 <= execution_id AND execution_id < ?2 ORDER BY execution_id LIMIT 1 OFFSET ?3";
    let next: Option<i64> = first(connection, sql, (part.lo, part.hi, STEP), |cells| {
        Reader::new(&EXECUTION, cells).take()
    })?;
    let end = next.unwrap_or(part.hi);
    let seen = look_again(connection, part, seen)?;
    let some = LogPart {
        hi: end,
        ..part.clone()
    };
    if let Some(pinned) = pinned(connection, &some, outlets, seen.last)? {
        return Ok(Step::Pinned(pinned));
    }
    let note = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES (?1, ?2, ?3)
        ON CONFLICT (lo) DO UPDATE SET hi = max(hi, excluded.hi), cleaned_at = NULL";
    execute(connection, note, (part.lo, end, micros(now))).map_err(failure)?;
    let forget = "DELETE FROM execution WHERE ?1 <= execution_id AND execution_id < ?2";
    execute(connection, forget, (part.lo, end)).map_err(failure)?;
    stream::note_dropped(connection, seen.last.unwrap_or_default())?;
    Ok(if next.is_some() {
        Step::More(seen)
    } else {
        Step::Done
    })
}

/// Finds rows of a range of executions: about how many bytes each has, which is known without reading
/// them, and its key.
pub(super) fn select_some(cleaned: &Cleaned) -> String {
    let Cleaned {
        table,
        execution,
        key,
        large,
    } = cleaned;
    let sizes = large
        .iter()
        .map(|it| format!("coalesce(octet_length({it}), 0)"));
    let bytes = std::iter::once("0".to_owned()).chain(sizes);
    let bytes = bytes.collect::<Vec<_>>().join(" + ");
    format!(
        "SELECT {bytes}, {key} FROM {table} WHERE ?1 <= {execution} AND {execution} < ?2 LIMIT ?3"
    )
}

/// Deletes a row by its key. A list of keys would be looked through for every row of its execution.
pub(super) fn delete_one(cleaned: &Cleaned) -> String {
    let keys = (1..).zip(cleaned.key.split(", "));
    let keys: Vec<_> = keys
        .map(|(place, key)| format!("{key} = ?{place}"))
        .collect();
    format!("DELETE FROM {} WHERE {}", cleaned.table, keys.join(" AND "))
}

/// Deletes rows of a range of executions from a table, up to a number of rows and of bytes; one row goes
/// whatever it has. Gives how many went.
fn delete_some(
    connection: &Connection,
    cleaned: &Cleaned,
    range: (i64, i64),
    limit: PageLimit,
) -> Result<u64, rusqlite::Error> {
    let mut statement = connection.prepare_cached(&select_some(cleaned))?;
    let mut rows = statement.query((range.0, range.1, limit.get()))?;
    let (mut bytes, mut keys) = (0_i64, Vec::new());
    while let Some(row) = rows.next()?.filter(|_| bytes < STEP_BYTES) {
        bytes = bytes.saturating_add(row.get(0)?);
        let key = (1..row.as_ref().column_count()).map(|place| row.get::<_, Value>(place));
        keys.push(key.collect::<Result<Vec<_>, _>>()?);
    }
    let delete = delete_one(cleaned);
    for key in &keys {
        execute(connection, &delete, params_from_iter(key))?;
    }
    Ok(u64::try_from(keys.len()).unwrap_or(u64::MAX))
}

/// Cleans up behind one range, rows of one table in a step; a range that has nothing left is clean.
pub(super) fn clean(
    connection: &Connection,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let sql = "SELECT lo, hi FROM retention_range WHERE cleaned_at IS NULL ORDER BY lo";
    let ranges = all(connection, sql, [], |cells| {
        let mut row = Reader::new(&EXECUTION, cells);
        Ok((row.take::<i64>()?, row.take::<i64>()?))
    })?;
    for (lo, hi) in ranges {
        for cleaned in std::iter::once(&EVENTS).chain(CLEANED) {
            let gone = delete_some(connection, cleaned, (lo, hi), limit).map_err(failure)?;
            if gone > 0 {
                return Ok(gone);
            }
        }
        let sql = "UPDATE retention_range SET cleaned_at = ?2 WHERE lo = ?1";
        execute(connection, sql, (lo, micros(now))).map_err(failure)?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{SqliteOptions, SqliteStore};
    use crate::suite::fixture::{Run, at};
    use crate::suite::stream::NAME;

    /// A step has the writer, and everybody who appends waits for it: so it does not read the events of
    /// a whole month again, but only those that came since somebody did.
    #[tokio::test]
    async fn r2_a_step_reads_only_events_that_came_meanwhile() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("noetl.db");
        let store = SqliteStore::open(&SqliteOptions::new(path.clone())).unwrap();
        let august = LogPart::of(Month::new(2026, 8).unwrap());
        let mut run = Run::with_id(august.lo + 1_000_000);
        run.write(&store, run.start()).await.unwrap();
        let end = run.end();
        run.write(&store, end).await.unwrap();
        let outlets = EnabledOutlets {
            outbox: false,
            streams: vec![NAME.into()],
        };
        let mut connection = Connection::open(&path).unwrap();
        let stream = Pinned::Stream(NAME.into());
        let looked = whole(&connection, &august, &outlets).unwrap();
        assert_eq!(looked.unwrap_err(), stream);
        let mut step = |seen| {
            let transaction = connection.transaction().unwrap();
            drop_some(&transaction, &august, &outlets, seen, at("12:00:00")).unwrap()
        };
        // The second event came behind the first, which is all that was seen.
        let seen = |last, end| Seen { last, end };
        let pinned = step(seen(None, 1));
        assert!(matches!(pinned, Step::Pinned(it) if it == stream));
        // What was seen is known, and not looked at again.
        let pinned = step(seen(Some(2), 2));
        assert!(matches!(pinned, Step::Pinned(it) if it == stream));
        assert!(matches!(step(seen(None, 2)), Step::Done));
        let plan = format!("EXPLAIN QUERY PLAN {LAST_BEHIND}");
        let plan: String = connection
            .query_row(&plan, (0, 1, 2), |row| row.get(3))
            .unwrap();
        assert_eq!(plan, "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)");
    }
}
