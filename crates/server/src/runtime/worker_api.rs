//! A worker in the same process needs no wire.

use async_trait::async_trait;
use noetl_api::catalog::{CatalogItem, ResourceRequest};
use noetl_api::command::{
    HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest, ReportAnswer, ReportRequest,
};
use noetl_api::credential::{CredentialView, CredentialWish};
use noetl_api::execute::{ExecuteAnswer, ExecuteRequest};
use noetl_api::result::{KeptResult, PutResult};
use noetl_api::runtime::{PoolHeartbeatAnswer, RegisterWorker, RuntimeView, WorkerName};
use noetl_api::{ApiError, WorkerApi};
use noetl_types::{CatalogId, ExecutionId, Json};

use super::Runtime;

#[async_trait]
impl WorkerApi for Runtime {
    async fn register(&self, worker: RegisterWorker) -> Result<RuntimeView, ApiError> {
        Ok(self.register_worker(worker).await?)
    }

    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatAnswer, ApiError> {
        Ok(self.worker_alive(worker).await?)
    }

    async fn deregister(&self, worker: WorkerName) -> Result<(), ApiError> {
        Ok(self.worker_leaves(worker).await?)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, ApiError> {
        Ok(Self::lease(self, request).await?)
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, ApiError> {
        Ok(self.keep(request).await?)
    }

    async fn report(&self, request: ReportRequest) -> Result<ReportAnswer, ApiError> {
        Ok(Self::report(self, request).await?)
    }

    async fn definition(&self, catalog_id: CatalogId) -> Result<CatalogItem, ApiError> {
        let request = ResourceRequest {
            catalog_id: Some(catalog_id),
            ..ResourceRequest::default()
        };
        Ok(self.catalog_item(request).await?)
    }

    async fn resolve(&self, reference: &str) -> Result<Json, ApiError> {
        Ok(self.resolve_result(reference).await?)
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: PutResult,
        key: &str,
    ) -> Result<KeptResult, ApiError> {
        Ok(Self::put_result(self, execution_id, result, Some(key)).await?)
    }

    async fn credential(&self, wish: CredentialWish) -> Result<CredentialView, ApiError> {
        Ok(self.lend_inside(wish).await?)
    }

    async fn start(&self, request: ExecuteRequest, key: &str) -> Result<ExecuteAnswer, ApiError> {
        Ok(self.execute_once(request, key).await?)
    }
}
