//! What can go wrong while something is measured.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use noetl_api::ApiError;
use noetl_server::RuntimeError;
use noetl_store::StoreError;
use noetl_testkit::nats::NatsMissing;
use noetl_testkit::postgres::PostgresMissing;
use noetl_types::record::ChainBroken;
use noetl_types::{ExecutionId, ExecutionStatus};

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file or a program could not be used.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// How the system refused.
        #[source]
        source: io::Error,
    },
    /// A document cannot be read.
    #[error("{path} is not a document of this program")]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// There is no PostgreSQL.
    #[error(transparent)]
    Cluster(#[from] PostgresMissing),
    /// There is no NATS server.
    #[error(transparent)]
    Broker(#[from] NatsMissing),
    /// PostgreSQL did not tell its settings.
    #[error("PostgreSQL does not answer")]
    Postgres(#[from] tokio_postgres::Error),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The runtime refused or failed.
    #[error("the runtime failed")]
    Runtime(#[from] RuntimeError),
    /// The server refused or failed.
    #[error("the server failed")]
    Api(#[from] ApiError),
    /// A process of the product ended, or was never ready.
    #[error("`{program}` {trouble}; its log ends with:\n{log}")]
    Process {
        /// Which one.
        program: String,
        /// What happened.
        trouble: String,
        /// The end of its log.
        log: String,
    },
    /// A run ended in another way than it must.
    #[error("run {execution_id} is {status}")]
    NotCompleted {
        /// The run.
        execution_id: ExecutionId,
        /// What became of it.
        status: ExecutionStatus,
    },
    /// A run did not end.
    #[error("run {execution_id} has not ended after {seconds} s")]
    Endless {
        /// The run.
        execution_id: ExecutionId,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The log is not what the workload must have left.
    #[error("the log is wrong")]
    Log(#[from] LogProblem),
    /// The peers did not run.
    #[error("the peers failed: {0}")]
    Peers(String),
    /// Something that the harness itself relies on.
    #[error("{0}")]
    Harness(String),
}

impl BenchError {
    /// The error with all its causes, on one line.
    pub fn told(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// How a log differs from what a workload must have left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogProblem {
    /// A run that was answered is not there.
    #[error("run {0} is missing")]
    Missing(ExecutionId),
    /// A run stands elsewhere than at its good end.
    #[error("run {execution_id} is {status}")]
    Status {
        /// The run.
        execution_id: ExecutionId,
        /// Where it stands.
        status: ExecutionStatus,
    },
    /// A number of events is wrong.
    #[error("run {execution_id} has {found} events {what} instead of {wanted}")]
    Count {
        /// The run.
        execution_id: ExecutionId,
        /// Which events.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there must be.
        wanted: u64,
    },
    /// Events are missing, or were changed.
    #[error("run {execution_id}: {broken}")]
    Chain {
        /// The run.
        execution_id: ExecutionId,
        /// Where.
        broken: ChainBroken,
    },
    /// The row of a run and its log disagree.
    #[error("run {0}: its row and its log end differently")]
    Head(ExecutionId),
    /// There are runs that nobody started.
    #[error("the store has {found} runs, and {wanted} were started")]
    Strays {
        /// Runs in the store.
        found: u64,
        /// Runs that were started.
        wanted: u64,
    },
}
