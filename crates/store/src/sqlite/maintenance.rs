//! [`MaintenanceStore`](crate::maintenance::MaintenanceStore) in SQLite: retention, statistics,
//! checks, and backups.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Text, Timestamp};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::bind::{execute_cached, query_all, query_first, to_micros, to_store_error};
use super::open::MIGRATIONS;
use super::writer::Durability;
use super::{SqliteStore, retention, stream};
use crate::error::StoreError;
use crate::maintenance::MaintenanceStore;
use crate::migration;
use crate::model::{
    EnabledPublishers, ExecutionView, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
    StoreStats,
};
use crate::row::{self, EXECUTION, RowReader};

const COUNT_OLD_COMMANDS: &str = "SELECT '', count(*) FROM command WHERE completed_at < ?1";

const PURGE_COMMANDS: &str = "DELETE FROM command WHERE command_id IN (
        SELECT command_id FROM command WHERE completed_at < ?1
        ORDER BY completed_at, command_id LIMIT ?2
    )";

const COUNT_OLD_RUNTIMES: &str = "SELECT '', count(*) FROM runtime
    WHERE kind = 'worker_pool' AND heartbeat < ?1";

const PURGE_RUNTIMES: &str = "DELETE FROM runtime WHERE runtime_id IN (
        SELECT runtime_id FROM runtime WHERE kind = 'worker_pool' AND heartbeat < ?1
        ORDER BY name LIMIT ?2
    )";

const COUNT_ROWS: &str = "SELECT 'execution', count(*) FROM execution
    UNION ALL SELECT 'event', coalesce(sum(version), 0) FROM execution
    UNION ALL SELECT 'command', count(*) FROM command
    UNION ALL SELECT 'outbox', count(*) FROM outbox
    UNION ALL SELECT 'result_store', count(*) FROM result_store";

const LIST_TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table'";

/// Maximum time that a backup waits for a locked database file.
const BACKUP_BUSY_TIMEOUT: Duration = Duration::from_secs(30);

impl SqliteStore {
    async fn count_before(&self, sql: &'static str, before: Timestamp) -> Result<u64, StoreError> {
        self.readers
            .run_query(move |connection| {
                let found =
                    query_first(connection, sql, [to_micros(before)], row::decode_count::<Text>)?;
                Ok(found.map_or(0, |(_, count)| count))
            })
            .await
    }

    async fn purge_before(
        &self,
        sql: &'static str,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                let params = (to_micros(before), limit.get());
                let deleted = execute_cached(connection, sql, params).map_err(to_store_error)?;
                Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
            })
            .await
    }
}

fn read_store_stats(connection: &Connection) -> Result<StoreStats, StoreError> {
    let counts = query_all(connection, COUNT_ROWS, [], row::decode_count)?;
    let counts: BTreeMap<Text, u64> = counts.into_iter().collect();
    let count_of = |table: &str| counts.get(table).copied().unwrap_or_default();
    let tables = ["execution", "event", "command", "outbox", "result_store"];
    let query_number = |sql: &str| {
        let found = query_first(connection, sql, [], row::decode_count::<Text>)?;
        Ok::<_, StoreError>(found.map_or(0, |(_, number)| number))
    };
    let page_count = query_number("SELECT '', page_count FROM pragma_page_count")?;
    let page_size = query_number("SELECT '', page_size FROM pragma_page_size")?;
    let version = query_number("SELECT '', coalesce(max(version), 0) FROM schema_migration")?;
    Ok(StoreStats {
        backend: "sqlite",
        schema_version: i64::try_from(version).unwrap_or(i64::MAX),
        log_epoch: stream::log_epoch(connection)?,
        bytes: page_count.saturating_mul(page_size),
        rows: tables.into_iter().map(|table| (table, count_of(table))).collect(),
    })
}

fn check_tables(connection: &Connection) -> Result<BTreeMap<&'static str, bool>, StoreError> {
    // `table_exists` could answer from the connection's cached schema.
    let existing = query_all(connection, LIST_TABLES, [], |cells| {
        RowReader::new(&EXECUTION, cells).read_next::<Text>()
    })?;
    let tables = migration::created_tables(&MIGRATIONS);
    let exists = |name: &str| existing.iter().any(|table| table.as_str() == name);
    Ok(tables.map(|name| (name, exists(name))).collect())
}

fn check_integrity(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let problems = query_all(connection, "PRAGMA integrity_check", [], |cells| {
        RowReader::new(&EXECUTION, cells).read_next::<Text>()
    })?;
    let problems = problems.into_iter().map(|text| text.to_string());
    Ok(problems.filter(|text| text != "ok").collect())
}

