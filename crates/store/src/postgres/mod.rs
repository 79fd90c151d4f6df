//! Clustered store: one PostgreSQL database, shared by any number of processes.
//!
//! A few writers per process collect appends, and each sends its queued appends as one statement.
//! All other calls use connections of a small pool. Commands are the only rows on which a statement
//! waits for an append's locks. All statements lock commands in the order of their ids, so they do
//! not deadlock.

mod append;
mod append_function;
mod bind;
mod cluster_identity;
mod column_arrays;
mod composite_rows;
mod coordination;
mod coordination_params;
mod coordination_queries;
mod credentials;
mod identities;
mod keychain;
mod known_events;
mod maintenance;
mod notify_channel;
mod open;
mod outbox;
mod partition;
mod pool;
mod privileges;
mod publishing;
mod query;
mod queue;
mod rebase;
mod replay;
mod retention;
mod stream;
mod table_owner;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use noetl_tls::TlsVerification;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, EventId, ExecutionId, ExecutionVersion, FeedPosition, PlaybookPath, ResultId,
    StoredEvent, TenantId, Text, Timestamp, WorkerId,
};

use self::notify_channel::PostgresNotifyChannel;
#[cfg(test)]
pub(crate) use self::open::MIGRATIONS;
use self::pool::{ConnectionPool, PlanMode};
use self::stream::{CachedFeedBase, FeedBase};
use self::table_owner::TableOwner;
use self::writer::WriterPool;
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
use crate::notify_channel::NotifyChannel;
use crate::prepare_append::prepare_appends;
use crate::row::to_append_rows;
use crate::store::Store;

/// Settings for connecting to a PostgreSQL store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Address of the database: a URL or `key=value` pairs.
    pub config: String,
    /// Address of the database for the role that owns the tables. A separate owner keeps the
    /// server's role from changing the log. `None` if the server's role owns the tables.
    pub owner_config: Option<String>,
    /// Verification of the server's certificate, if the address does not specify it. `None`
    /// verifies everything, unless the server is on this machine.
    pub trust: Option<TlsVerification>,
    /// File with the certificate authorities to trust, if the address does not name one. `None`
    /// uses the trust store of the machine.
    pub root_certificates: Option<PathBuf>,
    /// Schema of the tables. The schema is created if it does not exist.
    pub schema: String,
    /// Number of connections, not counting those of the writers.
    pub max_connections: usize,
    /// Number of these connections that are opened with the store.
    pub initial_connections: usize,
    /// Prepared statements that each connection caches. Further statements are prepared each time.
    pub max_prepared_statements: usize,
    /// Allows a server whose settings can lose committed transactions.
    pub unsafe_durability: bool,
    /// Number of writers. Each has its own connection.
    pub writer_count: usize,
    /// Capacity of each writer's queue. Further appends wait for free capacity.
    pub queue_capacity: usize,
    /// Maximum time to wait for a connection, for capacity of a queue, or for the server to accept
    /// a new connection.
    pub acquire_timeout: Duration,
    /// Number of monthly log partitions that are created in advance.
    pub months_ahead: u32,
    /// Folder for large results that are stored separately, shared by all processes. `None` stores
    /// them in the database.
    pub blob_folder: Option<PathBuf>,
    /// Current time of the NoETL server, which determines the current month.
    pub now: Timestamp,
    /// Time zone of the sessions. Tests set another one to prove that results do not depend on it.
    time_zone: &'static str,
    /// The `synchronous_commit` setting of the sessions. Tests set `off` to prove that they detect
    /// a loss.
    synchronous_commit: &'static str,
    /// True if the sessions reject writes.
    is_read_only: bool,
}

impl PostgresOptions {
    /// Returns the default settings for a database.
    pub fn new(config: impl Into<String>, now: Timestamp) -> Self {
        Self {
            config: config.into(),
            owner_config: None,
            trust: None,
            root_certificates: None,
            schema: "noetl".to_owned(),
            max_connections: 8,
            initial_connections: 0,
            max_prepared_statements: 100,
            unsafe_durability: false,
            writer_count: 2,
            queue_capacity: 1024,
            acquire_timeout: Duration::from_secs(30),
            months_ahead: 2,
            blob_folder: None,
            now,
            time_zone: "UTC",
            synchronous_commit: "on",
            is_read_only: false,
        }
    }

    /// Sets the time zone of the sessions, for tests.
    #[must_use]
    pub fn with_time_zone(self, time_zone: &'static str) -> Self {
        Self { time_zone, ..self }
    }

    /// Returns these options with the address of the tables' owner, if there is a separate owner.
    fn owner_options(&self) -> Option<Self> {
        Some(Self { config: self.owner_config.clone()?, owner_config: None, ..self.clone() })
    }

