//! The queue: leases and what becomes of them.

use std::sync::LazyLock;

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, PoolName, TenantId, Text, Timestamp, WorkerId};
use tokio_postgres::types::ToSql;

use super::append::fence_row;
use super::bind::{cells, failure, read_all};
use super::block::{Block, Shape};
use super::function::FENCE;
use super::pool::Pool;
use super::query;
use crate::error::StoreError;
use crate::fair;
use crate::model::{
    Claim, ClaimedCommand, Command, CommandFilter, CommandPage, Extension, Fence, LeaseRequest,
    LeasedCommand, MAX_POOLS, PoolCount, Release,
};
use crate::row::{self, COMMAND, EVENT, Kind, STORED_EVENT, ToCell as _};

static SELECT_COMMAND: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.list();
    format!("SELECT {columns} FROM command WHERE command_id = $1")
});

static SELECT_EXPIRED: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.list();
    format!(
        "SELECT {columns} FROM command WHERE lease_until <= $1::timestamptz
         ORDER BY lease_until, command_id LIMIT $2::bigint"
    )
});

static LIST_COMMANDS: LazyLock<String> = LazyLock::new(|| {
    let columns = COMMAND.list_of("command.");
    format!("SELECT {columns} {}", include_str!("sql/list_commands.sql"))
});

static LEASE: LazyLock<String> = LazyLock::new(|| {
    include_str!("sql/lease.sql")
        .replace("{command_columns}", &COMMAND.list_of("command."))
        .replace("{granted_columns}", &COMMAND.list_of("granted."))
        .replace("{event_columns}", &EVENT.list_of("event."))
});

static CLAIM: LazyLock<String> = LazyLock::new(|| {
    include_str!("sql/claim.sql").replace("{command_columns}", &COMMAND.list_of("command."))
});

static WISHES: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[FENCE]));

static RETURNS: LazyLock<Shape> = LazyLock::new(|| {
    let not_before: &[(&str, Kind)] = &[("not_before", Kind::Time)];
    Shape::new(&[FENCE, not_before])
});

static EXTEND: LazyLock<String> = LazyLock::new(|| {
    let (sql, used) = with_wishes(include_str!("sql/extend.sql"), &WISHES);
    sql.replace("{until}", &format!("${}", used + 1))
});

static RELEASE: LazyLock<String> =
    LazyLock::new(|| with_wishes(include_str!("sql/release.sql"), &RETURNS).0);

/// A statement about leases with its first parameters, and how many they are.
fn with_wishes(sql: &str, shape: &Shape) -> (String, usize) {
    let mut used = 0;
    let wishes = shape.unnest(&mut used);
    used += 1;
    let held = include_str!("sql/held.sql").replace("{commands}", &format!("${used}"));
    let sql = sql.replace("{wish}", &wishes).replace("{held}", &held);
    (sql, used)
}

pub(super) async fn command(
    pool: &Pool,
    command_id: CommandId,
) -> Result<Option<Command>, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(&SELECT_COMMAND, &[&command_id.get()]).await?;
    let commands = read_all(&rows, row::command)?;
    Ok(commands.into_iter().next())
}

pub(super) async fn expired(
    pool: &Pool,
    now: Timestamp,
    limit: PageLimit,
) -> Result<Vec<Command>, StoreError> {
    let mut client = pool.get().await?;
    let limit = i64::from(limit.get());
    let rows = client
        .rows(&SELECT_EXPIRED, &[&now.to_cell(), &limit])
        .await?;
    read_all(&rows, row::command)
}

pub(super) async fn commands(
    pool: &Pool,
    filter: &CommandFilter,
) -> Result<CommandPage, StoreError> {
    let mut client = pool.get().await?;
    let params: [&(dyn ToSql + Sync); 7] = [
        &filter.tenant_id.as_str(),
        &filter.choice.names(),
        &filter.execution_id.map(ExecutionId::get),
        &filter.pool.as_ref().map(PoolName::as_str),
        &filter.worker.as_ref().map(WorkerId::as_str),
        &filter.after.map(CommandId::get),
        &i64::from(filter.limit.get()),
    ];
    let rows = client.rows(&LIST_COMMANDS, &params).await?;
    Ok(CommandPage::of(
        read_all(&rows, row::command)?,
        filter.limit,
    ))
}

pub(super) async fn release_worker(
    pool: &Pool,
    (tenant_id, worker): (&TenantId, &WorkerId),
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = include_str!("sql/release_worker.sql");
    let mut client = pool.get().await?;
    let rows = client
        .rows(
            sql,
            &[&worker.as_str(), &now.to_cell(), &tenant_id.as_str()],
        )
        .await?;
    u64::try_from(rows.len()).map_err(StoreError::fatal)
}

