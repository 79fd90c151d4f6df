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
mod coordination_params;
mod feed;
mod log;
mod maintenance;
mod notify_channel;
mod open;
mod outbox;
mod partition;
mod pool;
mod privileges;
mod queue;
mod rebase;
mod replay;
mod retention;
mod session;
mod table_owner;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use noetl_tls::TlsVerification;
use noetl_types::Timestamp;

pub(crate) use self::column_arrays::BlockShape;
use self::feed::{CachedFeedBase, FeedBase};
use self::notify_channel::PostgresNotifyChannel;
use self::pool::ConnectionPool;
use self::table_owner::TableOwner;
use self::writer::WriterPool;
use crate::blobs::BlobFolder;
use crate::error::StoreError;
use crate::migration::SchemaStatus;
use crate::notify_channel::NotifyChannel;
use crate::sql::PlanMode;
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
    async fn open_notify_channel(&self) -> Result<Option<Box<dyn NotifyChannel>>, StoreError> {
        let channel = PostgresNotifyChannel::open_channel(&self.pool, &self.channel).await?;
        Ok(Some(Box::new(channel)))
    }
}
