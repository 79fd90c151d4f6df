//! Command queue: granting, extending, and releasing leases.

use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, CommandStatus, ExecutionId, Json, PoolName, TenantId, Timestamp, WorkerId,
};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{
    execute_cached, placeholder_list, query_all, query_first, to_micros, to_store_error,
};
use super::query;
use crate::error::StoreError;
use crate::lease_order::{self, WaitingCommand};
use crate::model::{
    Command, CommandFilter, CommandLease, CommandPage, Fence, LeaseExtension, LeaseOutcome,
    LeaseRelease, LeaseRequest, LeaseTerms, LeasedCommand, MAX_POOLS, PoolCount,
};
use crate::row::{self, COMMAND, RowReader, encode_command};

static SELECT_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.column_list();
    format!("SELECT {columns} FROM command WHERE command_id = ?1")
});

static SELECT_EXPIRED: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.column_list();
    format!(
        "SELECT {columns} FROM command WHERE lease_until <= ?1
         ORDER BY lease_until, command_id LIMIT ?2"
    )
});

static LIST_COMMANDS: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.prefixed_column_list("command.");
    format!("SELECT {columns} {}", include_str!("sql/list_commands.sql"))
});

static UPDATE_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let (columns, placeholders) = (COMMAND.column_list(), placeholder_list(COMMAND.columns.len()));
    format!("UPDATE command SET ({columns}) = ({placeholders}) WHERE command_id = ?1")
});

const SELECT_WAITING: &str = include_str!("sql/select_waiting.sql");

pub(super) fn find_command(
    connection: &Connection,
    command_id: CommandId,
) -> Result<Option<Command>, StoreError> {
    query_first(connection, &SELECT_COMMAND, [command_id.get()], row::decode_command)
}

pub(super) fn list_expired_leases(
    connection: &Connection,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<Command>, StoreError> {
    let params = (to_micros(now), limit.get());
    query_all(connection, &SELECT_EXPIRED, params, row::decode_command)
}

pub(super) fn list_commands(
    connection: &Connection,
    filter: &CommandFilter,
) -> Result<CommandPage, StoreError> {
    let names = filter.status.status_names();
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
    let commands = query_all(connection, &LIST_COMMANDS, params, row::decode_command)?;
    Ok(CommandPage::from_rows(commands, filter.limit))
}

pub(super) fn expire_worker_leases(
    connection: &Connection,
    tenant_id: &TenantId,
    worker: &WorkerId,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "UPDATE command SET lease_until = ?2
        WHERE worker_id = ?1 AND lease_until > ?2 AND EXISTS (
            SELECT 1 FROM execution
            WHERE execution.execution_id = command.execution_id AND execution.tenant_id = ?3
        )";
    let params = (worker.as_str(), to_micros(now), tenant_id.as_str());
    let expired = execute_cached(connection, sql, params).map_err(to_store_error)?;
    u64::try_from(expired).map_err(StoreError::fatal)
}

pub(super) fn pool_counts(connection: &Connection) -> Result<Vec<PoolCount>, StoreError> {
    let sql = include_str!("sql/pool_counts.sql");
    query_all(connection, sql, [MAX_POOLS], row::decode_pool_count)
}

pub(super) fn lease_commands(
    connection: &Connection,
    request: &LeaseRequest,
) -> Result<Vec<LeasedCommand>, StoreError> {
    let kinds =
        request.kinds.as_ref().map(|kinds| Json::list(kinds.iter().map(Json::from)).to_string());
    let params = params![
        request.pool.as_str(),
        to_micros(request.terms.now),
        kinds,
        lease_order::lookahead_rows(request.max_commands)
    ];
    let waiting = query_all(connection, SELECT_WAITING, params, |cells| {
        let mut row = RowReader::new(&COMMAND, cells);
        Ok(WaitingCommand {
            command_id: row.read_next()?,
            execution_id: row.read_next()?,
            priority: row.read_next()?,
        })
    })?;
    let mut leased = Vec::new();
    for command_id in lease_order::choose_commands(&waiting, request.max_commands) {
        let outcome = try_lease_command(connection, command_id, &request.terms)?;
        leased.extend(outcome.map(|outcome| outcome.leased));
    }
    Ok(leased)
}

pub(super) fn try_lease_command(
    connection: &Connection,
    command_id: CommandId,
    terms: &LeaseTerms,
) -> Result<Option<LeaseOutcome>, StoreError> {
    let Some(mut command) = find_command(connection, command_id)? else {
        return Ok(None);
    };
    let issued = query::find_event(connection, command.execution_id, command_id.into())?;
    let Some(issued) = issued else {
        return Ok(None);
    };
    let is_granted = command.is_leasable(terms.now);
    if is_granted {
        command.grant_lease(terms);
        update_command(connection, &command)?;
    }
    Ok(Some(LeaseOutcome { leased: LeasedCommand { command, issued: issued.record }, is_granted }))
}

pub(super) fn extend_leases(
    connection: &Connection,
    leases: &[Fence],
    until: Timestamp,
) -> Result<Vec<LeaseExtension>, StoreError> {
    leases
        .iter()
        .map(|fence| {
            let Some(mut command) = find_held_command(connection, fence)? else {
                return Ok(LeaseExtension::Lost);
            };
            let until = command.cap_at_deadline(until);
            command.lease = command.lease.map(|lease| CommandLease { until, ..lease });
            update_command(connection, &command)?;
            Ok(LeaseExtension::Until(until))
        })
        .collect()
}

pub(super) fn release_leases(
    connection: &Connection,
    leases: &[LeaseRelease],
) -> Result<Vec<bool>, StoreError> {
    leases
        .iter()
        .map(|release| {
            let Some(mut command) = find_held_command(connection, &release.fence)? else {
                return Ok(false);
            };
            command.status = CommandStatus::Pending;
            command.lease = None;
            command.attempt = command.attempt.saturating_sub(1);
            command.not_before = release.not_before;
            update_command(connection, &command)?;
            Ok(true)
        })
        .collect()
}

fn find_held_command(
    connection: &Connection,
    fence: &Fence,
) -> Result<Option<Command>, StoreError> {
    let command = find_command(connection, fence.command_id)?;
    Ok(command.filter(|command| fence.is_satisfied_by(command)))
}

fn update_command(connection: &Connection, command: &Command) -> Result<(), StoreError> {
    let row = params_from_iter(encode_command(command));
    execute_cached(connection, &UPDATE_COMMAND, row).map_err(to_store_error)?;
    Ok(())
}
