//! Errors of a measurement.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use noetl_api::ApiError;
use noetl_server::RuntimeError;
use noetl_store::StoreError;
use noetl_testkit::nats::NatsMissing;
use noetl_testkit::postgres::PostgresMissing;
use noetl_types::record::ChainError;
use noetl_types::{ExecutionId, ExecutionStatus};

/// Reason for which a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file or a program could not be used.
    #[error("{what}")]
    Io {
        /// Attempted operation.
        what: String,
        #[source]
        source: io::Error,
    },
    /// A document cannot be parsed.
    #[error("{path} is not a document of noetl-bench")]
    Document {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// PostgreSQL is not available.
    #[error(transparent)]
    Cluster(#[from] PostgresMissing),
    /// The NATS server is not available.
    #[error(transparent)]
    Broker(#[from] NatsMissing),
    /// A query of PostgreSQL failed.
    #[error("PostgreSQL does not respond")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The runtime rejected a call or failed.
    #[error("the runtime failed")]
    Runtime(#[from] RuntimeError),
    /// The server rejected a call or failed.
    #[error("the server failed")]
    Api(#[from] ApiError),
    /// A process of the product ended, or did not become ready.
    #[error("`{program}` {trouble}; its log ends with:\n{log}")]
    Process {
        /// Name of the program.
        program: String,
        /// Description of the problem.
        trouble: String,
        /// End of its log.
        log: String,
    },
    /// A run did not complete.
    #[error("run {execution_id} is {status}")]
    NotCompleted { execution_id: ExecutionId, status: ExecutionStatus },
    /// A run did not end in time.
    #[error("run {execution_id} has not ended after {seconds} s")]
    RunTimedOut {
        execution_id: ExecutionId,
        /// Time waited.
        seconds: u64,
    },
    /// The log does not match the workload.
    #[error("the log does not match the workload")]
    Log(#[from] LogProblem),
    /// The peers did not run.
    #[error("the peers failed: {0}")]
    Peers(String),
    /// An error of the harness.
    #[error("{0}")]
    Harness(String),
}

impl BenchError {
    /// Returns the error with all its causes, on one line.
    pub fn full_message(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }

    pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// Difference between a log and the workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogProblem {
    /// A run that was started is missing.
    #[error("run {0} is missing")]
    Missing(ExecutionId),
    /// A run is not completed.
    #[error("run {execution_id} is {status}")]
    Status { execution_id: ExecutionId, status: ExecutionStatus },
    /// A number of events is wrong.
    #[error("run {execution_id} has {found} events {what}, expected {wanted}")]
    Count {
        execution_id: ExecutionId,
        /// Description of the events.
        what: &'static str,
        /// Actual number.
        found: u64,
        /// Expected number.
        wanted: u64,
    },
    /// Events are missing or were changed.
    #[error("run {execution_id}: {broken}")]
    Chain {
        execution_id: ExecutionId,
        /// Position of the break.
        broken: ChainError,
    },
    /// The row of a run and its log disagree.
    #[error("run {0}: its row and its log disagree")]
    Head(ExecutionId),
    /// The store contains runs that were not started here.
    #[error("the store has {found} runs, but {wanted} were started")]
    UnexpectedRuns {
        /// Runs in the store.
        found: u64,
        /// Runs that were started.
        wanted: u64,
    },
}
