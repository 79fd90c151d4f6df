//! CORS: web pages of other origins that may call this server.
//!
//! Only origins that the operator lists get CORS headers. Browsers hide the responses from all
//! other pages. A page sends its token in a header, so cookies are never allowed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

/// Values of `Access-Control-Allow-Methods` and `-Headers`.
const ALLOWED_METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, content-type, idempotency-key, last-event-id, traceparent, tracestate, \
     x-request-id, x-session-token",
);
/// Response headers that a page may read.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "idempotency-replayed, link, retry-after, www-authenticate, x-next-cursor, x-request-id, x-seq",
);
/// Time in seconds for which a browser caches a preflight response.
const PREFLIGHT_MAX_AGE_SECS: HeaderValue = HeaderValue::from_static("600");
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("origin");

/// Origins whose pages may call this server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedOrigins(Arc<[HeaderValue]>);

/// CORS properties of a request.
pub(in crate::http) struct CorsRequest {
    /// Origin of the page, if it is listed.
    origin: Option<HeaderValue>,
    /// True if responses differ by origin.
    varies_by_origin: bool,
    /// True for a preflight request.
    is_preflight: bool,
}

impl AllowedOrigins {
    /// Parses a comma-separated list of origins, in the form that browsers send.
    pub fn parse_list(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        let origins = parts.filter(|part| !part.is_empty()).map(parse_origin);
        origins.collect::<Result<_, _>>().map(Self)
    }

    /// True if a request comes from a page of a listed origin.
    pub(in crate::http) fn allows_request(&self, headers: &HeaderMap) -> bool {
        self.listed_origin(headers).is_some()
    }

    fn listed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut values = headers.get_all(ORIGIN).iter();
        let (Some(origin), None) = (values.next(), values.next()) else {
            return None;
        };
        self.0.iter().find(|listed| *listed == origin).cloned()
    }

    /// Reads the CORS properties of a request.
    pub(in crate::http) fn cors_request(&self, request: &Request<Body>) -> CorsRequest {
        let has_request_method = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        CorsRequest {
            origin: self.listed_origin(request.headers()),
            varies_by_origin: !self.0.is_empty(),
            is_preflight: *request.method() == Method::OPTIONS && has_request_method,
        }
    }
}

/// Parses one origin. Forms that a browser never sends are rejected, because they would never
/// match.
fn parse_origin(text: &str) -> Result<HeaderValue, String> {
    let invalid = |reason: &str| Err(format!("'{text}' is not an origin: {reason}"));
    let (default_port, rest) = match text.split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some(("https", rest)) => (443, rest),
        Some(_) | None => return invalid("expected a form such as https://app.example.com"),
    };
    let Ok(authority) = Authority::try_from(rest) else {
        return invalid("expected a host and an optional port after http:// or https://");
    };
    if rest.contains('@') || rest.contains('*') || rest != rest.to_ascii_lowercase() {
        return invalid("expected one host in lower case, without user and wildcard");
    }
    if authority.port_u16() == Some(default_port) {
        return invalid("omit the default port, as browsers do");
    }
    HeaderValue::from_str(text).or_else(|_| invalid("expected ASCII text"))
}

impl CorsRequest {
    /// Response to a preflight request of a listed origin, or `None` for other requests. A
    /// preflight request needs no authentication. The request itself follows later.
    pub(in crate::http) fn preflight_response(&self) -> Option<Response> {
        if !self.is_preflight || self.origin.is_none() {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_SECS);
        Some(response)
    }

    /// Adds the CORS headers to a response.
    pub(in crate::http) fn add_headers(self, headers: &mut HeaderMap) {
        if self.varies_by_origin {
            headers.append(VARY, VARY_ORIGIN);
        }
        if let Some(origin) = self.origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        }
    }
}

#[cfg(test)]
mod tests;
