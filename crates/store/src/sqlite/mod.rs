//! The embedded store: one SQLite file.
//!
//! All writes go through one thread, which takes whatever waits and commits it together; reads go
//! through connections of their own and never wait for a writer. A commit of events is synced to
//! the disk before it is answered.

mod append;
mod bind;
mod commons;
mod credentials;
mod keychain;
mod open;
mod outbox;
mod outlets;
mod place;
mod query;
mod queue;
mod readers;
mod retention;
mod shared;
mod stream;
#[cfg(test)]
mod tests;
mod upkeep;
mod vault;
mod writer;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, FeedPosition, PlaybookPath, ResultId, StoredEvent, TenantId,
    Text, Timestamp, Version, WorkerId,
};

#[cfg(test)]
pub(crate) use self::open::MIGRATIONS;
use self::readers::Readers;
use self::writer::{Durability, Writer};
use crate::blobs::{self, Blobs};
use crate::error::StoreError;
use crate::migration::Schema;
use crate::model::{
    Append, AppendRefused, Appended, CatalogEntry, CatalogFilter, CatalogKey, Claim,
    ClaimedCommand, Command, CommandFilter, CommandPage, Counts, DueTimer, Execution,
    ExecutionFilter, ExecutionPage, Extension, FeedBatch, FeedLimit, Fence, Gists, LeaseRequest,
    LeasedCommand, Loaded, LogPage, MachineLease, MachineRefused, MachineRenewal, MachineRequest,
    NewCatalogEntry, NewRuntime, PoolCount, PutRefused, Registered, Release, ResultPut, Runtime,
    RuntimeKind, Snapshot, SnapshotKey, StatusCounts, StoredResult, VersionFilter,
};
use crate::row::rows_of;
use crate::seal::seal_all;
use crate::store::Store;

pub use self::writer::Commits;

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The file; made if it is not there.
    pub path: PathBuf,
    /// Connections that read.
    pub readers: usize,
    /// Calls that may wait for the writer; those beyond wait for a place.
    pub queue: usize,
    /// The folder for large results that come by themselves; without one they are in the file too.
    pub blobs: Option<PathBuf>,
}

impl SqliteOptions {
    /// The usual settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            readers: 4,
            queue: 1024,
            blobs: None,
        }
    }
}

