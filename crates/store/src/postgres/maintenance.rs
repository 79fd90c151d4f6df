//! [`MaintenanceStore`](crate::maintenance::MaintenanceStore) in PostgreSQL: partitions, retention,
//! statistics, and checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Text, Timestamp};

use super::open::MIGRATIONS;
use super::pool::ConnectionPool;
use super::query::{self, Param};
use super::{PostgresStore, partition, privileges, retention, stream};
use crate::error::StoreError;
use crate::maintenance::MaintenanceStore;
use crate::migration;
use crate::model::{
    EnabledPublishers, ExecutionView, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
    StoreStats,
};
use crate::row::{self, ToCell as _};

const COUNT_OLD_COMMANDS: &str =
    "SELECT count(*) FROM command WHERE completed_at < $1::timestamptz";

const PURGE_COMMANDS: &str = "DELETE FROM command WHERE command_id IN (
        SELECT command_id FROM command WHERE completed_at < $1::timestamptz
        ORDER BY completed_at, command_id LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1";

const COUNT_OLD_RUNTIMES: &str = "SELECT count(*) FROM runtime
    WHERE kind = 'worker_pool' AND heartbeat < $1::timestamptz";

const PURGE_RUNTIMES: &str = "DELETE FROM runtime WHERE runtime_id IN (
        SELECT runtime_id FROM runtime
        WHERE kind = 'worker_pool' AND heartbeat < $1::timestamptz
        ORDER BY name LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1";

/// Counts rows per table. The number of events is the sum of the versions of all executions, since
/// counting events would read the whole log.
const COUNT_ROWS: &str = "SELECT 'execution', count(*) FROM execution
    UNION ALL SELECT 'event', coalesce(sum(version), 0)::bigint FROM execution
    UNION ALL SELECT 'command', count(*) FROM command
    UNION ALL SELECT 'outbox', count(*) FROM outbox
    UNION ALL SELECT 'result_store', count(*) FROM result_store";

const DATABASE_SIZE: &str = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')";

const LIST_TABLES: &str = "SELECT relname::text FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND NOT relispartition";

const LIST_EXECUTION_IDS: &str = "SELECT execution_id FROM execution
    WHERE $1::bigint IS NULL OR execution_id > $1 ORDER BY execution_id LIMIT $2::bigint";

async fn query_count(
    pool: &ConnectionPool,
    sql: &'static str,
    params: &[Param<'_>],
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let rows = client.query_rows(sql, params).await?;
    let count: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u64::try_from(count).unwrap_or_default())
}

