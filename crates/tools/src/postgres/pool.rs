//! Connection pools: the number of connections per database, their assignment to tasks, and their
//! reset between two tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use noetl_types::{Digest, Json, TaskError, TaskErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::connection::ServerConnection;
use super::target::PostgresTarget;
use crate::config::{Config, wrong_type};
use crate::settings::Settings;

/// Timeout of the reset of a connection.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);

/// Idle time after which a connection is checked before it is reused.
const HEALTH_CHECK_AFTER: Duration = Duration::from_secs(1);

/// Statements of `DISCARD ALL` except `DEALLOCATE ALL`, which would drop the statements that the
/// driver has prepared. Connections of tasks that prepare statements by name are not reused.
const RESET_SQL: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES";

/// Sharing of connections with other tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolMode {
    /// A dedicated connection.
    Dedicated,
    /// A pool that is shared by tasks with the same maximum number of connections.
    Shared(usize),
}

impl PoolMode {
    /// Reads `pool`: a bool, a number, or a map with `max_size`.
    pub(super) fn from_config(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let max_size = settings.postgres.pool_size.max(1);
        let Some(pool) = config.get("pool") else {
            return Ok(Self::Shared(max_size));
        };
        let requested = match pool {
            Json::Bool(false) => return Ok(Self::Dedicated),
            Json::Bool(true) | Json::Str(_) => None,
            Json::Map(fields) => ["max_size", "size"].into_iter().find_map(|key| fields.get(key)),
            other => Some(other),
        };
        let Some(requested) = requested else {
            return Ok(Self::Shared(max_size));
        };
        let size = requested.as_u64().filter(|size| *size > 0);
        let size =
            size.ok_or_else(|| wrong_type("pool", "true, false or a number above 0", requested))?;
        // A task gets at most the operator's pool size.
        Ok(Self::Shared(usize::try_from(size).map_or(max_size, |size| size.min(max_size))))
    }
}

/// All pools of a toolbox.
pub(super) struct PoolRegistry {
    settings: Arc<Settings>,
    state: Mutex<RegistryState>,
}

#[derive(Default)]
struct RegistryState {
    pools: BTreeMap<(Digest, usize), Arc<ConnectionPool>>,
    /// True if a task that closes idle connections is running.
    has_reaper: bool,
    closed: bool,
}

/// Connections to one database.
struct ConnectionPool {
    permits: Arc<Semaphore>,
    /// Oldest first, so that the most recently used one is reused next.
    idle_connections: Mutex<Vec<ServerConnection>>,
}

impl ConnectionPool {
    fn idle_connections(&self) -> MutexGuard<'_, Vec<ServerConnection>> {
        self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. Dropping it cancels its statement and closes it.
pub(crate) struct DatabaseSession {
    connection: ServerConnection,
    pool_handle: Option<PoolHandle>,
}

/// Pool and permit of a pooled connection.
struct PoolHandle {
    pools: Arc<PoolRegistry>,
    pool: Arc<ConnectionPool>,
    permit: OwnedSemaphorePermit,
}

impl DatabaseSession {
    /// Creates a session with a dedicated connection.
    pub(super) fn dedicated(connection: ServerConnection) -> Self {
        Self { connection, pool_handle: None }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.connection.client
    }

    /// Closes the connection without a cancel request.
    pub(crate) fn close(mut self) {
        self.connection.busy = false;
    }

