//! Connections to servers: opened to a checked address, ended with a cancel request if their
//! statement is abandoned, and pooled per database, with a reset between two tasks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use noetl_tls::{MakeTlsConnector, TlsVerification};
use noetl_types::{ByteSize, Digest, Json, TaskError, TaskErrorKind};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config as PostgresConfig};

use super::error::{is_unreachable, login_error};
use super::target::{PostgresTarget, ServerEndpoint};
use crate::config::{Config, wrong_type};
use crate::egress::EgressPolicy;
use crate::file_access;
use crate::idle::IdlePool;
use crate::settings::Settings;
use crate::tls::tls_error;

const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

const MAX_CERTIFICATE_FILE_SIZE: ByteSize = ByteSize::from_mib(1);

pub(super) struct ServerConnection {
    pub(super) client: Client,
    /// Task that moves bytes between the client and the socket.
    driver: JoinHandle<()>,
    /// Encrypts the connection, and a cancel request to the same address.
    tls: MakeTlsConnector,
    /// True if a statement may be running.
    pub(super) busy: bool,
}

impl ServerConnection {
    /// Connects to the first endpoint of a target that responds.
    pub(super) async fn open(
        target: &PostgresTarget,
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        let connect_timeout = target.connect_timeout.unwrap_or(settings.postgres.connect_timeout);
        let roots = match &target.root_certificates {
            Some(root) => Some(read_certificates(root, settings).await?),
            None => None,
        };
        let mut failure = None;
        for endpoint in &target.endpoints {
            let attempt = connect_to(endpoint, target, roots.as_deref(), &settings.egress);
            match timeout(connect_timeout, attempt).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => {
                    let message = format!("the server at {endpoint} does not respond");
                    failure = Some(TaskError::new(TaskErrorKind::DbConnection, message));
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            TaskError::new(TaskErrorKind::DbConnection, "the task names no server to connect to")
        }))
    }
}

/// A connection that is dropped during a statement cancels that statement: closing the socket alone
/// would leave the server working on it.
impl Drop for ServerConnection {
    fn drop(&mut self) {
        if !self.busy {
            return;
        }
        // Without a runtime the process is about to end, which closes the socket.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let cancel = self.client.cancel_token();
        let tls = self.tls.clone();
        let driver = self.driver.abort_handle();
        runtime.spawn(async move {
            match timeout(CANCEL_TIMEOUT, cancel.cancel_query(tls)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a cancel request failed"),
                Err(_) => tracing::debug!("a cancel request timed out"),
            }
            driver.abort();
        });
    }
}

/// Connects to an endpoint at an address that was checked.
async fn connect_to(
    endpoint: &ServerEndpoint,
    target: &PostgresTarget,
    roots: Option<&[u8]>,
    egress: &EgressPolicy,
) -> Result<ServerConnection, TaskError> {
    let connector = |verification| {
        MakeTlsConnector::new(verification, roots).map_err(|error| tls_error(&error))
    };
    let mut config = target.login.clone();
    match endpoint {
        ServerEndpoint::Tcp { name, address, port } => {
            let tls = connector(target.verification)?;
            let addresses = egress.resolve_host(address, *port).await;
            let addresses =
                addresses.map_err(|error| error.to_task_error(TaskErrorKind::DbConnection))?;
            let mut result = Err(no_address(endpoint));
            for address in addresses {
                let mut config = config.clone();
                config.host(name).hostaddr(address.ip()).port(*port);
                result = match log_in(&config, &tls).await {
                    Err(error) if is_unreachable(&error) => Err(login_error(endpoint, &error)),
                    result => return result.map_err(|error| login_error(endpoint, &error)),
                };
            }
            result
        }
        ServerEndpoint::Unix { folder, port } => {
            // A socket of this machine is not a public address.
            if !egress.names_host(folder, *port) {
                let message = format!(
                    "'{folder}' is a local socket of the worker; the operator can allow it with \
                     NOETL_EGRESS_ALLOW"
                );
                return Err(TaskError::new(TaskErrorKind::Auth, message));
            }
            // It needs no encryption, regardless of the task's settings.
            let tls = connector(TlsVerification::Disable)?;
            config.host_path(folder).port(*port).ssl_mode(SslMode::Disable);
            log_in(&config, &tls).await.map_err(|error| login_error(endpoint, &error))
        }
    }
}

fn no_address(endpoint: &ServerEndpoint) -> TaskError {
    let message = format!("the server at {endpoint} cannot be reached: it has no address");
    TaskError::new(TaskErrorKind::DbConnection, message)
}

async fn log_in(
    config: &PostgresConfig,
    tls: &MakeTlsConnector,
) -> Result<ServerConnection, tokio_postgres::Error> {
    let (client, connection) = config.connect(tls.clone()).await?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    Ok(ServerConnection { client, driver, tls: tls.clone(), busy: true })
}

/// Reads PEM certificates, given as text or as a file.
async fn read_certificates(root: &str, settings: &Settings) -> Result<Vec<u8>, TaskError> {
    if root.trim_start().starts_with("-----BEGIN") {
        return Ok(root.as_bytes().to_vec());
    }
    let path = Path::new(root);
    let max_size = MAX_CERTIFICATE_FILE_SIZE;
    file_access::read_allowed_file("certificate file", path, max_size, settings).await
}

const RESET_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle time after which a connection is checked before it is reused.
const HEALTH_CHECK_AFTER: Duration = Duration::from_secs(1);

