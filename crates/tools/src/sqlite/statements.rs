//! Runs the statements of a task in order on one connection.

use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Statement};

use super::stop::StopFlag;
use super::value::{QueryParams, row_to_json};
use crate::config::Config;
use crate::script_source::ScriptLoader;
use crate::sql::{ResultBudget, SqlBatch, SqlError, StatementResult};

/// Statements of a task and their settings.
pub(super) struct StatementBatch {
    sql: SqlBatch,
    params: QueryParams,
    max_result_size: ByteSize,
}

impl StatementBatch {
    pub(super) async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
        max_result_size: ByteSize,
    ) -> Result<Self, TaskError> {
        let params = QueryParams::from_json(config.get("params"))?;
        Ok(Self { sql: SqlBatch::from_config(config, sources).await?, params, max_result_size })
    }

    /// Runs the statements until one fails. The effects of earlier statements remain, unless all of
    /// them are in one transaction.
    pub(super) fn run(
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
                self.params.bind_statement(&mut statement)?;
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
