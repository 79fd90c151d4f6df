//! Internal API of the platform: projection and retention.

use axum::extract::State;
use noetl_api::internal::{
    AdvanceRequest, AdvanceResponse, MaterializeResponse, ProjectRequest, ProjectResponse,
    PurgeRequest, PurgeResponse, RawEvent,
};
use noetl_api::paths;
use noetl_types::Json;

use super::{MAX_BATCH_BODY_SIZE, PLATFORM, Route, get, handlers, post};
use crate::http::body::{JsonBody, JsonBodyOrDefault, JsonListBody};
use crate::http::http_error::HttpError;
use crate::http::json_response::JsonResponse;
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::request_context::{AppState, ProjectorCall};

const PROJECT: RouteAccess = RouteAccess::Internal(Scope::InternalProject);
const RETENTION: RouteAccess = RouteAccess::Internal(Scope::InternalRetention);

pub(super) fn routes() -> Vec<Route> {
    vec![
        post(paths::EVENTS_PROJECT, PROJECT, project_events).max_body(MAX_BATCH_BODY_SIZE),
        post(paths::EVENTS_MATERIALIZE, PROJECT, materialize_events).max_body(MAX_BATCH_BODY_SIZE),
        post(paths::PROJECTION_ADVANCE, PROJECT, advance_projection),
        post(paths::CLEANUP_PURGE, RETENTION, purge_data).audited(),
        get(paths::CELLS, PLATFORM, list_cells),
    ]
}

/// Copies events into the log.
async fn project_events(
    ProjectorCall(call, scope): ProjectorCall,
    JsonBody(request): JsonBody<ProjectRequest>,
) -> Result<JsonResponse<ProjectResponse>, HttpError> {
    Ok(JsonResponse(call.services.projection.project_events(&call.ctx, request, scope).await?))
}

/// Copies events of classic workers into the log.
async fn materialize_events(
    ProjectorCall(call, scope): ProjectorCall,
    JsonListBody(events): JsonListBody<RawEvent>,
) -> Result<JsonResponse<MaterializeResponse>, HttpError> {
    Ok(JsonResponse(call.services.projection.materialize_events(&call.ctx, events, scope).await?))
}

/// Updates read models from their logs.
async fn advance_projection(
    ProjectorCall(call, scope): ProjectorCall,
    JsonBody(request): JsonBody<AdvanceRequest>,
) -> Result<JsonResponse<AdvanceResponse>, HttpError> {
    Ok(JsonResponse(call.services.projection.advance_read_models(&call.ctx, request, scope).await?))
}

/// Lists the cells. Always empty, because cells are not supported.
async fn list_cells() -> JsonResponse<Json> {
    JsonResponse(Json::object([("cells", Json::list([]))]))
}

handlers! {
    /// Deletes data beyond its retention.
    purge_data(app: State<AppState>, request: JsonBodyOrDefault<PurgeRequest>) -> PurgeResponse =>
        app.services().maintenance.purge_expired_data(request);
}
