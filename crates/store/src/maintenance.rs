//! Maintenance of a store: partitions, retention, and health.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Timestamp};

use crate::error::StoreError;
use crate::model::{
    EnabledPublishers, ExecutionView, FailedPrivilegeCheck, LogPartition, OldPartition, PinReason,
    StoreStats,
};

/// The part of a [`crate::Store`] that operators and scheduled jobs use.
#[async_trait]
pub trait MaintenanceStore {
    /// Ensures that log partitions exist for the current month and `months_ahead` months after it.
    async fn ensure_log_partitions(
        &self,
        now: Timestamp,
        months_ahead: u32,
    ) -> Result<(), StoreError>;

    /// Returns the end of the last log partition, or `None` if the log needs no partitions.
    async fn log_partitions_until(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Returns the clock of the database server, or `None` if the store uses the server's clock.
    async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Returns the partitions whose executions were all started before a time, oldest first, each
    /// with the reason that pins it.
    async fn list_old_partitions(
        &self,
        before: Timestamp,
        publishers: &EnabledPublishers,
    ) -> Result<Vec<OldPartition>, StoreError>;

    /// Drops a partition if nothing pins it. Otherwise returns the reason. From then on its
    /// executions are gone, and appends to them fail.
    ///
    /// Appends to other partitions are blocked for at most half a second.
    async fn drop_partition(
        &self,
        partition: &LogPartition,
        publishers: &EnabledPublishers,
        now: Timestamp,
    ) -> Result<Option<PinReason>, StoreError>;

    /// Deletes the remaining rows of dropped executions from all tables. Returns the number of
    /// rows, at most `limit` per table. Zero means that nothing remains.
    async fn purge_dropped_executions(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;

    /// Counts the commands that ended before a time.
    async fn count_old_commands(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes commands that ended before a time, the longest ended first. Returns the number
    /// deleted, at most `limit`.
    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// Counts the worker pools whose last heartbeat was before a time.
    async fn count_old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Deletes worker pools whose last heartbeat was before a time, at most `limit`.
    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// Overwrites the view of an execution with the one derived from its log up to a version.
    /// Returns `false` if the log has grown since, or if there is no such execution.
    async fn rewrite_execution_view(
        &self,
        execution_id: ExecutionId,
        version: ExecutionVersion,
        view: ExecutionView,
    ) -> Result<bool, StoreError>;

    /// Returns the size, the schema version and the row counts of the store.
    async fn store_stats(&self) -> Result<StoreStats, StoreError>;

    /// Returns the required tables and if each exists. Empty if the backend has no tables.
    async fn check_tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError>;

    /// Returns the privilege checks that fail. Empty if the database has no roles.
    async fn list_failed_privilege_checks(&self) -> Result<Vec<FailedPrivilegeCheck>, StoreError>;

    /// Runs the integrity check of the database and returns what it found.
    async fn check_integrity(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the execution ids of all tenants in order, after one.
    async fn list_execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError>;

    /// Copies the store to a new file while it is in use.
    async fn write_backup(&self, to: &Path) -> Result<(), StoreError>;
}
