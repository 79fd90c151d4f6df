//! Pool of read-only connections.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::writer::MemoryConnection;
use crate::error::StoreError;

/// Read connections.
#[derive(Debug)]
pub(super) enum Readers {
    /// Connections to a file, used by threads that may block.
    Pool(Arc<ReaderPool>),
    /// The connection to a database in memory, used by the callers' threads.
    Memory(MemoryConnection),
}

impl Readers {
    pub(super) fn new_pool(connections: Vec<Connection>) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self::Pool(Arc::new(ReaderPool { idle: Mutex::new(connections), permits }))
    }

    /// Runs a read in one snapshot of the database.
    pub(super) async fn run_query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Pool(pool) => ReaderPool::run_query(pool, read).await,
            // No other call uses the connection meanwhile, so no transaction is needed.
            Self::Memory(connection) => connection.with_connection(read),
        }
    }
}

/// Read connections to a file. Each serves one call at a time.
#[derive(Debug)]
pub(super) struct ReaderPool {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl ReaderPool {
    /// Runs a read on a thread that may block.
    async fn run_query<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(StoreError::fatal)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let connection = readers
                .idle
                .lock()
                .pop()
                .ok_or_else(|| StoreError::fatal("no read connection is available"))?;
            let result = run_in_snapshot(&connection, read);
            readers.idle.lock().push(connection);
            drop(permit);
            result
        });
        task.await.map_err(StoreError::fatal)?
    }
}

fn run_in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(super::bind::to_store_error)?;
    read(&transaction)
}
