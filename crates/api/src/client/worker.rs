//! What a worker needs of the control plane, over HTTP.

use async_trait::async_trait;
use noetl_types::{CatalogId, ExecutionId, Json};
use reqwest::Method;

use super::Client;
use super::user::with_query;
use crate::catalog::{CatalogItem, ResourceRequest};
use crate::command::{
    HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest, ReportAnswer, ReportRequest,
};
use crate::credential::{CredentialView, CredentialWish};
use crate::error::ApiError;
use crate::execute::{ExecuteAnswer, ExecuteRequest};
use crate::paths;
use crate::result::{KeptResult, PutResult};
use crate::runtime::{Done, PoolHeartbeatAnswer, RegisterWorker, RuntimeView, WorkerName};
use crate::worker_api::WorkerApi;

#[async_trait]
impl WorkerApi for Client {
    async fn register(&self, worker: RegisterWorker) -> Result<RuntimeView, ApiError> {
        self.post(self.url(paths::POOL_REGISTER)?, &worker, 0).await
    }

    async fn pool_heartbeat(&self, worker: WorkerName) -> Result<PoolHeartbeatAnswer, ApiError> {
        self.post(self.url(paths::POOL_HEARTBEAT)?, &worker, 0)
            .await
    }

    async fn deregister(&self, worker: WorkerName) -> Result<(), ApiError> {
        let url = self.url(paths::POOL_DEREGISTER)?;
        let Done { .. } = self.post(url, &worker, 0).await?;
        Ok(())
    }

    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, ApiError> {
        let url = self.inner.hot.lease.clone();
        self.post(url, &request, request.wait_ms).await
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, ApiError> {
        let url = self.inner.hot.heartbeat.clone();
        self.post(url, &request, 0).await
    }

    async fn report(&self, request: ReportRequest) -> Result<ReportAnswer, ApiError> {
        let url = self.inner.hot.report.clone();
        let wait_ms = request.lease.as_ref().map_or(0, |lease| lease.wait_ms);
        self.post(url, &request, wait_ms).await
    }

    async fn definition(&self, catalog_id: CatalogId) -> Result<CatalogItem, ApiError> {
        let wanted = ResourceRequest {
            catalog_id: Some(catalog_id),
            ..ResourceRequest::default()
        };
        self.catalog_resource(&wanted).await
    }

    async fn resolve(&self, reference: &str) -> Result<Json, ApiError> {
        let url = with_query(self.url(paths::RESULT_RESOLVE)?, [("ref", reference)]);
        self.get(url).await
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: PutResult,
        key: &str,
    ) -> Result<KeptResult, ApiError> {
        let url = self.of(paths::RESULT_PUT, execution_id)?;
        self.once(Method::PUT, url, &result, key).await
    }

    async fn credential(&self, wish: CredentialWish) -> Result<CredentialView, ApiError> {
        let url = self.credential_url(&wish.name)?;
        let execution_id = wish.execution_id.to_string();
        let query = [
            ("include_data", "true"),
            ("execution_id", &*execution_id),
            ("worker_id", wish.worker_id.as_str()),
        ];
        self.get(with_query(url, query)).await
    }

    async fn start(&self, request: ExecuteRequest, key: &str) -> Result<ExecuteAnswer, ApiError> {
        let url = self.url(paths::EXECUTE)?;
        self.once(Method::POST, url, &request, key).await
    }
}
