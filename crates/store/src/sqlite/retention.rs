//! Drops old partitions of the log.
//!
//! The executions of a partition are dropped in steps of a few hundred. Each step records the
//! dropped range so far and deletes its execution rows in one transaction. A reader scans the whole
//! partition once beforehand, so that a step checks only its own executions and the events appended
//! since. Events and other rows are purged afterwards, also in small steps. They can no longer be
//! found once their execution is gone.

use std::collections::BTreeSet;

use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, FeedPosition, Month, Text, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::bind::{execute_cached, query_all, query_first, to_micros, to_store_error};
use crate::error::StoreError;
use crate::model::{
    EnabledPublishers, LogEpoch, LogPartition, OldPartition, PinReason, StreamCursor,
};
use crate::row::{CorruptRow, DEPENDENT_TABLES, DependentTable};
use crate::streams::{CURSOR_BY_NAME, SELECT_LOG_EPOCH};

/// Maximum executions per drop step.
const MAX_STEP_EXECUTIONS: i64 = 500;

/// Bytes after which a purge step ends, regardless of its number of rows: SQLite reads every page
/// of a large value to delete it.
const MAX_STEP_BYTES: i64 = 8 << 20;

/// The event table, which is purged like the tables that depend on it.
pub(super) static EVENT_TABLE: DependentTable = DependentTable {
    table: "event",
    execution_column: "execution_id",
    key_columns: "position",
    large_columns: &["context", "result", "meta", "extra", "error", "stack_trace"],
};

const FIRST_LIVE_EXECUTION: &str = "SELECT execution_id FROM execution
    WHERE ?1 <= execution_id AND execution_id < ?2 AND ended = 0 ORDER BY execution_id LIMIT 1";

const FIRST_PENDING_FOLLOW_UP: &str = "SELECT execution_id FROM errand
    WHERE ?1 <= execution_id AND execution_id < ?2 ORDER BY execution_id LIMIT 1";

const FIRST_UNPUBLISHED: &str = "SELECT execution_id FROM outbox
    WHERE ?1 <= execution_id AND execution_id < ?2
        AND status <> 'PUBLISHED' AND discarded_at IS NULL
    ORDER BY execution_id LIMIT 1";

const LAST_POSITION: &str = "SELECT max(position) FROM event
    WHERE ?1 <= execution_id AND execution_id < ?2";

/// Last position of the events of a partition after a given position. These events are few, so they
/// are found by position. The unary `+` keeps SQLite from using the index on `execution_id`.
const LAST_POSITION_AFTER: &str = "SELECT max(position) FROM event
    WHERE position > ?3 AND ?1 <= +execution_id AND +execution_id < ?2";

/// Result of scanning the events of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionScan {
    /// Position of the last event.
    last_position: Option<i64>,
    /// End of the log at the time of the scan.
    log_end: i64,
}

/// Result of a drop step.
#[derive(Debug)]
pub(super) enum DropStep {
    /// More executions remain.
    More(PartitionScan),
    /// All executions are dropped.
    Done,
    /// The executions cannot be dropped.
    Pinned(PinReason),
}

fn first_execution_id(
    connection: &Connection,
    sql: &str,
    partition: &LogPartition,
) -> Result<Option<ExecutionId>, StoreError> {
    let found = query_first(connection, sql, (partition.first_id, partition.end_id))?;
    Ok(found.map(|(execution_id,)| execution_id))
}

/// Returns the reason that executions of a partition cannot be dropped. `last` is the position of
/// their last event. A partition with an unreadable row is pinned, because it cannot be checked. It
/// does not block other partitions.
fn pin_reason(
    connection: &Connection,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
    last: Option<i64>,
) -> Result<Option<PinReason>, StoreError> {
    let error = match readable_pin_reason(connection, partition, publishers, last) {
        Ok(pin_reason) => return Ok(pin_reason),
        Err(error) => error,
    };
    let (StoreError::Retry { cause, .. } | StoreError::Fatal { cause }) = &error;
    match cause.downcast_ref::<CorruptRow>() {
        Some(corrupt) => Ok(Some(PinReason::Refused(corrupt.message_with_cause()))),
        None => Err(error),
    }
}

/// Returns the reason that executions of a partition with readable rows cannot be dropped.
fn readable_pin_reason(
    connection: &Connection,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
    last: Option<i64>,
) -> Result<Option<PinReason>, StoreError> {
    if let Some(id) = first_execution_id(connection, FIRST_LIVE_EXECUTION, partition)? {
        return Ok(Some(PinReason::NotEnded(id)));
    }
    if let Some(id) = first_execution_id(connection, FIRST_PENDING_FOLLOW_UP, partition)? {
        return Ok(Some(PinReason::PendingFollowUp(id)));
    }
    if publishers.outbox
        && let Some(id) = first_execution_id(connection, FIRST_UNPUBLISHED, partition)?
    {
        return Ok(Some(PinReason::Outbox(id)));
    }
    let Some(position) = last else {
        return Ok(None);
    };
    for name in &publishers.streams {
        // A stream that never started, or that belongs to an earlier log epoch, has published
        // nothing.
        let published = published_position(connection, name)?;
        if published.is_none_or(|published| published < FeedPosition { tx: 0, position }) {
            return Ok(Some(PinReason::Stream(name.clone())));
        }
    }
    Ok(None)
}

