//! [`WorkerApi`] for a worker in the same process, without a network in between.

use async_trait::async_trait;
use noetl_api::catalog::{CatalogResource, CatalogResourceRequest};
use noetl_api::command::{
    HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse, ReportRequest, ReportResponse,
};
use noetl_api::credential::{CredentialRequest, CredentialView};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::output::{OutputRequest, OutputResponse};
use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_api::runtime::{PoolHeartbeatResponse, RegisterWorkerRequest, RuntimeView, WorkerName};
use noetl_api::{ApiError, WorkerApi};
use noetl_types::{CatalogId, ExecutionId, Json};

use crate::access::CallContext;
use crate::services::ControlPlane;
use crate::services::executions::StartRequest;

/// The API for a worker in the same process. It acts for the default tenant.
#[derive(Clone)]
pub struct LocalWorkerApi {
    services: ControlPlane,
    ctx: CallContext,
}

impl LocalWorkerApi {
    pub(crate) fn new(services: ControlPlane) -> Self {
        Self { services, ctx: CallContext::default() }
    }
}

#[async_trait]
impl WorkerApi for LocalWorkerApi {
    async fn register_worker(
        &self,
        worker: RegisterWorkerRequest,
    ) -> Result<RuntimeView, ApiError> {
        Ok(self.services.workers.register_worker(&self.ctx, worker).await?)
    }

    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatResponse, ApiError> {
        Ok(self.services.workers.record_worker_heartbeat(&self.ctx, worker).await?)
    }

    async fn deregister_worker(&self, worker: WorkerName) -> Result<(), ApiError> {
        Ok(self.services.workers.deregister_worker(&self.ctx, worker).await?)
    }

    async fn lease_commands(&self, request: LeaseRequest) -> Result<LeaseResponse, ApiError> {
        Ok(self.services.leases.lease_commands(&self.ctx, request).await?)
    }

    async fn renew_leases(&self, request: HeartbeatRequest) -> Result<HeartbeatResponse, ApiError> {
        Ok(self.services.leases.renew_leases(&self.ctx, request).await?)
    }

    async fn report_commands(&self, request: ReportRequest) -> Result<ReportResponse, ApiError> {
        Ok(self.services.reports.process_reports(&self.ctx, request).await?)
    }

    async fn send_output(&self, request: OutputRequest) -> Result<OutputResponse, ApiError> {
        Ok(self.services.task_output.store_outputs(&self.ctx, request).await?)
    }

    async fn fetch_definition(&self, catalog_id: CatalogId) -> Result<CatalogResource, ApiError> {
        let request = CatalogResourceRequest {
            catalog_id: Some(catalog_id),
            ..CatalogResourceRequest::default()
        };
        Ok(self.services.catalog.catalog_item(&self.ctx, request).await?)
    }

    async fn resolve_result(&self, reference: &str) -> Result<Json, ApiError> {
        Ok(self.services.results.resolve_result(&self.ctx, reference).await?)
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: ResultPutRequest,
        key: &str,
    ) -> Result<ResultPutResponse, ApiError> {
        Ok(self.services.results.put_result(&self.ctx, execution_id, result, Some(key)).await?)
    }

    async fn fetch_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, ApiError> {
        Ok(self.services.credentials.issue_credential_in_process(&self.ctx, request).await?)
    }

    async fn start_execution(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteResponse, ApiError> {
        let start = StartRequest::from(request).with_idempotency_key(key)?;
        Ok(self.services.executions.start(&self.ctx, start).await?.answer)
    }
}
