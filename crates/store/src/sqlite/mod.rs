//! Embedded store backed by one SQLite file.
//!
//! One thread performs all writes and commits queued calls together. Reads use separate connections
//! and never wait for the writer. A commit of events is synced to disk before its calls are
//! answered.

mod append;
mod bind;
mod coordination;
mod coordination_queries;
mod credentials;
mod file_lock;
mod identities;
mod keychain;
mod maintenance;
mod open;
mod outbox;
mod publishing;
mod query;
mod queue;
mod reader_pool;
mod retention;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, ExecutionVersion, FeedPosition, PlaybookPath, ResultId,
    StoredEvent, TenantId, Text, Timestamp, WorkerId,
};

#[cfg(test)]
pub(crate) use self::open::MIGRATIONS;
use self::reader_pool::ReaderPool;
use self::writer::{Durability, SqliteWriter};
use crate::blobs::{self, BlobFolder};
use crate::error::StoreError;
use crate::migration::SchemaStatus;
use crate::model::{
    AppendError, AppendReceipt, AppendRequest, CatalogEntry, CatalogFilter, CatalogKey,
    CatalogVersionFilter, Command, CommandFilter, CommandPage, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, FeedBatch, FeedLimit, Fence, LeaseExtension, LeaseOutcome,
    LeaseRelease, LeaseRequest, LeaseTerms, LeasedCommand, LoadedLog, LogPageLimit,
    MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal, NewCatalogEntry, PoolCount,
    PutResultError, RegisterOutcome, RegisteredRuntime, ReplayPage, ResultPut, RuntimeKind,
    RuntimeRegistration, Snapshot, SnapshotKey, StatusCounts, StoredResult, TenantCounts,
};
use crate::prepare_append::prepare_appends;
use crate::row::to_append_rows;
use crate::store::Store;

pub use self::writer::CommitCounts;

/// Settings for opening a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Path of the database file. The file is created if it does not exist.
    pub path: PathBuf,
    /// Number of read connections.
    pub reader_count: usize,
    /// Capacity of the writer's queue. Further calls wait for free capacity.
    pub queue_capacity: usize,
    /// Folder for large results that are stored separately. `None` stores them in the database
    /// file.
    pub blob_folder: Option<PathBuf>,
}

impl SqliteOptions {
    /// Returns the default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), reader_count: 4, queue_capacity: 1024, blob_folder: None }
    }
}

