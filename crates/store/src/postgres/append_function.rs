//! Database function that appends a group.
//!
//! The server would set up a single large statement from scratch on each execution, which takes
//! longer than the writes. Statements inside a function are set up once per connection, and only
//! those that an append needs are run.
//!
//! The function belongs to the program, not to the schema. Its name contains a digest of its text,
//! and opening the database creates it if it does not exist. So programs of two releases can use
//! one database, each with its own function.

use std::sync::LazyLock;

use noetl_types::sha256;
use tokio_postgres::GenericClient;

use super::composite_rows::composite_columns_sql;
use crate::row::{
    CACHE, COMMAND, COMMAND_PATCH, ColumnKind, DEDUP, EVENT, EXECUTION, EXECUTION_MUTABLE,
    FOLLOW_UP, IDEMPOTENCY, NEW_OUTBOX, RESULT, SLOT, TIMER, Table, WAIT,
};

/// Names and kinds of the columns of a parameter's rows.
type ColumnDefs = &'static [(&'static str, ColumnKind)];

/// Columns of an item in addition to those of its execution.
const EXPECTED_COLUMNS: ColumnDefs = &[
    ("expected", ColumnKind::Int),
    ("expected_chain", ColumnKind::Bytes),
    ("starts", ColumnKind::Bool),
    ("is_audit", ColumnKind::Bool),
];

/// Execution of a fence. Precedes the columns of the fence.
const FENCE_EXECUTION_COLUMN: ColumnDefs = &[("execution_id", ColumnKind::Int)];

/// Columns of a fence.
pub(super) const FENCE_COLUMNS: ColumnDefs = &[
    ("place", ColumnKind::Int),
    ("command_id", ColumnKind::Int),
    ("attempt", ColumnKind::Int),
    ("token", ColumnKind::Bytes),
    ("worker", ColumnKind::Text),
    ("expired_by", ColumnKind::Time),
];

/// Kind of change of a coordination row.
const CHANGE_COLUMN: ColumnDefs = &[("act", ColumnKind::Text)];

/// Execution that writes a row whose own columns may name another execution.
const WRITING_EXECUTION_COLUMN: ColumnDefs = &[("of_execution", ColumnKind::Int)];

/// Time of a request.
const REQUEST_TIME_COLUMN: ColumnDefs = &[("now", ColumnKind::Time)];

