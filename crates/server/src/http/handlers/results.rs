//! Results that are too large for an event.

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::response::Response;
use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_types::ErrorCode;

use crate::http::authorized_runtime::AuthorizedRuntime;
use crate::http::body::JsonBody;
use crate::http::http_error::HttpError;
use crate::http::json_response::{APPLICATION_JSON, JsonResponse, typed_response};
use crate::http::params::{IdempotencyKeyHeader, PathExecutionId, QueryParams};

/// Returns a stored result as it was stored, without parsing it.
pub(in crate::http) async fn resolve_result(
    AuthorizedRuntime(app): AuthorizedRuntime,
    mut params: QueryParams,
) -> Result<Response, HttpError> {
    let reference = params
        .text_param("ref")?
        .ok_or_else(|| HttpError::new(ErrorCode::BadQuery, "ref is missing"))?;
    let result = app.runtime.read_verified_result(&reference).await?;
    let media_type = if result.media_type == "application/json" {
        APPLICATION_JSON
    } else {
        // A browser must not render stored data as a page.
        HeaderValue::from_static("application/octet-stream")
    };
    Ok(typed_response(media_type, Body::from(Bytes::from_owner(result.bytes))))
}

/// Stores a result.
pub(in crate::http) async fn put_result(
    AuthorizedRuntime(app): AuthorizedRuntime,
    PathExecutionId(execution_id): PathExecutionId,
    key: IdempotencyKeyHeader,
    JsonBody(request): JsonBody<ResultPutRequest>,
) -> Result<JsonResponse<ResultPutResponse>, HttpError> {
    let stored = app.runtime.put_result(execution_id, request, key.key_text());
    Ok(JsonResponse(stored.await?))
}
