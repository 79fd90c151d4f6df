//! Connections that read.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::StoreError;

/// Some connections, of which each serves one call at a time.
#[derive(Debug)]
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self {
            places: Arc::new(Semaphore::new(connections.len())),
            idle: Mutex::new(connections),
        }
    }

    /// Reads in one snapshot of the file, on a thread where blocking is allowed.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(StoreError::fatal)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let connection = readers
                .take()
                .ok_or_else(|| StoreError::fatal("no connection is left to read with"))?;
            let result = in_snapshot(&connection, read);
            readers.give_back(connection);
            drop(place);
            result
        });
        task.await.map_err(StoreError::fatal)?
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

fn in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection
        .unchecked_transaction()
        .map_err(super::bind::failure)?;
    read(&transaction)
}