/// Copies a consistent snapshot of the database file, also while another process writes to it. All
/// pages are copied in one step under one snapshot. A copy in several steps would restart after
/// every write, and never finish next to a busy server. Writers do not wait for the copy, since
/// readers do not block writers.
///
/// A server that opens the copy continues from a different history than the original file, so a new
/// log epoch starts in the copy.
fn copy_database_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        let text = format!("{} already exists", to.display());
        return Err(StoreError::fatal(text));
    }
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(to_store_error)?;
    let mut copy = Connection::open(to).map_err(to_store_error)?;
    source.busy_timeout(BACKUP_BUSY_TIMEOUT).map_err(to_store_error)?;
    let backup = Backup::new(&source, &mut copy).map_err(to_store_error)?;
    match backup.step(-1).map_err(to_store_error)? {
        StepResult::Done => {}
        _ => return Err(StoreError::retry("the database file is locked; try again")),
    }
    drop(backup);
    let transaction = copy.transaction().map_err(to_store_error)?;
    stream::start_log_epoch(&transaction)?;
    transaction.commit().map_err(to_store_error)
}

const REWRITE_VIEW: &str = "UPDATE execution
    SET ended = ?3, status = ?4, paused = ?5, last_node_name = ?6, ended_at = ?7, error = ?8
    WHERE execution_id = ?1 AND version = ?2";

#[async_trait]
impl MaintenanceStore for SqliteStore {
    async fn ensure_log_partitions(
        &self,
        _now: Timestamp,
        _months_ahead: u32,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn log_partitions_until(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Result<Vec<OldPartition>, StoreError> {
        let publishers = publishers.clone();
        self.readers
            .run_query(move |connection| {
                retention::list_old_partitions(connection, before, &publishers)
            })
            .await
    }

    /// Drops in steps of a few hundred executions, so that other calls do not wait long for the
    /// writer.
    async fn drop_partition(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
        now: Timestamp,
    ) -> Result<Option<PinReason>, StoreError> {
        let (checked_partition, checked_publishers) = (partition.clone(), publishers.clone());
        let check = self.readers.run_query(move |connection| {
            retention::check_partition(connection, &checked_partition, &checked_publishers)
        });
        let mut scan = match check.await? {
            Ok(scan) => scan,
            Err(pin_reason) => return Ok(Some(pin_reason)),
        };
        loop {
            let (partition, publishers) = (partition.clone(), publishers.clone());
            let step = self
                .writer
                .run_write(Durability::Synced, move |connection| {
                    retention::drop_first_executions(connection, &partition, &publishers, scan, now)
                })
                .await?;
            match step {
                retention::DropStep::More(next_scan) => scan = next_scan,
                retention::DropStep::Done => return Ok(None),
                retention::DropStep::Pinned(pin_reason) => return Ok(Some(pin_reason)),
            }
        }
    }

    async fn purge_dropped_executions(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                retention::purge_dropped_executions(connection, now, limit)
            })
            .await
    }

    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.count_before(COUNT_OLD_COMMANDS, before).await
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.purge_before(PURGE_COMMANDS, before, limit).await
    }

    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.count_before(COUNT_OLD_RUNTIMES, before).await
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.purge_before(PURGE_RUNTIMES, before, limit).await
    }

    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                let row = row::encode_view(execution_id, version, &view);
                let changed =
                    execute_cached(connection, REWRITE_VIEW, params_from_iter(row.iter()));
                Ok(changed.map_err(to_store_error)? > 0)
            })
            .await
    }

    async fn store_stats(&self) -> Result<StoreStats, StoreError> {
        self.readers.run_query(read_store_stats).await
    }

    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        self.readers.run_query(check_tables).await
    }

    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
        Ok(Vec::new())
    }

    async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        self.readers.run_query(check_integrity).await
    }

    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        self.readers
            .run_query(move |connection| {
                let sql = "SELECT execution_id FROM execution
                    WHERE ?1 IS NULL OR execution_id > ?1 ORDER BY execution_id LIMIT ?2";
                let params = (after.map(ExecutionId::get), limit.get());
                query_all(connection, sql, params, |cells| {
                    RowReader::new(&EXECUTION, cells).read_next()
                })
            })
            .await
    }

    async fn write_backup(&self, to: &Path) -> Result<(), StoreError> {
        let (from, to): (PathBuf, PathBuf) = (self.path.clone(), to.to_owned());
        let copy = tokio::task::spawn_blocking(move || copy_database_file(&from, &to));
        copy.await.map_err(StoreError::fatal)?
    }
}
