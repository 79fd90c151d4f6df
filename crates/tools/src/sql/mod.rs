//! Code that the SQL tools share: sources of statements, and the form of their results.
//!
//! Owns no connection and no type of any database.

mod location;
mod params;
mod results;

use std::sync::Arc;

use async_trait::async_trait;
pub(crate) use location::{DatabaseLocation, MEMORY_DATABASE_NAME};
use noetl_playbook::sql::{SqlDialect, split_rendered};
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
pub(crate) use params::{NumberedStatement, QueryParams};
pub(crate) use results::{ResultBudget, RowChunk, RowShape, StatementResult, results_to_data};

use crate::config::{Config, decode_base64_text, missing_key, schema_error, wrong_type};
use crate::script_source::ScriptLoader;

/// Error of a database operation. The modules of the databases convert their drivers' errors to it.
#[derive(Debug)]
pub(crate) struct SqlError(pub(crate) TaskError);

impl From<TaskError> for SqlError {
    fn from(error: TaskError) -> Self {
        Self(error)
    }
}

impl From<SqlError> for TaskError {
    fn from(error: SqlError) -> Self {
        error.0
    }
}

/// Rows that are read in chunks.
#[async_trait]
pub(crate) trait RowReader: Send {
    fn columns(&self) -> &[Arc<str>];

    /// Returns the next chunk. It is empty after the last one.
    async fn next_chunk(&mut self) -> Result<Vec<Vec<Json>>, SqlError>;
}

#[async_trait]
pub(crate) trait TableTarget: Send + Sync {
    /// Returns the columns of a table, whose name is quoted.
    async fn table_columns(&self, table: &str) -> Result<Vec<Arc<str>>, SqlError>;

    /// Returns the primary key columns of a table, whose name is quoted.
    async fn primary_key(&self, table: &str) -> Result<Vec<Arc<str>>, SqlError>;

    /// Prepares the statement that inserts a row with these columns. `table` is its table, if it
    /// is known.
    async fn prepare_insert(
        self: Box<Self>,
        statement: String,
        columns: &[Arc<str>],
        table: Option<&str>,
    ) -> Result<Box<dyn RowWriter>, SqlError>;
}

/// Target of rows that are written in chunks.
#[async_trait]
pub(crate) trait RowWriter: Send {
    /// Writes rows, in one transaction if the target has transactions. `before` runs first, in the
    /// same transaction.
    async fn write_rows(
        &mut self,
        rows: Vec<Vec<Json>>,
        before: Option<String>,
    ) -> Result<(), SqlError>;
}

/// Checks that a statement has a parameter for each column of a row.
pub(crate) fn check_parameter_count(expected: usize, actual: usize) -> Result<(), TaskError> {
    if expected == actual {
        return Ok(());
    }
    Err(schema_error(format!(
        "the target's query has {expected} parameters, but a row has {actual} columns"
    )))
}

/// Returns the map of a task's credential. Aliases are resolved before a tool is called, so a text
/// here is an alias that could not be resolved.
pub(crate) fn read_credential<'c>(
    config: Config<'c>,
    expected_type: &str,
) -> Result<Option<&'c JsonMap>, TaskError> {
    let Some(auth) = config.get("auth") else {
        return Ok(None);
    };
    let Some(fields) = auth.as_map() else {
        return Err(credential_error(auth, expected_type));
    };
    match fields.get("type").and_then(Json::as_str) {
        Some(kind) if kind != expected_type => {
            let message = format!(
                "a credential of type '{kind}' cannot be used here; it must be of type \
                 {expected_type}"
            );
            Err(TaskError::new(TaskErrorKind::Auth, message))
        }
        None if fields.contains_key("source") && fields.contains_key("key") => {
            Err(credential_error(auth, expected_type))
        }
        Some(_) | None => Ok(Some(fields)),
    }
}

/// Error for a credential that is an alias which could not be resolved.
pub(crate) fn credential_error(auth: &Json, example_type: &str) -> TaskError {
    let alias = auth.as_str().or_else(|| auth.get("key")?.as_str()).unwrap_or("?");
    let message = format!(
        "the credential '{alias}' cannot be resolved: it is not in a keychain of this worker; give \
         the credential as a map, such as {{type: {example_type}, ...}}"
    );
    TaskError::new(TaskErrorKind::Auth, message)
}

