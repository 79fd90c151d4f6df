//! Connection pool: opens connections and shares them between calls.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use noetl_tls::{MakeTlsConnector, PostgresDsn, TlsVerification};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, GenericClient, IsolationLevel, NoTls, Notification,
    Row, Statement,
};

use super::PostgresOptions;
use super::bind::to_store_error;
use crate::error::{StoreError, StoreSaturated};
use crate::sql::PlanMode;

/// Pool of connections with the same session settings.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    config: Config,
    /// TLS connector. `None` for unencrypted connections.
    tls: Option<MakeTlsConnector>,
    /// SQL that every new session runs.
    session_setup: String,
    permits: Semaphore,
    /// Maximum time to wait for a connection of the pool, and for the server to accept a new one.
    acquire_timeout: Duration,
    idle: Mutex<Vec<PooledSession>>,
    /// True if idle connections stay open for later calls.
    keeps_idle: bool,
    /// Prepared statements that a connection caches.
    max_prepared: usize,
}

/// Returns the session settings of a plan mode. A generic plan may be made while tables are empty,
/// and must be right when they are full: it must read a few rows by key and never scan a table.
fn session_settings(plan_mode: PlanMode) -> &'static str {
    match plan_mode {
        PlanMode::Generic => {
            "SET plan_cache_mode = force_generic_plan;
             SET enable_hashjoin = off;
             SET enable_mergejoin = off"
        }
        PlanMode::Auto => "SET plan_cache_mode = auto",
    }
}

/// Returns the number of connections for a plan mode. Most connections are for the short statements
/// that all other work depends on.
fn connection_share(plan_mode: PlanMode, connections: usize) -> usize {
    let for_lists = (connections / 4).max(1);
    match plan_mode {
        PlanMode::Generic => connections.saturating_sub(for_lists).max(1),
        PlanMode::Auto => for_lists,
    }
}

/// Connection with its prepared statements. At most one is cached for each SQL constant of this
/// crate.
#[derive(Debug)]
struct PooledSession {
    client: Client,
    prepared: PreparedStatements,
    /// True if a statement may still be running whose result was not read.
    is_busy: bool,
}

/// SQL constant with its parameters.
pub(super) type StatementWithParams<'q> = (&'static str, &'q [&'q (dyn ToSql + Sync)]);

/// Prepared statements of a connection.
#[derive(Debug)]
struct PreparedStatements {
    cached: BTreeMap<&'static str, Statement>,
    /// Maximum number of cached statements.
    max_cached: usize,
}

impl PreparedStatements {
    async fn prepare_cached(
        &mut self,
        client: &impl GenericClient,
        sql: &'static str,
    ) -> Result<Statement, StoreError> {
        if let Some(statement) = self.cached.get(sql) {
            return Ok(statement.clone());
        }
        let statement = client.prepare(sql).await.map_err(to_connect_error)?;
        if self.cached.len() < self.max_cached {
            self.cached.insert(sql, statement.clone());
        }
        Ok(statement)
    }
}

impl PooledSession {
    async fn prepare_cached(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        self.prepared.prepare_cached(&self.client, sql).await
    }

    async fn execute(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let statement = self.prepare_cached(sql).await?;
        self.client.execute(&statement, params).await.map_err(to_store_error)
    }

    async fn query_rows(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare_cached(sql).await?;
        let rows = self.client.query(&statement, params).await;
        rows.map_err(to_store_error)
    }

    async fn query_each(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        mut visit: impl FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let statement = self.prepare_cached(sql).await?;
        let params = params.iter().map(|param| *param as &dyn ToSql);
        let rows = self.client.query_raw(&statement, params).await;
        let mut rows = pin!(rows.map_err(to_store_error)?);
        let mut wants_more = Ok(true);
        // The server sends all rows, also those after `visit` has returned false.
        while let Some(row) = rows.try_next().await.map_err(to_store_error)? {
            if matches!(wants_more, Ok(true)) {
                wants_more = visit(&row);
            }
        }
        wants_more.map(drop)
    }

    async fn query_pipelined(
        &mut self,
        first: StatementWithParams<'_>,
        second: StatementWithParams<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        let statements =
            (self.prepare_cached(first.0).await?, self.prepare_cached(second.0).await?);
        // The second statement is sent before the first result arrives.
        let (first, second) = tokio::join!(
            self.client.query(&statements.0, first.1),
            self.client.query(&statements.1, second.1),
        );
        Ok((first.map_err(to_store_error)?, second.map_err(to_store_error)?))
    }
}

