//! The kind `sqlite`: runs statements on a SQLite file or an in-memory database.
//!
//! Owns the in-memory databases, which live as long as the command whose tasks use them. All work
//! runs on threads that may block.

mod connection;
pub(crate) mod table;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_playbook::sql::SqlDialect;
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use parking_lot::Mutex;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Statement};

use self::connection::{SharedConnection, StopFlag};
use self::value::{bind_params, row_to_json};
use crate::call::{ToolCall, ToolOutcome};
use crate::config::Config;
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::sql::{
    DatabaseLocation, ResultBudget, SqlBatch, SqlError, StatementResult, results_to_data,
};
use crate::tool::{CallContext, Tool, run_blocking};

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
        let location = DatabaseLocation::from_config(config, None, &self.settings)?;
        let is_cached = location.file.is_none() && !command.is_empty();
        if is_cached && let Some(shared) = self.memory_databases.lock().get(command) {
            return Ok(shared.clone());
        }
        let settings = Arc::clone(&self.settings);
        let connection = run_blocking("database", move || location.open(&settings)).await??;
        let shared = SharedConnection::new(connection);
        if !is_cached {
            return Ok(shared);
        }
        // Another task may have opened it in the meantime.
        Ok(self.memory_databases.lock().entry(command.to_owned()).or_insert(shared).clone())
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
        self.memory_databases.lock().remove(command);
    }

    async fn shutdown(&self) {
        self.memory_databases.lock().clear();
    }
}

struct StatementBatch {
    sql: SqlBatch,
    max_result_size: ByteSize,
}

impl StatementBatch {
    async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
        max_result_size: ByteSize,
    ) -> Result<Self, TaskError> {
        let sql = SqlBatch::from_config(config, sources, SqlDialect::Sqlite).await?;
        Ok(Self { sql, max_result_size })
    }

    /// Runs the statements until one fails. The effects of earlier statements remain, unless all of
    /// them are in one transaction.
    fn run(
        &self,
        connection: &Connection,
        stop: &StopFlag,
    ) -> (Vec<StatementResult>, Option<TaskError>) {
        let mut results = Vec::new();
        let result = self.run_statements(connection, stop, &mut results);
        (results, result.err().map(TaskError::from))
    }

    fn run_statements(
        &self,
        connection: &Connection,
        stop: &StopFlag,
        results: &mut Vec<StatementResult>,
    ) -> Result<(), SqlError> {
        let mut budget = ResultBudget::new(self.max_result_size);
        let mut next_param = 0;
        if self.sql.in_transaction {
            connection.execute_batch("BEGIN")?;
        }
        for text in &self.sql.texts {
            // SQLite itself splits the text, after each statement has run.
            let mut statements = Batch::new(connection, text);
            while let Some(mut statement) = statements.next()? {
                if stop.is_stopped() {
                    let message = "the task was stopped";
                    return Err(TaskError::new(TaskErrorKind::Cancelled, message).into());
                }
                bind_params(&mut statement, &self.sql.params, &mut next_param)?;
                results.push(self.run_statement(connection, &mut statement, &mut budget)?);
            }
        }
        if self.sql.in_transaction {
            connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn run_statement(
        &self,
        connection: &Connection,
        statement: &mut Statement<'_>,
        budget: &mut ResultBudget,
    ) -> Result<StatementResult, SqlError> {
        let columns: Vec<_> = statement.column_names().map(Into::into).collect();
        if columns.is_empty() {
            let before = connection.total_changes();
            statement.raw_execute()?;
            // A statement that changes no rows leaves the count of the previous statement.
            let changed = connection.total_changes() != before;
            return Ok(StatementResult::Count(if changed { connection.changes() } else { 0 }));
        }
        let mut result_rows = statement.raw_query();
        let mut rows = Vec::new();
        while let Some(row) = result_rows.next()? {
            let row = self.sql.shape.build_row(&columns, row_to_json(row, columns.len())?);
            budget.reserve_row(&row)?;
            rows.push(row);
        }
        Ok(StatementResult::Rows { columns, rows })
    }
}