    /// Returns the role in the address.
    fn login_role(&self) -> Option<String> {
        let dsn = noetl_tls::PostgresDsn::parse(&self.config).ok()?;
        dsn.login.get_user().map(str::to_owned)
    }

    fn into_read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }
}

/// Store in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    /// Connections for short, frequent statements.
    pool: Arc<ConnectionPool>,
    /// Connections for lists and rare statements.
    list_pool: Arc<ConnectionPool>,
    /// Connection for statements that only the owner of the tables may run.
    owner: Arc<TableOwner>,
    writers: WriterPool,
    /// Last position of the earlier log epochs.
    feed_base: CachedFeedBase,
    blobs: Option<BlobFolder>,
    /// Name of the notification channel that all processes on these tables share.
    channel: String,
}

impl PostgresStore {
    /// Connects, checks the settings that durability depends on, and applies pending migrations.
    ///
    /// The writers are tasks of the current tokio runtime.
    pub async fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let list_pool = Arc::new(ConnectionPool::new(options, PlanMode::Auto)?);
        let server = open::check_database(&list_pool, options).await?;
        let owner = TableOwner::from_options(options, &list_pool, server).await?;
        let feed_base = open::prepare_tables(&owner, options).await?;
        let store = Self::from_parts(list_pool, owner, feed_base, options)?;
        store.pool.warm_up(options.initial_connections).await?;
        Ok(store)
    }

    /// Connects read-only to existing tables. Calls that would write fail, and so does connecting
    /// to tables with pending migrations.
    pub async fn open_read_only(options: &PostgresOptions) -> Result<Self, StoreError> {
        let options = &options.clone().into_read_only();
        let list_pool = Arc::new(ConnectionPool::new(options, PlanMode::Auto)?);
        let feed_base = open::check_read_only(&list_pool).await?;
        let owner = TableOwner::same_as_server(&list_pool);
        Self::from_parts(list_pool, owner, feed_base, options)
    }

    /// Returns the schema version of the tables without changing them.
    pub async fn schema_status(options: &PostgresOptions) -> Result<SchemaStatus, StoreError> {
        let options = options.clone().into_read_only();
        open::read_schema_status(&ConnectionPool::new(&options, PlanMode::Auto)?).await
    }

    fn from_parts(
        list_pool: Arc<ConnectionPool>,
        owner: TableOwner,
        feed_base: FeedBase,
        options: &PostgresOptions,
    ) -> Result<Self, StoreError> {
        let pool = Arc::new(ConnectionPool::new(options, PlanMode::Generic)?);
        let owner = Arc::new(owner);
        let writers = WriterPool::spawn_writers(&pool, &owner, options);
        Ok(Self {
            pool,
            list_pool,
            owner,
            writers,
            feed_base: CachedFeedBase::new(feed_base),
            blobs: options.blob_folder.as_deref().map(BlobFolder::open).transpose()?,
            channel: notify_channel::channel_name(&options.schema),
        })
    }

    /// Returns the number of append statements that the writers have sent. Each is one commit.
    pub fn commit_count(&self) -> u64 {
        self.writers.commit_count()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append_events(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        self.writers.append_items(to_append_rows(prepare_appends(appends))).await
    }

    async fn load_execution(
        &self,
        execution_id: ExecutionId,
        snapshot: &SnapshotKey,
        page: LogPageLimit,
    ) -> Result<Option<LoadedLog>, StoreError> {
        query::load_execution(&self.pool, execution_id, snapshot, page).await
    }

    async fn read_events(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        query::read_events(&self.pool, execution_id, after, page).await
    }

    async fn read_replay_rows(
        &self,
        execution_id: ExecutionId,
        after: ExecutionVersion,
        page: LogPageLimit,
    ) -> Result<ReplayPage, StoreError> {
        replay::read_replay_rows(&self.pool, execution_id, after, page).await
    }

    async fn find_event(
        &self,
        execution_id: ExecutionId,
        event_id: EventId,
    ) -> Result<Option<StoredEvent>, StoreError> {
        query::find_event(&self.pool, execution_id, event_id).await
    }

    async fn find_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        max_version: ExecutionVersion,
    ) -> Result<Option<Snapshot>, StoreError> {
        query::find_snapshot(&self.pool, execution_id, key, max_version).await
    }

    async fn write_snapshot(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        query::write_snapshot(&self.pool, &snapshot).await
    }

    async fn delete_snapshot(
        &self,
        execution_id: ExecutionId,
        key: &SnapshotKey,
        version: ExecutionVersion,
    ) -> Result<(), StoreError> {
        query::delete_snapshot(&self.pool, execution_id, key, version).await
    }

    async fn put_result(&self, put: ResultPut) -> Result<(), PutResultError> {
        let result = put.into_stored()?;
        let bytes = Arc::clone(&result.bytes);
        let (digest, now) = (result.sha256, result.created_at);
        let row = blobs::store_large_result(self.blobs.as_ref(), result).await?;
        query::put_result(&self.list_pool, &row).await?;
        blobs::rewrite_missing_blob(self.blobs.as_ref(), row.object_key, bytes, digest, now)
            .await?;
        Ok(())
    }

    async fn find_result(
        &self,
        execution_id: ExecutionId,
        result_id: ResultId,
    ) -> Result<Option<StoredResult>, StoreError> {
        let row = query::find_result(&self.pool, execution_id, result_id).await?;
        blobs::load_result_bytes(self.blobs.as_ref(), row).await
    }

    async fn read_feed(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch, StoreError> {
        stream::read_feed(&self.pool, &self.feed_base, after, limit).await
    }

    async fn find_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Execution>, StoreError> {
        query::find_execution(&self.pool, execution_id).await
    }

    async fn list_executions(&self, filter: ExecutionFilter) -> Result<ExecutionPage, StoreError> {
        query::list_executions(&self.list_pool, &filter).await
    }

    async fn list_open_children(
        &self,
        parent: ExecutionId,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<Execution>, StoreError> {
        query::list_open_children(&self.pool, parent, after, limit).await
    }

    async fn tenant_counts(&self, tenant_id: &TenantId) -> Result<TenantCounts, StoreError> {
        query::tenant_counts(&self.list_pool, tenant_id).await
    }

    async fn count_executions_by_status(&self) -> Result<StatusCounts, StoreError> {
        query::count_executions_by_status(&self.list_pool).await
    }

    async fn count_live_executions(
        &self,
        tenant_id: &TenantId,
        max_count: u32,
    ) -> Result<u32, StoreError> {
        query::count_live_executions(&self.list_pool, tenant_id, max_count).await
    }

    async fn is_dropped(&self, execution_id: ExecutionId) -> Result<bool, StoreError> {
        query::is_dropped(&self.pool, execution_id).await
    }

    async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<Vec<LeasedCommand>, StoreError> {
        queue::lease_commands(&self.pool, &request).await
    }

    async fn try_lease_command(
        &self,
        command_id: CommandId,
        terms: LeaseTerms,
    ) -> Result<Option<LeaseOutcome>, StoreError> {
        queue::try_lease_command(&self.pool, command_id, &terms).await
    }

    async fn extend_leases(
        &self,
        leases: Vec<Fence>,
        until: Timestamp,
    ) -> Result<Vec<LeaseExtension>, StoreError> {
        queue::extend_leases(&self.pool, &leases, until).await
    }

    async fn release_leases(&self, leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError> {
        queue::release_leases(&self.pool, &leases).await
    }

    async fn list_expired_leases(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<Command>, StoreError> {
        queue::list_expired_leases(&self.pool, now, limit).await
    }

    async fn find_command(&self, command_id: CommandId) -> Result<Option<Command>, StoreError> {
        queue::find_command(&self.pool, command_id).await
    }

    async fn list_commands(&self, filter: CommandFilter) -> Result<CommandPage, StoreError> {
        queue::list_commands(&self.list_pool, &filter).await
    }

    async fn expire_worker_leases(
        &self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        queue::expire_worker_leases(&self.pool, tenant_id, worker, now).await
    }

    async fn pool_counts(&self) -> Result<Vec<PoolCount>, StoreError> {
        queue::pool_counts(&self.list_pool).await
    }

    async fn list_due_timers(
        &self,
        now: Timestamp,
        after: Option<&DueTimer>,
        limit: PageLimit,
    ) -> Result<Vec<DueTimer>, StoreError> {
        query::list_due_timers(&self.pool, now, after, limit).await
    }

    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError> {
        query::register_definition(&self.list_pool, entry).await
    }

    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        query::find_catalog_entry(&self.list_pool, tenant_id, &key).await
    }

    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        query::list_catalog(&self.list_pool, &filter).await
    }

    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        query::list_catalog_versions(&self.list_pool, &filter).await
    }

    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        query::set_definition_archived(&self.list_pool, tenant_id, path, since).await
    }

    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError> {
        query::register_runtime(&self.list_pool, runtime).await
    }

    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        query::record_heartbeat(&self.pool, kind, name, now).await
    }

    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError> {
        query::list_runtimes(&self.list_pool, kind).await
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        query::remove_runtime(&self.list_pool, kind, name).await
    }

    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError> {
        query::update_machine_table(&self.list_pool, |machines| machines.grant_machine_id(request))
            .await
    }

    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError> {
        query::update_machine_table(&self.list_pool, |machines| machines.renew_machine_id(&renewal))
            .await
    }

    async fn open_notify_channel(&self) -> Result<Option<Box<dyn NotifyChannel>>, StoreError> {
        let channel = PostgresNotifyChannel::open_channel(&self.pool, &self.channel).await?;
        Ok(Some(Box::new(channel)))
    }
}
