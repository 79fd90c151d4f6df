//! The OpenAPI 3.1 document of the HTTP API, and its HTML page.
//!
//! A test generates the document from the routes, the types of their handlers and the texts in
//! `http/tests/openapi`, and compares it with `docs/openapi.json`, which the server embeds.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::Response;
use noetl_api::paths;

use super::{Route, get};
use crate::http::json_response::{APPLICATION_JSON, typed_response};
use crate::http::middleware::access::RouteAccess;
use crate::http::openapi_page::PAGE;

/// The OpenAPI document as JSON text.
pub(in crate::http) const DOCUMENT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json"));

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
