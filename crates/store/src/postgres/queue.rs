//! [`CommandQueue`] in PostgreSQL.

use std::sync::LazyLock;

use async_trait::async_trait;
use noetl_types::{CommandId, StoredEvent, TenantId, Text, Timestamp, WorkerId};

use super::PostgresStore;
use super::append::encode_fence;
use super::append_function::FENCE_COLUMNS;
use super::bind::{Param, decode_first, decode_rows, row_cells};
use super::column_arrays::{BlockShape, ColumnBlock};
use crate::commands::{COMMAND_BY_ID, CommandQueue};
use crate::error::StoreError;
use crate::lease_order;
use crate::log::EventLog as _;
use crate::model::{
    Command, Fence, LeaseExtension, LeaseOutcome, LeaseRelease, LeaseRequest, LeaseTerms,
    LeasedCommand,
};
use crate::row::{COMMAND, ColumnKind, EVENT, FromRow, STORED_EVENT, ToCell as _};

static LEASE_COMMANDS: LazyLock<String> = LazyLock::new(|| {
    include_str!("sql/lease.sql")
        .replace("{command_columns}", &COMMAND.prefixed_column_list("command."))
        .replace("{granted_columns}", &COMMAND.prefixed_column_list("granted."))
        .replace("{event_columns}", &EVENT.prefixed_column_list("event."))
});

static TRY_LEASE_COMMAND: LazyLock<String> = LazyLock::new(|| {
    include_str!("sql/claim.sql")
        .replace("{command_columns}", &COMMAND.prefixed_column_list("command."))
});

static FENCE_BLOCK: LazyLock<BlockShape> = LazyLock::new(|| BlockShape::new(&[FENCE_COLUMNS]));

static RELEASE_BLOCK: LazyLock<BlockShape> = LazyLock::new(|| {
    let not_before: &[(&str, ColumnKind)] = &[("not_before", ColumnKind::Time)];
    BlockShape::new(&[FENCE_COLUMNS, not_before])
});

static EXTEND_LEASES: LazyLock<String> = LazyLock::new(|| {
    let (sql, used) = with_fence_params(include_str!("sql/extend.sql"), &FENCE_BLOCK);
    sql.replace("{until}", &format!("${}", used + 1))
});

static RELEASE_LEASES: LazyLock<String> =
    LazyLock::new(|| with_fence_params(include_str!("sql/release.sql"), &RELEASE_BLOCK).0);

/// Inserts the fence parameters into a statement. Returns it with the number of parameters used.
fn with_fence_params(sql: &str, shape: &BlockShape) -> (String, usize) {
    let mut used = 0;
    let fences = shape.unnest_sql(&mut used);
    used += 1;
    let held = include_str!("sql/held.sql").replace("{commands}", &format!("${used}"));
    let sql = sql.replace("{fences}", &fences).replace("{held}", &held);
    (sql, used)
}

fn command_ids<'f>(fences: impl Iterator<Item = &'f Fence>) -> Vec<i64> {
    fences.map(|fence| fence.command_id.get()).collect()
}

fn block_params<'p, const N: usize>(
    block: &'p ColumnBlock,
    others: [Param<'p>; N],
) -> Vec<Param<'p>> {
    block.as_params().chain(others).collect()
}

#[async_trait]
impl CommandQueue for PostgresStore {
    async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<Vec<LeasedCommand>, StoreError> {
        let terms = &request.terms;
        let kinds: Option<Vec<&str>> =
            request.kinds.as_ref().map(|kinds| kinds.iter().map(Text::as_str).collect());
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 8] = [
            &request.pool.as_str(),
            &terms.now.to_cell(),
            &kinds,
            &i64::from(lease_order::lookahead_rows(request.max_commands)),
            &i64::from(request.max_commands.get()),
            &terms.worker.as_str(),
            &terms.token.to_cell(),
            &terms.lease_until.to_cell(),
        ];
        let rows = client.query_rows(&LEASE_COMMANDS, &params).await?;
        let count = COMMAND.columns.len();
        rows.iter()
            .map(|row| {
                let event =
                    StoredEvent::from_row(row_cells(row, count, STORED_EVENT.columns.len()))?;
                Ok(LeasedCommand {
                    command: Command::from_row(row_cells(row, 0, count))?,
                    issued: event.record,
                })
            })
            .collect()
    }

    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError> {
        let params: [Param<'_>; 5] = [
            &command_id.get(),
            &terms.now.to_cell(),
            &terms.worker.as_str(),
            &terms.token.to_cell(),
            &terms.lease_until.to_cell(),
        ];
        let mut client = self.pool.acquire().await?;
        let rows = client.query_rows(&TRY_LEASE_COMMAND, &params).await?;
        let mut found: Option<Command> = decode_first(&rows)?;
        let is_granted = found.is_some();
        if !is_granted {
            let rows = client.query_rows(COMMAND_BY_ID.postgres(), &[&command_id.get()]).await?;
            found = decode_first(&rows)?;
        }
        drop(client);
        let Some(command) = found else {
            return Ok(None);
        };
        let issued = self.find_event(command.execution_id, command_id.into()).await?;
        Ok(issued.map(|issued| LeaseOutcome {
            leased: LeasedCommand { command, issued: issued.record },
            is_granted,
        }))
    }

    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError> {
        let mut block = FENCE_BLOCK.empty_block();
        for (index, fence) in (0_i64..).zip(&leases) {
            block.push(&encode_fence(index, fence));
        }
        let commands = command_ids(leases.iter());
        let until = until.to_cell();
        let params = block_params(&block, [&commands, &until]);
        let mut client = self.pool.acquire().await?;
        let rows = client.query_rows(&EXTEND_LEASES, &params).await?;
        let mut extensions = vec![LeaseExtension::Lost; leases.len()];
        for (index, until) in decode_rows::<(u64, Timestamp)>(&rows)? {
            let index = usize::try_from(index).map_err(StoreError::fatal)?;
            if let Some(extension) = extensions.get_mut(index) {
                *extension = LeaseExtension::Until(until);
            }
        }
        Ok(extensions)
    }

    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError> {
        let mut block = RELEASE_BLOCK.empty_block();
        for (index, release) in (0_i64..).zip(&leases) {
            let not_before = release.not_before.to_cell();
            let fence = encode_fence(index, &release.fence);
            block.push(fence.iter().chain([&not_before]));
        }
        let commands = command_ids(leases.iter().map(|release| &release.fence));
        let params = block_params(&block, [&commands]);
        let mut client = self.pool.acquire().await?;
        let rows = client.query_rows(&RELEASE_LEASES, &params).await?;
        let mut released = vec![false; leases.len()];
        for (index,) in decode_rows::<(u64,)>(&rows)? {
            let index = usize::try_from(index).map_err(StoreError::fatal)?;
            if let Some(is_released) = released.get_mut(index) {
                *is_released = true;
            }
        }
        Ok(released)
    }

    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut client = self.pool.acquire().await?;
        let params: [Param<'_>; 3] = [&worker.as_str(), &now.to_cell(), &tenant_id.as_str()];
        client.execute(include_str!("sql/release_worker.sql"), &params).await
    }
}
