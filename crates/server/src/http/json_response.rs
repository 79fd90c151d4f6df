//! Successful responses, also with a page of a list and the link to the next page in their headers.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LINK};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use noetl_api::query::NEXT_CURSOR_HEADER;
use noetl_types::Text;
use serde::Serialize;

use super::http_error::HttpError;
use crate::access::ObservedSeq;

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

/// Creates the response for a page, with the headers of the next page if there is one.
pub(super) fn page_response<T: Serialize>(page: T, uri: &Uri, next: Option<&Text>) -> Response {
    let mut response = JsonResponse(page).into_response();
    if let Some(next) = next
        && let Ok(cursor) = HeaderValue::try_from(next.as_str())
        && let Ok(link) = HeaderValue::try_from(next_page_link(uri, next))
    {
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static(NEXT_CURSOR_HEADER), cursor);
        headers.insert(LINK, link);
    }
    response
}

/// Value of the `Link` header: the same query with another cursor.
fn next_page_link(uri: &Uri, cursor: &str) -> String {
    let mut link = format!("<{}?", uri.path());
    let is_position = |pair: &str| pair.starts_with("cursor=") || pair.starts_with("offset=");
    let pairs = uri.query().unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty() && !is_position(pair)) {
        link.push_str(pair);
        link.push('&');
    }
    link.push_str(&format!("cursor={cursor}>; rel=\"next\""));
    link
}

#[cfg(test)]
mod tests;
