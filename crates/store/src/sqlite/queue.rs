//! [`CommandQueue`] in SQLite.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::{CommandId, CommandStatus, Json, TenantId, Timestamp, WorkerId};
use rusqlite::{Connection, params, params_from_iter};

use super::bind::{
    execute_cached, placeholder_list, query_all, query_first, to_micros, to_store_error,
};
use super::{SqliteStore, log};
use crate::commands::{COMMAND_BY_ID, CommandQueue};
use crate::error::StoreError;
use crate::lease_order::{self, WaitingCommand};
use crate::model::{
    Command, CommandLease, Fence, LeaseExtension, LeaseOutcome, LeaseRelease, LeaseRequest,
    LeaseTerms, LeasedCommand,
};
use crate::row::{COMMAND, ToRow as _, cells};
use crate::sql::{Database as _, Durability, Statement};

static UPDATE_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let (columns, placeholders) = (COMMAND.column_list(), placeholder_list(COMMAND.columns.len()));
    format!("UPDATE command SET ({columns}) = ({placeholders}) WHERE command_id = ?1")
});

const SELECT_WAITING: &str = include_str!("sql/select_waiting.sql");

pub(super) fn find_command(
    connection: &Connection,
    command_id: CommandId,
) -> Result<Option<Command>, StoreError> {
    query_first(connection, COMMAND_BY_ID.sqlite(), [command_id.get()])
}

fn lease_commands(
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
    let waiting = query_all(connection, SELECT_WAITING, params)?.into_iter();
    let waiting: Vec<_> = waiting
        .map(|(command_id, execution_id, priority)| WaitingCommand {
            command_id,
            execution_id,
            priority,
        })
        .collect();
    let mut leased = Vec::new();
    for command_id in lease_order::choose_commands(&waiting, request.max_commands) {
        let outcome = try_lease_command(connection, command_id, &request.terms)?;
        leased.extend(outcome.map(|outcome| outcome.leased));
    }
    Ok(leased)
}

fn try_lease_command(
    connection: &Connection,
    command_id: CommandId,
    terms: &LeaseTerms,
) -> Result<Option<LeaseOutcome>, StoreError> {
    let Some(mut command) = find_command(connection, command_id)? else {
        return Ok(None);
    };
    let issued = log::find_event(connection, command.execution_id, command_id.into())?;
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

fn extend_leases(
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

fn release_leases(
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
    let row = params_from_iter(command.to_row());
    execute_cached(connection, &UPDATE_COMMAND, row).map_err(to_store_error)?;
    Ok(())
}

static EXPIRE_WORKER_LEASES: Statement = Statement::new(
    "UPDATE command SET lease_until = $2
     WHERE worker_id = $1 AND lease_until > $2 AND EXISTS (
         SELECT 1 FROM execution
         WHERE execution.execution_id = command.execution_id AND execution.tenant_id = $3
     )",
);

#[async_trait]
impl CommandQueue for SqliteStore {
    async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<Vec<LeasedCommand>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| lease_commands(connection, &request))
            .await
    }

    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                try_lease_command(connection, command_id, &terms)
            })
            .await
    }

    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                extend_leases(connection, &leases, until)
            })
            .await
    }

    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| release_leases(connection, &leases))
            .await
    }

    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let params = cells![worker, now, tenant_id];
        self.execute(Durability::Unsynced, &EXPIRE_WORKER_LEASES, params).await
    }
}
