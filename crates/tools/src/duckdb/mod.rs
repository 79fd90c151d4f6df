//! The kind `duckdb`: runs statements on a DuckDB file or an in-memory database.
//!
//! The database runs in the process of a python call, with the python package `duckdb`. So its
//! statements can access the files and the network that the code of a python step can, and no more.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_playbook::sql::{SqlDialect, split_rendered};
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio::sync::Semaphore;

use crate::call::{ToolCall, ToolOutcome};
use crate::config::Config;
use crate::python::PythonTool;
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::sql::{
    DatabaseLocation, MEMORY_DATABASE_NAME, ResultBudget, RowShape, SqlBatch, StatementResult,
    credential_error, results_to_data,
};
use crate::tool::{CallContext, Tool};

/// Code that the interpreter runs.
const DRIVER: &str = include_str!("driver.py");

pub(crate) struct DuckdbTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    python: Arc<PythonTool>,
}

impl DuckdbTool {
    pub(crate) fn new(
        settings: &Arc<Settings>,
        sources: &Arc<ScriptLoader>,
        python: &Arc<PythonTool>,
    ) -> Self {
        Self {
            settings: Arc::clone(settings),
            sources: Arc::clone(sources),
            python: Arc::clone(python),
        }
    }

    fn build_request(&self, config: Config<'_>, sql: &SqlBatch) -> Result<Json, TaskError> {
        let location = DatabaseLocation::from_config(config, Some(""), &self.settings)?;
        let database = match &location.file {
            Some(file) => file.to_string_lossy().into_owned(),
            None => MEMORY_DATABASE_NAME.to_owned(),
        };
        let mut next_param = 0;
        let mut statements = Vec::new();
        for text in &sql.texts {
            for range in split_rendered(text) {
                let dialect = SqlDialect::Duckdb;
                let numbered =
                    sql.params.number_placeholders(&text[range], dialect, &mut next_param);
                let values = numbered.values.into_iter().map(|(_, value)| value.clone());
                statements.push(Json::list([Json::from(numbered.text), Json::list(values)]));
            }
        }
        let max_size = self.settings.payload_cap;
        Ok(Json::object([
            ("database", Json::from(database)),
            ("readonly", Json::from(location.readonly && location.file.is_some())),
            (
                "busy_seconds",
                Json::from_f64(location.busy_timeout.as_secs_f64()).unwrap_or_default(),
            ),
            ("secrets", read_secrets(config)?),
            ("statements", Json::list(statements)),
            ("transaction", Json::from(sql.in_transaction)),
            ("max_bytes", Json::from(max_size.as_bytes())),
            ("too_large", Json::from(ResultBudget::too_large_message(max_size))),
        ]))
    }

    fn reply_to_outcome(&self, reply: &Json, shape: RowShape) -> Result<ToolOutcome, TaskError> {
        if let Some(reason) = reply.get("missing").and_then(Json::as_str) {
            let interpreter = &self.settings.python.interpreter;
            let message = format!(
                "tasks of kind 'duckdb' need the python package 'duckdb', which '{interpreter}' \
                 lacks ({reason}); install it on the worker with `{interpreter} -m pip install \
                 duckdb`"
            );
            return Err(TaskError::new(TaskErrorKind::Unsupported, message));
        }
        let results = reply.get("results").and_then(Json::as_list).unwrap_or_default();
        let results: Vec<_> = results.iter().map(|result| read_result(result, shape)).collect();
        let error = reply.get("error").filter(|error| !error.is_null()).map(read_error);
        let data = results_to_data(&results, error.as_ref());
        Ok(ToolOutcome { data, error, ..ToolOutcome::default() })
    }
}

#[async_trait]
impl Tool for DuckdbTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let sql = SqlBatch::from_config(config, &self.sources, SqlDialect::Duckdb).await?;
        let request = self.build_request(config, &sql)?;
        let driver_call = ToolCall {
            config: JsonMap::from([("code".into(), Json::from(DRIVER))]),
            input: JsonMap::from([("request".into(), request)]),
            ..call.clone()
        };
        let outcome = self.python.run(&driver_call, context).await?;
        if outcome.error.is_some() {
            return Ok(ToolOutcome { data: Json::Null, extras: JsonMap::new(), ..outcome });
        }
        self.reply_to_outcome(&outcome.data, sql.shape)
    }

    fn call_permits(&self) -> Option<&Semaphore> {
        self.python.call_permits()
    }
}

/// True if the `auth` of a `duckdb` task is a map of names to credentials, not a credential.
pub fn names_credentials(auth: &JsonMap) -> bool {
    !auth.contains_key("type") && !auth.contains_key("source")
}

/// Reads the credentials that the statements may use, each with its name. The credential of `auth`
/// itself has none.
fn read_secrets(config: Config<'_>) -> Result<Json, TaskError> {
    let secret = |name: Json, credential: &Json| match credential.as_map() {
        Some(fields) if fields.get("type").is_some_and(|kind| kind.as_str().is_some()) => {
            Ok(Json::list([name, credential.clone()]))
        }
        _ => Err(credential_error(credential, "postgres")),
    };
    let Some(auth) = config.get("auth") else { return Ok(Json::list([])) };
    let secrets = match auth.as_map() {
        Some(map) if names_credentials(map) => {
            let entries = map.iter();
            entries.map(|(name, credential)| secret(Json::from(&**name), credential)).collect()
        }
        _ => secret(Json::Null, auth).map(|secret| vec![secret]),
    };
    Ok(Json::list(secrets?))
}

fn read_result(result: &Json, shape: RowShape) -> StatementResult {
    if let Some(count) = result.get("count").and_then(Json::as_u64) {
        return StatementResult::Count(count);
    }
    let list = |key: &str| result.get(key).and_then(Json::as_list).unwrap_or_default();
    let columns: Vec<Arc<str>> =
        list("columns").iter().map(|name| name.as_str().unwrap_or("").into()).collect();
    let row = |row: &Json| shape.build_row(&columns, row.as_list().unwrap_or_default().to_vec());
    StatementResult::Rows { rows: list("rows").iter().map(row).collect(), columns }
}

fn read_error(error: &Json) -> TaskError {
    let text = |key: &str| error.get(key).and_then(Json::as_str);
    let kind = text("kind")
        .and_then(|kind| TaskErrorKind::parse(kind).ok())
        .unwrap_or(TaskErrorKind::DbError);
    let message = text("message").unwrap_or("the statement failed");
    TaskError { code: error.get("code").cloned(), ..TaskError::new(kind, message) }
}
