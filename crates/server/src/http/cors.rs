//! Pages of other origins that may call this server and read what it answers.
//!
//! Only origins that an operator lists are told anything; to all others a browser shows nothing. A
//! page shows a token in a header of its own, so cookies and their like are never asked for.

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

/// What a page may send.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, content-type, idempotency-key, last-event-id, traceparent, tracestate, \
     x-request-id",
);
/// What a page may read beside the body.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "idempotency-replayed, link, retry-after, www-authenticate, x-next-cursor, x-request-id, x-seq",
);
/// Seconds for which a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const VARIES: HeaderValue = HeaderValue::from_static("origin");

/// Origins whose pages are answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(Arc<[HeaderValue]>);

/// What a request says about the page that it comes from.
pub(super) struct Page {
    /// Its origin, if it is listed.
    origin: Option<HeaderValue>,
    /// Whether answers differ by origin.
    varies: bool,
    /// Whether a browser asks what the page may send.
    is_preflight: bool,
}

impl Origins {
    /// Reads origins that are separated by commas, each as a browser tells it.
    pub fn read(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        let origins = parts.filter(|part| !part.is_empty()).map(origin);
        origins.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a request comes from a page of a listed origin.
    pub(super) fn has(&self, headers: &HeaderMap) -> bool {
        self.listed(headers).is_some()
    }

    fn listed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut named = headers.get_all(ORIGIN).iter();
        let (Some(named), None) = (named.next(), named.next()) else {
            return None;
        };
        self.0.iter().find(|listed| *listed == named).cloned()
    }

    /// What a request says about its page.
    pub(super) fn page(&self, request: &Request<Body>) -> Page {
        let asks = request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        Page {
            origin: self.listed(request.headers()),
            varies: !self.0.is_empty(),
            is_preflight: *request.method() == Method::OPTIONS && asks,
        }
    }
}

/// Reads one origin. What a browser would never send is refused, since it would never be found.
fn origin(text: &str) -> Result<HeaderValue, String> {
    let wrong = |why: &str| Err(format!("'{text}' is no origin: {why}"));
    let (usual_port, rest) = match text.split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some(("https", rest)) => (443, rest),
        Some(_) | None => return wrong("it has to be such as https://app.example.com"),
    };
    let Ok(authority) = Authority::try_from(rest) else {
        return wrong("a host and perhaps a port follow http:// or https://, and nothing else");
    };
    if rest.contains('@') || rest.contains('*') || rest != rest.to_ascii_lowercase() {
        return wrong("it has to be one host, in lower case");
    }
    if authority.port_u16() == Some(usual_port) {
        return wrong("browsers leave out the usual port");
    }
    HeaderValue::from_str(text).or_else(|_| wrong("it has to be plain text"))
}

impl Page {
    /// The answer to a browser that asks what a page of a listed origin may send. Nobody has to be
    /// known for that; the request itself comes later.
    pub(super) fn preflight(&self) -> Option<Response> {
        if !self.is_preflight || self.origin.is_none() {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        Some(response)
    }

    /// Says in an answer whose page may read it.
    pub(super) fn tell(self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, VARIES);
        }
        if let Some(origin) = self.origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_tell_them() {
        for good in [
            "https://app.example.com",
            "http://localhost:3000",
            "http://[::1]:3000",
            "http://a, https://b:8443 ,",
            "",
        ] {
            assert!(Origins::read(good).is_ok(), "{good}");
        }
        assert_eq!(Origins::read(" ").unwrap(), Origins::default());
        for wrong in [
            "*",
            "null",
            "app.example.com",
            "https://*.example.com",
            "https://App.example.com",
            "https://app.example.com/",
            "https://app.example.com:443",
            "http://app.example.com:80",
            "https://user@app.example.com",
            "https://",
            "ftp://app.example.com",
            "https://a;https://b",
        ] {
            let refused = Origins::read(wrong).unwrap_err();
            assert!(refused.contains(wrong), "{refused}");
        }
    }
}