async fn purge_before(
    pool: &ConnectionPool,
    sql: &'static str,
    before: Timestamp,
    limit: PageLimit,
) -> Result<u64, StoreError> {
    let mut client = pool.acquire().await?;
    let params: [Param<'_>; 2] = [&before.to_cell(), &i64::from(limit.get())];
    let deleted = client.query_rows(sql, &params).await?;
    Ok(u64::try_from(deleted.len()).unwrap_or(u64::MAX))
}

const REWRITE_VIEW: &str = "UPDATE execution
    SET ended = $3::boolean, status = $4::text, paused = $5::boolean, last_node_name = $6::text,
        ended_at = $7::timestamptz, error = $8::text
    WHERE execution_id = $1::bigint AND version = $2::bigint RETURNING 1";

#[async_trait]
impl MaintenanceStore for PostgresStore {
    async fn ensure_log_partitions(
        &self,
        now: Timestamp,
        months_ahead: u32,
    ) -> Result<(), StoreError> {
        // The check is frequent and creation is rare. Only creation needs the owner's connection.
        let mut pooled = self.list_pool.acquire().await?;
        let exist = partition::has_partitions_ahead(pooled.client()?, now, months_ahead).await?;
        pooled.mark_idle();
        drop(pooled);
        if exist {
            return Ok(());
        }
        let mut pooled = self.owner.acquire().await?;
        partition::ensure_partitions_ahead(pooled.client()?, &self.owner, now, months_ahead)
            .await?;
        pooled.mark_idle();
        Ok(())
    }

    async fn log_partitions_until(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut pooled = self.list_pool.acquire().await?;
        let partitions = partition::list_partitions(pooled.client()?).await?;
        pooled.mark_idle();
        // End of the last partition. Partitions follow each other without gaps.
        let end_id = partitions.iter().map(|partition| partition.end_id).max().unwrap_or_default();
        let end_id = ExecutionId::new(end_id).map_err(StoreError::fatal)?;
        Ok(Some(end_id.time()))
    }

    async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut client = self.list_pool.acquire().await?;
        let rows = client.query_rows("SELECT clock_timestamp()", &[]).await?;
        let clock = rows.first().map(|row| row.get::<_, row::CellRef<'_>>(0));
        clock.map(row::decode_timestamp).transpose()
    }

    async fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Result<Vec<OldPartition>, StoreError> {
        retention::list_old_partitions(&self.list_pool, before, publishers).await
    }

    async fn drop_partition(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
        now: Timestamp,
    ) -> Result<Option<PinReason>, StoreError> {
        retention::drop_partition(&self.owner, partition, publishers, now).await
    }

    async fn purge_dropped_executions(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        retention::purge_dropped_executions(&self.list_pool, now, limit).await
    }

    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        query_count(&self.list_pool, COUNT_OLD_COMMANDS, &[&before.to_cell()]).await
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        purge_before(&self.list_pool, PURGE_COMMANDS, before, limit).await
    }

    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        query_count(&self.list_pool, COUNT_OLD_RUNTIMES, &[&before.to_cell()]).await
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        purge_before(&self.list_pool, PURGE_RUNTIMES, before, limit).await
    }

    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let row = row::encode_view(execution_id, version, &view);
        let mut client = self.list_pool.acquire().await?;
        let changed = client.query_rows(REWRITE_VIEW, &query::to_params(&row)).await?;
        Ok(!changed.is_empty())
    }

    async fn store_stats(&self) -> Result<StoreStats, StoreError> {
        let log_epoch = stream::log_epoch(&self.list_pool).await?;
        let version = "SELECT coalesce(max(version), 0) FROM schema_migration";
        let schema_version = query_count(&self.list_pool, version, &[]).await?;
        let bytes = query_count(&self.list_pool, DATABASE_SIZE, &[]).await?;
        let mut client = self.list_pool.acquire().await?;
        let counts = client.query_rows(COUNT_ROWS, &[]).await?;
        let counts: BTreeMap<Text, u64> =
            super::bind::decode_rows(&counts, row::decode_count)?.into_iter().collect();
        let count_of = |table: &str| counts.get(table).copied().unwrap_or_default();
        let tables = ["execution", "event", "command", "outbox", "result_store"];
        Ok(StoreStats {
            backend: "postgres",
            schema_version: i64::try_from(schema_version).unwrap_or(i64::MAX),
            log_epoch,
            bytes,
            rows: tables.into_iter().map(|table| (table, count_of(table))).collect(),
        })
    }

    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        let mut client = self.list_pool.acquire().await?;
        let rows = client.query_rows(LIST_TABLES, &[]).await?;
        let existing: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
        let tables = migration::created_tables(&MIGRATIONS);
        Ok(tables.map(|name| (name, existing.contains(name))).collect())
    }

    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
        privileges::list_failed_privilege_checks(&self.list_pool).await
    }

    /// Returns nothing. PostgreSQL detects corruption itself by page checksums.
    async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let mut client = self.list_pool.acquire().await?;
        let params: [Param<'_>; 2] = [&after.map(ExecutionId::get), &i64::from(limit.get())];
        let rows = client.query_rows(LIST_EXECUTION_IDS, &params).await?;
        let id = |row: &tokio_postgres::Row| ExecutionId::new(row.get(0));
        let ids: Result<Vec<_>, _> = rows.iter().map(id).collect();
        ids.map_err(StoreError::fatal)
    }

    async fn write_backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::fatal(
            "backups of a PostgreSQL database are not supported; use pg_dump or a base backup",
        ))
    }
}
