//! Appending, inside of the writer's transaction.

use std::sync::LazyLock;

use noetl_types::{Chain, ExecutionId, FeedPosition, Version};
use rusqlite::{Connection, params_from_iter};

use super::bind::{execute, failure, first, is_taken, micros, places};
use super::writer::rolled_back;
use super::{query, queue};
use crate::error::StoreError;
use crate::model::{AppendRefused, Appended, CommandChange, TimerChange};
use crate::row::{
    COMMAND, EVENT, EXECUTION, EXECUTION_CHANGING, Reader, command_row, event_row, execution_row,
    patch_row,
};
use crate::seal::Sealed;

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

pub(super) fn append_all(
    connection: &Connection,
    sealed: Vec<Result<Sealed, AppendRefused>>,
) -> Vec<Result<Appended, AppendRefused>> {
    sealed
        .into_iter()
        .map(|sealed| append(connection, &sealed?))
        .collect()
}

fn append(connection: &Connection, sealed: &Sealed) -> Result<Appended, AppendRefused> {
    // An earlier item may have met a full disk, which ends the transaction: what came now would be
    // committed by itself.
    if connection.is_autocommit() {
        return Err(rolled_back().into());
    }
    judge(connection, sealed)?;
    execute(connection, "SAVEPOINT item", []).map_err(failure)?;
    let written = write(connection, sealed);
    let end = if written.is_ok() {
        "RELEASE item"
    } else {
        "ROLLBACK TO item"
    };
    execute(connection, end, []).map_err(failure)?;
    if written.is_err() {
        execute(connection, "RELEASE item", []).map_err(failure)?;
    }
    Ok(written?)
}

/// The order of these questions is part of what all backends agree on.
fn judge(connection: &Connection, sealed: &Sealed) -> Result<(), AppendRefused> {
    let append = &sealed.append;
    if query::is_gone(connection, append.execution_id)? {
        return Err(AppendRefused::Gone);
    }
    match (head(connection, append.execution_id)?, &append.start) {
        (Some(_), Some(_)) => return Err(AppendRefused::AlreadyExists),
        (None, None) => return Err(AppendRefused::NotFound),
        (None, Some(_)) => {}
        (Some((version, chain, has_ended)), None) => {
            if version != append.expected.version || chain != append.expected.chain {
                return Err(AppendRefused::Conflict { actual: version });
            }
            if has_ended && !sealed.is_audit {
                return Err(AppendRefused::Terminal);
            }
        }
    }
    for fence in &append.fences {
        let command = queue::command(connection, fence.command_id)?;
        let holds = command.is_some_and(|command| {
            command.execution_id == append.execution_id && fence.holds(&command)
        });
        if !holds {
            return Err(AppendRefused::Fenced {
                command_id: fence.command_id,
            });
        }
    }
    Ok(())
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

fn write(connection: &Connection, sealed: &Sealed) -> Result<Appended, Failed> {
    let append = &sealed.append;
    let execution = execution_row(sealed);
    if append.start.is_some() {
        execute(connection, &INSERT_EXECUTION, params_from_iter(execution))?;
    } else {
        let changing = execution.iter().take(EXECUTION_CHANGING.columns.len());
        execute(connection, &UPDATE_EXECUTION, params_from_iter(changing))?;
    }
    for event in &sealed.events {
        execute(
            connection,
            &INSERT_EVENT,
            params_from_iter(event_row(event)),
        )?;
    }
    let feed = FeedPosition {
        tx: 0,
        position: connection.last_insert_rowid(),
    };
    for change in &append.commands {
        write_command(connection, append.execution_id, change)?;
    }
    for change in &append.timers {
        write_timer(connection, append.execution_id, change)?;
    }
    Ok(Appended {
        head: sealed.head,
        feed,
    })
}

fn write_command(
    connection: &Connection,
    execution_id: ExecutionId,
    change: &CommandChange,
) -> Result<(), rusqlite::Error> {
    if let CommandChange::Issue(command) = change {
        let command = command.as_ref().clone().into_command(execution_id);
        let row = command_row(&command);
        execute(connection, &INSERT_COMMAND, params_from_iter(row))?;
    }
    if let Some(patch) = change.patch() {
        let row = patch_row(execution_id, &patch);
        execute(connection, PATCH_COMMAND, params_from_iter(row))?;
    }
    Ok(())
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
