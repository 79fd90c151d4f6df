//! Everything in this process: the runtime, a worker, and whoever calls.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_api::WorkerApi;
use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::OutboxClaimRequest;
use noetl_api::replay::{ReplayAnswer, ReplayQuery};
use noetl_server::{LinkSettings, NatsSettings, Runtime, Settings, StreamSettings, SystemClock};
use noetl_store::Store;
use noetl_tools::Toolbox;
use noetl_types::{ExecutionId, ExecutionStatus, PoolName, WorkerId};
use noetl_worker::{Worker, WorkerError};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Claimed, System, last_handle};
use crate::broker::Broker;
use crate::error::BenchError;
use crate::playbooks::Playbook;
use crate::site::{Commits, OpenStore, Site};

/// How long one look at a run waits, and how long a stop may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The product inside of this process.
pub(super) struct Embedded {
    runtime: Runtime,
    store: Arc<dyn Store>,
    commits: Commits,
    /// Ends the worker, also where the system is dropped because something failed.
    leaving: DropGuard,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl Embedded {
    pub(super) async fn start(site: &Site, broker: Option<&Broker>) -> Result<Self, BenchError> {
        let OpenStore { store, commits } = site.open().await?;
        let opened = Arc::clone(&store);
        let runtime = Runtime::open(opened, Arc::new(SystemClock), settings(broker)).await?;
        let api: Arc<dyn WorkerApi> = Arc::new(runtime.clone());
        let tools = noetl_tools::Settings::default().with_environment(std::env::vars(), &[]);
        let toolbox = Arc::new(Toolbox::new(tools));
        let worker_id = WorkerId::new("bench")
            .map_err(|error| BenchError::Harness(format!("the name of the worker: {error}")))?;
        let settings = noetl_worker::Settings::new(worker_id, PoolName::shared());
        let leaving = CancellationToken::new();
        let worker = Worker::new(api, toolbox, settings).run(leaving.clone());
        Ok(Self {
            runtime,
            store,
            commits,
            leaving: leaving.drop_guard(),
            worker: tokio::spawn(worker),
        })
    }
}

/// Nothing is tuned but the outlets, and the stream begins with the log.
fn settings(broker: Option<&Broker>) -> Settings {
    Settings {
        outbox: broker.is_some(),
        nats: broker.map(|broker| NatsSettings {
            link: LinkSettings {
                url: broker.url().to_owned(),
                ..LinkSettings::default()
            },
            stream: Some(StreamSettings {
                backfill: true,
                ..StreamSettings::default()
            }),
            ..NatsSettings::default()
        }),
        ..Settings::default()
    }
}

#[async_trait]
impl System for Embedded {
    async fn register(&self, playbook: &Playbook) -> Result<(), BenchError> {
        let request = RegisterRequest {
            content: playbook.text.clone(),
            resource_type: None,
            dry_run: false,
        };
        self.runtime.register_definition(request).await?;
        Ok(())
    }

    async fn execute(
        &self,
        request: ExecuteRequest,
    ) -> Result<(ExecutionId, Option<ExecutionStatus>), BenchError> {
        let answer = self.runtime.execute(request).await?;
        Ok((answer.execution_id, answer.outcome.map(|it| it.status)))
    }

    async fn wait(&self, execution_id: ExecutionId) -> Result<Option<ExecutionStatus>, BenchError> {
        let outcome = self.runtime.wait_for_end(execution_id, PATIENCE).await?;
        Ok(outcome.map(|outcome| outcome.status))
    }

    async fn replay(&self, query: &ReplayQuery) -> Result<ReplayAnswer, BenchError> {
        Ok(self.runtime.replay_state(query.clone()).await?)
    }

    async fn claim(&self, limit: u32) -> Result<Vec<Claimed>, BenchError> {
        let request = OutboxClaimRequest {
            limit: Some(limit.into()),
        };
        let answer = self.runtime.claim_outbox(request).await?;
        Ok(Claimed::of(&answer))
    }

    async fn mark(&self, rows: &[Claimed]) -> Result<u64, BenchError> {
        let marked = self.runtime.mark_outbox_published(Claimed::marks(rows));
        Ok(marked.await?.marked)
    }

    async fn pending(&self) -> Result<u64, BenchError> {
        Ok(self.runtime.outbox_pending().await?.pending)
    }

    async fn stream_lag(&self) -> Result<u64, BenchError> {
        Ok(self.runtime.stream_status().await?.lag_events)
    }

    fn store(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::clone(&self.store))
    }

    fn processes(&self) -> Vec<(&'static str, u32)> {
        Vec::new()
    }

    fn commits(&self) -> Option<u64> {
        Some(self.commits.count())
    }

    async fn stop(self: Arc<Self>) -> Result<(), BenchError> {
        let system = last_handle(self)?;
        drop(system.leaving);
        let ended = system.worker.await;
        let ended = ended.map_err(|error| BenchError::Harness(error.to_string()))?;
        ended.map_err(|error| BenchError::Harness(error.to_string()))?;
        system.runtime.close(PATIENCE).await;
        Ok(())
    }
}
