//! What a worker needs of the control plane, wherever that is.

use async_trait::async_trait;
use noetl_types::{CatalogId, ExecutionId, Json};

use crate::catalog::CatalogItem;
use crate::command::{
    HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest, ReportAnswer, ReportRequest,
};
use crate::credential::{CredentialView, CredentialWish};
use crate::error::ApiError;
use crate::execute::{ExecuteAnswer, ExecuteRequest};
use crate::result::{KeptResult, PutResult};
use crate::runtime::{PoolHeartbeatAnswer, RegisterWorker, RuntimeView, WorkerName};

/// What a worker needs of the control plane: over HTTP, or in the same process.
#[async_trait]
pub trait WorkerApi: Send + Sync {
    /// Makes the worker known.
    async fn register(&self, worker: RegisterWorker) -> Result<RuntimeView, ApiError>;

    /// Tells that the worker lives. A refusal as not found means: drop all work, register again.
    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatAnswer, ApiError>;

    /// Tells that the worker leaves; its leases end at once.
    async fn deregister(&self, worker: WorkerName) -> Result<(), ApiError>;

    /// Gets commands, waiting for them as long as the request says.
    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, ApiError>;

    /// Keeps commands.
    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, ApiError>;

    /// Tells what became of commands, and gets the next.
    async fn report(&self, request: ReportRequest) -> Result<ReportAnswer, ApiError>;

    /// The definition of this id, which never changes.
    async fn definition(&self, catalog_id: CatalogId) -> Result<CatalogItem, ApiError>;

    /// A stored result, by the address in its reference. The caller compares its digest.
    async fn resolve(&self, reference: &str) -> Result<Json, ApiError>;

    /// Keeps data beside the log of a run. The same key keeps it once.
    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: PutResult,
        key: &str,
    ) -> Result<KeptResult, ApiError>;

    /// A credential with its secret, for a command that the worker has.
    async fn credential(&self, wish: CredentialWish) -> Result<CredentialView, ApiError>;

    /// Starts a run. The same key starts one.
    async fn start(&self, request: ExecuteRequest, key: &str) -> Result<ExecuteAnswer, ApiError>;
}
