//! Pool of read-only connections.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::StoreError;

/// Read connections. Each serves one call at a time.
#[derive(Debug)]
pub(super) struct ReaderPool {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl ReaderPool {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self { permits: Arc::new(Semaphore::new(connections.len())), idle: Mutex::new(connections) }
    }

    /// Runs a read in one snapshot of the file, on a thread that may block.
    pub(super) async fn run_query<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(StoreError::fatal)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let connection = readers
                .pop_idle()
                .ok_or_else(|| StoreError::fatal("no read connection is available"))?;
            let result = run_in_snapshot(&connection, read);
            readers.push_idle(connection);
            drop(permit);
            result
        });
        task.await.map_err(StoreError::fatal)?
    }

    fn pop_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }

    fn push_idle(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

fn run_in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(super::bind::to_store_error)?;
    read(&transaction)
}
