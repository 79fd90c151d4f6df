//! Registration and heartbeats of workers.

use noetl_api::paths;
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{
    OkResponse, PoolHeartbeatResponse, PoolListResponse, RegisterWorkerRequest, RuntimeView,
    WorkerName,
};

use super::{EXEC_READ, EXEC_RUN, Route, WORKER, delete, get, handlers, post};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::params::QueryParams;
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::POOLS, EXEC_READ, list_pools),
        post(paths::POOL_DRAIN, EXEC_RUN, drain_worker).audited(),
        post(paths::POOL_REGISTER, WORKER, register_worker),
        post(paths::POOL_HEARTBEAT, WORKER, record_worker_heartbeat),
        post(paths::POOL_DEREGISTER, WORKER, deregister_worker),
        delete(paths::POOL_DEREGISTER, WORKER, deregister_worker),
    ]
}

/// Deregisters a worker.
async fn deregister_worker(
    AuthorizedCall(app): AuthorizedCall,
    JsonBody(worker): JsonBody<WorkerName>,
) -> Result<JsonResponse<OkResponse>, HttpError> {
    app.services.workers.deregister_worker(&app.ctx, worker).await?;
    Ok(JsonResponse(OkResponse::ok()))
}

/// Lists workers and the load of their pools.
async fn list_pools(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<PoolListResponse>, HttpError> {
    let query = PoolsQuery {
        kind: params.text_param("kind")?,
        status: params.text_param("status")?,
        name: params.text_param("name")?,
    };
    Ok(JsonResponse(app.services.workers.list_pools(&app.ctx, query).await?))
}

handlers! {
    /// Registers a worker.
    register_worker(app: AuthorizedCall, worker: JsonBody<RegisterWorkerRequest>) -> RuntimeView =>
        app.services.workers.register_worker(&app.ctx, worker);
    /// Records the heartbeat of a worker.
    record_worker_heartbeat(app: AuthorizedCall, worker: JsonBody<WorkerName>)
        -> PoolHeartbeatResponse => app.services.workers.record_worker_heartbeat(&app.ctx, worker);
    /// Drains a worker: it finishes its commands and stops.
    drain_worker(app: AuthorizedCall, worker: JsonBody<WorkerName>) -> RuntimeView =>
        app.services.workers.drain_worker(&app.ctx, worker);
}
