//! Looking at a place without changing it: what is not there is not made, what is old stays old.

use std::sync::Arc;

use noetl_store::sqlite::SqliteOptions;
use noetl_store::{MemoryStore, PostgresStore, Schema, SqliteStore, Store};

use super::error::StartError;
use super::store::{Place, open_to_read};
use crate::render::words::visible;

impl Place {
    /// How far its tables are; nothing where it has none.
    pub(crate) async fn schema(&self) -> Result<Option<Schema>, StartError> {
        match self {
            Self::Memory => Ok(None),
            Self::File { path, .. } => {
                let found = SqliteStore::schema(&SqliteOptions::new(path));
                let refused = |source| StartError::File {
                    path: visible(&path.to_string_lossy()),
                    source,
                };
                found.map(Some).map_err(refused)
            }
            Self::Database(database) => {
                let found = PostgresStore::schema(&database.options()).await;
                found.map(Some).map_err(|source| database.refused(source))
            }
        }
    }

    /// Opens it to read, beside whoever writes it.
    pub(crate) async fn open_to_read(&self) -> Result<Arc<dyn Store>, StartError> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            Self::File { path, .. } => open_to_read(path),
            Self::Database(database) => {
                let opened = PostgresStore::open_to_read(&database.options()).await;
                Ok(Arc::new(opened.map_err(|source| database.refused(source))?))
            }
        }
    }
}
