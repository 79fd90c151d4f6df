//! Runs the statements of a task in order on one connection.

use noetl_playbook::sql::split_rendered;
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Statement};

use super::error;
use super::stop::StopFlag;
use super::value::{QueryParams, row_to_json};
use crate::config::{Config, missing_key};
use crate::script_source::ScriptLoader;
use crate::sql::{ResultBudget, RowShape, SqlTexts, StatementResult, read_sql_texts};

/// Statements of a task and their settings.
pub(super) struct StatementBatch {
    texts: SqlTexts,
    params: QueryParams,
    shape: RowShape,
    in_transaction: bool,
    max_result_size: ByteSize,
}

impl StatementBatch {
    pub(super) async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
        cap: ByteSize,
    ) -> Result<Self, TaskError> {
        let texts = read_sql_texts(config, sources).await?;
        let count: usize = texts.iter().map(|text| split_rendered(text).len()).sum();
        let params = QueryParams::from_json(config.get("params"))?;
        if count == 0 {
            return Err(missing_key("an SQL statement"));
        }
        if !params.is_empty() && count > 1 {
            let message = format!("'params' requires a single statement, but the task has {count}");
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        Ok(Self {
            texts,
            params,
            shape: if config.flag("as_objects")?.unwrap_or(true) {
                RowShape::Objects
            } else {
                RowShape::Lists
            },
            in_transaction: config.flag("transaction")?.unwrap_or(false),
            max_result_size: cap,
        })
    }

    /// Runs the statements until one fails. The effects of earlier statements remain, unless all of
    /// them are in one transaction.
    pub(super) fn run(
        &self,
        connection: &mut Connection,
        stop: &StopFlag,
    ) -> (Vec<StatementResult>, Option<TaskError>) {
        let mut results = Vec::new();
        let result = stop
            .attach_connection(connection)
            .map_err(error::sqlite_error)
            .and_then(|()| self.run_statements(connection, stop, &mut results));
        let detached = stop.detach_connection(connection).map_err(error::sqlite_error);
        if !connection.is_autocommit() {
            // An open transaction is rolled back, as it is when a connection is closed.
            connection.execute_batch("ROLLBACK").ok();
        }
        (results, result.and(detached).err())
    }

    fn run_statements(
        &self,
        connection: &Connection,
        stop: &StopFlag,
        results: &mut Vec<StatementResult>,
    ) -> Result<(), TaskError> {
        let mut budget = ResultBudget::new(self.max_result_size);
        if self.in_transaction {
            connection.execute_batch("BEGIN").map_err(error::sqlite_error)?;
        }
        for text in &self.texts {
            // SQLite itself splits the text, after each statement has run.
            let mut statements = Batch::new(connection, text);
            while let Some(mut statement) = statements.next().map_err(error::sqlite_error)? {
                if stop.is_stopped() {
                    return Err(TaskError::new(TaskErrorKind::Cancelled, "the task was stopped"));
                }
                self.params.bind_statement(&mut statement)?;
                results.push(self.run_statement(connection, &mut statement, &mut budget)?);
            }
        }
        if self.in_transaction {
            connection.execute_batch("COMMIT").map_err(error::sqlite_error)?;
        }
        Ok(())
    }

    fn run_statement(
        &self,
        connection: &Connection,
        statement: &mut Statement<'_>,
        budget: &mut ResultBudget,
    ) -> Result<StatementResult, TaskError> {
        let names = statement.column_names();
        let columns: Vec<_> = names.into_iter().map(Into::into).collect();
        if columns.is_empty() {
            let before = connection.total_changes();
            statement.raw_execute().map_err(error::sqlite_error)?;
            // A statement that changes no rows leaves the count of the previous statement.
            let changed = connection.total_changes() != before;
            return Ok(StatementResult::Count(if changed { connection.changes() } else { 0 }));
        }
        let mut result_rows = statement.raw_query();
        let mut rows = Vec::new();
        while let Some(row) = result_rows.next().map_err(error::sqlite_error)? {
            let row = self.shape.build_row(&columns, row_to_json(row, columns.len())?);
            budget.reserve_row(&row)?;
            rows.push(row);
        }
        Ok(StatementResult::Rows { columns, rows })
    }
}
