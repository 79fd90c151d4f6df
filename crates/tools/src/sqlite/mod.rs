//! The kind `sqlite`: runs statements on a SQLite file or an in-memory database.
//!
//! Owns the in-memory databases, which live as long as the command whose tasks use them. All work
//! runs on threads that may block.

mod error;
mod location;
mod statements;
mod stop;
pub(crate) mod table;
mod value;

pub(crate) use value::QueryParams;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use noetl_types::TaskError;
use rusqlite::Connection;

use self::location::DatabaseLocation;
use self::statements::StatementBatch;
use self::stop::StopFlag;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::Config;
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::sql::{SqlError, results_to_data};
use crate::tool::{CallContext, Tool, run_blocking};

/// Connection that one thread at a time uses.
#[derive(Clone)]
pub(crate) struct SharedConnection(Arc<Mutex<Connection>>);

impl SharedConnection {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function with the connection on a blocking thread. Stops it when the future is
    /// dropped. A transaction that it leaves open is rolled back, as it is when a connection is
    /// closed.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &StopFlag) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let shared = self.clone();
        let stop = StopFlag::default();
        let _stop_guard = stop.stop_on_drop();
        run_blocking("database", move || {
            let mut connection = shared.lock();
            stop.attach_connection(&mut connection)?;
            let result = work(&connection, &stop);
            let detached = stop.detach_connection(&mut connection);
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").ok();
            }
            let value = result?;
            detached?;
            Ok(value)
        })
        .await?
    }
}

/// Runs SQL on SQLite.
pub(crate) struct SqliteTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    /// In-memory databases, by command.
    memory_databases: Mutex<BTreeMap<String, SharedConnection>>,
}

impl SqliteTool {
    pub(crate) fn new(settings: &Arc<Settings>, sources: &Arc<ScriptLoader>) -> Self {
        Self {
            settings: Arc::clone(settings),
            sources: Arc::clone(sources),
            memory_databases: Mutex::default(),
        }
    }

    /// Returns a connection to the database that a config names.
    pub(crate) async fn connect_shared(
        &self,
        config: Config<'_>,
        command: &str,
    ) -> Result<SharedConnection, TaskError> {
        let location = DatabaseLocation::from_config(config, &self.settings)?;
        let is_cached = location.file.is_none() && !command.is_empty();
        if is_cached && let Some(shared) = self.memory_databases().get(command) {
            return Ok(shared.clone());
        }
        let settings = Arc::clone(&self.settings);
        let connection = run_blocking("database", move || location.open(&settings)).await??;
        let shared = SharedConnection(Arc::new(Mutex::new(connection)));
        if is_cached {
            self.memory_databases().insert(command.to_owned(), shared.clone());
        }
        Ok(shared)
    }

    fn memory_databases(&self) -> MutexGuard<'_, BTreeMap<String, SharedConnection>> {
        self.memory_databases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Tool for SqliteTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let batch =
            StatementBatch::from_config(config, &self.sources, self.settings.payload_cap).await?;
        let shared = self.connect_shared(config, &call.command).await?;
        let (results, error) =
            shared.run(move |connection, stop| Ok(batch.run(connection, stop))).await?;
        let data = results_to_data(&results, error.as_ref());
        Ok(ToolOutcome { data, error, ..ToolOutcome::default() })
    }

    fn release_command(&self, command: &str) {
        self.memory_databases().remove(command);
    }

    async fn shutdown(&self) {
        self.memory_databases().clear();
    }
}
