//! Read-only access to a store: creates nothing and migrates nothing.

use std::sync::Arc;

use noetl_store::sqlite::SqliteOptions;
use noetl_store::{MemoryStore, PostgresStore, SchemaStatus, SqliteStore, Store};

use super::error::StartError;
use super::store::{StoreLocation, open_file_read_only};
use crate::render::text_layout::escape_control;

impl StoreLocation {
    /// Schema version of the tables. `None` for a store in memory.
    pub(crate) async fn schema_version(&self) -> Result<Option<SchemaStatus>, StartError> {
        match self {
            Self::Memory => Ok(None),
            Self::File { path, .. } => {
                let status = SqliteStore::schema_status(&SqliteOptions::new(path));
                let to_start_error = |source| StartError::DatabaseFile {
                    path: escape_control(&path.to_string_lossy()),
                    source,
                };
                status.map(Some).map_err(to_start_error)
            }
            Self::Database(database) => {
                let status = PostgresStore::schema_status(&database.postgres_options()).await;
                status.map(Some).map_err(|source| database.to_start_error(source))
            }
        }
    }

    /// Opens the store read-only while other processes may write to it.
    pub(crate) async fn open_read_only(&self) -> Result<Arc<dyn Store>, StartError> {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            Self::File { path, .. } => open_file_read_only(path),
            Self::Database(database) => {
                let store = PostgresStore::open_read_only(&database.postgres_options()).await;
                Ok(Arc::new(store.map_err(|source| database.to_start_error(source))?))
            }
        }
    }
}
