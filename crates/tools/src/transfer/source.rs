//! Sources of the rows of a transfer.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use super::TransferTool;
use super::plan::{SystemKind, TransferPlan};
use crate::call::ToolCall;
use crate::config::{missing_key, wrong_type};
use crate::postgres::table::PostgresReader;
use crate::sql::{QueryParams, RowChunk, RowReader, SqlError};
use crate::sqlite::table::SqliteReader;
use crate::tool::{CallContext, Tool as _};

/// Column name of rows that are not maps.
const SCALAR_COLUMN: &str = "value";

/// Rows of an HTTP response, which arrived as a whole.
struct HttpRows {
    columns: Vec<Arc<str>>,
    rows: std::vec::IntoIter<Json>,
    chunk_size: usize,
}

pub(super) async fn open_source(
    transfer: &TransferTool,
    call: &ToolCall,
    plan: &TransferPlan<'_>,
) -> Result<Box<dyn RowReader>, TaskError> {
    let config = plan.source.config;
    let query = || match (config.text("query")?, config.text("table")?) {
        (Some(query), _) => Ok(query.to_owned()),
        (None, Some(table)) => {
            Ok(format!("SELECT * FROM {}", plan.source.system.quote_table_name(table)))
        }
        (None, None) => Err(missing_key("'source.query'")),
    };
    let params = QueryParams::from_json(config.get("params"))?;
    Ok(match plan.source.system {
        SystemKind::Http => Box::new(HttpRows::fetch_rows(transfer, call, plan).await?),
        SystemKind::Sqlite => {
            let query = query()?;
            let shared = transfer.sqlite.connect_shared(config, &call.command).await?;
            Box::new(SqliteReader::start(shared, query, params, plan.chunk_size).await?)
        }
        SystemKind::Postgres => {
            let query = query()?;
            let (size, settings) = (plan.chunk_size, &transfer.settings);
            Box::new(PostgresReader::start(config, &query, &params, size, settings).await?)
        }
    })
}

impl HttpRows {
    async fn fetch_rows(
        transfer: &TransferTool,
        call: &ToolCall,
        plan: &TransferPlan<'_>,
    ) -> Result<Self, TaskError> {
        let request = ToolCall { config: plan.source.config.0.clone(), ..call.clone() };
        let outcome = transfer.http.run(&request, &CallContext::default()).await?;
        if let Some(error) = outcome.error {
            return Err(error);
        }
        let body = outcome.data.get("data").cloned().unwrap_or_default();
        let path = plan.source.config.text("data_path")?.unwrap_or("");
        let path = path.strip_prefix('$').unwrap_or(path);
        let value = value_at_path(&body, path.trim_start_matches('.'));
        let rows = match value {
            Some(Json::List(rows)) => rows.to_vec(),
            Some(Json::Map(_)) => value.into_iter().cloned().collect(),
            Some(Json::Null) => Vec::new(),
            Some(other) => return Err(wrong_type("the response body", "a list of rows", other)),
            None => return Err(missing_key(&format!("'{path}' in the response body"))),
        };
        let columns = find_columns(&rows, plan.mapping);
        Ok(Self { columns, rows: rows.into_iter(), chunk_size: plan.chunk_size })
    }
}

#[async_trait]
impl RowReader for HttpRows {
    fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    async fn next_chunk(&mut self) -> Result<Vec<Vec<Json>>, SqlError> {
        let mut chunk = RowChunk::new(self.chunk_size);
        for row in self.rows.by_ref() {
            if chunk.push(row_cells(&self.columns, &row)) {
                break;
            }
        }
        Ok(chunk.take_rows())
    }
}

/// Names that occur in any row, and the paths that the mapping uses.
fn find_columns(rows: &[Json], mapping: Option<&JsonMap>) -> Vec<Arc<str>> {
    let maps = rows.iter().filter_map(Json::as_map);
    let mut names: BTreeSet<Arc<str>> = maps.flat_map(JsonMap::keys).cloned().collect();
    if rows.iter().any(|row| row.as_map().is_none()) {
        names.insert(SCALAR_COLUMN.into());
    }
    for (key, value) in mapping.into_iter().flatten() {
        for path in [Some(&**key), value.as_str()].into_iter().flatten() {
            if path.contains('.') && rows.iter().any(|row| value_at_path(row, path).is_some()) {
                names.insert(path.into());
            }
        }
    }
    // Without rows the direction of a mapping cannot be determined. Either works.
    if rows.is_empty() {
        names.extend(mapping.into_iter().flat_map(JsonMap::keys).cloned());
    }
    names.into_iter().collect()
}

fn row_cells(columns: &[Arc<str>], row: &Json) -> Vec<Json> {
    let cell = |name: &Arc<str>| match row {
        Json::Map(fields) => fields.get(name).or_else(|| value_at_path(row, name)).cloned(),
        other => (&**name == SCALAR_COLUMN).then(|| other.clone()),
    };
    columns.iter().map(|name| cell(name).unwrap_or_default()).collect()
}

/// Returns the value at a path of names and indexes, such as `data.rates` or `pages.0.rows`.
fn value_at_path<'v>(value: &'v Json, path: &str) -> Option<&'v Json> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(value, |value, name| match value {
        Json::List(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })
}
