//! The kind `postgres`: runs statements on a PostgreSQL server.
//!
//! Owns the connections, their pools, and the conversion of values in both directions. A dropped
//! call is cancelled on the server too.

mod bind;
mod connection;
mod datetime;
mod decode;
mod error;
mod pool;
mod reader;
mod statements;
pub(crate) mod table;
mod target;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use self::pool::{PoolMode, PoolRegistry};
use self::statements::StatementBatch;
use self::target::PostgresTarget;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::Config;
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::sql::{ResultBudget, results_to_data};
use crate::tool::{CallContext, Tool};

/// Runs SQL on PostgreSQL.
pub(crate) struct PostgresTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    pools: Arc<PoolRegistry>,
}

impl PostgresTool {
    pub(crate) fn new(settings: Arc<Settings>, sources: Arc<ScriptLoader>) -> Self {
        Self { pools: Arc::new(PoolRegistry::new(Arc::clone(&settings))), settings, sources }
    }

    async fn run_batch(&self, call: &ToolCall) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let batch = StatementBatch::from_config(config, &self.sources).await?;
        let target = PostgresTarget::from_config(config)?;
        let mode = PoolMode::from_config(config, &self.settings)?;
        let session = self.pools.acquire_session(&target, mode).await?;
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
        Ok(ToolOutcome { data, extras: pg_extras(error.as_ref()), error, ..ToolOutcome::default() })
    }
}

/// Entries of `output` in addition to the data. Present after a success too, so that a rule can
/// refer to them.
fn pg_extras(error: Option<&TaskError>) -> JsonMap {
    let pg = Json::object([("code", error::sqlstate(error))]);
    JsonMap::from([("pg".into(), pg)])
}

#[async_trait]
impl Tool for PostgresTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> ToolOutcome {
        match self.run_batch(call).await {
            Ok(outcome) => outcome,
            Err(error) => ToolOutcome { extras: pg_extras(Some(&error)), ..error.into() },
        }
    }

    async fn shutdown(&self) {
        self.pools.close();
    }
}