/// Returns the position up to which a stream has published. `None` if it never started or belongs
/// to an earlier log epoch.
fn published_position(
    connection: &Connection,
    name: &Text,
) -> Result<Option<FeedPosition>, StoreError> {
    let cursor: Option<StreamCursor> =
        query_first(connection, CURSOR_BY_NAME.sqlite(), [name.as_str()])?;
    let epoch: Option<(LogEpoch,)> = query_first(connection, SELECT_LOG_EPOCH.sqlite(), [])?;
    let epoch = epoch.map_or(LogEpoch::FIRST, |(epoch,)| epoch);
    Ok(cursor.filter(|cursor| cursor.log_epoch == epoch).map(|cursor| cursor.position))
}

fn query_position(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Option<i64>, StoreError> {
    let found: Option<(Option<i64>,)> = query_first(connection, sql, params)?;
    Ok(found.and_then(|(position,)| position))
}

const LAST_LOG_POSITION: &str = "SELECT max(position) FROM event";

/// Scans all events of a partition.
fn scan_partition(
    connection: &Connection,
    partition: &LogPartition,
) -> Result<PartitionScan, StoreError> {
    let end = query_position(connection, LAST_LOG_POSITION, [])?;
    Ok(PartitionScan {
        last_position: query_position(
            connection,
            LAST_POSITION,
            (partition.first_id, partition.end_id),
        )?,
        log_end: end.unwrap_or_default(),
    })
}

/// Scans the events appended since an earlier scan.
fn scan_new_events(
    connection: &Connection,
    partition: &LogPartition,
    scan: PartitionScan,
) -> Result<PartitionScan, StoreError> {
    let params = (partition.first_id, partition.end_id, scan.log_end);
    let end = query_position(connection, LAST_LOG_POSITION, [])?;
    Ok(PartitionScan {
        last_position: query_position(connection, LAST_POSITION_AFTER, params)?
            .or(scan.last_position),
        log_end: end.unwrap_or(scan.log_end),
    })
}

/// Scans a partition. Returns the scan, or the reason that the partition cannot be dropped.
pub(super) fn check_partition(
    connection: &Connection,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
) -> Result<Result<PartitionScan, PinReason>, StoreError> {
    let scan = scan_partition(connection, partition)?;
    let pin_reason = pin_reason(connection, partition, publishers, scan.last_position)?;
    Ok(pin_reason.map_or(Ok(scan), Err))
}

/// Returns the months that have executions, by finding the first execution after each month. A
/// number that is not a valid id belongs to the first month.
fn months_with_executions(
    connection: &Connection,
    cutoff_id: i64,
) -> Result<BTreeSet<Month>, StoreError> {
    let mut months = BTreeSet::new();
    let mut start = 0;
    let sql = "SELECT execution_id FROM execution
        WHERE ?1 <= execution_id AND execution_id < ?2 ORDER BY execution_id LIMIT 1";
    loop {
        let next: Option<(i64,)> = query_first(connection, sql, (start, cutoff_id))?;
        let Some((number,)) = next else {
            return Ok(months);
        };
        let id = ExecutionId::new(number.max(1)).map_err(StoreError::fatal)?;
        let month = Month::from_timestamp(id.time());
        start = LogPartition::for_month(month).end_id;
        months.insert(month);
    }
}

pub(super) fn list_old_partitions(
    connection: &Connection,
    before: Timestamp,
    publishers: &EnabledPublishers,
) -> Result<Vec<OldPartition>, StoreError> {
    let cutoff_id = first_id_at(before.as_unix_ms());
    let mut old = Vec::new();
    for month in months_with_executions(connection, cutoff_id)? {
        let partition = LogPartition::for_month(month);
        if partition.end_id > cutoff_id {
            continue;
        }
        old.push(OldPartition {
            pin_reason: check_partition(connection, &partition, publishers)?.err(),
            partition,
        });
    }
    Ok(old)
}

/// Drops the first executions of a partition. The recorded range ends where the next step begins.
pub(super) fn drop_first_executions(
    connection: &Connection,
    partition: &LogPartition,
    publishers: &EnabledPublishers,
    scan: PartitionScan,
    now: Timestamp,
) -> Result<DropStep, StoreError> {
    let sql = "SELECT execution_id FROM execution
        WHERE ?1 <= execution_id AND execution_id < ?2 ORDER BY execution_id LIMIT 1 OFFSET ?3";
    let params = (partition.first_id, partition.end_id, MAX_STEP_EXECUTIONS);
    let next: Option<(i64,)> = query_first(connection, sql, params)?;
    let end = next.map_or(partition.end_id, |(id,)| id);
    let scan = scan_new_events(connection, partition, scan)?;
    let step = LogPartition { end_id: end, ..partition.clone() };
    if let Some(reason) = pin_reason(connection, &step, publishers, scan.last_position)? {
        return Ok(DropStep::Pinned(reason));
    }
    let record_range = "INSERT INTO retention_range (lo, hi, dropped_at) VALUES (?1, ?2, ?3)
        ON CONFLICT (lo) DO UPDATE SET hi = max(hi, excluded.hi), cleaned_at = NULL";
    execute_cached(connection, record_range, (partition.first_id, end, to_micros(now)))
        .map_err(to_store_error)?;
    let delete = "DELETE FROM execution WHERE ?1 <= execution_id AND execution_id < ?2";
    execute_cached(connection, delete, (partition.first_id, end)).map_err(to_store_error)?;
    let record_position = "INSERT INTO meta (key, value) VALUES ('last_dropped', ?1)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value
        WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)";
    let position = scan.last_position.unwrap_or_default().to_string();
    execute_cached(connection, record_position, [position]).map_err(to_store_error)?;
    Ok(if next.is_some() { DropStep::More(scan) } else { DropStep::Done })
}

