//! Runs the statements of a task in order on one connection.

use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use noetl_playbook::sql::split_rendered;
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::bind::{BoundParam, bind_value};
use super::decode::{RawValue, decode_cell};
use super::error;
use crate::config::{Config, missing_key, wrong_type};
use crate::script_source::ScriptLoader;
use crate::sql::{ResultBudget, RowShape, StatementResult, quote_name, read_sql_texts};

/// Session settings that a task may choose. All of them are durations.
const SESSION_OPTIONS: [&str; 3] =
    ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];

/// Statements of a task and their settings.
pub(super) struct StatementBatch {
    statements: Vec<String>,
    params: Vec<Json>,
    shape: RowShape,
    in_transaction: bool,
    session_settings: Vec<(String, String)>,
}

impl StatementBatch {
    pub(super) async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
    ) -> Result<Self, TaskError> {
        let mut statements = Vec::new();
        for text in read_sql_texts(config, sources).await? {
            let ranges = split_rendered(&text);
            statements.extend(ranges.into_iter().map(|range| text[range].to_owned()));
        }
        if statements.is_empty() {
            return Err(missing_key("an SQL statement"));
        }
        let params = match config.get("params") {
            Some(Json::List(params)) => params.to_vec(),
            Some(other) => return Err(wrong_type("params", "a list, for $1, $2 and so on", other)),
            None => Vec::new(),
        };
        if !params.is_empty() && statements.len() > 1 {
            let message = format!(
                "'params' requires a single statement, but the task has {}",
                statements.len()
            );
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        Ok(Self {
            statements,
            params,
            shape: if config.flag("as_objects")?.unwrap_or(true) {
                RowShape::Objects
            } else {
                RowShape::Lists
            },
            in_transaction: config.flag("transaction")?.unwrap_or(false),
            session_settings: read_session_settings(config)?,
        })
    }

    /// True if the usual reset restores the connection. It does not remove statements that are
    /// prepared by name.
    pub(super) fn can_reuse_session(&self) -> bool {
        let prepares = |text: &String| text.to_ascii_lowercase().contains("prepare");
        !self.statements.iter().any(prepares)
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
        let Err(mut error) = result else {
            return (results, None);
        };
        if self.in_transaction {
            // A connection that cannot roll back is closed, which has the same effect.
            client.batch_execute("ROLLBACK").await.ok();
        }
        if self.statements.len() > 1 {
            let mut details = error.details.as_ref().and_then(Json::as_map).cloned();
            let details = details.get_or_insert_default();
            details.insert("statement".into(), Json::from(results.len()));
            error.details = Some(std::mem::take(details).into());
        }
        (results, Some(error))
    }

    async fn run_statements(
        &self,
        client: &Client,
        budget: &mut ResultBudget,
        results: &mut Vec<StatementResult>,
    ) -> Result<(), TaskError> {
        apply_settings(client, &self.session_settings).await?;
        if self.in_transaction {
            client.batch_execute("BEGIN").await.map_err(error::statement_error)?;
        }
        for statement in &self.statements {
            results.push(self.run_statement(client, statement, budget).await?);
        }
        if self.in_transaction {
            client.batch_execute("COMMIT").await.map_err(error::statement_error)?;
        }
        Ok(())
    }

    async fn run_statement(
        &self,
        client: &Client,
        text: &str,
        budget: &mut ResultBudget,
    ) -> Result<StatementResult, TaskError> {
        let statement = client.prepare(text).await.map_err(error::statement_error)?;
        let params = bind_params(&self.params, statement.params())?;
        let columns = column_names(&statement);
        let stream = client.query_raw(&statement, params).await.map_err(error::statement_error)?;
        let mut stream = pin!(stream);
        let mut rows = Vec::new();
        while let Some(row) = stream.try_next().await.map_err(error::statement_error)? {
            let row = self.shape.build_row(&columns, row_values(&row)?);
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
pub(super) fn row_values(row: &Row) -> Result<Vec<Json>, TaskError> {
    let cells = row.columns().iter().enumerate().map(|(index, column)| {
        let raw: RawValue<'_> = row.try_get(index).map_err(error::statement_error)?;
        Ok(decode_cell(column.type_(), raw.0))
    });
    cells.collect()
}

/// Encodes the parameters of a statement.
pub(super) fn bind_params(params: &[Json], types: &[Type]) -> Result<Vec<BoundParam>, TaskError> {
    if params.len() != types.len() {
        let message = format!(
            "the statement has {} parameters, but 'params' has {} values",
            types.len(),
            params.len()
        );
        return Err(TaskError::new(TaskErrorKind::Schema, message));
    }
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
    let empty = JsonMap::new();
    for (name, value) in config.map("options")?.unwrap_or(&empty) {
        if !SESSION_OPTIONS.contains(&&**name) {
            let message =
                format!("'options.{name}' is unknown; use {}", SESSION_OPTIONS.join(", "));
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        let time = Millis::from_json(value)
            .map_err(|error| TaskError::new(TaskErrorKind::Schema, error.to_string()))?;
        settings.push((name.to_string(), time.as_ms().to_string()));
    }
    Ok(settings)
}

async fn apply_settings(client: &Client, settings: &[(String, String)]) -> Result<(), TaskError> {
    for (name, value) in settings {
        client
            .execute("SELECT set_config($1, $2, false)", &[name, value])
            .await
            .map_err(error::statement_error)?;
    }
    Ok(())
}
