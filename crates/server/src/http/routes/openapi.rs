//! The OpenAPI document and its HTML page.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::Response;

use super::{Route, get};
use crate::http::json_response::{APPLICATION_JSON, typed_response};
use crate::http::middleware::access::RouteAccess;
use crate::http::openapi::{DOCUMENT, PAGE};
use noetl_api::paths;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get(paths::OPENAPI, RouteAccess::Identity, get_openapi_document),
        // The page is the same for every caller and contains no tenant data. A browser sends no
        // token.
        get(paths::DOCS, RouteAccess::Open, get_openapi_page),
    ]
}

/// Content security policy: the page uses inline styles only, no scripts, images or external
/// resources.
const PAGE_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// Returns the OpenAPI document.
async fn get_openapi_document() -> Response {
    typed_response(APPLICATION_JSON, DOCUMENT)
}

/// Returns the OpenAPI document as HTML page.
async fn get_openapi_page() -> Response {
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = typed_response(html, PAGE.as_str());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, PAGE_SECURITY_POLICY);
    response
}
