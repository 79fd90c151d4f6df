//! Appending, inside of the writer's transaction.

use std::sync::LazyLock;

use noetl_types::{Chain, ExecutionId, FeedPosition, Version};
use rusqlite::{Connection, params_from_iter};

use super::bind::{execute, failure, first, is_taken, micros, places};
use super::writer::{Care, rolled_back};
use super::{outbox, query, queue, shared};
use crate::error::StoreError;
use crate::model::{AppendRefused, Appended, TimerChange};
use crate::row::{COMMAND, Cell, EVENT, EXECUTION, EXECUTION_CHANGING, RESULT, Reader, Rows};

static INSERT_EVENT: LazyLock<String> = LazyLock::new(|| {
    let (columns, places) = (EVENT.list(), places(EVENT.columns.len()));
    format!("INSERT INTO event ({columns}) VALUES ({places})")
});

static INSERT_EXECUTION: LazyLock<String> = LazyLock::new(|| {
    let (columns, places) = (EXECUTION.list(), places(EXECUTION.columns.len()));
    format!("INSERT INTO execution ({columns}) VALUES ({places})")
});

static UPDATE_EXECUTION: LazyLock<String> = LazyLock::new(|| {
    let columns = EXECUTION_CHANGING.list();
    let places = places(EXECUTION_CHANGING.columns.len());
    format!("UPDATE execution SET ({columns}) = ({places}) WHERE execution_id = ?1")
});

static INSERT_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let (columns, places) = (COMMAND.list(), places(COMMAND.columns.len()));
    format!("INSERT INTO command ({columns}) VALUES ({places})")
});

static INSERT_RESULT: LazyLock<String> = LazyLock::new(|| {
    let (columns, places) = (RESULT.list(), places(RESULT.columns.len()));
    format!("INSERT INTO result_store ({columns}) VALUES ({places})")
});

/// The parameters are the columns of a patch.
const PATCH_COMMAND: &str = include_str!("sql/patch_command.sql");

const SELECT_HEAD: &str =
    "SELECT version, chain_head, ended FROM execution WHERE execution_id = ?1";

/// Why an item is rolled back to its savepoint.
enum Failed {
    Refused(AppendRefused),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<AppendRefused> for Failed {
    fn from(refused: AppendRefused) -> Self {
        Self::Refused(refused)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Failed> for AppendRefused {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(refused) => refused,
            Failed::Sql(error) if is_taken(&error) => Self::IdTaken,
            Failed::Sql(error) => failure(error).into(),
        }
    }
}

/// Appends the items of a call. A bold one fails as a whole when an item does that has written
/// something already; refusals come before anything is written.
pub(super) fn append_all(
    connection: &Connection,
    items: &[Result<Rows, AppendRefused>],
    care: Care,
) -> Result<Vec<Result<Appended, AppendRefused>>, StoreError> {
    let mut verdicts = Vec::with_capacity(items.len());
    for rows in items {
        verdicts.push(match rows {
            Err(refused) => Err(refused.clone()),
            Ok(rows) => match judge(connection, rows) {
                Err(refused) => Err(refused),
                Ok(()) => match care {
                    Care::Bold => match write(connection, rows) {
                        Ok(appended) => Ok(appended),
                        Err(_) => return Err(rolled_back()),
                    },
                    Care::Careful => write_with_savepoint(connection, rows),
                },
            },
        });
    }
    Ok(verdicts)
}

fn write_with_savepoint(connection: &Connection, rows: &Rows) -> Result<Appended, AppendRefused> {
    // An earlier item may have met a full disk, which ends the transaction: what came now would be
    // committed by itself.
    if connection.is_autocommit() {
        return Err(rolled_back().into());
    }
    execute(connection, "SAVEPOINT item", []).map_err(failure)?;
    let written = write(connection, rows);
    if written.is_err() {
        execute(connection, "ROLLBACK TO item", []).map_err(failure)?;
    }
    execute(connection, "RELEASE item", []).map_err(failure)?;
    Ok(written?)
}

/// The order of these questions is part of what all backends agree on.
fn judge(connection: &Connection, rows: &Rows) -> Result<(), AppendRefused> {
    if query::is_gone(connection, rows.execution_id)? {
        return Err(AppendRefused::Gone);
    }
    match (head(connection, rows.execution_id)?, rows.starts) {
        (Some(_), true) => return Err(AppendRefused::AlreadyExists),
        (None, false) => return Err(AppendRefused::NotFound),
        (None, true) => {}
        (Some((version, chain, has_ended)), false) => {
            if version != rows.expected.version || chain != rows.expected.chain {
                return Err(AppendRefused::Conflict { actual: version });
            }
            if has_ended && !rows.is_audit {
                return Err(AppendRefused::Terminal);
            }
        }
    }
    for fence in &rows.fences {
        let command = queue::command(connection, fence.command_id)?;
        let holds = command.is_some_and(|command| {
            command.execution_id == rows.execution_id && fence.holds(&command)
        });
        if !holds {
            return Err(AppendRefused::Fenced {
                command_id: fence.command_id,
            });
        }
    }
    shared::judge(connection, rows)
}

fn head(
    connection: &Connection,
    execution_id: ExecutionId,
) -> Result<Option<(Version, Chain, bool)>, StoreError> {
    first(connection, SELECT_HEAD, [execution_id.get()], |cells| {
        let mut row = Reader::new(&EXECUTION_CHANGING, cells);
        Ok((row.take()?, row.take()?, row.take()?))
    })
}

fn write(connection: &Connection, rows: &Rows) -> Result<Appended, Failed> {
    let insert = |sql: &str, row: &[Cell]| execute(connection, sql, params_from_iter(row));
    if rows.starts {
        insert(&INSERT_EXECUTION, &rows.execution)?;
    } else {
        let changing = rows.execution.iter().take(EXECUTION_CHANGING.columns.len());
        execute(connection, &UPDATE_EXECUTION, params_from_iter(changing))?;
    }
    for event in &rows.events {
        insert(&INSERT_EVENT, event)?;
    }
    // The position of the last event, before anything else is inserted.
    let feed = FeedPosition {
        tx: 0,
        position: connection.last_insert_rowid(),
    };
    outbox::write(connection, &rows.outbox)?;
    for command in &rows.issued {
        insert(&INSERT_COMMAND, command)?;
    }
    for (_, patch) in &rows.patches {
        insert(PATCH_COMMAND, patch)?;
    }
    for result in &rows.results {
        insert(&INSERT_RESULT, result)?;
    }
    for change in &rows.timers {
        write_timer(connection, rows.execution_id, change)?;
    }
    shared::write(connection, rows)?;
    Ok(Appended {
        head: rows.head,
        feed,
    })
}

fn write_timer(
    connection: &Connection,
    execution_id: ExecutionId,
    change: &TimerChange,
) -> Result<(), rusqlite::Error> {
    match change {
        TimerChange::Arm { timer_id, fire_at } => execute(
            connection,
            "INSERT OR REPLACE INTO timer (execution_id, timer_id, fire_at) VALUES (?1, ?2, ?3)",
            (execution_id.get(), timer_id.as_str(), micros(*fire_at)),
        )?,
        TimerChange::Disarm { timer_id } => execute(
            connection,
            "DELETE FROM timer WHERE execution_id = ?1 AND timer_id = ?2",
            (execution_id.get(), timer_id.as_str()),
        )?,
    };
    Ok(())
}
