//! System in this process: the runtime, a worker, and the caller.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_api::WorkerApi;
use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::OutboxClaimRequest;
use noetl_api::replay::{ReplayQuery, ReplayResponse};
use noetl_server::{
    CallContext, ControlPlane, NatsConnectionSettings, NatsSettings, OutboxSetting, Settings,
    StreamSettings, SystemClock,
};
use noetl_store::Store;
use noetl_tools::Toolbox;
use noetl_types::{ExecutionId, ExecutionStatus, PoolName, WorkerId};
use noetl_worker::{Worker, WorkerError};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{ClaimedRow, SystemUnderTest, unwrap_last_handle};
use crate::broker::BenchBroker;
use crate::error::BenchError;
use crate::playbooks::BenchPlaybook;
use crate::store_site::{CommitCounter, OpenStore, StoreSite};

/// Maximum time of one wait for a run, and of a stop.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The product inside of this process.
pub(super) struct EmbeddedSystem {
    runtime: ControlPlane,
    store: Arc<dyn Store>,
    commits: CommitCounter,
    /// Stops the worker, even if the system is dropped because of an error.
    stop_guard: DropGuard,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl EmbeddedSystem {
    pub(super) async fn start(
        site: &StoreSite,
        broker: Option<&BenchBroker>,
    ) -> Result<Self, BenchError> {
        let OpenStore { store, commits } = site.open().await?;
        let runtime_store = Arc::clone(&store);
        let runtime =
            ControlPlane::open(runtime_store, Arc::new(SystemClock), server_settings(broker))
                .await?;
        let api: Arc<dyn WorkerApi> = Arc::new(runtime.worker_api());
        let tools = noetl_tools::Settings::default().with_environment(std::env::vars(), &[]);
        let toolbox = Arc::new(Toolbox::new(tools));
        let worker_id = WorkerId::new("bench")
            .map_err(|error| BenchError::Harness(format!("the name of the worker: {error}")))?;
        let settings = noetl_worker::WorkerSettings::new(worker_id, PoolName::shared());
        let stop = CancellationToken::new();
        let worker = Worker::new(api, toolbox, settings).run(stop.clone());
        Ok(Self {
            runtime,
            store,
            commits,
            stop_guard: stop.drop_guard(),
            worker: tokio::spawn(worker),
        })
    }
}

/// Default settings except for publishing. The stream starts at the beginning of the log.
fn server_settings(broker: Option<&BenchBroker>) -> Settings {
    Settings {
        outbox: if broker.is_some() { OutboxSetting::Enabled } else { OutboxSetting::Disabled },
        nats: broker.map(|broker| NatsSettings {
            link: NatsConnectionSettings {
                url: broker.url().to_owned(),
                ..NatsConnectionSettings::default()
            },
            stream: Some(StreamSettings { backfill: true, ..StreamSettings::default() }),
            ..NatsSettings::default()
        }),
        ..Settings::default()
    }
}

#[async_trait]
impl SystemUnderTest for EmbeddedSystem {
    async fn register_playbook(&self, playbook: &BenchPlaybook) -> Result<(), BenchError> {
        let request =
            RegisterRequest { content: playbook.text.clone(), resource_type: None, dry_run: false };
        self.runtime.catalog.register_definition(CallContext::server(), request).await?;
        Ok(())
    }

    async fn execute_playbook(
        &self,
        request: ExecuteRequest,
    ) -> Result<(ExecutionId, Option<ExecutionStatus>), BenchError> {
        let response = self.runtime.executions.start(CallContext::server(), request).await?.answer;
        Ok((response.execution_id, response.outcome.map(|outcome| outcome.status)))
    }

    async fn wait_for_run(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionStatus>, BenchError> {
        let outcome = self
            .runtime
            .executions
            .wait_for_end(CallContext::server(), execution_id, CALL_TIMEOUT)
            .await?;
        Ok(outcome.map(|outcome| outcome.status))
    }

    async fn replay_run(&self, query: &ReplayQuery) -> Result<ReplayResponse, BenchError> {
        Ok(self.runtime.queries.replay_state(CallContext::server(), query.clone()).await?)
    }

    async fn claim_rows(&self, limit: u32) -> Result<Vec<ClaimedRow>, BenchError> {
        let request = OutboxClaimRequest { limit: Some(limit.into()) };
        let response = self.runtime.publishing.claim_outbox(request).await?;
        Ok(ClaimedRow::from_response(&response))
    }

    async fn mark_rows(&self, rows: &[ClaimedRow]) -> Result<u64, BenchError> {
        let marked =
            self.runtime.publishing.mark_outbox_published(ClaimedRow::to_mark_request(rows));
        Ok(marked.await?.marked)
    }

    async fn pending_row_count(&self) -> Result<u64, BenchError> {
        Ok(self.runtime.publishing.outbox_pending().await?.pending)
    }

    async fn stream_lag(&self) -> Result<u64, BenchError> {
        Ok(self.runtime.publishing.stream_status().await?.lag_events)
    }

    fn store(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::clone(&self.store))
    }

    fn system_processes(&self) -> Vec<(&'static str, u32)> {
        Vec::new()
    }

    fn commit_count(&self) -> Option<u64> {
        Some(self.commits.synced_commits())
    }

    async fn stop(self: Arc<Self>) -> Result<(), BenchError> {
        let system = unwrap_last_handle(self)?;
        drop(system.stop_guard);
        let result = system.worker.await;
        let result = result.map_err(|error| BenchError::Harness(error.to_string()))?;
        result.map_err(|error| BenchError::Harness(error.to_string()))?;
        system.runtime.close(CALL_TIMEOUT).await;
        Ok(())
    }
}