/// A store in one file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    readers: Arc<Readers>,
    blobs: Option<Blobs>,
    /// The file.
    path: PathBuf,
    /// Locked as long as the store is open, so that no second process writes; absent where this one
    /// does not write either.
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens a file and brings its tables up to date. It blocks, and is done once.
    pub fn open(options: &SqliteOptions) -> Result<Self, StoreError> {
        open::open(options)
    }

    /// Opens a file that is there, to read it beside whoever writes it. Nothing is changed: every
    /// call that would write is refused, and so is a file whose tables are not up to date.
    pub fn open_to_read(options: &SqliteOptions) -> Result<Self, StoreError> {
        open::open_to_read(options)
    }

    /// How far the tables of a file that is there are. Nothing is changed.
    pub fn schema(options: &SqliteOptions) -> Result<Schema, StoreError> {
        open::schema(options)
    }

    /// How often the writer has committed.
    pub fn commits(&self) -> Commits {
        self.writer.commits()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(&self, appends: Vec<Append>) -> Vec<Result<Appended, AppendRefused>> {
        let items = rows_of(seal_all(appends));
        let count = items.len();
        let bytes = items.iter().flatten().map(|rows| rows.bytes).sum();
        let written = self
            .writer
            .run_large(bytes, move |connection, care| {
                append::append_all(connection, &items, care)
            })
            .await;
        written.unwrap_or_else(|error| vec![Err(error.into()); count])
    }

    async fn load(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPage,
    ) -> Result<Option<Loaded>, StoreError> {
        let key = snapshot.clone();
        self.readers
            .run(move |connection| query::load(connection, execution_id, &key, page))
            .await
    }

    async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.readers
            .run(move |connection| query::events(connection, execution_id, after, page))
            .await
    }

    async fn gists(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Gists, StoreError> {
        self.readers
            .run(move |connection| query::gists(connection, execution_id, after, page))
            .await
    }

    async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        self.readers
            .run(move |connection| query::event(connection, execution_id, event_id))
            .await
    }

    async fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError> {
        let key = key.clone();
        self.readers
            .run(move |connection| query::snapshot(connection, execution_id, &key, at_most))
            .await
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                query::write_snapshot(connection, &snapshot)
            })
            .await
    }

    async fn drop_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) -> Result<(), StoreError> {
        let key = key.clone();
        self.writer
            .run(Durability::Synced, move |connection| {
                query::drop_snapshot(connection, execution_id, &key, version)
            })
            .await
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutRefused> {
        let result = put.into_stored()?;
        let bytes = Arc::clone(&result.bytes);
        let (digest, now) = (result.sha256, result.created_at);
        let kept = blobs::keep(self.blobs.as_ref(), result).await?;
        let object_key = kept.object_key.clone();
        let size = bytes.len();
        self.writer
            .run_large(size, move |connection, _| {
                query::put_result(connection, &kept)
            })
            .await??;
        blobs::make_sure(self.blobs.as_ref(), object_key, (bytes, digest, now)).await?;
        Ok(())
    }

    async fn result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let kept = self
            .readers
            .run(move |connection| query::result(connection, execution_id, result_id))
            .await?;
        blobs::fetch(self.blobs.as_ref(), kept).await
    }

    async fn feed(&self, after: FeedPosition, limit: FeedLimit) -> Result<FeedBatch, StoreError> {
        self.readers
            .run(move |connection| query::feed(connection, after, limit))
            .await
    }

    async fn execution(&self, execution_id: ExecutionId) -> Result<Option<Execution>, StoreError> {
        self.readers
            .run(move |connection| query::execution(connection, execution_id))
            .await
    }

    async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        self.readers
            .run(move |connection| query::executions(connection, &filter))
            .await
    }

    async fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        self.readers
            .run(move |connection| query::open_children(connection, parent, after, limit))
            .await
    }

    async fn counts(&self, tenant_id: &TenantId) -> Result<Counts, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run(move |connection| query::counts(connection, &tenant_id))
            .await
    }

    async fn executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        self.readers.run(query::executions_by_status).await
    }

    async fn live_executions(&self, tenant_id: &TenantId, most: u32) -> Result<u32, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run(move |connection| query::live_executions(connection, &tenant_id, most))
            .await
    }

    async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        self.readers
            .run(move |connection| query::is_gone(connection, execution_id))
            .await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<LeasedCommand>, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                queue::lease(connection, &request)
            })
            .await
    }

    async fn claim(
        &self,
        command_id: CommandId,
        claim: Claim,
    ) -> Result<Option<ClaimedCommand>, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                queue::claim(connection, command_id, &claim)
            })
            .await
    }

    async fn extend(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<Extension>, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                queue::extend(connection, &leases, until)
            })
            .await
    }

    async fn release(&self, leases: Vec<Release>) -> Result<Vec<bool>, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                queue::release(connection, &leases)
            })
            .await
    }

    async fn expired(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Command>, StoreError> {
        self.readers
            .run(move |connection| queue::expired(connection, now, limit))
            .await
    }

    async fn command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        self.readers
            .run(move |connection| queue::command(connection, command_id))
            .await
    }

    async fn commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        self.readers
            .run(move |connection| queue::commands(connection, &filter))
            .await
    }

    async fn release_worker(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let (tenant_id, worker) = (tenant_id.clone(), worker.clone());
        self.writer
            .run(Durability::Forgettable, move |connection| {
                queue::release_worker(connection, (&tenant_id, &worker), now)
            })
            .await
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        self.readers.run(queue::pool_counts).await
    }

    async fn due(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        let after = after.cloned();
        self.readers
            .run(move |connection| query::due(connection, now, after.as_ref(), limit))
            .await
    }

    async fn register(&self, entry: NewCatalogEntry) -> Result<Registered, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                query::register(connection, entry.clone())
            })
            .await
    }

    async fn catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let tenant_id = tenant_id.clone();
        self.readers
            .run(move |connection| query::catalog_entry(connection, &tenant_id, &key))
            .await
    }

    async fn catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        self.readers
            .run(move |connection| query::catalog(connection, &filter))
            .await
    }

    async fn catalog_versions(
        &self,
        filter: VersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        self.readers
            .run(move |connection| query::catalog_versions(connection, &filter))
            .await
    }

    async fn archive(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let (tenant_id, path) = (tenant_id.clone(), path.clone());
        self.writer
            .run(Durability::Synced, move |connection| {
                query::archive(connection, &tenant_id, &path, since)
            })
            .await
    }

    async fn register_runtime(&self, runtime: NewRuntime) -> Result<Runtime, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                query::register_runtime(connection, runtime.clone())
            })
            .await
    }

    async fn heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let name = name.clone();
        self.writer
            .run(Durability::Forgettable, move |connection| {
                query::heartbeat(connection, kind, &name, now)
            })
            .await
    }

    async fn runtimes(&self, kind: RuntimeKind) -> Result<Vec<Runtime>, StoreError> {
        self.readers
            .run(move |connection| query::runtimes(connection, kind))
            .await
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        let name = name.clone();
        self.writer
            .run(Durability::Synced, move |connection| {
                query::remove_runtime(connection, kind, &name)
            })
            .await
    }

    async fn lease_machine(&self, request: MachineRequest) -> Result<MachineLease, MachineRefused> {
        self.writer
            .run(Durability::Synced, move |connection| {
                query::change_machines(connection, |machines| machines.lease(request.clone()))
            })
            .await?
    }

    async fn renew_machine(&self, renewal: MachineRenewal) -> Result<MachineLease, MachineRefused> {
        self.writer
            .run(Durability::Synced, move |connection| {
                query::change_machines(connection, |machines| machines.renew(&renewal))
            })
            .await?
    }
}
