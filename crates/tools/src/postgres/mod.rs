//! The kind `postgres`: runs statements on a PostgreSQL server.
//!
//! Owns the connections, their pools, and the conversion of values in both directions. A dropped
//! call is cancelled on the server too.

mod bind;
mod connection;
mod decode;
mod error;
pub(crate) mod table;
mod target;

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use noetl_playbook::sql::{SqlDialect, split_rendered};
use noetl_types::{Json, JsonMap, Millis, TaskError};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use self::bind::{BoundParam, bind_value};
use self::connection::{ConnectionPools, read_pool_size};
use self::decode::{RawValue, decode_cell};
use self::target::PostgresTarget;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, add_error_details, schema_error};
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::sql::{
    NumberedStatement, ResultBudget, SqlBatch, SqlError, StatementResult, quote_name,
    results_to_data,
};
use crate::tool::{CallContext, Tool};

pub(crate) struct PostgresTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    pools: ConnectionPools,
}

impl PostgresTool {
    pub(crate) fn new(settings: &Arc<Settings>, sources: &Arc<ScriptLoader>) -> Self {
        Self {
            pools: ConnectionPools::new(Arc::clone(settings)),
            settings: Arc::clone(settings),
            sources: Arc::clone(sources),
        }
    }

    async fn run_batch(&self, call: &ToolCall) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let batch = StatementBatch::from_config(config, &self.sources).await?;
        let target = PostgresTarget::from_config(config)?;
        let pool_size = read_pool_size(config, &self.settings)?;
        let session = self.pools.acquire_session(&target, pool_size).await?;
        let budget = ResultBudget::new(self.settings.payload_cap);
        let (results, error) = batch.run(session.client(), budget).await;
        let data = results_to_data(&results, error.as_ref());
        // After any error that the server did not report, rows may still be in flight.
        if error.as_ref().is_none_or(|error| error.code.is_some()) {
            if batch.can_reuse_session() {
                session.release();
            } else {
                session.close();
            }
        }
        Ok(ToolOutcome { data, error, ..ToolOutcome::default() })
    }
}

#[async_trait]
impl Tool for PostgresTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let outcome = self.run_batch(call).await.unwrap_or_else(ToolOutcome::failed);
        // Present after a success too, so that a rule can refer to it.
        let sqlstate = outcome.error.as_ref().and_then(|error| error.code.clone());
        let pg = Json::object([("code", sqlstate.unwrap_or_default())]);
        Ok(ToolOutcome { extras: JsonMap::from([("pg".into(), pg)]), ..outcome })
    }

    async fn shutdown(&self) {
        self.pools.close();
    }
}

/// Session settings that a task may choose. All of them are durations.
const SESSION_OPTIONS: [&str; 3] =
    ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];

struct StatementBatch {
    sql: SqlBatch,
    session_settings: Vec<(String, String)>,
}

impl StatementBatch {
    async fn from_config(config: Config<'_>, sources: &ScriptLoader) -> Result<Self, TaskError> {
        let sql = SqlBatch::from_config(config, sources, SqlDialect::Postgres).await?;
        Ok(Self { sql, session_settings: read_session_settings(config)? })
    }

    /// True if the usual reset restores the connection. It does not remove statements that are
    /// prepared by name.
    fn can_reuse_session(&self) -> bool {
        let prepares = |text: &String| text.to_ascii_lowercase().contains("prepare");
        !self.sql.texts.iter().any(prepares)
    }

    /// Runs the statements until one fails. The effects of earlier statements remain, unless all of
    /// them are in one transaction.
    async fn run(
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
        let NumberedStatement { text, values } =
            self.sql.params.number_placeholders(text, SqlDialect::Postgres, &mut 0);
        let statement = client.prepare(&text).await?;
        let params = bind_params(&values, statement.params())?;
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

fn column_names(statement: &Statement) -> Vec<Arc<str>> {
    let names = statement.columns().iter();
    names.map(|column| Arc::from(column.name())).collect()
}

/// Values of a row, in the order of its columns.
fn row_values(row: &Row) -> Result<Vec<Json>, SqlError> {
    let cells = row.columns().iter().enumerate().map(|(index, column)| {
        let raw: RawValue<'_> = row.try_get(index)?;
        Ok(decode_cell(column.type_(), raw.0))
    });
    cells.collect()
}

fn bind_params(values: &[(String, &Json)], types: &[Type]) -> Result<Vec<BoundParam>, TaskError> {
    if values.len() != types.len() {
        return Err(schema_error(format!(
            "the statement has {} parameters, but 'params' has {} values for it",
            types.len(),
            values.len()
        )));
    }
    values.iter().zip(types).map(|((name, value), ty)| bind_value(name, value, ty)).collect()
}

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
