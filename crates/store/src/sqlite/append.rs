//! Appends inside the writer's transaction.

use std::sync::LazyLock;

use noetl_types::{ChainHash, ExecutionId, ExecutionVersion, FeedPosition};
use rusqlite::{Connection, params_from_iter};

use super::bind::{
    execute_cached, is_key_conflict, placeholder_list, query_first, to_micros, to_store_error,
};
use super::writer::{FailureIsolation, rolled_back_error};
use super::{append_coordination, outbox, queue};
use crate::error::StoreError;
use crate::executions::IS_DROPPED;
use crate::model::{AppendError, AppendReceipt, TimerChange};
use crate::row::{AppendRows, COMMAND, Cell, EVENT, EXECUTION, EXECUTION_MUTABLE, RESULT};
use crate::sql::Statement;

static INSERT_EVENT: Statement = Statement::insert(&EVENT, "");
static INSERT_EXECUTION: Statement = Statement::insert(&EXECUTION, "");
static INSERT_COMMAND: Statement = Statement::insert(&COMMAND, "");
static INSERT_RESULT: Statement = Statement::insert(&RESULT, "");

static UPDATE_EXECUTION: LazyLock<String> = LazyLock::new(|| {
    let columns = EXECUTION_MUTABLE.column_list();
    let placeholders = placeholder_list(EXECUTION_MUTABLE.columns.len());
    format!("UPDATE execution SET ({columns}) = ({placeholders}) WHERE execution_id = ?1")
});

/// Updates a command. The parameters are the columns of a patch.
const PATCH_COMMAND: &str = include_str!("sql/patch_command.sql");

const SELECT_HEAD: &str =
    "SELECT version, chain_head, ended FROM execution WHERE execution_id = ?1";

/// Reason why an item could not be written.
enum ItemFailure {
    Refused(AppendError),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for ItemFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<AppendError> for ItemFailure {
    fn from(error: AppendError) -> Self {
        Self::Refused(error)
    }
}

impl From<StoreError> for ItemFailure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<ItemFailure> for AppendError {
    fn from(failure: ItemFailure) -> Self {
        match failure {
            ItemFailure::Refused(error) => error,
            ItemFailure::Sql(error) if is_key_conflict(&error) => Self::IdTaken,
            ItemFailure::Sql(error) => to_store_error(error).into(),
        }
    }
}

/// Appends the items of a call. The preconditions of an item are checked before it is written.
/// Under [`FailureIsolation::WholeGroup`], the whole call fails if an item cannot be written.
pub(super) fn append_items(
    connection: &Connection,
    items: &[Result<AppendRows, AppendError>],
    isolation: FailureIsolation,
) -> Result<Vec<Result<AppendReceipt, AppendError>>, StoreError> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        verdicts.push(match item {
            Err(error) => Err(error.clone()),
            Ok(rows) => match check_preconditions(connection, rows) {
                Err(error) => Err(error),
                Ok(()) => match isolation {
                    FailureIsolation::WholeGroup => match write_item(connection, rows) {
                        Ok(receipt) => Ok(receipt),
                        Err(_) => return Err(rolled_back_error()),
                    },
                    FailureIsolation::Savepoint => {
                        match write_item_in_savepoint(connection, rows) {
                            // The failure has ended the transaction, and with it every item.
                            Err(AppendError::Store(error)) if connection.is_autocommit() => {
                                return Err(error);
                            }
                            verdict => verdict,
                        }
                    }
                },
            },
        });
    }
    Ok(verdicts)
}

fn write_item_in_savepoint(
    connection: &Connection,
    rows: &AppendRows,
) -> Result<AppendReceipt, AppendError> {
    execute_cached(connection, "SAVEPOINT item", []).map_err(to_store_error)?;
    let result = write_item(connection, rows);
    // A full disk may end the whole transaction, including the savepoint.
    if connection.is_autocommit() {
        return Ok(result?);
    }
    if result.is_err() {
        execute_cached(connection, "ROLLBACK TO item", []).map_err(to_store_error)?;
    }
    execute_cached(connection, "RELEASE item", []).map_err(to_store_error)?;
    Ok(result?)
}

