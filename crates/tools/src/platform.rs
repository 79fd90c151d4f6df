//! Control-plane operations that are available to tools.
//!
//! Tools have no access to the server or the store. The few that need one of them use these traits,
//! which the worker implements on its connection to the server.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Digest, Json, TaskError};

/// Storage for data that is kept outside the event log.
#[async_trait]
pub trait ResultStore: Send + Sync {
    async fn fetch_result(&self, reference: ResultRef) -> Result<Json, TaskError>;

    async fn store_result(&self, result: NewResult) -> Result<ResultReceipt, TaskError>;
}

/// Starts executions of other playbooks.
#[async_trait]
pub trait PlaybookLauncher: Send + Sync {
    /// Starts an execution and does not wait for it. Calls with the same key start it once.
    async fn start_playbook(&self, child: ChildRequest) -> Result<StartedChild, TaskError>;
}

/// Receives the output of processes as they write it.
pub trait OutputSink: Send + Sync {
    /// Takes output, without waiting for anything.
    fn write_output(&self, stream: OutputStream, bytes: &[u8]);
}

/// Standard output or standard error of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// All control-plane operations that are available to tools.
pub trait Platform: ResultStore + PlaybookLauncher + OutputSink {}

impl<T: ResultStore + PlaybookLauncher + OutputSink> Platform for T {}

/// Handle to the control plane, or `None` if it is not available.
pub type PlatformHandle = Option<Arc<dyn Platform>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRef {
    /// Address: `noetl://…`.
    pub uri: Arc<str>,
    /// SHA-256 digest of the canonical bytes, if the reference has one.
    pub sha256: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    pub execution_id: String,
    pub step: String,
    pub name: String,
    pub data: Json,
    /// Idempotency key: calls with the same key store the data once.
    pub idempotency_key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultReceipt {
    pub uri: String,
    pub bytes: u64,
    /// SHA-256 digest of the bytes, in hexadecimal.
    pub sha256: String,
}

/// Request to start a playbook that runs independently of this execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRequest {
    pub definition: ChildDefinition,
    /// Workload that overrides the defaults of the playbook.
    pub payload: Json,
    pub parent_execution_id: String,
    /// Idempotency key: calls with the same key start one execution.
    pub idempotency_key: String,
}

/// Identifies the playbook to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildDefinition {
    Id(String),
    Path {
        path: String,
        /// Version; `None` selects the newest.
        version: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedChild {
    pub execution_id: String,
    pub path: String,
}
