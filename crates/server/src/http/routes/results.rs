//! Results that are too large for an event.

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::response::Response;
use noetl_api::paths;
use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_types::ErrorCode;

use super::{EXEC_READ_OR_WORKER, MAX_REPORT_BODY_SIZE, Route, WORKER, get, put};
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::{APPLICATION_JSON, JsonResponse, typed_response};
use crate::http::params::{IdempotencyKeyHeader, PathExecutionId, QueryParams};
use crate::http::request_context::AuthorizedCall;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::RESULT_RESOLVE, EXEC_READ_OR_WORKER, resolve_result).accepts_command_token(),
        put(paths::RESULT_PUT, WORKER, put_result)
            .max_body(MAX_REPORT_BODY_SIZE)
            .accepts_command_token(),
    ]
}

/// Returns a stored result as it was stored, without parsing it.
async fn resolve_result(
    AuthorizedCall(app): AuthorizedCall,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let reference = params
        .text_param("ref")?
        .ok_or_else(|| HttpError::new(ErrorCode::BadQuery, "ref is missing"))?;
    let result = app.services.results.read_verified_result(&app.ctx, &reference).await?;
    let media_type = if result.media_type == "application/json" {
        APPLICATION_JSON
    } else {
        // A browser must not render stored data as a page.
        HeaderValue::from_static("application/octet-stream")
    };
    Ok(typed_response(media_type, Body::from(Bytes::from_owner(result.bytes))))
}

/// Stores a result.
async fn put_result(
    AuthorizedCall(app): AuthorizedCall,
    PathExecutionId(execution_id): PathExecutionId,
    key: IdempotencyKeyHeader,
    JsonBody(request): JsonBody<ResultPutRequest>,
) -> Result<JsonResponse<ResultPutResponse>, HttpError> {
    let stored = app.services.results.put_result(&app.ctx, execution_id, request, key.key_text());
    Ok(JsonResponse(stored.await?))
}