pub(super) async fn pool_counts(pool: &Pool) -> Result<Vec<PoolCount>, StoreError> {
    let sql = include_str!("sql/pool_counts.sql");
    let mut client = pool.get().await?;
    let rows = client.rows(sql, &[&i64::from(MAX_POOLS)]).await?;
    read_all(&rows, row::pool_count)
}

pub(super) async fn lease(
    pool: &Pool,
    request: &LeaseRequest,
) -> Result<Vec<LeasedCommand>, StoreError> {
    let claim = &request.claim;
    let kinds: Option<Vec<&str>> = request
        .kinds
        .as_ref()
        .map(|kinds| kinds.iter().map(Text::as_str).collect());
    let mut client = pool.get().await?;
    let params: [&(dyn ToSql + Sync); 8] = [
        &request.pool.as_str(),
        &claim.now.to_cell(),
        &kinds,
        &i64::from(fair::window(request.max)),
        &i64::from(request.max.get()),
        &claim.worker.as_str(),
        &claim.token.to_cell(),
        &claim.lease_until.to_cell(),
    ];
    let rows = client.rows(&LEASE, &params).await?;
    let count = COMMAND.columns.len();
    rows.iter()
        .map(|row| {
            let event = row::stored_event(cells(row, count, STORED_EVENT.columns.len()))?;
            Ok(LeasedCommand {
                command: row::command(cells(row, 0, count))?,
                issued: event.record,
            })
        })
        .collect()
}

pub(super) async fn claim(
    pool: &Pool,
    command_id: CommandId,
    claim: &Claim,
) -> Result<Option<ClaimedCommand>, StoreError> {
    let params: [&(dyn ToSql + Sync); 5] = [
        &command_id.get(),
        &claim.now.to_cell(),
        &claim.worker.as_str(),
        &claim.token.to_cell(),
        &claim.lease_until.to_cell(),
    ];
    let mut client = pool.get().await?;
    let rows = client.rows(&CLAIM, &params).await?;
    drop(client);
    let granted = read_all(&rows, row::command)?.into_iter().next();
    let is_granted = granted.is_some();
    let found = match granted {
        Some(granted) => Some(granted),
        None => command(pool, command_id).await?,
    };
    let Some(command) = found else {
        return Ok(None);
    };
    let issued = query::event(pool, command.execution_id, command_id.into()).await?;
    Ok(issued.map(|issued| ClaimedCommand {
        leased: LeasedCommand {
            command,
            issued: issued.record,
        },
        is_granted,
    }))
}

pub(super) async fn extend(
    pool: &Pool,
    leases: &[Fence],
    until: Timestamp,
) -> Result<Vec<Extension>, StoreError> {
    let mut block = WISHES.block();
    for (place, fence) in (0_i64..).zip(leases) {
        block.push(&fence_row(place, fence));
    }
    let commands = ids(leases.iter());
    let until = until.to_cell();
    let params = params(&block, [&commands, &until]);
    let mut client = pool.get().await?;
    let rows = client.rows(&EXTEND, &params).await?;
    let mut extensions = vec![Extension::Lost; leases.len()];
    for row in &rows {
        if let Some(extension) = extensions.get_mut(place_of(row)?) {
            let cell = row.try_get(1).map_err(failure)?;
            *extension = Extension::Until(row::time(cell)?);
        }
    }
    Ok(extensions)
}

pub(super) async fn release(pool: &Pool, leases: &[Release]) -> Result<Vec<bool>, StoreError> {
    let mut block = RETURNS.block();
    for (place, release) in (0_i64..).zip(leases) {
        let not_before = release.not_before.to_cell();
        let fence = fence_row(place, &release.fence);
        block.push(fence.iter().chain([&not_before]));
    }
    let commands = ids(leases.iter().map(|release| &release.fence));
    let params = params(&block, [&commands]);
    let mut client = pool.get().await?;
    let rows = client.rows(&RELEASE, &params).await?;
    let mut released = vec![false; leases.len()];
    for row in &rows {
        if let Some(it) = released.get_mut(place_of(row)?) {
            *it = true;
        }
    }
    Ok(released)
}

fn ids<'f>(fences: impl Iterator<Item = &'f Fence>) -> Vec<i64> {
    fences.map(|fence| fence.command_id.get()).collect()
}

fn params<'p, const N: usize>(
    block: &'p Block,
    others: [&'p (dyn ToSql + Sync); N],
) -> Vec<&'p (dyn ToSql + Sync)> {
    block.params().chain(others).collect()
}

fn place_of(row: &tokio_postgres::Row) -> Result<usize, StoreError> {
    let place: i64 = row.try_get(0).map_err(failure)?;
    usize::try_from(place).map_err(StoreError::fatal)
}
