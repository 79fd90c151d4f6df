//! The product under test.
//!
//! Owns the trait [`SystemUnderTest`] and the shapes that implement it. A workload uses only the
//! trait, so both shapes do exactly the same work.

mod child;
mod embedded;
mod processes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::ValueEnum;
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::{MarkPublishedRequest, OutboxClaimResponse};
use noetl_api::replay::{ReplayQuery, ReplayResponse};
use noetl_store::Store;
use noetl_types::{ExecutionId, ExecutionStatus, OutboxId, PlaybookPath};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::broker::BenchBroker;
use crate::error::BenchError;
use crate::playbooks::{BenchPlaybook, one_step_playbook};
use crate::run_ledger::RunLedger;
use crate::store_site::StoreSite;

/// Deployment of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemShape {
    /// Server, worker and caller in this process.
    Embedded,
    /// A server and a worker as processes, called over HTTP.
    Processes {
        /// The `noetl` binary.
        noetl: PathBuf,
    },
}

/// Deployment of the product, without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ShapeKind {
    /// Everything in one process
    Embedded,
    /// A server and a worker, over HTTP
    Processes,
}

impl ShapeKind {
    /// Name in tables.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Processes => "processes",
        }
    }
}

impl SystemShape {
    pub const fn kind(&self) -> ShapeKind {
        match self {
            Self::Embedded => ShapeKind::Embedded,
            Self::Processes { .. } => ShapeKind::Processes,
        }
    }
}

/// Maximum time to wait for a run.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

/// Wait time of one call, limited by the server. Longer runs are polled.
const MAX_CALL_WAIT_MS: u64 = 30_000;

/// The running product.
#[async_trait]
pub(crate) trait SystemUnderTest: Send + Sync {
    async fn register_playbook(&self, playbook: &BenchPlaybook) -> Result<(), BenchError>;

    /// Starts a run, and waits for its end if the request has a wait time.
    async fn execute_playbook(
        &self,
        request: ExecuteRequest,
    ) -> Result<(ExecutionId, Option<ExecutionStatus>), BenchError>;

    /// Waits for the end of a run for as long as one call may.
    async fn wait_for_run(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionStatus>, BenchError>;

    /// Returns the state of a run at a position.
    async fn replay_run(&self, query: &ReplayQuery) -> Result<ReplayResponse, BenchError>;

    /// Claims rows of the outbox, as a publisher does.
    async fn claim_rows(&self, limit: u32) -> Result<Vec<ClaimedRow>, BenchError>;

    /// Marks rows as published. Returns the number of changed rows.
    async fn mark_rows(&self, rows: &[ClaimedRow]) -> Result<u64, BenchError>;

    /// Returns the number of outbox rows that can be claimed.
    async fn pending_row_count(&self) -> Result<u64, BenchError>;

    /// Returns the number of events not yet published to the stream.
    async fn stream_lag(&self) -> Result<u64, BenchError>;

    /// Returns its store, if that is in this process.
    fn store(&self) -> Option<Arc<dyn Store>>;

    /// Returns its processes by name, except for this process.
    fn system_processes(&self) -> Vec<(&'static str, u32)>;

    /// Returns the number of commits that waited for the disk, if known.
    fn commit_count(&self) -> Option<u64>;

    /// Stops it. The caller passes the last handle, so that the store is closed.
    async fn stop(self: Arc<Self>) -> Result<(), BenchError>;
}

/// An outbox row claimed by a publisher, with the attempt that fences its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimedRow {
    pub(crate) outbox_id: OutboxId,
    pub(crate) attempts: u32,
}

impl ClaimedRow {
    fn from_response(response: &OutboxClaimResponse) -> Vec<Self> {
        let rows = response
            .rows
            .iter()
            .map(|row| Self { outbox_id: row.outbox_id.0, attempts: row.attempts });
        rows.collect()
    }

