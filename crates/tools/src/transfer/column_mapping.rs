//! Mapping of source columns to target columns, and the statement that inserts them.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError};

use super::plan::{TransferPlan, WriteMode};
use crate::config::{schema_error, wrong_type};
use crate::sql::{quote_name, quote_names};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ColumnMapping {
    /// Indexes of the values in a source row.
    source_indexes: Vec<usize>,
    pub(super) target_names: Vec<Arc<str>>,
}

impl ColumnMapping {
    /// Maps the columns of a source to those of a target, if they are known.
    pub(super) fn from_plan(
        plan: &TransferPlan<'_>,
        source: &[Arc<str>],
        target: Option<&[Arc<str>]>,
    ) -> Result<Self, TaskError> {
        let pairs = match plan.mapping {
            Some(mapping) => read_mapping(mapping, source)?,
            None => source.iter().map(|name| (Arc::clone(name), Arc::clone(name))).collect(),
        };
        let mut mapping = Self { source_indexes: Vec::new(), target_names: Vec::new() };
        for (from, to) in order_pairs(pairs, plan.columns.as_deref())? {
            let index = source.iter().position(|name| *name == from);
            mapping
                .source_indexes
                .push(index.ok_or_else(|| unknown_column("source", &from, source))?);
            mapping.target_names.push(match target {
                Some(columns) => find_column(columns, &to)?,
                None => to,
            });
        }
        Ok(mapping)
    }

    /// Converts a source row to a target row.
    pub(super) fn map_row(&self, row: &[Json]) -> Vec<Json> {
        let value_at = |index: &usize| row.get(*index).cloned().unwrap_or_default();
        self.source_indexes.iter().map(value_at).collect()
    }
}

/// Source column and target column.
type ColumnPair = (Arc<str>, Arc<str>);

/// Reads pairs of source and target columns, in the order of the source.
///
/// A mapping goes from source names to target names. The opposite direction is also supported. It
/// applies if only the values are source names.
fn read_mapping(mapping: &JsonMap, source: &[Arc<str>]) -> Result<Vec<ColumnPair>, TaskError> {
    let mut pairs = Vec::new();
    for (key, value) in mapping {
        match value {
            Json::Str(name) => pairs.push((Arc::clone(key), Arc::clone(name))),
            other => return Err(wrong_type(&format!("mapping.{key}"), "a name", other)),
        }
    }
    let position = |name: &Arc<str>| source.iter().position(|other| other == name);
    if let Some((missing, _)) = pairs.iter().find(|(from, _)| position(from).is_none()) {
        if pairs.iter().any(|(_, from)| position(from).is_none()) {
            return Err(unknown_column("source", missing, source));
        }
        for (from, to) in &mut pairs {
            std::mem::swap(from, to);
        }
    }
    pairs.sort_by_key(|(from, _)| position(from));
    Ok(pairs)
}

/// Sorts the pairs into the configured order.
fn order_pairs(
    pairs: Vec<ColumnPair>,
    columns: Option<&[Arc<str>]>,
) -> Result<Vec<ColumnPair>, TaskError> {
    let Some(columns) = columns else {
        return Ok(pairs);
    };
    let find_pair = |name: &Arc<str>| {
        let pair = pairs.iter().find(|(_, to)| to == name).cloned();
        let names: Vec<_> = pairs.iter().map(|(_, to)| Arc::clone(to)).collect();
        pair.ok_or_else(|| unknown_column("mapping", name, &names))
    };
    columns.iter().map(find_pair).collect()
}

/// Finds a column by name: exactly, or else ignoring case.
fn find_column(columns: &[Arc<str>], name: &Arc<str>) -> Result<Arc<str>, TaskError> {
    let mut similar = columns.iter().filter(|column| column.eq_ignore_ascii_case(name));
    let column = columns.iter().find(|column| *column == name).or_else(|| similar.next());
    column.cloned().ok_or_else(|| unknown_column("target", name, columns))
}

fn unknown_column(side: &str, name: &str, columns: &[Arc<str>]) -> TaskError {
    let columns = columns.join(", ");
    let message = format!("the {side} has no column '{name}'; its columns are {columns}");
    schema_error(message)
}

/// Builds a statement that inserts a row into a table.
pub(super) fn build_insert(
    plan: &TransferPlan<'_>,
    table: &str,
    columns: &[Arc<str>],
    keys: &[Arc<str>],
) -> Result<String, TaskError> {
    let prefix = plan.target.system.param_prefix();
    let placeholders: Vec<String> =
        (1..=columns.len()).map(|number| format!("{prefix}{number}")).collect();
    let mut text = format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        quote_names(columns),
        placeholders.join(", ")
    );
    if plan.mode != WriteMode::Upsert {
        return Ok(text);
    }
    if keys.is_empty() {
        return Err(schema_error("the target has no primary key; mode 'upsert' requires 'keys'"));
    }
    let keys = keys.iter().map(|key| find_column(columns, key)).collect::<Result<Vec<_>, _>>()?;
    let other_columns = columns.iter().filter(|column| !keys.contains(column));
    let assignments: Vec<String> =
        other_columns.map(|column| format!("{0} = excluded.{0}", quote_name(column))).collect();
    text.push_str(&format!(" ON CONFLICT ({}) DO ", quote_names(&keys)));
    if assignments.is_empty() {
        text.push_str("NOTHING");
    } else {
        text.push_str(&format!("UPDATE SET {}", assignments.join(", ")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