/// Connection that returns to the pool when dropped. It is closed instead if it is broken or if its
/// user stopped waiting for a result, since the next user would have to wait for that result.
pub(super) struct PooledConnection<'p> {
    pool: &'p ConnectionPool,
    /// `None` once dropped.
    busy_session: Option<PooledSession>,
    _permit: SemaphorePermit<'p>,
}

/// Error for an unsupported schema name.
#[derive(Debug, thiserror::Error)]
#[error(
    "invalid schema name `{0}`: start with a lower-case letter, then use lower-case letters, \
     digits and underscores"
)]
struct InvalidSchemaName(String);

impl ConnectionPool {
    pub(super) fn new(options: &PostgresOptions, plan_mode: PlanMode) -> Result<Self, StoreError> {
        let schema = &options.schema;
        let is_valid = schema.starts_with(|first: char| first.is_ascii_lowercase())
            && schema.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        if !is_valid || schema.len() > 63 {
            return Err(StoreError::fatal(InvalidSchemaName(schema.clone())));
        }
        let session_setup = format!(
            "SET TIME ZONE '{}';
             SET synchronous_commit = {};
             SET default_transaction_isolation = 'read committed';
             {}
             SET statement_timeout = '30s';
             SET idle_in_transaction_session_timeout = '10s';
             SET jit = off;
             SET enable_seqscan = off;
             SET search_path = {schema};
             {}",
            options.time_zone,
            options.synchronous_commit,
            if options.is_read_only { "SET default_transaction_read_only = on;" } else { "" },
            session_settings(plan_mode)
        );
        let (config, tls) = connection_config(options)?;
        Ok(Self {
            config,
            tls,
            session_setup,
            permits: Semaphore::new(connection_share(plan_mode, options.max_connections)),
            acquire_timeout: options.acquire_timeout,
            idle: Mutex::new(Vec::new()),
            keeps_idle: true,
            max_prepared: options.max_prepared_statements,
        })
    }

    /// Limits the pool to one connection, which is closed after use.
    pub(super) fn into_single_use(self) -> Self {
        Self { permits: Semaphore::new(1), keeps_idle: false, ..self }
    }

    /// Opens a new connection and sets its session up. Fails if the server accepts the connection
    /// but does not answer in time.
    pub(super) async fn open_connection(&self) -> Result<Client, StoreError> {
        // A session without LISTEN receives no notifications.
        self.open_listening_connection(Box::new(drop)).await
    }

    /// Opens a new connection that passes notifications to a handler. The handler is dropped when
    /// the connection ends.
    pub(super) async fn open_listening_connection(
        &self,
        handler: NotificationHandler,
    ) -> Result<Client, StoreError> {
        let timed_out = |_| StoreError::retry("the PostgreSQL server does not answer");
        let connected = timeout(self.acquire_timeout, self.connect_and_set_up(handler)).await;
        connected.map_err(timed_out)?
    }

    async fn connect_and_set_up(&self, handler: NotificationHandler) -> Result<Client, StoreError> {
        let client = if let Some(tls) = &self.tls {
            let connected = self.config.connect(tls.clone()).await;
            let (client, connection) = connected.map_err(to_connect_error)?;
            tokio::spawn(drive_connection(connection, handler));
            client
        } else {
            let connected = self.config.connect(NoTls).await;
            let (client, connection) = connected.map_err(to_connect_error)?;
            tokio::spawn(drive_connection(connection, handler));
            client
        };
        client.batch_execute(&self.session_setup).await.map_err(to_connect_error)?;
        Ok(client)
    }

