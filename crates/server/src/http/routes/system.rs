//! Status and metadata of the server.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use noetl_api::paths;
use noetl_api::system::{
    DashboardStatsResponse, DashboardWidgets, DatabaseCheckResponse, ServerStatus, ShardInfo,
    WhoAmI,
};
use noetl_playbook::json_schema;
use noetl_types::{ErrorCode, Text};

use super::{ADMIN, EXEC_READ, Route, get, handlers, post};
use crate::http::http_error::HttpError;
use crate::http::json_response::{APPLICATION_JSON, JsonResponse, typed_response};
use crate::http::middleware::access::RouteAccess;
use crate::http::params::{PathText, QueryParams};
use crate::http::request_context::{AppState, AuthorizedCall};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::DASHBOARD_STATS, EXEC_READ, get_dashboard_stats),
        get(paths::DASHBOARD_WIDGETS, EXEC_READ, get_dashboard_widgets),
        get(paths::SHARD_INFO, EXEC_READ, get_shard_info),
        get(paths::WHOAMI, RouteAccess::Identity, whoami),
        get(paths::SCHEMA, RouteAccess::Identity, get_json_schema),
        get(paths::API_HEALTH, RouteAccess::Identity, get_health),
        get(paths::STATUS, ADMIN, get_server_status),
        get(paths::POOL_STATUS, ADMIN, get_server_status),
        get(paths::DB_VALIDATE, ADMIN, validate_database),
        post(paths::DB_INIT, ADMIN, init_database).audited(),
    ]
}

/// Range of the number of shards.
const SHARD_COUNT_RANGE: std::ops::RangeInclusive<u32> = 1..=1024;

/// Returns the shard of an execution.
async fn get_shard_info(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<JsonResponse<ShardInfo>, HttpError> {
    let execution_id = params.parse_param("execution_id", str::parse)?;
    let execution_id = execution_id
        .ok_or_else(|| HttpError::new(ErrorCode::BadQuery, "execution_id is missing"))?;
    let count = params.number_param("shard_count", SHARD_COUNT_RANGE)?;
    Ok(JsonResponse(app.services.system_status.shard_info(execution_id, count)))
}

/// Returns the identity of the caller.
async fn whoami(AuthorizedCall(app): AuthorizedCall) -> JsonResponse<WhoAmI> {
    let (scopes, context) = (app.identity.scopes(), app.identity.auth_context());
    JsonResponse(WhoAmI {
        actor: app.identity.actor(),
        tenant_id: Text::from(&context.tenant_id),
        organization_id: Text::from(&context.organization_id),
        scopes: scopes.map(|scope| scope.as_str().into()).collect(),
    })
}

/// Returns the health of the server, with status 503 if it is not `ok`.
async fn get_health(AuthorizedCall(app): AuthorizedCall) -> Response {
    let health = app.services.system_status.check_health().await;
    let is_healthy = health.status == "ok";
    let mut response = JsonResponse(health).into_response();
    if !is_healthy {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Returns the status of the server.
async fn get_server_status(AuthorizedCall(app): AuthorizedCall) -> JsonResponse<ServerStatus> {
    JsonResponse(app.services.system_status.server_status().await)
}

/// Creates the tables of the database if they are missing.
async fn init_database(
    AuthorizedCall(app): AuthorizedCall,
) -> Result<JsonResponse<DatabaseCheckResponse>, HttpError> {
    app.ctx.auth.check_operator()?;
    Ok(JsonResponse(app.services.system_status.init_database().await?))
}

/// Returns the JSON Schema of a kind of document.
async fn get_json_schema(
    State(app): State<AppState>,
    PathText(document): PathText,
) -> Result<Response, HttpError> {
    let schema = match document.as_str() {
        "playbook.json" => json_schema().to_string(),
        "config.json" => {
            let text = "this server has no schema of its settings";
            let schema = app.config_schema();
            let schema = schema.ok_or_else(|| HttpError::new(ErrorCode::NotSupported, text))?;
            schema.to_owned()
        }
        _ => {
            let text = "not found: available schemas are playbook.json and config.json";
            return Err(HttpError::new(ErrorCode::NotFound, text));
        }
    };
    Ok(typed_response(APPLICATION_JSON, schema))
}

handlers! {
    /// Returns the statistics of the dashboard.
    get_dashboard_stats(app: AuthorizedCall) -> DashboardStatsResponse =>
        app.services.system_status.dashboard_stats(&app.ctx);
    /// Returns the widgets of the dashboard.
    get_dashboard_widgets(app: AuthorizedCall) -> DashboardWidgets =>
        app.services.system_status.dashboard_widgets(&app.ctx);
    /// Checks that the tables of the database exist.
    validate_database(app: AuthorizedCall) -> DatabaseCheckResponse =>
        app.services.system_status.validate_database();
}
