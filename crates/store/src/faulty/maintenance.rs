//! [`crate::MaintenanceStore`] with faults.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Timestamp};

use super::{FaultyStore, StoreMethod};
use crate::error::StoreError;
use crate::maintenance::MaintenanceStore;
use crate::model::{
    EnabledPublishers, ExecutionView, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
    StoreStats,
};
use crate::store::Store;

#[async_trait]
impl<S: Store> MaintenanceStore for FaultyStore<S> {
    async fn ensure_log_partitions(
        &self,
        now: Timestamp,
        months_ahead: u32,
    ) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::EnsureLogPartitions).await?;
        mode.apply_to(self.inner.ensure_log_partitions(now, months_ahead).await)
    }

    async fn log_partitions_until(&self) -> Result<Option<Timestamp>, StoreError> {
        let mode = self.inject_fault(StoreMethod::LogPartitionsUntil).await?;
        mode.apply_to(self.inner.log_partitions_until().await)
    }

    async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError> {
        let mode = self.inject_fault(StoreMethod::DatabaseClock).await?;
        mode.apply_to(self.inner.database_clock().await)
    }

    async fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Result<Vec<OldPartition>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListOldPartitions).await?;
        mode.apply_to(self.inner.list_old_partitions(before, publishers).await)
    }

    async fn drop_partition(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
        now: Timestamp,
    ) -> Result<Option<PinReason>, StoreError> {
        let mode = self.inject_fault(StoreMethod::DropPartition).await?;
        mode.apply_to(self.inner.drop_partition(partition, publishers, now).await)
    }

    async fn purge_dropped_executions(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::PurgeDroppedExecutions).await?;
        mode.apply_to(self.inner.purge_dropped_executions(now, limit).await)
    }

    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountOldCommands).await?;
        mode.apply_to(self.inner.count_old_commands(before).await)
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::PurgeCommands).await?;
        mode.apply_to(self.inner.purge_commands(before, limit).await)
    }

    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::CountOldRuntimes).await?;
        mode.apply_to(self.inner.count_old_runtimes(before).await)
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mode = self.inject_fault(StoreMethod::PurgeRuntimes).await?;
        mode.apply_to(self.inner.purge_runtimes(before, limit).await)
    }

    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        let mode = self.inject_fault(StoreMethod::RewriteExecutionView).await?;
        mode.apply_to(self.inner.rewrite_execution_view(execution_id, version, view).await)
    }

    async fn store_stats(&self) -> Result<StoreStats, StoreError> {
        let mode = self.inject_fault(StoreMethod::StoreStats).await?;
        mode.apply_to(self.inner.store_stats().await)
    }

    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        let mode = self.inject_fault(StoreMethod::CheckTables).await?;
        mode.apply_to(self.inner.check_tables().await)
    }

    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListFailedPrivilegeChecks).await?;
        mode.apply_to(self.inner.list_failed_privilege_checks().await)
    }

    async fn check_integrity(&self) -> Result<Vec<String>, StoreError> {
        let mode = self.inject_fault(StoreMethod::CheckIntegrity).await?;
        mode.apply_to(self.inner.check_integrity().await)
    }

    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let mode = self.inject_fault(StoreMethod::ListExecutionIds).await?;
        mode.apply_to(self.inner.list_execution_ids(after, limit).await)
    }

    async fn write_backup(&self, to: &Path) -> Result<(), StoreError> {
        let mode = self.inject_fault(StoreMethod::WriteBackup).await?;
        mode.apply_to(self.inner.write_backup(to).await)
    }
}
