//! The API, as it describes itself.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::Response;

use crate::http::answer::{JSON, of_type};
use crate::http::openapi::{DOCUMENT, PAGE};

/// The page has a style of its own and nothing else: no script, no picture, nothing from elsewhere.
const NOTHING_ELSE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// The document.
pub(in crate::http) async fn document() -> Response {
    of_type(JSON, DOCUMENT)
}

/// The same for people.
pub(in crate::http) async fn page() -> Response {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = of_type(html, PAGE.as_str());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, NOTHING_ELSE);
    response
}