/// Returns the parameters that are rows: the suffix of the name of each composite type, and its
/// columns.
fn row_parameters() -> [(&'static str, Vec<ColumnDefs>); 8] {
    [
        ("item", vec![EXPECTED_COLUMNS, EXECUTION.columns]),
        ("event", vec![EVENT.columns]),
        ("fence", vec![FENCE_EXECUTION_COLUMN, FENCE_COLUMNS]),
        ("command", vec![COMMAND.columns]),
        ("patch", vec![COMMAND_PATCH.columns]),
        ("timer", vec![TIMER.columns]),
        ("result", vec![RESULT.columns]),
        ("outbox", vec![NEW_OUTBOX.columns]),
    ]
}

/// Returns the additional parameters for groups that change coordination tables.
fn coordination_parameters() -> [(&'static str, Vec<ColumnDefs>); 6] {
    [
        ("wait", vec![CHANGE_COLUMN, WAIT.columns]),
        ("errand", vec![CHANGE_COLUMN, FOLLOW_UP.columns]),
        ("slot", vec![CHANGE_COLUMN, SLOT.columns]),
        ("cached", vec![WRITING_EXECUTION_COLUMN, CACHE.columns]),
        ("request", vec![REQUEST_TIME_COLUMN, IDEMPOTENCY.columns]),
        ("message", vec![DEDUP.columns]),
    ]
}

/// Append function without coordination changes.
pub(super) static APPEND: LazyLock<DatabaseFunction> =
    LazyLock::new(|| DatabaseFunction::build_append(AppendVariant::WithoutCoordination));

/// Append function with coordination changes.
pub(super) static APPEND_WITH_COORDINATION: LazyLock<DatabaseFunction> =
    LazyLock::new(|| DatabaseFunction::build_append(AppendVariant::WithCoordination));

/// Variant of the append function: with or without coordination changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AppendVariant {
    WithoutCoordination,
    WithCoordination,
}

impl AppendVariant {
    /// Returns the lines of the SQL text that belong to this variant.
    fn select_lines(self, text: &str) -> String {
        let mut selected = String::new();
        let mut is_included = true;
        for line in text.lines() {
            match line {
                "--if shared" => is_included = self == Self::WithCoordination,
                "--end" => is_included = true,
                line if is_included => {
                    selected.push_str(line);
                    selected.push('\n');
                }
                _ => {}
            }
        }
        selected
    }
}

/// Returns the placeholders in the SQL text for the columns of a coordination table, with their
/// replacements.
fn column_replacements(name: &str, table: &Table, row: &str) -> [(String, String); 3] {
    [
        (format!("{{{name}_columns}}"), table.column_list()),
        (format!("{{new_{name}_columns}}"), table.prefixed_column_list(row)),
        (format!("{{excluded_{name}_columns}}"), table.prefixed_column_list("excluded.")),
    ]
}

/// Database function that belongs to this program.
#[derive(Debug)]
pub(super) struct DatabaseFunction {
    name: String,
    definition: String,
    /// Statement that calls the function.
    pub(super) call: String,
}

impl DatabaseFunction {
    fn build_append(variant: AppendVariant) -> Self {
        let mut parameters = row_parameters().to_vec();
        // The ids of commands follow the row parameters, and lock keys follow the coordination
        // rows.
        let mut count = parameters.len() + 1;
        if variant == AppendVariant::WithCoordination {
            let additional = coordination_parameters();
            count += additional.len() + 1;
            parameters.extend(additional);
        }
        let mut text = String::new();
        for (suffix, columns) in parameters {
            let columns = composite_columns_sql(&columns);
            text.push_str(&format!("CREATE TYPE {{name}}_{suffix} AS ({columns});\n"));
        }
        text.push_str(&variant.select_lines(include_str!("sql/append.sql")));
        for (placeholder, columns) in [
            column_replacements("wait", &WAIT, "new_wait."),
            column_replacements("errand", &FOLLOW_UP, "new_errand."),
            column_replacements("slot", &SLOT, "new_slot."),
            column_replacements("cache", &CACHE, "new_cache."),
            column_replacements("request", &IDEMPOTENCY, "request."),
            column_replacements("message", &DEDUP, "message."),
        ]
        .into_iter()
        .flatten()
        {
            text = text.replace(&placeholder, &columns);
        }
        for (placeholder, columns) in [
            ("{execution_columns}", EXECUTION.column_list()),
            ("{item_execution_columns}", EXECUTION.prefixed_column_list("item.")),
            ("{changing_columns}", EXECUTION_MUTABLE.column_list()),
            ("{item_changing_columns}", EXECUTION_MUTABLE.prefixed_column_list("item.")),
            ("{event_columns}", EVENT.column_list()),
            ("{new_event_columns}", EVENT.prefixed_column_list("new_event.")),
            ("{command_columns}", COMMAND.column_list()),
            ("{new_command_columns}", COMMAND.prefixed_column_list("new_command.")),
            ("{result_columns}", RESULT.column_list()),
            ("{new_result_columns}", RESULT.prefixed_column_list("new_result.")),
        ] {
            text = text.replace(placeholder, &columns);
        }
        let arguments: Vec<_> = (1..=count).map(|index| format!("${index}")).collect();
        let digest = sha256(&text).to_string();
        let name = format!("append_{}", digest.get(..16).unwrap_or(&digest));
        Self {
            definition: text.replace("{name}", &name),
            call: format!("SELECT * FROM {name}({})", arguments.join(", ")),
            name,
        }
    }

    /// Creates the function if it does not exist. The caller holds the tables lock.
    pub(super) async fn ensure_created(
        &self,
        client: &impl GenericClient,
    ) -> Result<(), tokio_postgres::Error> {
        let exists = "SELECT EXISTS (
            SELECT
            FROM pg_proc
            WHERE proname = $1 AND pronamespace = current_schema()::regnamespace
        )";
        let row = client.query_one(exists, &[&self.name]).await?;
        if !row.try_get::<_, bool>(0)? {
            client.batch_execute(&self.definition).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
