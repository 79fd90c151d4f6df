//! The product as a workload meets it.
//!
//! Owns the trait [`System`] and the shapes behind it. A workload knows the trait only, so both
//! shapes do exactly the same work.

mod child;
mod embedded;
mod processes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::ValueEnum;
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::{MarkPublishedRequest, OutboxClaimAnswer};
use noetl_api::replay::{ReplayAnswer, ReplayQuery};
use noetl_store::Store;
use noetl_types::{ExecutionId, ExecutionStatus, OutboxId, PlaybookPath};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::broker::Broker;
use crate::error::BenchError;
use crate::ledger::Ledger;
use crate::playbooks::{Playbook, one_step};
use crate::site::Site;

/// How the product is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Runtime, worker and caller in this process.
    Embedded,
    /// A server and a worker as processes, called over HTTP.
    Processes {
        /// The `noetl` binary.
        noetl: PathBuf,
    },
}

/// The shape without what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ShapeKind {
    /// Everything in one process.
    Embedded,
    /// A server and a worker, over HTTP.
    Processes,
}

impl ShapeKind {
    /// How tables call it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Processes => "processes",
        }
    }
}

impl Shape {
    /// Which one it is.
    pub const fn kind(&self) -> ShapeKind {
        match self {
            Self::Embedded => ShapeKind::Embedded,
            Self::Processes { .. } => ShapeKind::Processes,
        }
    }
}

/// Longest that one run is waited for.
const PATIENCE: Duration = Duration::from_mins(5);

/// One call waits no longer than a server lets it; longer runs are then asked for again.
const WAIT_MS: u64 = 30_000;

/// The product, running.
#[async_trait]
pub(crate) trait System: Send + Sync {
    /// Registers a playbook.
    async fn register(&self, playbook: &Playbook) -> Result<(), BenchError>;

    /// Starts a run, and waits for its end as the request says.
    async fn execute(
        &self,
        request: ExecuteRequest,
    ) -> Result<(ExecutionId, Option<ExecutionStatus>), BenchError>;

    /// Waits for the end of a run for as long as one call may.
    async fn wait(&self, execution_id: ExecutionId) -> Result<Option<ExecutionStatus>, BenchError>;

    /// A run as of a moment.
    async fn replay(&self, query: &ReplayQuery) -> Result<ReplayAnswer, BenchError>;

    /// Takes rows of the outbox, as a publisher does.
    async fn claim(&self, limit: u32) -> Result<Vec<Claimed>, BenchError>;

    /// Marks such rows as published, and says how many that changed.
    async fn mark(&self, rows: &[Claimed]) -> Result<u64, BenchError>;

    /// How many rows of the outbox could be taken.
    async fn pending(&self) -> Result<u64, BenchError>;

    /// How many events the stream lacks.
    async fn stream_lag(&self) -> Result<u64, BenchError>;

    /// Its store, where that is in this process.
    fn store(&self) -> Option<Arc<dyn Store>>;

    /// Its processes, by name, apart from the one that this is.
    fn processes(&self) -> Vec<(&'static str, u32)>;

    /// How often it has waited for the disk, where that can be told.
    fn commits(&self) -> Option<u64>;

    /// Stops it. The caller gives up the last handle, so that nothing keeps the store open.
    async fn stop(self: Arc<Self>) -> Result<(), BenchError>;
}

/// A row of the outbox in the hands of a publisher, and the attempt that its mark is fenced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) outbox_id: OutboxId,
    pub(crate) attempts: u32,
}

impl Claimed {
    fn of(answer: &OutboxClaimAnswer) -> Vec<Self> {
        let rows = answer.rows.iter().map(|row| Self {
            outbox_id: row.outbox_id,
            attempts: row.attempts,
        });
        rows.collect()
    }

    fn marks(rows: &[Self]) -> MarkPublishedRequest {
        MarkPublishedRequest {
            outbox_ids: rows.iter().map(|row| row.outbox_id).collect(),
            attempts: Some(rows.iter().map(|row| row.attempts.into()).collect()),
        }
    }
}

/// A system that has just been started, and how long it took until it accepted a run.
pub(crate) struct Launched {
    pub(crate) system: Arc<dyn System>,
    pub(crate) ready_s: f64,
}

/// What a handle holds that must be the last one.
fn last_handle<T>(handle: Arc<T>) -> Result<T, BenchError> {
    Arc::into_inner(handle)
        .ok_or_else(|| BenchError::Harness("the system is still in use".to_owned()))
}

/// Starts a system, with its outlets on where there is a broker, and waits until it accepts a run, and until that run has ended.
pub(crate) async fn launch(
    shape: &Shape,
    site: &Site,
    broker: Option<&Broker>,
    ledger: &Ledger,
) -> Result<Launched, BenchError> {
    let playbook = one_step()?;
    let began = Instant::now();
    let system: Arc<dyn System> = match shape {
        Shape::Embedded => Arc::new(embedded::Embedded::start(site, broker).await?),
        Shape::Processes { noetl } => {
            Arc::new(processes::Processes::start(noetl, site, broker).await?)
        }
    };
    system.register(&playbook).await?;
    let (execution_id, _) = system.execute(request(&playbook.path, None)).await?;
    let ready_s = began.elapsed().as_secs_f64();
    ledger.note(execution_id, playbook.commands);
    ended_well(&*system, execution_id, None).await?;
    Ok(Launched { system, ready_s })
}

/// Runs a playbook to its good end, and gives the time from the request to the known result.
pub(crate) async fn run_to_end(
    system: &dyn System,
    ledger: &Ledger,
    playbook: &Playbook,
) -> Result<Duration, BenchError> {
    let (_, took) = run_known(system, ledger, playbook).await?;
    Ok(took)
}

/// The same, and which run it was.
pub(crate) async fn run_known(
    system: &dyn System,
    ledger: &Ledger,
    playbook: &Playbook,
) -> Result<(ExecutionId, Duration), BenchError> {
    let began = Instant::now();
    let request = request(&playbook.path, Some(WAIT_MS));
    let (execution_id, status) = system.execute(request).await?;
    ended_well(system, execution_id, status).await?;
    let took = began.elapsed();
    ledger.note(execution_id, playbook.commands);
    Ok((execution_id, took))
}

/// Starts a run, and does not wait for it.
pub(crate) async fn begin(
    system: &dyn System,
    ledger: &Ledger,
    playbook: &Playbook,
) -> Result<ExecutionId, BenchError> {
    let (execution_id, _) = system.execute(request(&playbook.path, None)).await?;
    ledger.note(execution_id, playbook.commands);
    Ok(execution_id)
}

fn request(path: &PlaybookPath, wait_ms: Option<u64>) -> ExecuteRequest {
    ExecuteRequest {
        path: Some(path.clone()),
        wait_ms,
        ..ExecuteRequest::default()
    }
}

pub(crate) async fn ended_well(
    system: &dyn System,
    execution_id: ExecutionId,
    status: Option<ExecutionStatus>,
) -> Result<(), BenchError> {
    let began = Instant::now();
    let mut status = status;
    loop {
        match status {
            Some(ExecutionStatus::Completed) => return Ok(()),
            Some(status) => {
                return Err(BenchError::NotCompleted {
                    execution_id,
                    status,
                });
            }
            None if began.elapsed() > PATIENCE => {
                return Err(BenchError::Endless {
                    execution_id,
                    seconds: PATIENCE.as_secs(),
                });
            }
            None => status = system.wait(execution_id).await?,
        }
    }
}
