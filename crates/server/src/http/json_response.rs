//! Successful responses.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::http_error::HttpError;
use crate::read::ObservedSeq;

/// Header with the seq of the log that a response reflects.
const X_SEQ: HeaderName = HeaderName::from_static("x-seq");

/// Media type of most responses.
pub(super) const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Response with a JSON body.
#[derive(Debug)]
pub(super) struct JsonResponse<T>(pub(super) T);

impl<T: Serialize> IntoResponse for JsonResponse<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => typed_response(APPLICATION_JSON, body),
            Err(error) => {
                tracing::error!(%error, "cannot serialize a response");
                HttpError::internal_error().into_response()
            }
        }
    }
}

/// Response with a JSON body about an execution, and the seq of the log that it reflects.
#[derive(Debug)]
pub(super) struct JsonAtSeq<T>(pub(super) T, pub(super) ObservedSeq);

impl<T: Serialize> IntoResponse for JsonAtSeq<T> {
    fn into_response(self) -> Response {
        let mut response = JsonResponse(self.0).into_response();
        if let Some(seq) = self.1.get() {
            response.headers_mut().insert(X_SEQ, seq.into());
        }
        response
    }
}

/// Creates a response with a body of a media type.
pub(super) fn typed_response(media_type: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
