//! Months ahead, what is old, how the database stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Text, Timestamp, Version};

use super::open::MIGRATIONS;
use super::pool::Pool;
use super::query::{self, Param};
use super::{PostgresStore, partition, retention, rights, stream};
use crate::error::StoreError;
use crate::migration;
use crate::model::{
    EnabledOutlets, ExecutionView, LogPart, MissingWall, OldPart, Pinned, StoreFacts,
};
use crate::row::{self, ToCell as _};
use crate::upkeep::Upkeep;

const OLD_COMMANDS: &str = "SELECT count(*) FROM command WHERE completed_at < $1::timestamptz";

const PURGE_COMMANDS: &str = "DELETE FROM command WHERE command_id IN (
        SELECT command_id FROM command WHERE completed_at < $1::timestamptz
        ORDER BY completed_at, command_id LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1";

const OLD_RUNTIMES: &str = "SELECT count(*) FROM runtime
    WHERE kind = 'worker_pool' AND heartbeat < $1::timestamptz";

const PURGE_RUNTIMES: &str = "DELETE FROM runtime WHERE runtime_id IN (
        SELECT runtime_id FROM runtime
        WHERE kind = 'worker_pool' AND heartbeat < $1::timestamptz
        ORDER BY name LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1";

/// The number of events is what the executions say: counting them all would read the whole log.
const ROWS: &str = "SELECT 'execution', count(*) FROM execution
    UNION ALL SELECT 'event', coalesce(sum(version), 0)::bigint FROM execution
    UNION ALL SELECT 'command', count(*) FROM command
    UNION ALL SELECT 'outbox', count(*) FROM outbox
    UNION ALL SELECT 'result_store', count(*) FROM result_store";

const SIZE: &str = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')";

const TABLES: &str = "SELECT relname::text FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND NOT relispartition";

const IDS: &str = "SELECT execution_id FROM execution
    WHERE $1::bigint IS NULL OR execution_id > $1 ORDER BY execution_id LIMIT $2::bigint";

async fn number(pool: &Pool, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let rows = client.rows(sql, params).await?;
    let number: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u64::try_from(number).unwrap_or_default())
}

async fn purge(
    pool: &Pool,
    sql: &'static str,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.get().await?;
    let params: [Param<'_>; 2] = [&before.to_cell(), &i64::from(limit.get())];
    let gone = client.rows(sql, &params).await?;
    Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
}

const REWRITE_VIEW: &str = "UPDATE execution
    SET ended = $3::boolean, status = $4::text, paused = $5::boolean, last_node_name = $6::text,
        ended_at = $7::timestamptz, error = $8::text
    WHERE execution_id = $1::bigint AND version = $2::bigint RETURNING 1";

#[async_trait]
impl Upkeep for PostgresStore {
    async fn keep_months(&self, now: Timestamp, ahead: u32) -> Result<(), StoreError> {
        // It is looked often and made seldom, and only that takes the owner.
        let mut pooled = self.lists.get().await?;
        let has_ahead = partition::has_ahead(pooled.client()?, (now, ahead)).await?;
        pooled.done();
        drop(pooled);
        if has_ahead {
            return Ok(());
        }
        let mut pooled = self.owner.get().await?;
        partition::ensure_ahead(pooled.client()?, &self.owner, (now, ahead)).await?;
        pooled.done();
        Ok(())
    }

    async fn months_until(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut pooled = self.lists.get().await?;
        let parts = partition::parts(pooled.client()?).await?;
        pooled.done();
        // Of parts without a gap after each other the end of the last one.
        let last = parts.iter().map(|part| part.hi).max().unwrap_or_default();
        let last = ExecutionId::new(last).map_err(StoreError::fatal)?;
        Ok(Some(last.time()))
    }

    async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut client = self.lists.get().await?;
        let rows = client.rows("SELECT clock_timestamp()", &[]).await?;
        let clock = rows.first().map(|row| row.get::<_, row::CellRef<'_>>(0));
        clock.map(row::time).transpose()
    }

    async fn old_parts(
        &self,
        before: Timestamp,
        outlets: &EnabledOutlets,
    ) -> Result<Vec<OldPart>, StoreError> {
        retention::old_parts(&self.lists, before, outlets).await
    }

    async fn drop_part(
        &self,
        part: &LogPart,
        outlets: &EnabledOutlets,
        now: Timestamp,
    ) -> Result<Option<Pinned>, StoreError> {
        retention::drop_part(&self.owner, part, outlets, now).await
    }

    async fn clean_dropped(&self, now: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        retention::clean(&self.lists, now, limit).await
    }

    async fn old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        number(&self.lists, OLD_COMMANDS, &[&before.to_cell()]).await
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        purge(&self.lists, PURGE_COMMANDS, before, limit).await
    }

    async fn old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        number(&self.lists, OLD_RUNTIMES, &[&before.to_cell()]).await
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        purge(&self.lists, PURGE_RUNTIMES, before, limit).await
    }

    async fn rewrite_view(
        &self,
        execution_id: ExecutionId,
        version: Version,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let row = row::view_row(execution_id, version, &view);
        let mut client = self.lists.get().await?;
        let changed = client.rows(REWRITE_VIEW, &query::params(&row)).await?;
        Ok(!changed.is_empty())
    }

    async fn facts(&self) -> Result<StoreFacts, StoreError> {
        let log_epoch = stream::log_epoch(&self.lists).await?;
        let version = "SELECT coalesce(max(version), 0) FROM schema_migration";
        let schema_version = number(&self.lists, version, &[]).await?;
        let bytes = number(&self.lists, SIZE, &[]).await?;
        let mut client = self.lists.get().await?;
        let counts = client.rows(ROWS, &[]).await?;
        let counts: BTreeMap<Text, u64> = super::bind::read_all(&counts, row::count_of)?
            .into_iter()
            .collect();
        let of = |table: &str| counts.get(table).copied().unwrap_or_default();
        let tables = ["execution", "event", "command", "outbox", "result_store"];
        Ok(StoreFacts {
            backend: "postgres",
            schema_version: i64::try_from(schema_version).unwrap_or(i64::MAX),
            log_epoch,
            bytes,
            rows: tables.into_iter().map(|table| (table, of(table))).collect(),
        })
    }

    async fn tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        let mut client = self.lists.get().await?;
        let rows = client.rows(TABLES, &[]).await?;
        let there: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
        let tables = migration::tables(&MIGRATIONS);
        Ok(tables.map(|name| (name, there.contains(name))).collect())
    }

    async fn missing_walls(&self) -> Result<Vec<MissingWall>, StoreError> {
        rights::missing_walls(&self.lists).await
    }

    /// The server looks for damage itself, by the checksums of its pages.
    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let mut client = self.lists.get().await?;
        let params: [Param<'_>; 2] = [&after.map(ExecutionId::get), &i64::from(limit.get())];
        let rows = client.rows(IDS, &params).await?;
        let id = |row: &tokio_postgres::Row| ExecutionId::new(row.get(0));
        let ids: Result<Vec<_>, _> = rows.iter().map(id).collect();
        ids.map_err(StoreError::fatal)
    }

    async fn backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::fatal(
            "a database of a PostgreSQL server is copied by pg_dump or a base backup",
        ))
    }
}
