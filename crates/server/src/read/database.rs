//! Whether the tables of the store are those that the server works with.

use noetl_api::system::DatabaseAnswer;
use noetl_types::Text;

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Looks whether every table is there.
    pub async fn validate_database(&self) -> Result<DatabaseAnswer, RuntimeError> {
        let facts = self.store().facts().await?;
        let tables = self.store().tables().await?;
        let of = |wanted: bool| -> Vec<Text> {
            let tables = tables.iter().filter(|(_, is_there)| **is_there == wanted);
            tables.map(|(name, _)| Text::from(*name)).collect()
        };
        let (tables, missing) = (of(true), of(false));
        let (backend, version) = (facts.backend, facts.schema_version);
        let message = if missing.is_empty() {
            format!("{backend}: every table of schema {version} is there")
        } else {
            let count = missing.len();
            format!("{backend}: {count} tables of schema {version} are missing; restore a backup")
        };
        Ok(DatabaseAnswer {
            status: if missing.is_empty() { "ok" } else { "error" }.into(),
            message: message.into(),
            valid: missing.is_empty(),
            tables,
            missing,
        })
    }

    /// Prepares the store, as its server has done when it started: the tables are migrated then, and
    /// months of the log are made ahead.
    pub async fn init_database(&self) -> Result<DatabaseAnswer, RuntimeError> {
        let ahead = self.settings().partitions_ahead;
        self.store().keep_months(self.now(), ahead).await?;
        self.validate_database().await
    }
}
