//! Targets of the rows of a transfer.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, TaskError};

use super::TransferTool;
use super::column_mapping::{ColumnMapping, build_insert};
use super::plan::{RowDestination, SystemKind, TransferPlan, WriteMode};
use crate::call::ToolCall;
use crate::http::HttpTool;
use crate::postgres::table::PostgresTableTarget;
use crate::sql::{RowShape, RowWriter, SqlError, TableTarget};
use crate::sqlite::table::SqliteTableTarget;
use crate::tool::{CallContext, Tool as _};

/// Open target with its column mapping.
pub(super) struct OpenTarget {
    writer: Box<dyn RowWriter>,
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
        let database: Box<dyn TableTarget> = match plan.target.system {
            SystemKind::Http => {
                let mapping = ColumnMapping::from_plan(plan, source, None)?;
                let writer = Box::new(HttpWriter::new(transfer, call, plan, &mapping));
                return Ok(Self { writer, mapping, delete_statement: None });
            }
            SystemKind::Postgres => {
                Box::new(PostgresTableTarget::connect(config, &transfer.settings).await?)
            }
            SystemKind::Sqlite => {
                let shared = transfer.sqlite.connect_shared(config, &call.command).await?;
                Box::new(SqliteTableTarget(shared))
            }
        };
        let (mapping, statement, table) = match &plan.destination {
            RowDestination::Table(name) => {
                let table = plan.target.system.quote_table_name(name);
                let columns = database.table_columns(&table).await?;
                let mapping = ColumnMapping::from_plan(plan, source, Some(&columns))?;
                let keys = match (&plan.keys, plan.mode) {
                    (Some(keys), _) => keys.clone(),
                    (None, WriteMode::Upsert) => database.primary_key(&table).await?,
                    (None, WriteMode::Append | WriteMode::Replace) => Vec::new(),
                };
                let insert = build_insert(plan, &table, &mapping.target_names, &keys)?;
                (mapping, insert, Some(table))
            }
            RowDestination::Query(query) => {
                (ColumnMapping::from_plan(plan, source, None)?, query.clone(), None)
            }
            RowDestination::Endpoint => return Err(crate::config::missing_key("'target.table'")),
        };
        let delete_statement = match (plan.mode, &table) {
            (WriteMode::Replace, Some(table)) => Some(format!("DELETE FROM {table}")),
            _ => None,
        };
        let writer =
            database.prepare_insert(statement, &mapping.target_names, table.as_deref()).await?;
        Ok(Self { writer, mapping, delete_statement })
    }

    /// Writes source rows in one transaction.
    pub(super) async fn write_chunk(&mut self, rows: &[Vec<Json>]) -> Result<(), TaskError> {
        let rows = rows.iter().map(|row| self.mapping.map_row(row)).collect();
        self.writer.write_rows(rows, self.delete_statement.clone()).await?;
        self.delete_statement = None;
        Ok(())
    }
}

/// Sends each chunk of rows in one request.
struct HttpWriter {
    http: Arc<HttpTool>,
    /// Request without the rows.
    request: ToolCall,
    columns: Vec<Arc<str>>,
    chunks: u64,
}

impl HttpWriter {
    fn new(
        transfer: &TransferTool,
        call: &ToolCall,
        plan: &TransferPlan<'_>,
        mapping: &ColumnMapping,
    ) -> Self {
        let mut request = ToolCall { config: plan.target.config.0.clone(), ..call.clone() };
        request.config.entry("method".into()).or_insert_with(|| Json::from("POST"));
        let (http, columns) = (Arc::clone(&transfer.http), mapping.target_names.clone());
        Self { http, request, columns, chunks: 0 }
    }
}

#[async_trait]
impl RowWriter for HttpWriter {
    async fn write_rows(
        &mut self,
        rows: Vec<Vec<Json>>,
        _before: Option<String>,
    ) -> Result<(), SqlError> {
        let mut request = self.request.clone();
        let rows = rows.into_iter().map(|row| RowShape::Objects.build_row(&self.columns, row));
        request.config.insert("json".into(), Json::list(rows));
        // Each chunk is a separate effect.
        request.idempotency_key = format!("{}:{}", request.idempotency_key, self.chunks);
        self.chunks += 1;
        let outcome = self.http.run(&request, &CallContext::default()).await?;
        outcome.error.map_or(Ok(()), |error| Err(error.into()))
    }
}
