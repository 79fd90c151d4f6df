//! Results that are too large for an event.

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::response::Response;
use noetl_api::result::{KeptResult, PutResult};
use noetl_types::ErrorCode;

use crate::http::acting::For;
use crate::http::answer::{Answer, JSON, of_type};
use crate::http::body::JsonBody;
use crate::http::failure::Failure;
use crate::http::params::{ExecutionOf, KeyOf, Params};

/// A stored result as it is kept: it was written as JSON once and is not read again.
pub(in crate::http) async fn resolve(
    For(app): For,
    mut params: Params,
) -> Result<Response, Failure> {
    let reference = params
        .text("ref")?
        .ok_or_else(|| Failure::new(ErrorCode::BadQuery, "ref is missing"))?;
    let result = app.runtime.stored_result(&reference).await?;
    let media_type = if result.media_type == "application/json" {
        JSON
    } else {
        // A browser must not take what somebody stored for a page.
        HeaderValue::from_static("application/octet-stream")
    };
    Ok(of_type(
        media_type,
        Body::from(Bytes::from_owner(result.bytes)),
    ))
}

/// Keeps a result.
pub(in crate::http) async fn put(
    For(app): For,
    ExecutionOf(execution_id): ExecutionOf,
    key: KeyOf,
    JsonBody(request): JsonBody<PutResult>,
) -> Result<Answer<KeptResult>, Failure> {
    let kept = app.runtime.put_result(execution_id, request, key.text());
    Ok(Answer(kept.await?))
}