    pub(super) async fn acquire(&self) -> Result<PooledConnection<'_>, StoreError> {
        let saturated = |_| StoreError::retry(StoreSaturated(self.acquire_timeout));
        let permit = timeout(self.acquire_timeout, self.permits.acquire()).await;
        let permit = permit.map_err(saturated)?.map_err(StoreError::fatal)?;
        let session = match self.pop_idle() {
            Some(session) => session,
            None => PooledSession {
                client: self.open_connection().await?,
                prepared: PreparedStatements {
                    cached: BTreeMap::new(),
                    max_cached: self.max_prepared,
                },
                is_busy: false,
            },
        };
        Ok(PooledConnection { pool: self, busy_session: Some(session), _permit: permit })
    }

    /// Opens up to `count` connections in advance, within the limit of the pool.
    pub(super) async fn warm_up(&self, count: usize) -> Result<(), StoreError> {
        let mut opened = Vec::new();
        for _ in 0..count.min(self.permits.available_permits()) {
            opened.push(self.acquire().await?);
        }
        Ok(())
    }

    /// Returns the number of cached statements of each idle connection.
    #[cfg(test)]
    pub(super) fn idle_statement_counts(&self) -> Vec<usize> {
        let idle = self.idle.lock();
        idle.iter().map(|session| session.prepared.cached.len()).collect()
    }

    fn pop_idle(&self) -> Option<PooledSession> {
        let mut idle = self.idle.lock();
        idle.retain(|session| !session.client.is_closed());
        idle.pop()
    }

    fn return_session(&self, session: PooledSession) {
        if session.is_busy {
            self.cancel_statement(&session.client);
        } else if self.keeps_idle && !session.client.is_closed() {
            self.idle.lock().push(session);
        }
    }

    /// Sends a cancel request for the running statement of a connection. Without it the server runs
    /// the statement to its end, even after the client has disconnected.
    fn cancel_statement(&self, client: &Client) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (cancel, tls, cancel_timeout) =
            (client.cancel_token(), self.tls.clone(), self.acquire_timeout);
        runtime.spawn(async move {
            // If the request does not reach the server, the statement ends by `statement_timeout`.
            let _ = timeout(cancel_timeout, async {
                match tls {
                    Some(tls) => cancel.cancel_query(tls).await,
                    None => cancel.cancel_query(NoTls).await,
                }
            })
            .await;
        });
    }
}

/// Handler of notifications from the server.
pub(super) type NotificationHandler = Box<dyn FnMut(Notification) + Send>;

/// Runs a connection until its client is dropped or it fails. Errors are reported by the client's
/// calls.
async fn drive_connection<S, T>(mut connection: Connection<S, T>, mut handler: NotificationHandler)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            handler(notification);
        }
    }
}

/// Maximum time to connect, if the address does not set one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that sent data may stay unacknowledged, if the address does not set one.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

/// Sets timeouts that the address does not set. Without them, waiting for an unreachable machine
/// never ends.
fn set_default_timeouts(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
    }
    // While waiting for a result no sent data is unacknowledged, so only keepalives detect a dead
    // peer.
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(UNACKNOWLEDGED_TIMEOUT);
    }
}

/// Maximum size of a file with root certificates.
const MAX_ROOTS_BYTES: u64 = 1024 * 1024;

/// Returns the connection settings and the TLS connector for the address in the options.
fn connection_config(
    options: &PostgresOptions,
) -> Result<(Config, Option<MakeTlsConnector>), StoreError> {
    let PostgresDsn { login: mut config, ssl_mode: mode, root_cert: root } =
        PostgresDsn::parse(&options.config).map_err(StoreError::fatal)?;
    let configured = mode.as_deref().map(TlsVerification::parse_sslmode).transpose();
    let configured = configured.map_err(StoreError::fatal)?.or(options.trust);
    let hosts = config.get_hosts();
    let is_socket = |host: &Host| !matches!(host, Host::Tcp(_));
    let trust = if !hosts.is_empty() && hosts.iter().all(is_socket) {
        // Unix sockets need no encryption, so the configured trust is ignored.
        TlsVerification::Disable
    } else {
        configured.unwrap_or_else(|| TlsVerification::default_for_hosts(hosts))
    };
    let roots = match root.map(PathBuf::from).or(options.root_certificates.clone()) {
        Some(file) if matches!(trust, TlsVerification::VerifyCa | TlsVerification::VerifyFull) => {
            Some(read_root_certificates(&file).map_err(StoreError::fatal)?)
        }
        Some(_) | None => None,
    };
    config.ssl_mode(trust.to_ssl_mode());
    set_default_timeouts(&mut config);
    let tls = MakeTlsConnector::new(trust, roots.as_deref()).map_err(StoreError::fatal)?;
    Ok((config, (trust != TlsVerification::Disable).then_some(tls)))
}

/// Error for root certificates that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the certificates in '{}' cannot be read: {source}", file.display())]
struct UnreadableRoots {
    file: PathBuf,
    source: std::io::Error,
}

