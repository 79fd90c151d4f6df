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

use self::pool::{ConnectionPools, read_pool_size};
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
    pools: ConnectionPools,
}

impl PostgresTool {
    pub(crate) fn new(settings: &Arc<Settings>, sources: &Arc<ScriptLoader>) -> Self {
        Self {
            pools: ConnectionPools::new(Arc::clone(settings)),
            settings: Arc::clone(settings),
            sources: Arc::clone(sources),
        }
    }

    async fn run_batch(&self, call: &ToolCall) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let batch = StatementBatch::from_config(config, &self.sources).await?;
        let target = PostgresTarget::from_config(config)?;
        let pool_size = read_pool_size(config, &self.settings)?;
        let session = self.pools.acquire_session(&target, pool_size).await?;
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
        Ok(ToolOutcome { data, error, ..ToolOutcome::default() })
    }
}

#[async_trait]
impl Tool for PostgresTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let outcome = self.run_batch(call).await.unwrap_or_else(ToolOutcome::failed);
        // Present after a success too, so that a rule can refer to it.
        let sqlstate = outcome.error.as_ref().and_then(|error| error.code.clone());
        let pg = Json::object([("code", sqlstate.unwrap_or_default())]);
        Ok(ToolOutcome { extras: JsonMap::from([("pg".into(), pg)]), ..outcome })
    }

    async fn shutdown(&self) {
        self.pools.close();
    }
}
