//! [`MaintenanceStore`] in SQLite: retention, checks, and backups.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Text, Timestamp};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::bind::{execute_cached, query_all, to_store_error};
use super::open::create_private_file;
use super::{SqliteStore, retention};
use crate::error::StoreError;
use crate::maintenance::MaintenanceStore;
use crate::model::{
    EnabledPublishers, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
};
use crate::sql::Durability;
use crate::streams::START_LOG_EPOCH;

/// Maximum time that a backup waits for a locked database file.
const BACKUP_BUSY_TIMEOUT: Duration = Duration::from_secs(30);

fn check_integrity(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let problems = query_all::<(Text,)>(connection, "PRAGMA integrity_check", [])?;
    let problems = problems.into_iter().map(|(text,)| text.to_string());
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
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(to_store_error)?;
    if !create_private_file(to).map_err(StoreError::fatal)? {
        let text = format!("{} already exists", to.display());
        return Err(StoreError::fatal(text));
    }
    let mut copy = Connection::open(to).map_err(to_store_error)?;
    source.busy_timeout(BACKUP_BUSY_TIMEOUT).map_err(to_store_error)?;
    let backup = Backup::new(&source, &mut copy).map_err(to_store_error)?;
    match backup.step(-1).map_err(to_store_error)? {
        StepResult::Done => {}
        _ => return Err(StoreError::retry("the database file is locked; try again")),
    }
    drop(backup);
    let transaction = copy.transaction().map_err(to_store_error)?;
    for statement in START_LOG_EPOCH {
        execute_cached(&transaction, statement.sqlite(), []).map_err(to_store_error)?;
    }
    transaction.commit().map_err(to_store_error)
}

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

    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
        Ok(Vec::new())
    }

    async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        self.readers.run_query(check_integrity).await
    }

    async fn write_backup(&self, to: &Path) -> Result<(), StoreError> {
        let Some(from) = self.path.clone() else {
            return Err(StoreError::fatal("an in-memory store cannot be backed up"));
        };
        let to = to.to_owned();
        let copy = tokio::task::spawn_blocking(move || copy_database_file(&from, &to));
        copy.await.map_err(StoreError::fatal)?
    }
}
