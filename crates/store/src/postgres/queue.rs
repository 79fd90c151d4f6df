//! Command queue: granting, extending, and releasing leases.

use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, PoolName, TenantId, Text, Timestamp, WorkerId};
use tokio_postgres::types::ToSql;

use super::append::encode_fence;
use super::append_function::FENCE_COLUMNS;
use super::bind::{decode_rows, row_cells, to_store_error};
use super::column_arrays::{BlockShape, ColumnBlock};
use super::pool::ConnectionPool;
use super::query;
use crate::error::StoreError;
use crate::lease_order;
use crate::model::{
    Command, CommandFilter, CommandPage, Fence, LeaseExtension, LeaseOutcome, LeaseRelease,
    LeaseRequest, LeaseTerms, LeasedCommand, MAX_POOLS, PoolCount,
};
use crate::row::{self, COMMAND, ColumnKind, EVENT, STORED_EVENT, ToCell as _};

static SELECT_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.column_list();
    format!("SELECT {columns} FROM command WHERE command_id = $1")
});

static SELECT_EXPIRED: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.column_list();
    format!(
        "SELECT {columns} FROM command WHERE lease_until <= $1::timestamptz
         ORDER BY lease_until, command_id LIMIT $2::bigint"
    )
});

static LIST_COMMANDS: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.prefixed_column_list("command.");
    format!("SELECT {columns} {}", include_str!("sql/list_commands.sql"))
});

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

pub(super) async fn find_command(
    pool: &ConnectionPool,
    command_id: CommandId,
) -> Result<Option<Command>, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(&SELECT_COMMAND, &[&command_id.get()]).await?;
    let commands = decode_rows(&rows, row::decode_command)?;
    Ok(commands.into_iter().next())
}

pub(super) async fn list_expired_leases(
    pool: &ConnectionPool,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<Command>, StoreError> {
    let mut client = pool.acquire().await?;
    let limit = i64::from(limit.get());
    let rows = client.query_rows(&SELECT_EXPIRED, &[&now.to_cell(), &limit]).await?;
    decode_rows(&rows, row::decode_command)
}

pub(super) async fn list_commands(
    pool: &ConnectionPool,
    filter: &CommandFilter,
) -> Result<CommandPage, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [&(dyn ToSql + Sync); 7] = [
        &filter.tenant_id.as_str(),
        &filter.status.status_names(),
        &filter.execution_id.map(ExecutionId::get),
        &filter.pool.as_ref().map(PoolName::as_str),
        &filter.worker.as_ref().map(WorkerId::as_str),
        &filter.after.map(CommandId::get),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.query_rows(&LIST_COMMANDS, &params).await?;
    Ok(CommandPage::from_rows(decode_rows(&rows, row::decode_command)?, filter.limit))
}

pub(super) async fn expire_worker_leases(
    pool: &ConnectionPool,
    tenant_id: &TenantId,
    worker: &WorkerId,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = include_str!("sql/release_worker.sql");
    let mut client = pool.acquire().await?;
    let rows =
        client.query_rows(sql, &[&worker.as_str(), &now.to_cell(), &tenant_id.as_str()]).await?;
    u64::try_from(rows.len()).map_err(StoreError::fatal)
}

pub(super) async fn pool_counts(pool: &ConnectionPool) -> Result<Vec<PoolCount>, StoreError> {
    let sql = include_str!("sql/pool_counts.sql");
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(sql, &[&i64::from(MAX_POOLS)]).await?;
    decode_rows(&rows, row::decode_pool_count)
}

pub(super) async fn lease_commands(
    pool: &ConnectionPool,
    request: &LeaseRequest,
) -> Result<Vec<LeasedCommand>, StoreError> {
    let terms = &request.terms;
    let kinds: Option<Vec<&str>> =
        request.kinds.as_ref().map(|kinds| kinds.iter().map(Text::as_str).collect());
    let mut client = pool.acquire().await?;
    let params: [&(dyn ToSql + Sync); 8] = [
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
                row::decode_stored_event(row_cells(row, count, STORED_EVENT.columns.len()))?;
            Ok(LeasedCommand {
                command: row::decode_command(row_cells(row, 0, count))?,
                issued: event.record,
            })
        })
        .collect()
}

pub(super) async fn try_lease_command(
    pool: &ConnectionPool,
    command_id: CommandId,
    terms: &LeaseTerms,
) -> Result<Option<LeaseOutcome>, StoreError> {
    let params: [&(dyn ToSql + Sync); 5] = [
        &command_id.get(),
        &terms.now.to_cell(),
        &terms.worker.as_str(),
        &terms.token.to_cell(),
        &terms.lease_until.to_cell(),
    ];
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(&TRY_LEASE_COMMAND, &params).await?;
    drop(client);
    let granted = decode_rows(&rows, row::decode_command)?.into_iter().next();
    let is_granted = granted.is_some();
    let found = match granted {
        Some(granted) => Some(granted),
        None => find_command(pool, command_id).await?,
    };
    let Some(command) = found else {
        return Ok(None);
    };
    let issued = query::find_event(pool, command.execution_id, command_id.into()).await?;
    Ok(issued.map(|issued| LeaseOutcome {
        leased: LeasedCommand { command, issued: issued.record },
        is_granted,
    }))
}

pub(super) async fn extend_leases(
    pool: &ConnectionPool,
    leases: &[Fence],
    until: Timestamp,
) -> Result<Vec<LeaseExtension>, StoreError> {
    let mut block = FENCE_BLOCK.empty_block();
    for (index, fence) in (0_i64..).zip(leases) {
        block.push(&encode_fence(index, fence));
    }
    let commands = command_ids(leases.iter());
    let until = until.to_cell();
    let params = block_params(&block, [&commands, &until]);
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(&EXTEND_LEASES, &params).await?;
    let mut extensions = vec![LeaseExtension::Lost; leases.len()];
    for row in &rows {
        if let Some(extension) = extensions.get_mut(request_index(row)?) {
            let cell = row.try_get(1).map_err(to_store_error)?;
            *extension = LeaseExtension::Until(row::decode_timestamp(cell)?);
        }
    }
    Ok(extensions)
}

pub(super) async fn release_leases(
    pool: &ConnectionPool,
    leases: &[LeaseRelease],
) -> Result<Vec<bool>, StoreError> {
    let mut block = RELEASE_BLOCK.empty_block();
    for (index, release) in (0_i64..).zip(leases) {
        let not_before = release.not_before.to_cell();
        let fence = encode_fence(index, &release.fence);
        block.push(fence.iter().chain([&not_before]));
    }
    let commands = command_ids(leases.iter().map(|release| &release.fence));
    let params = block_params(&block, [&commands]);
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(&RELEASE_LEASES, &params).await?;
    let mut released = vec![false; leases.len()];
    for row in &rows {
        if let Some(is_released) = released.get_mut(request_index(row)?) {
            *is_released = true;
        }
    }
    Ok(released)
}

fn command_ids<'f>(fences: impl Iterator<Item = &'f Fence>) -> Vec<i64> {
    fences.map(|fence| fence.command_id.get()).collect()
}

fn block_params<'p, const N: usize>(
    block: &'p ColumnBlock,
    others: [&'p (dyn ToSql + Sync); N],
) -> Vec<&'p (dyn ToSql + Sync)> {
    block.as_params().chain(others).collect()
}

fn request_index(row: &tokio_postgres::Row) -> Result<usize, StoreError> {
    let index: i64 = row.try_get(0).map_err(to_store_error)?;
    usize::try_from(index).map_err(StoreError::fatal)
}
