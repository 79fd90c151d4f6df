//! [`MaintenanceStore`] in PostgreSQL: partitions, retention, and checks.

use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Timestamp};

use super::bind::decode_first;
use super::{PostgresStore, partition, privileges, retention};
use crate::error::StoreError;
use crate::maintenance::MaintenanceStore;
use crate::model::{
    EnabledPublishers, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
};

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
        let mut client = self.pool.acquire().await?;
        let rows = client.query_rows("SELECT clock_timestamp()", &[]).await?;
        Ok(decode_first(&rows)?.map(|(clock,)| clock))
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

    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
        privileges::list_failed_privilege_checks(&self.list_pool).await
    }

    /// Returns nothing. PostgreSQL detects corruption itself by page checksums.
    async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn write_backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::fatal(
            "backups of a PostgreSQL database are not supported; use pg_dump or a base backup",
        ))
    }
}