    /// Returns the connection to its pool. It holds its permit until the reset is done, so that
    /// there are never more connections than permits.
    pub(super) fn release(self) {
        let Self { mut connection, pool_handle } = self;
        let Some(handle) = pool_handle else {
            connection.busy = false;
            return;
        };
        tokio::spawn(async move {
            if !matches!(
                timeout(RESET_TIMEOUT, reset_session(&connection.client)).await,
                Ok(Ok(()))
            ) {
                return;
            }
            connection.busy = false;
            connection.idle_since = Instant::now();
            if handle.pools.ensure_reaper() {
                handle.pool.idle_connections().push(connection);
            }
            drop(handle.permit);
        });
    }
}

async fn reset_session(client: &Client) -> Result<(), tokio_postgres::Error> {
    // Both are pipelined. Without a transaction, `ROLLBACK` has no effect.
    let (rolled_back, reset) =
        tokio::join!(client.batch_execute("ROLLBACK"), client.batch_execute(RESET_SQL));
    rolled_back.and(reset)
}

impl PoolRegistry {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Returns a connection for a task. Waits while no permit is available.
    pub(super) async fn acquire_session(
        self: &Arc<Self>,
        target: &PostgresTarget,
        mode: PoolMode,
    ) -> Result<DatabaseSession, TaskError> {
        let PoolMode::Shared(size) = mode else {
            return Ok(DatabaseSession::dedicated(
                ServerConnection::open(target, &self.settings).await?,
            ));
        };
        let pool = self.get_or_create_pool(target.identity, size);
        let permits = Arc::clone(&pool.permits);
        let permit = permits
            .acquire_owned()
            .await
            .map_err(|_| TaskError::new(TaskErrorKind::Cancelled, "the worker is shutting down"))?;
        let connection = match take_idle(&pool).await {
            Some(connection) => connection,
            None => ServerConnection::open(target, &self.settings).await?,
        };
        let handle = PoolHandle { pools: Arc::clone(self), pool, permit };
        Ok(DatabaseSession { connection, pool_handle: Some(handle) })
    }

    /// Closes idle connections now, and all others when their tasks end.
    pub(super) fn close(&self) {
        let mut state = self.lock_state();
        state.closed = true;
        for pool in std::mem::take(&mut state.pools).into_values() {
            pool.permits.close();
            pool.idle_connections().clear();
        }
    }

    fn get_or_create_pool(&self, identity: Digest, size: usize) -> Arc<ConnectionPool> {
        let mut state = self.lock_state();
        let pool = state.pools.entry((identity, size)).or_insert_with(|| {
            Arc::new(ConnectionPool {
                permits: Arc::new(Semaphore::new(size)),
                idle_connections: Mutex::default(),
            })
        });
        Arc::clone(pool)
    }

    /// Starts the task that closes idle connections, if it is not running. Returns false if the
    /// pools are closed.
    fn ensure_reaper(self: &Arc<Self>) -> bool {
        let mut state = self.lock_state();
        if !state.closed && !std::mem::replace(&mut state.has_reaper, true) {
            tokio::spawn(idle_reaper_loop(Arc::downgrade(self)));
        }
        !state.closed
    }

    /// Closes connections that have been idle too long and drops unused pools. Returns true if any
    /// pool is left.
    fn close_idle(&self) -> bool {
        let limit = self.settings.postgres.idle;
        let mut state = self.lock_state();
        state.pools.retain(|(_, size), pool| {
            let mut idle = pool.idle_connections();
            idle.retain(|connection| {
                connection.idle_since.elapsed() < limit && !connection.client.is_closed()
            });
            let unused = Arc::strong_count(pool) == 1 && pool.permits.available_permits() == *size;
            !(idle.is_empty() && unused)
        });
        state.has_reaper = !state.pools.is_empty();
        state.has_reaper
    }

    fn lock_state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes an idle connection that is still open.
async fn take_idle(pool: &ConnectionPool) -> Option<ServerConnection> {
    loop {
        let mut connection = pool.idle_connections().pop()?;
        if connection.client.is_closed() {
            continue;
        }
        let is_recent = connection.idle_since.elapsed() < HEALTH_CHECK_AFTER;
        connection.busy = true;
        if is_recent
            || matches!(
                timeout(RESET_TIMEOUT, connection.client.check_connection()).await,
                Ok(Ok(()))
            )
        {
            return Some(connection);
        }
    }
}

async fn idle_reaper_loop(pools: Weak<PoolRegistry>) {
    loop {
        let Some(interval) = pools.upgrade().map(|pools| pools.settings.postgres.idle / 2) else {
            return;
        };
        sleep(interval).await;
        let Some(pools) = pools.upgrade() else { return };
        if !pools.close_idle() {
            return;
        }
    }
}
