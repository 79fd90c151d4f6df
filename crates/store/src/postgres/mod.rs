//! The clustered store: one PostgreSQL database, any number of processes.
//!
//! Appends of a process are gathered by a few writers, each of which sends what waits as one
//! statement; everything else takes a connection of a small pool. No statement waits for a lock
//! that an append holds, but for commands, which all statements lock in the order of their ids.

mod append;
mod bind;
mod block;
mod cluster;
mod commons;
mod credentials;
mod function;
mod gist;
mod keychain;
mod known;
mod line;
mod open;
mod outbox;
mod outlets;
mod owner;
mod partition;
mod pool;
mod query;
mod queue;
mod rebase;
mod record;
mod retention;
mod rights;
mod shared;
mod sharing;
mod stream;
#[cfg(test)]
mod tests;
mod upkeep;
mod vault;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use noetl_tls::Trust;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, FeedPosition, PlaybookPath, ResultId, StoredEvent, TenantId,
    Text, Timestamp, Version, WorkerId,
};

use self::line::PostgresLine;
#[cfg(test)]
pub(crate) use self::open::MIGRATIONS;
use self::owner::Owner;
use self::pool::{Plans, Pool};
use self::stream::{FeedBase, KnownBase};
use self::writer::Writers;
use crate::blobs::{self, Blobs};
use crate::error::StoreError;
use crate::line::Line;
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

/// How a database is reached.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Where it is: a URL, or `key=value` pairs.
    pub config: String,
    /// Where it is for the role that owns the tables, so that the server's own role cannot change the
    /// log; `None` where the server's role owns them.
    pub owner: Option<String>,
    /// How much of the server's certificate is verified, where the address does not say; `None`
    /// is everything, unless the server is on this machine.
    pub trust: Option<Trust>,
    /// A file with the authorities that certificates are verified with, where the address names
    /// none; `None` is what the machine trusts.
    pub root_certificates: Option<PathBuf>,
    /// The schema that the tables are in; made if it is not there.
    pub schema: String,
    /// Connections besides those of the writers.
    pub connections: usize,
    /// Those of them that are opened with the store.
    pub opened: usize,
    /// Statements that each of them keeps prepared; others are prepared each time.
    pub prepared: usize,
    /// Whether the server may be one that loses what it has committed.
    pub unsafe_durability: bool,
    /// Connections that append.
    pub writers: usize,
    /// Appends that may wait for each writer; those beyond wait for a place.
    pub queue: usize,
    /// How long a call waits for a connection or a place, and a new connection for the server.
    pub acquire_timeout: Duration,
    /// Months of the log that are made ahead of time.
    pub months_ahead: u32,
    /// The folder for large results that come by themselves, which all processes share; without one
    /// they are in the database too.
    pub blobs: Option<PathBuf>,
    /// The server's clock, which tells the present month.
    pub now: Timestamp,
    /// The zone of the sessions. Answers do not depend on it, which tests show with others.
    time_zone: &'static str,
    /// Whether the sessions wait for the disk. Tests show with `off` that they would notice a loss.
    synchronous_commit: &'static str,
    /// Whether the sessions refuse to write.
    is_read_only: bool,
}

impl PostgresOptions {
    /// The usual settings for a database.
    pub fn new(config: impl Into<String>, now: Timestamp) -> Self {
        Self {
            config: config.into(),
            owner: None,
            trust: None,
            root_certificates: None,
            schema: "noetl".to_owned(),
            connections: 8,
            opened: 0,
            prepared: 100,
            unsafe_durability: false,
            writers: 2,
            queue: 1024,
            acquire_timeout: Duration::from_secs(30),
            months_ahead: 2,
            blobs: None,
            now,
            time_zone: "UTC",
            synchronous_commit: "on",
            is_read_only: false,
        }
    }

    /// The same with sessions in another zone, for tests that show that it makes no difference.
    #[must_use]
    pub fn in_time_zone(self, time_zone: &'static str) -> Self {
        Self { time_zone, ..self }
    }

    /// The same as the owner of the tables, where one is named.
    fn of_owner(&self) -> Option<Self> {
        Some(Self {
            config: self.owner.clone()?,
            owner: None,
            ..self.clone()
        })
    }

