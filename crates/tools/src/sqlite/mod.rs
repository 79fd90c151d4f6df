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
use noetl_types::{TaskError, TaskErrorKind};
use rusqlite::Connection;

use self::location::DatabaseLocation;
use self::statements::StatementBatch;
use self::stop::StopFlag;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::Config;
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::sql::results_to_data;
use crate::tool::{CallContext, Tool};

/// Connection that one thread at a time uses.
type SharedConnection = Arc<Mutex<Connection>>;

/// Runs SQL on SQLite.
pub(crate) struct SqliteTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    /// In-memory databases, by command.
    memory_databases: Mutex<BTreeMap<String, SharedConnection>>,
}

impl SqliteTool {
    pub(crate) fn new(settings: Arc<Settings>, sources: Arc<ScriptLoader>) -> Self {
        Self { settings, sources, memory_databases: Mutex::default() }
    }

    /// Drops the in-memory database of a command.
    pub(crate) fn release_command(&self, command: &str) {
        self.memory_databases().remove(command);
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
            return Ok(Arc::clone(shared));
        }
        let settings = Arc::clone(&self.settings);
        let connection = run_blocking(move || location.open(&settings)).await??;
        let shared = Arc::new(Mutex::new(connection));
        if is_cached {
            self.memory_databases().insert(command.to_owned(), Arc::clone(&shared));
        }
        Ok(shared)
    }

    fn memory_databases(&self) -> MutexGuard<'_, BTreeMap<String, SharedConnection>> {
        self.memory_databases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_batch(&self, call: &ToolCall) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let batch =
            StatementBatch::from_config(config, &self.sources, self.settings.payload_cap).await?;
        let shared = self.connect_shared(config, &call.command).await?;
        let stop = StopFlag::default();
        let _stop_guard = stop.stop_on_drop();
        let (results, error) =
            run_blocking(move || batch.run(&mut lock_connection(&shared), &stop)).await?;
        Ok(ToolOutcome {
            data: results_to_data(&results, error.as_ref()),
            error,
            ..ToolOutcome::default()
        })
    }
}

fn lock_connection(shared: &SharedConnection) -> MutexGuard<'_, Connection> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a blocking function on a separate thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let message = format!("the database thread ended unexpectedly: {error}");
        TaskError::new(TaskErrorKind::Unknown, message)
    })
}

#[async_trait]
impl Tool for SqliteTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> ToolOutcome {
        match self.run_batch(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }

    async fn shutdown(&self) {
        self.memory_databases().clear();
    }
}
