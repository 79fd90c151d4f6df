//! Runs the statements of a task in order on one connection.

use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use noetl_playbook::sql::split_rendered;
use noetl_types::{Json, Millis, TaskError};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::bind::{BoundParam, bind_value};
use super::decode::{RawValue, decode_cell};
use crate::config::{Config, add_error_details, schema_error, wrong_type};
use crate::script_source::ScriptLoader;
use crate::sql::{
    ResultBudget, SqlBatch, SqlError, StatementResult, check_param_count, quote_name,
};

/// Session settings that a task may choose. All of them are durations.
const SESSION_OPTIONS: [&str; 3] =
    ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];

/// Statements of a task and their settings.
pub(super) struct StatementBatch {
    sql: SqlBatch,
    params: Vec<Json>,
    session_settings: Vec<(String, String)>,
}

impl StatementBatch {
    pub(super) async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
    ) -> Result<Self, TaskError> {
        let params = match config.get("params") {
            Some(Json::List(params)) => params.to_vec(),
            Some(other) => return Err(wrong_type("params", "a list, for $1, $2 and so on", other)),
            None => Vec::new(),
        };
        let sql = SqlBatch::from_config(config, sources).await?;
        Ok(Self { sql, params, session_settings: read_session_settings(config)? })
    }

    /// True if the usual reset restores the connection. It does not remove statements that are
    /// prepared by name.
    pub(super) fn can_reuse_session(&self) -> bool {
        let prepares = |text: &String| text.to_ascii_lowercase().contains("prepare");
        !self.sql.texts.iter().any(prepares)
    }

    /// Runs the statements until one fails. The effects of earlier statements remain, unless all of
    /// them are in one transaction.
    pub(super) async fn run(
        &self,
        client: &Client,
        mut budget: ResultBudget,
    ) -> (Vec<StatementResult>, Option<TaskError>) {
        let mut results = Vec::new();
        let result = self.run_statements(client, &mut budget, &mut results).await;
        let Err(SqlError(mut error)) = result else {
            return (results, None);
        };
        if self.sql.in_transaction {
            // A connection that cannot roll back is closed, which has the same effect.
            client.batch_execute("ROLLBACK").await.ok();
        }
        if self.sql.statement_count > 1 {
            add_error_details(&mut error, [("statement".into(), Json::from(results.len()))]);
        }
        (results, Some(error))
    }

    async fn run_statements(
        &self,
        client: &Client,
        budget: &mut ResultBudget,
        results: &mut Vec<StatementResult>,
    ) -> Result<(), SqlError> {
        for (name, value) in &self.session_settings {
            client.execute("SELECT set_config($1, $2, false)", &[name, value]).await?;
        }
        if self.sql.in_transaction {
            client.batch_execute("BEGIN").await?;
        }
        for text in &self.sql.texts {
            for range in split_rendered(text) {
                results.push(self.run_statement(client, &text[range], budget).await?);
            }
        }
        if self.sql.in_transaction {
            client.batch_execute("COMMIT").await?;
        }
        Ok(())
    }

    async fn run_statement(
        &self,
        client: &Client,
        text: &str,
        budget: &mut ResultBudget,
    ) -> Result<StatementResult, SqlError> {
        let statement = client.prepare(text).await?;
        let params = bind_params(&self.params, statement.params())?;
        let columns = column_names(&statement);
        let mut stream = pin!(client.query_raw(&statement, params).await?);
        let mut rows = Vec::new();
        while let Some(row) = stream.try_next().await? {
            let row = self.sql.shape.build_row(&columns, row_values(&row)?);
            budget.reserve_row(&row)?;
            rows.push(row);
        }
        Ok(if columns.is_empty() {
            StatementResult::Count(stream.rows_affected().unwrap_or(0))
        } else {
            StatementResult::Rows { columns, rows }
        })
    }
}

/// Names of the columns of a statement.
pub(super) fn column_names(statement: &Statement) -> Vec<Arc<str>> {
    let names = statement.columns().iter();
    names.map(|column| Arc::from(column.name())).collect()
}

/// Values of a row, in the order of its columns.
pub(super) fn row_values(row: &Row) -> Result<Vec<Json>, SqlError> {
    let cells = row.columns().iter().enumerate().map(|(index, column)| {
        let raw: RawValue<'_> = row.try_get(index)?;
        Ok(decode_cell(column.type_(), raw.0))
    });
    cells.collect()
}

/// Encodes the parameters of a statement.
pub(super) fn bind_params(params: &[Json], types: &[Type]) -> Result<Vec<BoundParam>, TaskError> {
    check_param_count(types.len(), params)?;
    let pairs = params.iter().zip(types).enumerate();
    pairs.map(|(index, (param, ty))| bind_value(&format!("params[{index}]"), param, ty)).collect()
}

/// Reads the session settings of a task.
fn read_session_settings(config: Config<'_>) -> Result<Vec<(String, String)>, TaskError> {
    let mut settings = Vec::new();
    if let Some(schema) = config.text("schema")? {
        let path: Vec<String> = schema.split(',').map(|name| quote_name(name.trim())).collect();
        settings.push(("search_path".to_owned(), path.join(", ")));
    }
    for (name, value) in config.map("options")?.into_iter().flatten() {
        if !SESSION_OPTIONS.contains(&&**name) {
            let known = SESSION_OPTIONS.join(", ");
            return Err(schema_error(format!("'options.{name}' is unknown; use {known}")));
        }
        let time = Millis::from_json(value).map_err(|error| schema_error(error.to_string()))?;
        settings.push((name.to_string(), time.as_ms().to_string()));
    }
    Ok(settings)
}
