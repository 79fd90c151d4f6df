//! [`WorkerApi`] for a worker in the same process, without a network in between.

use async_trait::async_trait;
use noetl_api::catalog::{CatalogResource, CatalogResourceRequest};
use noetl_api::command::{
    HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse, ReportRequest, ReportResponse,
};
use noetl_api::credential::{CredentialRequest, CredentialView};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_api::runtime::{PoolHeartbeatResponse, RegisterWorkerRequest, RuntimeView, WorkerName};
use noetl_api::{ApiError, WorkerApi};
use noetl_types::{CatalogId, ExecutionId, Json};

use super::Runtime;

#[async_trait]
impl WorkerApi for Runtime {
    async fn register_worker(
        &self,
        worker: RegisterWorkerRequest,
    ) -> Result<RuntimeView, ApiError> {
        Ok(self.register_worker(worker).await?)
    }

    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatResponse, ApiError> {
        Ok(self.record_worker_heartbeat(worker).await?)
    }

    async fn deregister_worker(&self, worker: WorkerName) -> Result<(), ApiError> {
        Ok(self.deregister_worker(worker).await?)
    }

    async fn lease_commands(&self, request: LeaseRequest) -> Result<LeaseResponse, ApiError> {
        Ok(Self::lease_commands(self, request).await?)
    }

    async fn renew_leases(&self, request: HeartbeatRequest) -> Result<HeartbeatResponse, ApiError> {
        Ok(self.renew_leases(request).await?)
    }

    async fn report_commands(&self, request: ReportRequest) -> Result<ReportResponse, ApiError> {
        Ok(Self::process_reports(self, request).await?)
    }

    async fn fetch_definition(&self, catalog_id: CatalogId) -> Result<CatalogResource, ApiError> {
        let request = CatalogResourceRequest {
            catalog_id: Some(catalog_id),
            ..CatalogResourceRequest::default()
        };
        Ok(self.catalog_item(request).await?)
    }

    async fn resolve_result(&self, reference: &str) -> Result<Json, ApiError> {
        Ok(self.resolve_result(reference).await?)
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: ResultPutRequest,
        key: &str,
    ) -> Result<ResultPutResponse, ApiError> {
        Ok(Self::put_result(self, execution_id, result, Some(key)).await?)
    }

    async fn fetch_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, ApiError> {
        Ok(self.issue_credential_in_process(request).await?)
    }

    async fn start_execution(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteResponse, ApiError> {
        Ok(self.execute_once(request, key).await?)
    }
}
