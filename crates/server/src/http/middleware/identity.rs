//! Credentials of a request: a token, or a local connection in development mode.
//!
//! A developer is a user of the machine that the server listens on. A web page that this user opens
//! in a browser must not get the same rights. Therefore the request must also name this machine as
//! its host, which a page behind DNS rebinding cannot do, and must not come from a page of another
//! origin, unless the operator lists that origin.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_types::ErrorCode;

use super::cors::AllowedOrigins;
use crate::http::http_error::HttpError;

/// Header in which a browser reports the relation of the page to the server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that proxies add. Behind a proxy on this machine, every client appears to be local.
const PROXY_HEADERS: [HeaderName; 4] = [
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];

/// Header in which the published console sends its token.
pub(in crate::http) const X_SESSION_TOKEN: HeaderName = HeaderName::from_static("x-session-token");

/// Marks the response to a request whose body contains an invalid token.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct RejectedToken;

/// True if a request presents a token, valid or not.
pub(in crate::http) fn has_token(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION) || headers.contains_key(X_SESSION_TOKEN)
}

/// Reads the token of a request: after `Bearer`, or as the password of `Basic`, so that a client
/// can put it into a URL, or else in `X-Session-Token`.
pub(in crate::http) fn request_token(
    headers: &HeaderMap,
) -> Result<Option<PresentedToken>, HttpError> {
    let invalid_header = || {
        let text = "invalid Authorization header: send `Bearer TOKEN`, or `Basic` with the token as the \
             password";
        HttpError::new(ErrorCode::Unauthenticated, text)
    };
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let header = match (values.next(), values.next()) {
        (None, _) => return session_token(headers),
        (Some(header), None) => header.to_str().map_err(|_| invalid_header())?,
        (Some(_), Some(_)) => return Err(invalid_header()),
    };
    let (scheme, rest) = header.split_once(' ').ok_or_else(invalid_header)?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Some(PresentedToken(rest.to_owned())));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(invalid_header());
    }
    let decoded = BASE64_STANDARD.decode(rest).map_err(|_| invalid_header())?;
    let decoded = String::from_utf8(decoded).map_err(|_| invalid_header())?;
    let (_, password) = decoded.split_once(':').ok_or_else(invalid_header)?;
    Ok(Some(PresentedToken(password.to_owned())))
}

fn session_token(headers: &HeaderMap) -> Result<Option<PresentedToken>, HttpError> {
    let mut values = headers.get_all(X_SESSION_TOKEN).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(token)), None) => {
            let token = token.trim();
            Ok((!token.is_empty()).then(|| PresentedToken::new(token)))
        }
        (Some(_), _) => Err(HttpError::new(
            ErrorCode::Unauthenticated,
            "invalid X-Session-Token header: send one token",
        )),
    }
}

/// A token or command token as it was sent. It is a secret, so it does not implement `Debug`.
pub(in crate::http) struct PresentedToken(String);

impl PresentedToken {
    pub(in crate::http) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(in crate::http) fn expose_secret(&self) -> &str {
        &self.0
    }
}

/// Local client without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum LocalClient {
    /// A program, or a page of this server. Its user operates the server.
    Operator,
    /// A page of another origin that the operator lists.
    ListedPage,
}

/// Checks that a request comes from a local program, or from a page that may act as one.
pub(in crate::http) fn check_developer(
    peer: SocketAddr,
    uri: &Uri,
    headers: &HeaderMap,
    origins: &AllowedOrigins,
) -> Result<LocalClient, HttpError> {
    if !peer.ip().to_canonical().is_loopback() {
        return Err(HttpError::new(
            ErrorCode::Unauthenticated,
            "requests from other machines must be authenticated: send the header Authorization: Bearer TOKEN",
        ));
    }
    if PROXY_HEADERS.iter().any(|name| headers.contains_key(name)) {
        return Err(HttpError::new(
            ErrorCode::Unauthenticated,
            "requests through a proxy must be authenticated: send the header Authorization: Bearer TOKEN",
        ));
    }
    let Some(host) = request_host(uri, headers).filter(|host| is_loopback_host(host.host())) else {
        return Err(HttpError::new(
            ErrorCode::Forbidden,
            "the Host header does not name this machine: use localhost or a loopback address",
        ));
    };
    check_page_origin(&HTTP_ORIGIN, &host, headers, origins)?;
    if origins.allows_request(headers) {
        return Ok(LocalClient::ListedPage);
    }
    Ok(LocalClient::Operator)
}

/// Checks that a request comes from no page, or from a page that may use the client certificate of
/// its user: a browser presents the certificate for requests of every page.
pub(in crate::http) fn check_certificate_origin(
    uri: &Uri,
    headers: &HeaderMap,
    origins: &AllowedOrigins,
) -> Result<(), HttpError> {
    match request_host(uri, headers) {
        Some(host) => check_page_origin(&HTTPS_ORIGIN, &host, headers, origins),
        None if headers.contains_key(ORIGIN) => Err(cross_origin_error()),
        None => Ok(()),
    }
}

/// Scheme of an origin.
struct OriginScheme {
    prefix: &'static [u8],
    default_port: u16,
}

const HTTP_ORIGIN: OriginScheme = OriginScheme { prefix: b"http://", default_port: 80 };
const HTTPS_ORIGIN: OriginScheme = OriginScheme { prefix: b"https://", default_port: 443 };

fn check_page_origin(
    scheme: &OriginScheme,
    host: &Authority,
    headers: &HeaderMap,
    origins: &AllowedOrigins,
) -> Result<(), HttpError> {
    let mut values = headers.get_all(ORIGIN).iter();
    match (values.next(), values.next()) {
        // Browsers send no origin with some requests of pages, such as those for images.
        (None, _) if is_sent_by_other_page(headers) => Err(cross_origin_error()),
        (None, _) => Ok(()),
        (Some(origin), None)
            if is_same_origin(origin.as_bytes(), scheme, host)
                || origins.allows_request(headers) =>
        {
            Ok(())
        }
        (Some(_), _) => Err(cross_origin_error()),
    }
}

fn is_sent_by_other_page(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"))
}

fn cross_origin_error() -> HttpError {
    HttpError::new(
        ErrorCode::Forbidden,
        "cross-origin request: the origin is not in NOETL_CORS_ORIGINS",
    )
}

/// Host of a request. `None` if the host is missing or ambiguous.
fn request_host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(HOST).iter();
    let header_host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(Authority::try_from(host.as_bytes()).ok()?),
        (None, _) => None,
        (Some(_), Some(_)) => return None,
    };
    // A request target in absolute form contains the host, which takes precedence.
    uri.authority().cloned().or(header_host)
}

fn is_loopback_host(host: &str) -> bool {
    let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Ok(address) = unbracketed.unwrap_or(host).parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// True if an origin is this server.
fn is_same_origin(origin: &[u8], scheme: &OriginScheme, host: &Authority) -> bool {
    let Some(origin) = origin.strip_prefix(scheme.prefix) else {
        return false;
    };
    let Ok(origin) = Authority::try_from(origin) else {
        return false;
    };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(scheme.default_port);
    origin.host().eq_ignore_ascii_case(host.host()) && port(&origin) == port(host)
}

#[cfg(test)]
mod tests;
