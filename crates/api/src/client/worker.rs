//! The control plane interface of a worker, over HTTP.

use async_trait::async_trait;
use noetl_types::{CatalogId, ExecutionId, Json};
use reqwest::Method;

use super::Client;
use super::call::with_query;
use crate::catalog::{CatalogResource, CatalogResourceRequest};
use crate::command::{
    HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse, ReportRequest, ReportResponse,
};
use crate::credential::{CredentialRequest, CredentialView};
use crate::error::ApiError;
use crate::execute::{ExecuteRequest, ExecuteResponse};
use crate::output::{OutputRequest, OutputResponse};
use crate::paths;
use crate::result::{ResultPutRequest, ResultPutResponse};
use crate::runtime::{
    OkResponse, PoolHeartbeatResponse, RegisterWorkerRequest, RuntimeView, WorkerName,
};
use crate::worker_api::WorkerApi;

#[async_trait]
impl WorkerApi for Client {
    async fn register_worker(
        &self,
        worker: RegisterWorkerRequest,
    ) -> Result<RuntimeView, ApiError> {
        self.post(self.url(paths::POOL_REGISTER)?, &worker, 0).await
    }

    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatResponse, ApiError> {
        self.post(self.url(paths::POOL_HEARTBEAT)?, &worker, 0).await
    }

    async fn deregister_worker(&self, worker: WorkerName) -> Result<(), ApiError> {
        let OkResponse { .. } = self.post(self.url(paths::POOL_DEREGISTER)?, &worker, 0).await?;
        Ok(())
    }

    async fn lease_commands(&self, request: LeaseRequest) -> Result<LeaseResponse, ApiError> {
        self.post(self.url(paths::COMMANDS_LEASE)?, &request, request.wait_ms).await
    }

    async fn renew_leases(&self, request: HeartbeatRequest) -> Result<HeartbeatResponse, ApiError> {
        self.post(self.url(paths::COMMANDS_HEARTBEAT)?, &request, request.wait_ms).await
    }

    async fn report_commands(&self, request: ReportRequest) -> Result<ReportResponse, ApiError> {
        let wait_ms = request.lease.as_ref().map_or(0, |lease| lease.wait_ms);
        self.post(self.url(paths::COMMANDS_REPORT)?, &request, wait_ms).await
    }

    async fn send_output(&self, request: OutputRequest) -> Result<OutputResponse, ApiError> {
        self.post(self.url(paths::COMMANDS_OUTPUT)?, &request, 0).await
    }

    async fn fetch_definition(&self, catalog_id: CatalogId) -> Result<CatalogResource, ApiError> {
        let request = CatalogResourceRequest {
            catalog_id: Some(catalog_id),
            ..CatalogResourceRequest::default()
        };
        self.catalog_resource(&request).await
    }

    async fn resolve_result(&self, reference: &str) -> Result<Json, ApiError> {
        let url = with_query(self.url(paths::RESULT_RESOLVE)?, [("ref", reference)]);
        self.get(url).await
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: ResultPutRequest,
        key: &str,
    ) -> Result<ResultPutResponse, ApiError> {
        let url = self.execution_url(paths::RESULT_PUT, execution_id)?;
        self.send_idempotent(Method::PUT, url, &result, key).await
    }

    async fn fetch_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, ApiError> {
        let url = self.credential_url(&request.name)?;
        let execution_id = request.execution_id.to_string();
        let query = [
            ("include_data", "true"),
            ("execution_id", &*execution_id),
            ("worker_id", request.worker_id.as_str()),
        ];
        self.get(with_query(url, query)).await
    }

    async fn start_execution(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteResponse, ApiError> {
        let url = self.url(paths::EXECUTE)?;
        self.send_idempotent(Method::POST, url, &request, key).await
    }
}