fn read_root_certificates(file: &Path) -> Result<Vec<u8>, UnreadableRoots> {
    let unreadable = |source| UnreadableRoots { file: file.to_owned(), source };
    let size = std::fs::metadata(file).map_err(unreadable)?.len();
    if size > MAX_ROOTS_BYTES {
        return Err(unreadable(std::io::Error::other("the file is too large")));
    }
    std::fs::read(file).map_err(unreadable)
}

/// Converts an error that occurred before any statement was sent, so its outcome is known.
fn to_connect_error(error: tokio_postgres::Error) -> StoreError {
    match to_store_error(error) {
        StoreError::Retry { cause, .. } => StoreError::Retry { outcome_unknown: false, cause },
        fatal @ StoreError::Fatal { .. } => fatal,
    }
}

impl PooledConnection<'_> {
    /// Runs a statement. It is prepared once per connection, so that later runs take one round
    /// trip.
    pub(super) async fn query_rows(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.busy_session()?.query_rows(sql, params).await;
        self.mark_idle();
        rows
    }

    /// Runs a statement and returns the number of changed rows.
    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let changed = self.busy_session()?.execute(sql, params).await;
        self.mark_idle();
        changed
    }

    /// Runs a statement and passes its rows to `visit` as they arrive, until it returns false.
    pub(super) async fn query_each(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        visit: impl FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let result = self.busy_session()?.query_each(sql, params, visit).await;
        self.mark_idle();
        result
    }

    /// Runs two statements one after the other in one round trip.
    pub(super) async fn query_pipelined(
        &mut self,
        first: StatementWithParams<'_>,
        second: StatementWithParams<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        let rows = self.busy_session()?.query_pipelined(first, second).await;
        self.mark_idle();
        rows
    }

    /// Starts a transaction.
    pub(super) async fn begin_transaction(&mut self) -> Result<PooledTransaction<'_>, StoreError> {
        let PooledSession { client, prepared, is_busy } = self.busy_session()?;
        let inner = client.transaction().await.map_err(to_connect_error)?;
        Ok(PooledTransaction { inner, prepared, is_busy })
    }

    /// Starts a read-only transaction whose statements all see one snapshot.
    pub(super) async fn begin_read_snapshot(
        &mut self,
    ) -> Result<PooledTransaction<'_>, StoreError> {
        let PooledSession { client, prepared, is_busy } = self.busy_session()?;
        let started = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start();
        let inner = started.await.map_err(to_connect_error)?;
        Ok(PooledTransaction { inner, prepared, is_busy })
    }

    /// Returns the client of the connection. The connection returns to the pool only if
    /// [`mark_idle`](Self::mark_idle) is called after its last statement.
    pub(super) fn client(&mut self) -> Result<&mut Client, StoreError> {
        Ok(&mut self.busy_session()?.client)
    }

    /// Marks that no statement is running.
    pub(super) fn mark_idle(&mut self) {
        if let Some(session) = &mut self.busy_session {
            session.is_busy = false;
        }
    }

    /// Returns the session and marks it as busy.
    fn busy_session(&mut self) -> Result<&mut PooledSession, StoreError> {
        let returned = || StoreError::fatal("the connection was already returned to the pool");
        let session = self.busy_session.as_mut().ok_or_else(returned)?;
        session.is_busy = true;
        Ok(session)
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.busy_session.take() {
            self.pool.return_session(session);
        }
    }
}

/// Transaction whose connection returns to the pool after a commit or rollback. If the transaction
/// is dropped without either, its connection is closed.
pub(super) struct PooledTransaction<'p> {
    inner: tokio_postgres::Transaction<'p>,
    prepared: &'p mut PreparedStatements,
    is_busy: &'p mut bool,
}

impl<'p> PooledTransaction<'p> {
    pub(super) fn inner(&self) -> &tokio_postgres::Transaction<'p> {
        &self.inner
    }

    /// Prepares a statement once per connection.
    pub(super) async fn prepare_cached(
        &mut self,
        sql: &'static str,
    ) -> Result<Statement, StoreError> {
        self.prepared.prepare_cached(&self.inner, sql).await
    }

    pub(super) async fn commit(self) -> Result<(), tokio_postgres::Error> {
        let result = self.inner.commit().await;
        *self.is_busy = false;
        result
    }

    pub(super) async fn rollback(self) -> Result<(), tokio_postgres::Error> {
        let result = self.inner.rollback().await;
        *self.is_busy = false;
        result
    }
}

impl<'p> Deref for PooledTransaction<'p> {
    type Target = tokio_postgres::Transaction<'p>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}