/// Checks the preconditions of an append. All backends check them in this order, so that they
/// refuse an append for the same reason.
fn check_preconditions(connection: &Connection, rows: &AppendRows) -> Result<(), AppendError> {
    let dropped: Option<(bool,)> =
        query_first(connection, IS_DROPPED.sqlite(), [rows.execution_id.get()])?;
    if dropped.is_some_and(|(is_dropped,)| is_dropped) {
        return Err(AppendError::Dropped);
    }
    match (read_head(connection, rows.execution_id)?, rows.starts_execution) {
        (Some(_), true) => return Err(AppendError::AlreadyExists),
        (None, false) => return Err(AppendError::NotFound),
        (None, true) => {}
        (Some((version, chain, has_ended)), false) => {
            if version != rows.expected.version || chain != rows.expected.chain {
                return Err(AppendError::Conflict { actual: version });
            }
            if has_ended && !rows.is_audit {
                return Err(AppendError::Terminal);
            }
        }
    }
    for fence in &rows.fences {
        let command = queue::find_command(connection, fence.command_id)?;
        let is_satisfied = command.is_some_and(|command| {
            command.execution_id == rows.execution_id && fence.is_satisfied_by(&command)
        });
        if !is_satisfied {
            return Err(AppendError::Fenced { command_id: fence.command_id });
        }
    }
    append_coordination::check_keys(connection, rows)
}

fn read_head(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<Option<(ExecutionVersion, ChainHash, bool)>, StoreError> {
    query_first(connection, SELECT_HEAD, [execution_id.get()])
}

fn write_item(connection: &Connection, rows: &AppendRows) -> Result<AppendReceipt, ItemFailure> {
    let execute = |sql: &str, row: &[Cell]| execute_cached(connection, sql, params_from_iter(row));
    if rows.starts_execution {
        execute(INSERT_EXECUTION.sqlite(), &rows.execution)?;
    } else {
        let cells = rows.execution.iter().take(EXECUTION_MUTABLE.columns.len());
        execute_cached(connection, &UPDATE_EXECUTION, params_from_iter(cells))?;
    }
    for event in &rows.events {
        execute(INSERT_EVENT.sqlite(), event)?;
    }
    // Position of the last event, read before any other insert.
    let feed = FeedPosition { tx: 0, position: connection.last_insert_rowid() };
    outbox::write_outbox_rows(connection, &rows.outbox)?;
    for command in &rows.issued {
        execute(INSERT_COMMAND.sqlite(), command)?;
    }
    for (_, patch) in &rows.patches {
        execute(PATCH_COMMAND, patch)?;
    }
    for result in &rows.results {
        execute(INSERT_RESULT.sqlite(), result)?;
    }
    for change in &rows.timers {
        write_timer(connection, rows.execution_id, change)?;
    }
    append_coordination::write_coordination_rows(connection, rows)?;
    Ok(AppendReceipt { head: rows.head, feed })
}

fn write_timer(
    connection: &Connection,
    execution_id: ExecutionId,
    change: &TimerChange,
) -> Result<(), rusqlite::Error> {
    match change {
        TimerChange::Arm { timer_id, fire_at } => execute_cached(
            connection,
            "INSERT OR REPLACE INTO timer (execution_id, timer_id, fire_at) VALUES (?1, ?2, ?3)",
            (execution_id.get(), timer_id.as_str(), to_micros(*fire_at)),
        )?,
        TimerChange::Disarm { timer_id } => execute_cached(
            connection,
            "DELETE FROM timer WHERE execution_id = ?1 AND timer_id = ?2",
            (execution_id.get(), timer_id.as_str()),
        )?,
    };
    Ok(())
}