/// Store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: SqliteWriter,
    readers: Arc<ReaderPool>,
    blobs: Option<BlobFolder>,
    path: PathBuf,
    /// Lock file, locked while the store is open so that no second process writes. `None` if this
    /// store is read-only.
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens a file and applies pending migrations. This call blocks.
    pub fn open(options: &SqliteOptions) -> Result<Self, StoreError> {
        open::open_store(options)
    }

    /// Opens an existing file read-only, also while another process writes to it. Calls that would
    /// write fail, and so does opening a file with pending migrations.
    pub fn open_read_only(options: &SqliteOptions) -> Result<Self, StoreError> {
        open::open_read_only(options)
    }

    /// Returns the schema version of an existing file without changing it.
    pub fn schema_status(options: &SqliteOptions) -> Result<SchemaStatus, StoreError> {
        open::read_schema_status(options)
    }

    /// Returns the number of commits so far.
    pub fn commit_counts(&self) -> CommitCounts {
        self.writer.commit_counts()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        let items = to_append_rows(prepare_appends(appends));
        let count = items.len();
        let bytes = items.iter().flatten().map(|rows| rows.bytes).sum();
        let results = self
            .writer
            .run_large_write(bytes, move |connection, isolation| {
                append::append_items(connection, &items, isolation)
            })
            .await;
        results.unwrap_or_else(|error| vec![Err(error.into()); count])
    }

    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError> {
        let key = snapshot.clone();
        self.readers
            .run_query(move |connection| {
                query::load_execution(connection, execution_id, &key, page)
            })
            .await
    }

    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.readers
            .run_query(move |connection| query::read_events(connection, execution_id, after, page))
            .await
    }

    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError> {
        self.readers
            .run_query(move |connection| {
                query::read_replay_rows(connection, execution_id, after, page)
            })
            .await
    }

    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        self.readers
            .run_query(move |connection| query::find_event(connection, execution_id, event_id))
            .await
    }

    async fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Result<Option<Snapshot>, StoreError> {
        let key = key.clone();
        self.readers
            .run_query(move |connection| {
                query::find_snapshot(connection, execution_id, &key, max_version)
            })
            .await
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::write_snapshot(connection, &snapshot)
            })
            .await
    }

    async fn delete_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) -> Result<(), StoreError> {
        let key = key.clone();
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::delete_snapshot(connection, execution_id, &key, version)
            })
            .await
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutResultError> {
        let result = put.into_stored()?;
        let bytes = Arc::clone(&result.bytes);
        let (digest, now) = (result.sha256, result.created_at);
        let row = blobs::store_large_result(self.blobs.as_ref(), result).await?;
        let object_key = row.object_key.clone();
        let size = bytes.len();
        self.writer
            .run_large_write(size, move |connection, _| query::put_result(connection, &row))
            .await??;
        blobs::rewrite_missing_blob(self.blobs.as_ref(), object_key, bytes, digest, now).await?;
        Ok(())
    }

    async fn find_result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let row = self
            .readers
            .run_query(move |connection| query::find_result(connection, execution_id, result_id))
            .await?;
        blobs::load_result_bytes(self.blobs.as_ref(), row).await
    }

    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError> {
        self.readers.run_query(move |connection| query::read_feed(connection, after, limit)).await
    }

    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError> {
        self.readers
            .run_query(move |connection| query::find_execution(connection, execution_id))
            .await
    }

    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        self.readers.run_query(move |connection| query::list_executions(connection, &filter)).await
    }

    async fn list_open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        self.readers
            .run_query(move |connection| {
                query::list_open_children(connection, parent, after, limit)
            })
            .await
    }

    async fn tenant_counts(&self, tenant_id: &TenantId) -> Result<TenantCounts, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers.run_query(move |connection| query::tenant_counts(connection, &tenant_id)).await
    }

    async fn count_executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        self.readers.run_query(query::count_executions_by_status).await
    }

    async fn count_live_executions(
        &self,
        tenant_id: &TenantId,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run_query(move |connection| {
                query::count_live_executions(connection, &tenant_id, max_count)
            })
            .await
    }

    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        self.readers.run_query(move |connection| query::is_dropped(connection, execution_id)).await
    }

    async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<Vec<LeasedCommand>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                queue::lease_commands(connection, &request)
            })
            .await
    }

    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                queue::try_lease_command(connection, command_id, &terms)
            })
            .await
    }

    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                queue::extend_leases(connection, &leases, until)
            })
            .await
    }

    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError> {
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                queue::release_leases(connection, &leases)
            })
            .await
    }

    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError> {
        self.readers
            .run_query(move |connection| queue::list_expired_leases(connection, now, limit))
            .await
    }

    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        self.readers.run_query(move |connection| queue::find_command(connection, command_id)).await
    }

    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        self.readers.run_query(move |connection| queue::list_commands(connection, &filter)).await
    }

    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let (tenant_id, worker) = (tenant_id.clone(), worker.clone());
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                queue::expire_worker_leases(connection, &tenant_id, &worker, now)
            })
            .await
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        self.readers.run_query(queue::pool_counts).await
    }

    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        let after = after.cloned();
        self.readers
            .run_query(move |connection| {
                query::list_due_timers(connection, now, after.as_ref(), limit)
            })
            .await
    }

    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::register_definition(connection, entry.clone())
            })
            .await
    }

    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run_query(move |connection| query::find_catalog_entry(connection, &tenant_id, &key))
            .await
    }

    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        self.readers.run_query(move |connection| query::list_catalog(connection, &filter)).await
    }

    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        self.readers
            .run_query(move |connection| query::list_catalog_versions(connection, &filter))
            .await
    }

    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let (tenant_id, path) = (tenant_id.clone(), path.clone());
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::set_definition_archived(connection, &tenant_id, &path, since)
            })
            .await
    }

    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::register_runtime(connection, runtime.clone())
            })
            .await
    }

    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let name = name.clone();
        self.writer
            .run_write(Durability::Unsynced, move |connection| {
                query::record_heartbeat(connection, kind, &name, now)
            })
            .await
    }

    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError> {
        self.readers.run_query(move |connection| query::list_runtimes(connection, kind)).await
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        let name = name.clone();
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::remove_runtime(connection, kind, &name)
            })
            .await
    }

    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::update_machine_table(connection, |machines| {
                    machines.grant_machine_id(request.clone())
                })
            })
            .await?
    }

    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError> {
        self.writer
            .run_write(Durability::Synced, move |connection| {
                query::update_machine_table(connection, |machines| {
                    machines.renew_machine_id(&renewal)
                })
            })
            .await?
    }
}
