//! Health probes and metrics.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use noetl_api::health::{HealthStatus, LivenessResponse};
use noetl_api::paths;

use super::{Route, get};
use crate::access::CallContext;
use crate::http::http_error::HttpError;
use crate::http::json_response::{JsonResponse, typed_response};
use crate::http::middleware::access::{Caller, RouteAccess, Scope};
use crate::http::request_context::AppState;
use crate::metrics::CONTENT_TYPE;

const METRICS_READ: RouteAccess = RouteAccess::AnyOf(&[Scope::MetricsRead]);

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::LIVEZ, RouteAccess::Open, check_liveness),
        get(paths::HEALTH, RouteAccess::Open, check_liveness),
        get(paths::READYZ, RouteAccess::Open, check_readiness),
        get(paths::METRICS, METRICS_READ, get_metrics),
    ]
}

/// Liveness probe: succeeds if the process answers. Accesses nothing else.
async fn check_liveness() -> JsonResponse<LivenessResponse> {
    JsonResponse(LivenessResponse { status: HealthStatus::Ok })
}

/// Readiness probe. Only callers of the operator get the reasons of failed checks.
async fn check_readiness(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let readiness = app.services().system_status.check_readiness().await;
    let readiness = readiness.with_overrides(app.unsafe_settings());
    // The reasons contain figures of all tenants.
    let is_operator = caller.is_ok_and(|caller| caller.auth_context().check_operator().is_ok());
    let readiness = if is_operator { readiness } else { readiness.without_reasons() };
    let is_failed = readiness.status == HealthStatus::Failed;
    let mut response = JsonResponse(readiness).into_response();
    if is_failed {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Returns the metrics of the server and the store. Without authentication, the values are those of
/// the operator.
async fn get_metrics(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpError> {
    let context = caller.map(|caller| caller.auth_context().clone());
    let ctx = CallContext::from(context.unwrap_or_default());
    let text = app.services().system_status.render_metrics(&ctx).await?;
    Ok(typed_response(HeaderValue::from_static(CONTENT_TYPE), text))
}