/// Quotes a name as in standard SQL.
pub(crate) fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn quote_names(names: &[Arc<str>]) -> String {
    let names: Vec<String> = names.iter().map(|name| quote_name(name)).collect();
    names.join(", ")
}

/// Quotes the name of a table for use in a statement. Unquoted parts are case-folded first.
pub(crate) fn quote_table_name(name: &str, fold: fn(&str) -> String) -> String {
    let parts = split_name(name, fold);
    let parts: Vec<String> = parts.iter().map(|part| quote_name(part)).collect();
    parts.join(".")
}

/// Splits a name such as `schema.table` or `"My.Schema".table` into its parts, without their
/// quotes. Unquoted parts are case-folded as the database does.
pub(crate) fn split_name(name: &str, fold: fn(&str) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = name.trim();
    loop {
        let (part, after) = if let Some(inside) = rest.strip_prefix('"') {
            take_quoted_name(inside)
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (fold(rest[..end].trim()), &rest[end..])
        };
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None => return parts,
        }
    }
}

/// Returns the name up to its closing quote, and the rest of the text.
fn take_quoted_name(inside: &str) -> (String, &str) {
    let mut name = String::new();
    let mut rest = inside;
    while let Some(end) = rest.find('"') {
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return (name, rest),
        }
    }
    (name + rest, "")
}

/// Keys that hold SQL, each with a variant whose name ends in `_b64`. The first one that is given
/// is used.
const SQL_KEYS: [(&str, &str); 5] = [
    ("command", "command_b64"),
    ("query", "query_b64"),
    ("commands", "commands_b64"),
    ("queries", "queries_b64"),
    ("cmd", "cmd_b64"),
];

/// SQL of a task and how it is run.
pub(crate) struct SqlBatch {
    /// Texts with any number of statements each, to be run in order.
    pub(crate) texts: Vec<String>,
    /// Number of statements in all texts.
    pub(crate) statement_count: usize,
    pub(crate) params: QueryParams,
    pub(crate) shape: RowShape,
    pub(crate) in_transaction: bool,
}

impl SqlBatch {
    pub(crate) async fn from_config(
        config: Config<'_>,
        sources: &ScriptLoader,
        dialect: SqlDialect,
    ) -> Result<Self, TaskError> {
        let texts = read_sql_texts(config, sources).await?;
        let statement_count = texts.iter().map(|text| split_rendered(text).len()).sum();
        if statement_count == 0 {
            return Err(missing_key("an SQL statement"));
        }
        let params = QueryParams::from_json(config.get("params"))?;
        params.check_statements(texts.iter().map(String::as_str), dialect)?;
        let as_objects = config.flag("as_objects")?.unwrap_or(true);
        Ok(Self {
            texts,
            statement_count,
            params,
            shape: if as_objects { RowShape::Objects } else { RowShape::Lists },
            in_transaction: config.flag("transaction")?.unwrap_or(false),
        })
    }
}

async fn read_sql_texts(
    config: Config<'_>,
    sources: &ScriptLoader,
) -> Result<Vec<String>, TaskError> {
    for (plain, _) in SQL_KEYS {
        if let Some(value) = config.get(plain) {
            return read_text_list(plain, value);
        }
    }
    for (_, encoded) in SQL_KEYS {
        if let Some(value) = config.get(encoded) {
            let texts = read_text_list(encoded, value)?;
            return texts.iter().map(|text| decode_base64_text(encoded, text)).collect();
        }
    }
    match config.map("script")? {
        Some(script) => Ok(vec![sources.load_script(Config(script)).await?.text]),
        None => Err(missing_key("SQL in 'command', 'query', 'commands' or 'script'")),
    }
}

/// Returns the text of a key, or the texts of its list.
fn read_text_list(key: &str, value: &Json) -> Result<Vec<String>, TaskError> {
    let text = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type(key, "a text or a list of texts", item))
    };
    match value.as_list() {
        Some(items) => items.iter().map(text).collect(),
        None => Ok(vec![text(value)?]),
    }
}

#[cfg(test)]
mod tests;
