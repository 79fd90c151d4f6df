//! Registration and heartbeats of workers.

use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{
    OkResponse, PoolHeartbeatResponse, PoolListResponse, RegisterWorkerRequest, RuntimeView,
    WorkerName,
};

use crate::http::authorized_runtime::AuthorizedRuntime;
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::QueryParams;

/// Registers a worker.
pub(in crate::http) async fn register_worker(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(worker): JsonBody<RegisterWorkerRequest>,
) -> Result<JsonResponse<RuntimeView>, HttpError> {
    Ok(JsonResponse(app.runtime.register_worker(worker).await?))
}

/// Records the heartbeat of a worker.
pub(in crate::http) async fn record_worker_heartbeat(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<JsonResponse<PoolHeartbeatResponse>, HttpError> {
    Ok(JsonResponse(app.runtime.record_worker_heartbeat(worker).await?))
}

/// Deregisters a worker.
pub(in crate::http) async fn deregister_worker(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<JsonResponse<OkResponse>, HttpError> {
    app.runtime.deregister_worker(worker).await?;
    Ok(JsonResponse(OkResponse::ok()))
}

/// Drains a worker: it finishes its commands and stops.
pub(in crate::http) async fn drain_worker(
    AuthorizedRuntime(app): AuthorizedRuntime,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<JsonResponse<RuntimeView>, HttpError> {
    Ok(JsonResponse(app.runtime.drain_worker(worker).await?))
}

/// Lists workers and the load of their pools.
pub(in crate::http) async fn list_pools(
    AuthorizedRuntime(app): AuthorizedRuntime,
    mut params: QueryParams,
) -> Result<JsonResponse<PoolListResponse>, HttpError> {
    let query = PoolsQuery {
        kind: params.text_param("kind")?,
        status: params.text_param("status")?,
        name: params.text_param("name")?,
    };
    Ok(JsonResponse(app.runtime.list_pools(query).await?))
}
