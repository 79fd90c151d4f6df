//! Targets of the rows of a transfer.

use std::sync::Arc;

use noetl_types::{Json, TaskError};

use super::TransferTool;
use super::column_mapping::{ColumnMapping, build_insert};
use super::plan::{RowDestination, SystemKind, TransferPlan, WriteMode};
use crate::call::ToolCall;
use crate::config::Config;
use crate::sql::RowShape;
use crate::tool::{CallContext, Tool as _};
use crate::{postgres, sqlite};

/// Target that is written in chunks.
pub(super) enum RowTarget {
    Http(Box<ToolCall>),
    Postgres { writer: Box<postgres::table::TableWriter>, insert: postgres::table::InsertStatement },
    Sqlite { writer: sqlite::table::TableWriter, insert: sqlite::table::InsertStatement },
}

/// Open target with its column mapping.
pub(super) struct OpenTarget {
    pub(super) target: RowTarget,
    pub(super) mapping: ColumnMapping,
    /// Statement that empties the table, until it has run.
    pub(super) delete_statement: Option<String>,
}

impl OpenTarget {
    pub(super) async fn open(
        transfer: &TransferTool,
        call: &ToolCall,
        plan: &TransferPlan<'_>,
        source: &[Arc<str>],
    ) -> Result<Self, TaskError> {
        let config = plan.target.config;
        match plan.target.system {
            SystemKind::Http => Ok(Self {
                target: RowTarget::Http(Box::new(base_request(call, config))),
                mapping: ColumnMapping::from_plan(plan, source, None)?,
                delete_statement: None,
            }),
            SystemKind::Postgres => {
                let writer =
                    postgres::table::TableWriter::start(config, &transfer.settings).await?;
                open_postgres(Box::new(writer), plan, source).await
            }
            SystemKind::Sqlite => {
                let shared = transfer.sqlite.connect_shared(config, &call.command).await?;
                open_sqlite(sqlite::table::TableWriter::new(shared), plan, source).await
            }
        }
    }

    /// Writes source rows in one transaction.
    pub(super) async fn write_chunk(
        &mut self,
        transfer: &TransferTool,
        rows: &[Vec<Json>],
        chunk: u64,
    ) -> Result<(), TaskError> {
        let rows: Vec<Vec<Json>> = rows.iter().map(|row| self.mapping.map_row(row)).collect();
        let delete_statement = self.delete_statement.clone();
        match &self.target {
            RowTarget::Http(request) => {
                let names = &self.mapping.target_names;
                let rows = rows.into_iter().map(|row| RowShape::Objects.build_row(names, row));
                post_rows(transfer, request, Json::list(rows), chunk).await?;
            }
            RowTarget::Postgres { writer, insert } => {
                writer.write_rows(insert, &rows, delete_statement.as_deref()).await?;
            }
            RowTarget::Sqlite { writer, insert } => {
                writer.write_rows(insert, rows, delete_statement).await?;
            }
        }
        self.delete_statement = None;
        Ok(())
    }

    /// Closes a target after its last row.
    pub(super) fn close(self) {
        match self.target {
            RowTarget::Postgres { writer, .. } => writer.close(),
            RowTarget::Http(_) | RowTarget::Sqlite { .. } => {}
        }
    }
}

async fn open_postgres(
    writer: Box<postgres::table::TableWriter>,
    plan: &TransferPlan<'_>,
    source: &[Arc<str>],
) -> Result<OpenTarget, TaskError> {
    let (mapping, text, delete_statement) = match &plan.destination {
        RowDestination::Table(name) => {
            let table = postgres::table::TableWriter::quote_table_name(name);
            let columns = writer.table_columns(&table).await?;
            let mapping = ColumnMapping::from_plan(plan, source, Some(&columns))?;
            let keys = match (&plan.keys, plan.mode) {
                (Some(keys), _) => keys.clone(),
                (None, WriteMode::Upsert) => writer.primary_key(&table).await?,
                (None, WriteMode::Append | WriteMode::Replace) => Vec::new(),
            };
            let text = build_insert(&table, &mapping.target_names, plan.mode, &keys, '$')?;
            (mapping, text, delete_all_statement(plan.mode, &table))
        }
        RowDestination::Query(query) => {
            (ColumnMapping::from_plan(plan, source, None)?, query.clone(), None)
        }
        RowDestination::Endpoint => return Err(crate::config::missing_key("'target.table'")),
    };
    let insert = writer.prepare_insert(&text, &mapping.target_names).await?;
    Ok(OpenTarget { target: RowTarget::Postgres { writer, insert }, mapping, delete_statement })
}

async fn open_sqlite(
    writer: sqlite::table::TableWriter,
    plan: &TransferPlan<'_>,
    source: &[Arc<str>],
) -> Result<OpenTarget, TaskError> {
    let (mapping, text, table) = match &plan.destination {
        RowDestination::Table(name) => {
            let table = sqlite::table::TableWriter::quote_table_name(name);
            let columns = writer.table_columns(&table).await?;
            let mapping = ColumnMapping::from_plan(plan, source, Some(&columns))?;
            let keys = match (&plan.keys, plan.mode) {
                (Some(keys), _) => keys.clone(),
                (None, WriteMode::Upsert) => writer.primary_key(&table).await?,
                (None, WriteMode::Append | WriteMode::Replace) => Vec::new(),
            };
            let text = build_insert(&table, &mapping.target_names, plan.mode, &keys, '?')?;
            (mapping, text, Some(table))
        }
        RowDestination::Query(query) => {
            (ColumnMapping::from_plan(plan, source, None)?, query.clone(), None)
        }
        RowDestination::Endpoint => return Err(crate::config::missing_key("'target.table'")),
    };
    let delete_statement = table.as_ref().and_then(|table| delete_all_statement(plan.mode, table));
    let insert = writer.prepare_insert(text, &mapping.target_names, table.as_deref()).await?;
    Ok(OpenTarget { target: RowTarget::Sqlite { writer, insert }, mapping, delete_statement })
}

fn delete_all_statement(mode: WriteMode, table: &str) -> Option<String> {
    match mode {
        WriteMode::Replace => Some(format!("DELETE FROM {table}")),
        WriteMode::Append | WriteMode::Upsert => None,
    }
}

/// Builds the request that sends rows, without the rows.
fn base_request(call: &ToolCall, config: Config<'_>) -> ToolCall {
    let mut request = call.clone();
    request.config = config.0.clone();
    let method = request.config.entry("method".into());
    method.or_insert_with(|| Json::from("POST"));
    request
}

async fn post_rows(
    transfer: &TransferTool,
    request: &ToolCall,
    rows: Json,
    chunk: u64,
) -> Result<(), TaskError> {
    let mut request = request.clone();
    request.config.insert("json".into(), rows);
    // Each chunk is a separate effect.
    request.idempotency_key = format!("{}:{chunk}", request.idempotency_key);
    let outcome = transfer.http.run(&request, &CallContext::default()).await;
    outcome.error.map_or(Ok(()), Err)
}
