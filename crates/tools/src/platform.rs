//! What tools may ask of the control plane.
//!
//! Tools see neither the server nor the store. The few that need one of them ask through these
//! traits, which the worker implements on whatever connects it to its server.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Digest, Json, TaskError};

/// Data that is kept beside the log.
#[async_trait]
pub trait Results: Send + Sync {
    /// The data that a reference stands for.
    async fn fetch(&self, reference: ResultRef) -> Result<Json, TaskError>;

    /// Keeps data.
    async fn put(&self, result: NewResult) -> Result<KeptResult, TaskError>;
}

/// Runs of other playbooks.
#[async_trait]
pub trait Playbooks: Send + Sync {
    /// Starts a run and does not wait for it. The same key starts it once.
    async fn start(&self, child: Child) -> Result<StartedChild, TaskError>;
}

/// What tools may ask of the control plane.
pub trait Platform: Results + Playbooks {}

impl<T: Results + Playbooks> Platform for T {}

/// The way to the control plane; `None` where there is none.
pub type PlatformHandle = Option<Arc<dyn Platform>>;

/// Stands for data that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRef {
    /// Where it is: `noetl://…`.
    pub uri: Arc<str>,
    /// What its canonical bytes hash to, where the reference tells.
    pub sha256: Option<Digest>,
}

/// Data to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    /// The run that it belongs to.
    pub execution_id: String,
    /// The step that made it.
    pub step: String,
    /// Its name.
    pub name: String,
    /// The data.
    pub data: Json,
    /// The key under which it is kept once.
    pub idempotency_key: String,
}

/// Data that is kept now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResult {
    /// Where it is.
    pub uri: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// What its bytes hash to, in hexadecimal.
    pub sha256: String,
}

/// A playbook to be run beside this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Which one.
    pub definition: ChildDefinition,
    /// What is laid over the defaults of the playbook.
    pub payload: Json,
    /// The run that starts it.
    pub parent_execution_id: String,
    /// The key under which it is started once.
    pub idempotency_key: String,
}

/// Which playbook to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildDefinition {
    /// The one of this id.
    Id(String),
    /// The one at a path.
    Path {
        /// The path.
        path: String,
        /// The version; `None` is the newest.
        version: Option<String>,
    },
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedChild {
    /// The run.
    pub execution_id: String,
    /// The path of its playbook.
    pub path: String,
}
