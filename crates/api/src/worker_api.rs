//! The control plane interface of a worker.

use async_trait::async_trait;
use noetl_types::{CatalogId, ExecutionId, Json};

use crate::catalog::CatalogResource;
use crate::command::{
    HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse, ReportRequest, ReportResponse,
};
use crate::credential::{CredentialRequest, CredentialView};
use crate::error::ApiError;
use crate::execute::{ExecuteRequest, ExecuteResponse};
use crate::output::{OutputRequest, OutputResponse};
use crate::result::{ResultPutRequest, ResultPutResponse};
use crate::runtime::{PoolHeartbeatResponse, RegisterWorkerRequest, RuntimeView, WorkerName};

/// The control plane interface of a worker, over HTTP or in the same process.
#[async_trait]
pub trait WorkerApi: Send + Sync {
    /// Registers the worker.
    async fn register_worker(&self, worker: RegisterWorkerRequest)
    -> Result<RuntimeView, ApiError>;

    /// Sends a heartbeat of the worker. A `not_found` error means: drop all work and register
    /// again.
    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatResponse, ApiError>;

    /// Deregisters the worker. Its leases end immediately.
    async fn deregister_worker(&self, worker: WorkerName) -> Result<(), ApiError>;

    /// Leases commands, and waits for them as long as the request allows.
    async fn lease_commands(&self, request: LeaseRequest) -> Result<LeaseResponse, ApiError>;

    /// Renews leases of commands.
    async fn renew_leases(&self, request: HeartbeatRequest) -> Result<HeartbeatResponse, ApiError>;

    /// Reports results of commands, and leases the next commands.
    async fn report_commands(&self, request: ReportRequest) -> Result<ReportResponse, ApiError>;

    /// Sends output of running commands.
    async fn send_output(&self, request: OutputRequest) -> Result<OutputResponse, ApiError>;

    /// Returns the definition with this id, which is immutable.
    async fn fetch_definition(&self, catalog_id: CatalogId) -> Result<CatalogResource, ApiError>;

    /// Returns a stored result by the address in its reference. The caller must verify its digest.
    async fn resolve_result(&self, reference: &str) -> Result<Json, ApiError>;

    /// Stores data for an execution, outside its log. Calls with the same key store it once.
    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: ResultPutRequest,
        key: &str,
    ) -> Result<ResultPutResponse, ApiError>;

    /// Returns a credential with its secret, for a command that the worker holds.
    async fn fetch_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, ApiError>;

    /// Starts an execution. Calls with the same key start one.
    async fn start_execution(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteResponse, ApiError>;
}
