//! Code that the SQL tools share: sources of statements, and the form of their results.
//!
//! Owns no connection and no type of any database.

mod results;
mod statements;

pub(crate) use results::{ResultBudget, RowChunk, RowShape, StatementResult, results_to_data};
pub(crate) use statements::SqlBatch;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, schema_error};

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

/// Database into which rows are inserted.
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

/// Checks that there is a value for each parameter of a statement.
pub(crate) fn check_param_count(expected: usize, params: &[Json]) -> Result<(), TaskError> {
    if expected == params.len() {
        return Ok(());
    }
    let actual = params.len();
    Err(schema_error(format!(
        "the statement has {expected} parameters, but 'params' has {actual} values"
    )))
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
    let auth_error = |message: String| TaskError::new(TaskErrorKind::Auth, message);
    let Some(auth) = config.get("auth") else {
        return Ok(None);
    };
    let Some(fields) = auth.as_map() else {
        let alias = auth.as_str().unwrap_or("?");
        return Err(auth_error(format!(
            "the credential '{alias}' cannot be resolved: it is not in a keychain of this worker; \
             give the credential as a map, such as {{type: {expected_type}, ...}}"
        )));
    };
    match fields.get("type").and_then(Json::as_str) {
        Some(kind) if kind != expected_type => Err(auth_error(format!(
            "a credential of type '{kind}' cannot be used here; it must be of type {expected_type}"
        ))),
        Some(_) => Ok(Some(fields)),
        None => match fields.get("key").and_then(Json::as_str) {
            Some(alias) if fields.contains_key("source") => Err(auth_error(format!(
                "the credential '{alias}' cannot be resolved: it is not in a keychain of this \
                 worker"
            ))),
            Some(_) | None => Ok(Some(fields)),
        },
    }
}

/// Quotes a name as in standard SQL.
pub(crate) fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes names and joins them with commas.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_names_at_unquoted_dots() {
        let lower = |name: &str| split_name(name, str::to_lowercase);
        assert_eq!(lower("Rate"), ["rate"]);
        assert_eq!(lower("staging . Rate"), ["staging", "rate"]);
        assert_eq!(lower(r#""My.Schema"."a""b""#), ["My.Schema", "a\"b"]);
        assert_eq!(lower(r#""never closed"#), ["never closed"]);
        assert_eq!(lower(""), [""]);
    }

    #[test]
    fn quote_in_name_is_escaped() {
        assert_eq!(quote_name(r#"a"; drop table b; --"#), r#""a""; drop table b; --""#);
    }
}
