//! Validation of the store's tables.

use noetl_api::system::DatabaseCheckResponse;
use noetl_types::Text;

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Checks that every table exists.
    pub async fn validate_database(&self) -> Result<DatabaseCheckResponse, RuntimeError> {
        let stats = self.store().store_stats().await?;
        let tables = self.store().check_tables().await?;
        let tables_where = |is_present: bool| -> Vec<Text> {
            let tables = tables.iter().filter(|(_, exists)| **exists == is_present);
            tables.map(|(name, _)| Text::from(*name)).collect()
        };
        let (tables, missing) = (tables_where(true), tables_where(false));
        let (backend, version) = (stats.backend, stats.schema_version);
        let message = if missing.is_empty() {
            format!("{backend}: all tables of schema {version} exist")
        } else {
            let count = missing.len();
            format!("{backend}: {count} tables of schema {version} are missing; restore a backup")
        };
        Ok(DatabaseCheckResponse {
            status: if missing.is_empty() { "ok" } else { "error" }.into(),
            message: message.into(),
            valid: missing.is_empty(),
            tables,
            missing,
        })
    }

    /// Prepares the store as at server start: tables are migrated when the store is opened, and log
    /// partitions are created in advance here.
    pub async fn init_database(&self) -> Result<DatabaseCheckResponse, RuntimeError> {
        let partitions_ahead = self.settings().partitions_ahead;
        self.store().ensure_log_partitions(self.now(), partitions_ahead).await?;
        self.validate_database().await
    }
}
