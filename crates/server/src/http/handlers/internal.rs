//! Internal API of the platform: projection and retention.

use axum::extract::State;
use noetl_api::internal::{
    AdvanceRequest, AdvanceResponse, MaterializeResponse, ProjectRequest, ProjectResponse,
    PurgeRequest, PurgeResponse, RawEvent,
};
use noetl_types::Json;

use crate::http::authorized_runtime::{AppState, ProjectorRuntime};
use crate::http::body::{JsonBody, JsonBodyOrDefault, JsonListBody};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;

/// Copies events into the log.
pub(in crate::http) async fn project_events(
    ProjectorRuntime(runtime, scope): ProjectorRuntime,
    JsonBody(request): JsonBody<ProjectRequest>,
) -> Result<JsonResponse<ProjectResponse>, HttpError> {
    Ok(JsonResponse(runtime.project_events(request, scope).await?))
}

/// Copies events of classic workers into the log.
pub(in crate::http) async fn materialize_events(
    ProjectorRuntime(runtime, scope): ProjectorRuntime,
    JsonListBody(events): JsonListBody<RawEvent>,
) -> Result<JsonResponse<MaterializeResponse>, HttpError> {
    let events = events.into_iter().map(|event| event.0).collect();
    Ok(JsonResponse(runtime.materialize_events(events, scope).await?))
}

/// Updates read models from their logs.
pub(in crate::http) async fn advance_projection(
    ProjectorRuntime(runtime, scope): ProjectorRuntime,
    JsonBody(request): JsonBody<AdvanceRequest>,
) -> Result<JsonResponse<AdvanceResponse>, HttpError> {
    Ok(JsonResponse(runtime.advance_read_models(request, scope).await?))
}

/// Deletes data beyond its retention.
pub(in crate::http) async fn purge_data(
    State(app): State<AppState>,
    JsonBodyOrDefault(request): JsonBodyOrDefault<PurgeRequest>,
) -> Result<JsonResponse<PurgeResponse>, HttpError> {
    Ok(JsonResponse(app.unauthenticated_runtime().purge_expired_data(request).await?))
}

/// Lists the cells. Always empty, because cells are not supported.
pub(in crate::http) async fn list_cells() -> JsonResponse<Json> {
    JsonResponse(Json::object([("cells", Json::list([]))]))
}