/// Statements of `DISCARD ALL` except `DEALLOCATE ALL`, which would drop the statements that the
/// driver has prepared. Connections of tasks that prepare statements by name are not reused.
const RESET_SQL: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES";

/// Reads `pool`: a bool, a number, or a map with `max_size`. Returns the size of the pool, which
/// tasks with the same size share, or `None` for a dedicated connection.
pub(super) fn read_pool_size(
    config: Config<'_>,
    settings: &Settings,
) -> Result<Option<usize>, TaskError> {
    let max_size = settings.postgres.pool_size.max(1);
    let requested = match config.get("pool") {
        Some(Json::Bool(false)) => return Ok(None),
        Some(Json::Bool(true) | Json::Str(_)) | None => None,
        Some(Json::Map(fields)) => fields.get("max_size").or_else(|| fields.get("size")),
        other => other,
    };
    let Some(requested) = requested else {
        return Ok(Some(max_size));
    };
    let size = requested.as_u64().filter(|size| *size > 0);
    let size =
        size.ok_or_else(|| wrong_type("pool", "true, false or a number above 0", requested))?;
    // A task gets at most the operator's pool size.
    Ok(Some(usize::try_from(size).map_or(max_size, |size| size.min(max_size))))
}

/// Target of a pool and its maximum number of connections.
type PoolKey = (Digest, usize);

type IdleConnections = IdlePool<PoolKey, ServerConnection>;

pub(super) struct ConnectionPools {
    settings: Arc<Settings>,
    /// Permits of the pools in use, one per connection.
    permits: Mutex<BTreeMap<PoolKey, Arc<Semaphore>>>,
    idle: Arc<IdleConnections>,
}

/// A connection in use. Dropping it cancels its statement and closes it.
pub(super) struct DatabaseSession {
    connection: ServerConnection,
    pool: Option<PoolHandle>,
}

struct PoolHandle {
    key: PoolKey,
    idle: Arc<IdleConnections>,
    permit: OwnedSemaphorePermit,
}

impl DatabaseSession {
    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    /// Closes the connection without a cancel request.
    pub(super) fn close(mut self) {
        self.connection.busy = false;
    }

    /// Returns the connection to its pool. It holds its permit until the reset is done, so that
    /// there are never more connections than permits.
    pub(super) fn release(self) {
        let Self { mut connection, pool } = self;
        let Some(PoolHandle { key, idle, permit }) = pool else {
            connection.busy = false;
            return;
        };
        tokio::spawn(async move {
            let reset = timeout(RESET_TIMEOUT, reset_session(&connection.client)).await;
            if matches!(reset, Ok(Ok(()))) {
                connection.busy = false;
                idle.put(key, connection);
            }
            drop(permit);
        });
    }
}

async fn reset_session(client: &Client) -> Result<(), tokio_postgres::Error> {
    // Both are pipelined. Without a transaction, `ROLLBACK` has no effect.
    let (rolled_back, reset) =
        tokio::join!(client.batch_execute("ROLLBACK"), client.batch_execute(RESET_SQL));
    rolled_back.and(reset)
}

impl ConnectionPools {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        let idle = IdlePool::new(settings.postgres.idle);
        Self { settings, permits: Mutex::default(), idle }
    }

    /// Returns a connection for a task. Waits while its pool has no permit available.
    pub(super) async fn acquire_session(
        &self,
        target: &PostgresTarget,
        pool_size: Option<usize>,
    ) -> Result<DatabaseSession, TaskError> {
        let Some(size) = pool_size else {
            let connection = ServerConnection::open(target, &self.settings).await?;
            return Ok(DatabaseSession { connection, pool: None });
        };
        let key = (target.identity, size);
        let permit = self.pool_permits(key).acquire_owned().await;
        let permit = permit
            .map_err(|_| TaskError::new(TaskErrorKind::Cancelled, "the worker is shutting down"))?;
        let connection = match self.take_idle(&key).await {
            Some(connection) => connection,
            None => ServerConnection::open(target, &self.settings).await?,
        };
        let pool = PoolHandle { key, idle: Arc::clone(&self.idle), permit };
        Ok(DatabaseSession { connection, pool: Some(pool) })
    }

    /// Closes idle connections now, and all others when their tasks end.
    pub(super) fn close(&self) {
        for permits in std::mem::take(&mut *self.permits.lock()).into_values() {
            permits.close();
        }
        self.idle.close();
    }

    fn pool_permits(&self, key: PoolKey) -> Arc<Semaphore> {
        let mut pools = self.permits.lock();
        // A permit in use refers to its semaphore, and so does a task that waits for one.
        pools.retain(|_, permits| Arc::strong_count(permits) > 1);
        Arc::clone(pools.entry(key).or_insert_with(|| Arc::new(Semaphore::new(key.1))))
    }

    /// Takes an idle connection that is still open.
    async fn take_idle(&self, key: &PoolKey) -> Option<ServerConnection> {
        loop {
            let (mut connection, idle_time) = self.idle.take(key)?;
            if connection.client.is_closed() {
                continue;
            }
            connection.busy = true;
            if idle_time < HEALTH_CHECK_AFTER {
                return Some(connection);
            }
            let check = timeout(RESET_TIMEOUT, connection.client.check_connection()).await;
            if matches!(check, Ok(Ok(()))) {
                return Some(connection);
            }
        }
    }
}
