//! The kind `transfer`: moves rows from one system to another in chunks.
//!
//! Each chunk is written in one transaction. A failure leaves the earlier chunks in place and
//! reports their number of rows.

mod column_mapping;
mod plan;
mod source;
mod target;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use self::plan::{RowDestination, SystemKind, TransferPlan};
use self::source::open_source;
use self::target::OpenTarget;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, add_error_details, schema_error};
use crate::http::HttpTool;
use crate::settings::Settings;
use crate::sqlite::SqliteTool;
use crate::tool::{CallContext, Tool};

pub(crate) struct TransferTool {
    settings: Arc<Settings>,
    http: Arc<HttpTool>,
    /// In-memory databases are shared with the other tasks of the command.
    sqlite: Arc<SqliteTool>,
}

#[derive(Debug, Default)]
struct TransferProgress {
    rows: usize,
    chunks: u64,
}

impl TransferTool {
    pub(crate) fn new(
        settings: &Arc<Settings>,
        http: &Arc<HttpTool>,
        sqlite: &Arc<SqliteTool>,
    ) -> Self {
        Self { settings: Arc::clone(settings), http: Arc::clone(http), sqlite: Arc::clone(sqlite) }
    }

    async fn copy_rows(
        &self,
        call: &ToolCall,
        plan: &TransferPlan<'_>,
        progress: &mut TransferProgress,
    ) -> Result<Vec<Arc<str>>, TaskError> {
        let mut source = open_source(self, call, plan).await?;
        let mut target = OpenTarget::open(self, call, plan, source.columns()).await?;
        loop {
            let rows = source.next_chunk().await?;
            // A table is emptied even if there are no rows to write.
            if rows.is_empty() && target.delete_statement.is_none() {
                break;
            }
            target.write_chunk(&rows).await?;
            if rows.is_empty() {
                break;
            }
            progress.rows += rows.len();
            progress.chunks += 1;
        }
        Ok(target.mapping.target_names)
    }
}

impl TransferProgress {
    fn to_fields(&self) -> [(Arc<str>, Json); 2] {
        [
            ("rows_transferred".into(), Json::from(self.rows)),
            ("chunks_processed".into(), Json::from(self.chunks)),
        ]
    }
}

fn both_in_memory(plan: &TransferPlan<'_>) -> bool {
    [plan.source, plan.target].iter().all(|end| {
        let name = ["database", "db_path", "path"].into_iter().find_map(|key| end.config.get(key));
        let is_memory = matches!(name.and_then(Json::as_str), Some(":memory:" | ""));
        end.system == SystemKind::Sqlite && is_memory
    })
}

fn build_report(
    plan: &TransferPlan<'_>,
    progress: &TransferProgress,
    columns: &[Arc<str>],
) -> JsonMap {
    let (source, target) = (plan.source.system.as_str(), plan.target.system.as_str());
    let table = match &plan.destination {
        RowDestination::Table(table) => Json::from(&**table),
        RowDestination::Query(_) | RowDestination::Endpoint => Json::Null,
    };
    let columns = columns.iter().map(|name| Json::from(&**name));
    let mut report = JsonMap::from([
        ("direction".into(), Json::from(format!("{source}_to_{target}"))),
        ("source_type".into(), Json::from(source)),
        ("target_type".into(), Json::from(target)),
        ("mode".into(), Json::from(plan.mode.as_str())),
        ("target_table".into(), table),
        ("columns".into(), Json::list(columns)),
    ]);
    report.extend(progress.to_fields());
    report
}

#[async_trait]
impl Tool for TransferTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let plan = TransferPlan::from_config(Config(&call.config))?;
        if both_in_memory(&plan) {
            let message = "source and target are the same in-memory database; use INSERT instead";
            return Err(schema_error(message));
        }
        let mut progress = TransferProgress::default();
        match self.copy_rows(call, &plan, &mut progress).await {
            Ok(columns) => Ok(ToolOutcome::ok(build_report(&plan, &progress, &columns))),
            Err(mut error) => {
                add_error_details(&mut error, progress.to_fields());
                Err(error)
            }
        }
    }
}
