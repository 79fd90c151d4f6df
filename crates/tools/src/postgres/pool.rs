//! Connection pools: the number of connections per database, their assignment to tasks, and their
//! reset between two tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_types::{Digest, Json, TaskError, TaskErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::connection::ServerConnection;
use super::target::PostgresTarget;
use crate::config::{Config, wrong_type};
use crate::idle::IdlePool;
use crate::settings::Settings;

/// Timeout of the reset of a connection.
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

/// All pools of a toolbox.
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

/// Pool and permit of a pooled connection.
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
        for permits in std::mem::take(&mut *self.lock_permits()).into_values() {
            permits.close();
        }
        self.idle.close();
    }

    fn pool_permits(&self, key: PoolKey) -> Arc<Semaphore> {
        let mut pools = self.lock_permits();
        // A permit in use refers to its semaphore, and so does a task that waits for one.
        pools.retain(|_, permits| Arc::strong_count(permits) > 1);
        Arc::clone(pools.entry(key).or_insert_with(|| Arc::new(Semaphore::new(key.1))))
    }

    fn lock_permits(&self) -> MutexGuard<'_, BTreeMap<PoolKey, Arc<Semaphore>>> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
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
