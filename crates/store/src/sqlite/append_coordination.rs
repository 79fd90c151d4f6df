//! Coordination rows of appends: waits, follow-ups, slots, caches and keys.

use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use super::bind::{execute_cached, placeholder_list, query_first, to_micros};
use crate::coordination::{CONFIRM_SLOT, RELEASE_SLOT};
use crate::model::{AnsweredRequest, AppendError, DedupRecord};
use crate::requests::{ANSWERED_REQUEST, DEDUP_BY_KEY};
use crate::row::{
    AppendRows, CACHE, Cell, CoordinationRow, DEDUP, FOLLOW_UP, IDEMPOTENCY, RowChange, SLOT,
    Table, WAIT,
};

fn insert_sql(verb: &str, table: &Table) -> String {
    let (name, columns) = (table.name, table.column_list());
    let placeholders = placeholder_list(table.columns.len());
    format!("{verb} INTO {name} ({columns}) VALUES ({placeholders})")
}

static PUT_WAIT: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &WAIT));
static PUT_FOLLOW_UP: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR REPLACE", &FOLLOW_UP));
static PUT_SLOT: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR IGNORE", &SLOT));
static PUT_CACHE: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &CACHE));
static PUT_DEDUP: LazyLock<String> = LazyLock::new(|| insert_sql("INSERT OR REPLACE", &DEDUP));
static PUT_IDEMPOTENCY_RECORD: LazyLock<String> =
    LazyLock::new(|| insert_sql("INSERT OR REPLACE", &IDEMPOTENCY));

/// Checks the idempotency key and the dedup key of an append. The idempotency key comes first: a
/// request that was answered gets its answer, regardless of the message it contains.
pub(super) fn check_keys(connection: &Connection, rows: &AppendRows) -> Result<(), AppendError> {
    if let Some((record, now, row)) = &rows.idempotency {
        let clock = Cell::Time(to_micros(*now));
        let key = row.iter().take(3).chain([&clock]);
        let answered: Option<AnsweredRequest> =
            query_first(connection, ANSWERED_REQUEST.sqlite(), params_from_iter(key))?;
        if let Some(answered) = answered {
            record.check_against(answered, *now)?;
        }
    }
    if let Some((reservation, row)) = &rows.dedup {
        let key = params_from_iter(row.iter().take(2));
        let stored: Option<DedupRecord> = query_first(connection, DEDUP_BY_KEY.sqlite(), key)?;
        if let Some(stored) = stored {
            reservation.check_against(&stored)?;
        }
    }
    Ok(())
}

/// Writes the coordination rows of an append.
pub(super) fn write_coordination_rows(
    connection: &Connection,
    rows: &AppendRows,
) -> Result<(), rusqlite::Error> {
    let execute =
        |sql: &str, cells: &[Cell]| execute_cached(connection, sql, params_from_iter(cells));
    for CoordinationRow { change, cells } in &rows.waits {
        match change {
            RowChange::Put | RowChange::Confirm => execute(&PUT_WAIT, cells)?,
            RowChange::Drop => execute(
                "DELETE FROM wait WHERE execution_id = ?1 AND command_id = ?2 AND number >= ?3",
                cells,
            )?,
        };
    }
    for CoordinationRow { change, cells } in &rows.follow_ups {
        match change {
            RowChange::Put | RowChange::Confirm => execute(&PUT_FOLLOW_UP, cells)?,
            RowChange::Drop => {
                execute("DELETE FROM errand WHERE execution_id = ?1 AND errand_id = ?2", cells)?
            }
        };
    }
    for CoordinationRow { change, cells } in &rows.slots {
        match change {
            RowChange::Put => execute(&PUT_SLOT, cells)?,
            RowChange::Confirm => execute(CONFIRM_SLOT.sqlite(), cells)?,
            RowChange::Drop => execute(RELEASE_SLOT.sqlite(), cells)?,
        };
    }
    for cells in &rows.cache_puts {
        execute(&PUT_CACHE, cells)?;
    }
    if let Some((_, _, cells)) = &rows.idempotency {
        execute(&PUT_IDEMPOTENCY_RECORD, cells)?;
    }
    if let Some((_, cells)) = &rows.dedup {
        execute(&PUT_DEDUP, cells)?;
    }
    Ok(())
}