    fn to_mark_request(rows: &[Self]) -> MarkPublishedRequest {
        MarkPublishedRequest {
            outbox_ids: rows.iter().map(|row| row.outbox_id).collect(),
            attempts: Some(rows.iter().map(|row| row.attempts.into()).collect()),
        }
    }
}

/// A started system, with the time until it accepted a run.
pub(crate) struct LaunchedSystem {
    pub(crate) system: Arc<dyn SystemUnderTest>,
    pub(crate) ready_s: f64,
}

/// Unwraps a handle that must be the last one.
fn unwrap_last_handle<T>(handle: Arc<T>) -> Result<T, BenchError> {
    Arc::into_inner(handle)
        .ok_or_else(|| BenchError::Harness("the system is still in use".to_owned()))
}

/// Starts a system, with publishing on if there is a broker, and waits until a first run is
/// accepted and has ended.
pub(crate) async fn launch_system(
    shape: &SystemShape,
    site: &StoreSite,
    broker: Option<&BenchBroker>,
    ledger: &RunLedger,
) -> Result<LaunchedSystem, BenchError> {
    let playbook = one_step_playbook()?;
    let started = Instant::now();
    let system: Arc<dyn SystemUnderTest> = match shape {
        SystemShape::Embedded => Arc::new(embedded::EmbeddedSystem::start(site, broker).await?),
        SystemShape::Processes { noetl } => {
            Arc::new(processes::ProcessSystem::start(noetl, site, broker).await?)
        }
    };
    system.register_playbook(&playbook).await?;
    let (execution_id, _) = system.execute_playbook(execute_request(&playbook.path, None)).await?;
    let ready_s = started.elapsed().as_secs_f64();
    ledger.record_run(execution_id, playbook.commands);
    wait_until_completed(&*system, execution_id, None).await?;
    Ok(LaunchedSystem { system, ready_s })
}

/// Runs a playbook to completion, and returns the time from the request to the known result.
pub(crate) async fn run_and_time(
    system: &dyn SystemUnderTest,
    ledger: &RunLedger,
    playbook: &BenchPlaybook,
) -> Result<Duration, BenchError> {
    let (_, took) = run_with_id(system, ledger, playbook).await?;
    Ok(took)
}

/// Runs a playbook to completion, and returns its execution id and the time.
pub(crate) async fn run_with_id(
    system: &dyn SystemUnderTest,
    ledger: &RunLedger,
    playbook: &BenchPlaybook,
) -> Result<(ExecutionId, Duration), BenchError> {
    let started = Instant::now();
    let request = execute_request(&playbook.path, Some(MAX_CALL_WAIT_MS));
    let (execution_id, status) = system.execute_playbook(request).await?;
    wait_until_completed(system, execution_id, status).await?;
    let took = started.elapsed();
    ledger.record_run(execution_id, playbook.commands);
    Ok((execution_id, took))
}

/// Starts a run without waiting for it.
pub(crate) async fn start_run(
    system: &dyn SystemUnderTest,
    ledger: &RunLedger,
    playbook: &BenchPlaybook,
) -> Result<ExecutionId, BenchError> {
    let (execution_id, _) = system.execute_playbook(execute_request(&playbook.path, None)).await?;
    ledger.record_run(execution_id, playbook.commands);
    Ok(execution_id)
}

fn execute_request(path: &PlaybookPath, wait_ms: Option<u64>) -> ExecuteRequest {
    ExecuteRequest { path: Some(path.clone()), wait_ms, ..ExecuteRequest::default() }
}

pub(crate) async fn wait_until_completed(
    system: &dyn SystemUnderTest,
    execution_id: ExecutionId,
    status: Option<ExecutionStatus>,
) -> Result<(), BenchError> {
    let started = Instant::now();
    let mut status = status;
    loop {
        match status {
            Some(ExecutionStatus::Completed) => return Ok(()),
            Some(status) => {
                return Err(BenchError::NotCompleted { execution_id, status });
            }
            None if started.elapsed() > RUN_TIMEOUT => {
                return Err(BenchError::RunTimedOut {
                    execution_id,
                    seconds: RUN_TIMEOUT.as_secs(),
                });
            }
            None => status = system.wait_for_run(execution_id).await?,
        }
    }
}
