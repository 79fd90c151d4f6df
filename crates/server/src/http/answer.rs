//! An answer that went well.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::failure::Failure;
use crate::read::SeqSeen;

/// Says of which place of a log an answer is.
const X_SEQ: HeaderName = HeaderName::from_static("x-seq");

/// Media type of most answers.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A value, written as JSON once.
#[derive(Debug)]
pub(super) struct Answer<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => of_type(JSON, body),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written");
                Failure::internal().into_response()
            }
        }
    }
}

/// An answer about a run, and how far its log was when it was made.
#[derive(Debug)]
pub(super) struct AsOf<T>(pub(super) T, pub(super) SeqSeen);

impl<T: Serialize> IntoResponse for AsOf<T> {
    fn into_response(self) -> Response {
        let mut response = Answer(self.0).into_response();
        if let Some(seq) = self.1.get() {
            response.headers_mut().insert(X_SEQ, seq.into());
        }
        response
    }
}

/// Bytes of a media type.
pub(super) fn of_type(media_type: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