    /// The role that the address names.
    fn user(&self) -> Option<String> {
        let dsn = noetl_tls::Dsn::read(&self.config).ok()?;
        dsn.login.get_user().map(str::to_owned)
    }

    fn only_to_read(self) -> Self {
        Self {
            is_read_only: true,
            ..self
        }
    }
}

/// A store in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    /// For short statements that are made often.
    pool: Arc<Pool>,
    /// For lists, and for what is rare.
    lists: Arc<Pool>,
    /// For what only the owner of the tables may do.
    owner: Arc<Owner>,
    writers: Writers,
    /// Where the earlier lives of the log end.
    feed_base: KnownBase,
    blobs: Option<Blobs>,
    /// Where processes on these tables hear each other.
    channel: String,
}

impl PostgresStore {
    /// Connects, checks the settings that promises rest on, and brings the tables up to date.
    ///
    /// The writers are tasks of the runtime that this is called in.
    pub async fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let lists = Arc::new(Pool::new(options, Plans::AsNeeded)?);
        let server = open::check(&lists, options).await?;
        let owner = Owner::of(options, &lists, server).await?;
        let feed_base = open::prepare(&owner, options).await?;
        let store = Self::with(lists, owner, feed_base, options)?;
        store.pool.warm_up(options.opened).await?;
        Ok(store)
    }

    /// Connects to read tables that are there. Nothing is changed: every call that would write is
    /// refused, and so are tables that are not up to date.
    pub async fn open_to_read(options: &PostgresOptions) -> Result<Self, StoreError> {
        let options = &options.clone().only_to_read();
        let lists = Arc::new(Pool::new(options, Plans::AsNeeded)?);
        let feed_base = open::look(&lists).await?;
        let owner = Owner::itself(&lists);
        Self::with(lists, owner, feed_base, options)
    }

    /// How far the tables are. Nothing is changed.
    pub async fn schema(options: &PostgresOptions) -> Result<Schema, StoreError> {
        let options = options.clone().only_to_read();
        open::schema(&Pool::new(&options, Plans::AsNeeded)?).await
    }

    fn with(
        lists: Arc<Pool>,
        owner: Owner,
        feed_base: FeedBase,
        options: &PostgresOptions,
    ) -> Result<Self, StoreError> {
        let pool = Arc::new(Pool::new(options, Plans::Once)?);
        let owner = Arc::new(owner);
        let writers = Writers::start(&pool, &owner, options);
        Ok(Self {
            pool,
            lists,
            owner,
            writers,
            feed_base: KnownBase::new(feed_base),
            blobs: options.blobs.as_deref().map(Blobs::open).transpose()?,
            channel: line::channel(&options.schema),
        })
    }

    /// How many append statements, each a commit, the writers have sent.
    pub fn commits(&self) -> u64 {
        self.writers.commits()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append(&self, appends: Vec<Append>) -> Vec<Result<Appended, AppendRefused>> {
        self.writers.append(rows_of(seal_all(appends))).await
    }

    async fn load(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPage,
    ) -> Result<Option<Loaded>, StoreError> {
        query::load(&self.pool, execution_id, snapshot, page).await
    }

    async fn events(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        query::events(&self.pool, execution_id, after, page).await
    }

    async fn gists(
        &self,
        execution_id: ExecutionId,
        after: Version,
        page: LogPage,
    ) -> Result<Gists, StoreError> {
        gist::gists(&self.pool, execution_id, after, page).await
    }

    async fn event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        query::event(&self.pool, execution_id, event_id).await
    }

    async fn snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        at_most: Version,
    ) -> Result<Option<Snapshot>, StoreError> {
        query::snapshot(&self.pool, execution_id, key, at_most).await
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        query::write_snapshot(&self.pool, &snapshot).await
    }

    async fn drop_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: Version,
    ) -> Result<(), StoreError> {
        query::drop_snapshot(&self.pool, execution_id, key, version).await
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutRefused> {
        let result = put.into_stored()?;
        let bytes = Arc::clone(&result.bytes);
        let (digest, now) = (result.sha256, result.created_at);
        let kept = blobs::keep(self.blobs.as_ref(), result).await?;
        query::put_result(&self.lists, &kept).await?;
        blobs::make_sure(self.blobs.as_ref(), kept.object_key, (bytes, digest, now)).await?;
        Ok(())
    }

    async fn result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let kept = query::result(&self.pool, execution_id, result_id).await?;
        blobs::fetch(self.blobs.as_ref(), kept).await
    }

    async fn feed(&self, after: FeedPosition, limit: FeedLimit) -> Result<FeedBatch, StoreError> {
        stream::feed(&self.pool, &self.feed_base, after, limit).await
    }

    async fn execution(&self, execution_id: ExecutionId) -> Result<Option<Execution>, StoreError> {
        query::execution(&self.pool, execution_id).await
    }

    async fn executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        query::executions(&self.lists, &filter).await
    }

    async fn open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        query::open_children(&self.pool, parent, after, limit).await
    }

    async fn counts(&self, tenant_id: &TenantId) -> Result<Counts, StoreError> {
        query::counts(&self.lists, tenant_id).await
    }

    async fn executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        query::executions_by_status(&self.lists).await
    }

    async fn live_executions(&self, tenant_id: &TenantId, most: u32) -> Result<u32, StoreError> {
        query::live_executions(&self.lists, tenant_id, most).await
    }

    async fn is_gone(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        query::is_gone(&self.pool, execution_id).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<LeasedCommand>, StoreError> {
        queue::lease(&self.pool, &request).await
    }

    async fn claim(
        &self,
        command_id: CommandId,
        claim: Claim,
    ) -> Result<Option<ClaimedCommand>, StoreError> {
        queue::claim(&self.pool, command_id, &claim).await
    }

    async fn extend(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<Extension>, StoreError> {
        queue::extend(&self.pool, &leases, until).await
    }

    async fn release(&self, leases: Vec<Release>) -> Result<Vec<bool>, StoreError> {
        queue::release(&self.pool, &leases).await
    }

    async fn expired(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Command>, StoreError> {
        queue::expired(&self.pool, now, limit).await
    }

    async fn command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        queue::command(&self.pool, command_id).await
    }

    async fn commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        queue::commands(&self.lists, &filter).await
    }

    async fn release_worker(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        queue::release_worker(&self.pool, (tenant_id, worker), now).await
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        queue::pool_counts(&self.lists).await
    }

    async fn due(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        query::due(&self.pool, now, after, limit).await
    }

    async fn register(&self, entry: NewCatalogEntry) -> Result<Registered, StoreError> {
        query::register(&self.lists, entry).await
    }

    async fn catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        query::catalog_entry(&self.lists, tenant_id, &key).await
    }

    async fn catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        query::catalog(&self.lists, &filter).await
    }

    async fn catalog_versions(
        &self,
        filter: VersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        query::catalog_versions(&self.lists, &filter).await
    }

    async fn archive(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        query::archive(&self.lists, tenant_id, path, since).await
    }

    async fn register_runtime(&self, runtime: NewRuntime) -> Result<Runtime, StoreError> {
        query::register_runtime(&self.lists, runtime).await
    }

    async fn heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        query::heartbeat(&self.pool, kind, name, now).await
    }

    async fn runtimes(&self, kind: RuntimeKind) -> Result<Vec<Runtime>, StoreError> {
        query::runtimes(&self.lists, kind).await
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        query::remove_runtime(&self.lists, kind, name).await
    }

    async fn lease_machine(&self, request: MachineRequest) -> Result<MachineLease, MachineRefused> {
        query::change_machines(&self.lists, |machines| machines.lease(request)).await
    }

    async fn renew_machine(&self, renewal: MachineRenewal) -> Result<MachineLease, MachineRefused> {
        query::change_machines(&self.lists, |machines| machines.renew(&renewal)).await
    }

    async fn line(&self) -> Result<Option<Box<dyn Line>>, StoreError> {
        let line = PostgresLine::open(&self.pool, &self.channel).await?;
        Ok(Some(Box::new(line)))
    }
}
