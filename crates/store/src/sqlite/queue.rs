//! The queue: leases and what becomes of them.

use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, CommandStatus, ExecutionId, Json, PoolName, TenantId, Timestamp, WorkerId,
};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{all, execute, failure, first, micros, places};
use super::query;
use crate::error::StoreError;
use crate::fair::{self, Waiting};
use crate::model::{
    Claim, ClaimedCommand, Command, CommandFilter, CommandPage, Extension, Fence, LeaseHold,
    LeaseRequest, LeasedCommand, MAX_POOLS, PoolCount, Release,
};
use crate::row::{self, COMMAND, Reader, command_row};

static SELECT_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.list();
    format!("SELECT {columns} FROM command WHERE command_id = ?1")
});

static SELECT_EXPIRED: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.list();
    format!(
        "SELECT {columns} FROM command WHERE lease_until <= ?1
         ORDER BY lease_until, command_id LIMIT ?2"
    )
});

static LIST_COMMANDS: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.list_of("command.");
    format!("SELECT {columns} {}", include_str!("sql/list_commands.sql"))
});

static UPDATE_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let (columns, places) = (COMMAND.list(), places(COMMAND.columns.len()));
    format!("UPDATE command SET ({columns}) = ({places}) WHERE command_id = ?1")
});

const SELECT_WAITING: &str = include_str!("sql/select_waiting.sql");

pub(super) fn command(
    connection: &Connection,
    command_id: CommandId,
) -> Result<Option<Command>, StoreError> {
    first(
        connection,
        &SELECT_COMMAND,
        [command_id.get()],
        row::command,
    )
}

pub(super) fn expired(
    connection: &Connection,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<Command>, StoreError> {
    let params = (micros(now), limit.get());
    all(connection, &SELECT_EXPIRED, params, row::command)
}

pub(super) fn commands(
    connection: &Connection,
    filter: &CommandFilter,
) -> Result<CommandPage, StoreError> {
    let names = filter.choice.names();
    let names = names.map(|names| Json::list(names.into_iter().map(Json::from)).to_string());
    let params = params![
        filter.tenant_id.as_str(),
        names,
        filter.execution_id.map(ExecutionId::get),
        filter.pool.as_ref().map(PoolName::as_str),
        filter.worker.as_ref().map(WorkerId::as_str),
        filter.after.map(CommandId::get),
        filter.limit.get(),
    ];
    let commands = all(connection, &LIST_COMMANDS, params, row::command)?;
    Ok(CommandPage::of(commands, filter.limit))
}

pub(super) fn release_worker(
    connection: &Connection,
    (tenant_id, worker): (&TenantId, &WorkerId),
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "UPDATE command SET lease_until = ?2
        WHERE worker_id = ?1 AND lease_until > ?2 AND EXISTS (
            SELECT 1 FROM execution
            WHERE execution.execution_id = command.execution_id AND execution.tenant_id = ?3
        )";
    let params = (worker.as_str(), micros(now), tenant_id.as_str());
    let ended = execute(connection, sql, params).map_err(failure)?;
    u64::try_from(ended).map_err(StoreError::fatal)
}

pub(super) fn pool_counts(connection: &Connection) -> Result<Vec<PoolCount>, StoreError> {
    let sql = include_str!("sql/pool_counts.sql");
    all(connection, sql, [MAX_POOLS], row::pool_count)
}

pub(super) fn lease(
    connection: &Connection,
    request: &LeaseRequest,
) -> Result<Vec<LeasedCommand>, StoreError> {
    let kinds = request
        .kinds
        .as_ref()
        .map(|kinds| Json::list(kinds.iter().map(Json::from)).to_string());
    let params = params![
        request.pool.as_str(),
        micros(request.claim.now),
        kinds,
        fair::window(request.max)
    ];
    let waiting = all(connection, SELECT_WAITING, params, |cells| {
        let mut row = Reader::new(&COMMAND, cells);
        Ok(Waiting {
            command_id: row.take()?,
            execution_id: row.take()?,
            priority: row.take()?,
        })
    })?;
    let mut leased = Vec::new();
    for command_id in fair::choose(&waiting, request.max) {
        let claimed = claim(connection, command_id, &request.claim)?;
        leased.extend(claimed.map(|claimed| claimed.leased));
    }
    Ok(leased)
}

pub(super) fn claim(
    connection: &Connection,
    command_id: CommandId,
    claim: &Claim,
) -> Result<Option<ClaimedCommand>, StoreError> {
    let Some(mut command) = command(connection, command_id)? else {
        return Ok(None);
    };
    let issued = query::event(connection, command.execution_id, command_id.into())?;
    let Some(issued) = issued else {
        return Ok(None);
    };
    let is_granted = command.is_free(claim.now);
    if is_granted {
        command.grant(claim);
        update(connection, &command)?;
    }
    Ok(Some(ClaimedCommand {
        leased: LeasedCommand {
            command,
            issued: issued.record,
        },
        is_granted,
    }))
}

pub(super) fn extend(
    connection: &Connection,
    leases: &[Fence],
    until: Timestamp,
) -> Result<Vec<Extension>, StoreError> {
    leases
        .iter()
        .map(|fence| {
            let Some(mut command) = held(connection, fence)? else {
                return Ok(Extension::Lost);
            };
            let until = command.within_deadline(until);
            command.lease = command.lease.map(|lease| LeaseHold { until, ..lease });
            update(connection, &command)?;
            Ok(Extension::Until(until))
        })
        .collect()
}

pub(super) fn release(
    connection: &Connection,
    leases: &[Release],
) -> Result<Vec<bool>, StoreError> {
    leases
        .iter()
        .map(|release| {
            let Some(mut command) = held(connection, &release.fence)? else {
                return Ok(false);
            };
            command.status = CommandStatus::Pending;
            command.lease = None;
            command.attempt = command.attempt.saturating_sub(1);
            command.not_before = release.not_before;
            update(connection, &command)?;
            Ok(true)
        })
        .collect()
}

fn held(connection: &Connection, fence: &Fence) -> Result<Option<Command>, StoreError> {
    let command = command(connection, fence.command_id)?;
    Ok(command.filter(|command| fence.holds(command)))
}

fn update(connection: &Connection, command: &Command) -> Result<(), StoreError> {
    let row = params_from_iter(command_row(command));
    execute(connection, &UPDATE_COMMAND, row).map_err(failure)?;
    Ok(())
}