/// Returns SQL that selects the approximate size and the key of each row of a range of executions.
/// SQLite returns the sizes without reading the values.
pub(super) fn select_keys_sql(dependent: &DependentTable) -> String {
    let DependentTable {
        table,
        execution_column: execution,
        key_columns: key,
        large_columns: large,
    } = dependent;
    let sizes = large.iter().map(|column| format!("coalesce(octet_length({column}), 0)"));
    let bytes = std::iter::once("0".to_owned()).chain(sizes);
    let bytes = bytes.collect::<Vec<_>>().join(" + ");
    format!(
        "SELECT {bytes}, {key} FROM {table} WHERE ?1 <= {execution} AND {execution} < ?2 LIMIT ?3"
    )
}

/// Returns SQL that deletes one row by its key. SQLite would search a list of keys once for every
/// row of an execution.
pub(super) fn delete_row_sql(dependent: &DependentTable) -> String {
    let keys = (1..).zip(dependent.key_columns.split(", "));
    let keys: Vec<_> = keys.map(|(index, key)| format!("{key} = ?{index}")).collect();
    format!("DELETE FROM {} WHERE {}", dependent.table, keys.join(" AND "))
}

/// Deletes rows of a range of executions from a table, up to a number of rows and bytes but at
/// least one row. Returns the number of deleted rows.
fn delete_execution_rows(
    connection: &Connection,
    dependent: &DependentTable,
    first_id: i64,
    end_id: i64,
    limit: PageLimit,
) -> Result<u64, rusqlite::Error> {
    let mut statement = connection.prepare_cached(&select_keys_sql(dependent))?;
    let mut rows = statement.query((first_id, end_id, limit.get()))?;
    let (mut bytes, mut keys) = (0_i64, Vec::new());
    while let Some(row) = rows.next()?.filter(|_| bytes < MAX_STEP_BYTES) {
        bytes = bytes.saturating_add(row.get(0)?);
        let key = (1..row.as_ref().column_count()).map(|index| row.get::<_, Value>(index));
        keys.push(key.collect::<Result<Vec<_>, _>>()?);
    }
    let delete = delete_row_sql(dependent);
    for key in &keys {
        execute_cached(connection, &delete, params_from_iter(key))?;
    }
    Ok(u64::try_from(keys.len()).unwrap_or(u64::MAX))
}

/// Deletes remaining rows of dropped executions, from one table per call. Marks a range as purged
/// once no rows are left. Returns the number of deleted rows, 0 if nothing is left to purge.
pub(super) fn purge_dropped_executions(
    connection: &Connection,
    now: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let sql = "SELECT lo, hi FROM retention_range WHERE cleaned_at IS NULL ORDER BY lo";
    let ranges: Vec<(i64, i64)> = query_all(connection, sql, [])?;
    for (first_id, end_id) in ranges {
        for dependent in std::iter::once(&EVENT_TABLE).chain(DEPENDENT_TABLES) {
            let deleted = delete_execution_rows(connection, dependent, first_id, end_id, limit)
                .map_err(to_store_error)?;
            if deleted > 0 {
                return Ok(deleted);
            }
        }
        let sql = "UPDATE retention_range SET cleaned_at = ?2 WHERE lo = ?1";
        execute_cached(connection, sql, (first_id, to_micros(now))).map_err(to_store_error)?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests;
