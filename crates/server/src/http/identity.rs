//! What a request says about who makes it: a token, or that it comes from this machine.
//!
//! A developer is somebody on the machine that the server listens on. A page that the same person
//! looks at in a browser is not that person, so a request must also name this machine as its host,
//! which a page of a rebound name cannot, and must not come from a page of another origin that no
//! operator lists.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_types::ErrorCode;

use super::cors::Origins;
use super::failure::Failure;

/// What a proxy adds. Behind one on this machine the whole world looks like this machine.
const PASSED_ON: [HeaderName; 4] = [
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];

/// The token that a request shows: after `Bearer`, or as the password of `Basic`, which lets a client
/// carry it in an address.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<Shown>, Failure> {
    let unreadable = || {
        let text = "the header Authorization is neither `Bearer TOKEN` nor `Basic` with the token \
             as the password";
        Failure::new(ErrorCode::Unauthenticated, text)
    };
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let header = match (shown.next(), shown.next()) {
        (None, _) => return Ok(None),
        (Some(header), None) => header.to_str().map_err(|_| unreadable())?,
        (Some(_), Some(_)) => return Err(unreadable()),
    };
    let (scheme, rest) = header.split_once(' ').ok_or_else(unreadable)?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Some(Shown(rest.to_owned())));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(unreadable());
    }
    let decoded = BASE64_STANDARD.decode(rest).map_err(|_| unreadable())?;
    let decoded = String::from_utf8(decoded).map_err(|_| unreadable())?;
    let (_, password) = decoded.split_once(':').ok_or_else(unreadable)?;
    Ok(Some(Shown(password.to_owned())))
}

/// A token, or a capability, as it was sent. It is a secret, so it shows nothing of itself.
pub(super) struct Shown(String);

impl Shown {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// Whether a request comes from somebody at this machine; else why it does not count as such.
pub(super) fn is_developer(
    peer: SocketAddr,
    uri: &Uri,
    headers: &HeaderMap,
    origins: &Origins,
) -> Result<(), Failure> {
    if !peer.ip().to_canonical().is_loopback() {
        return Err(Failure::new(
            ErrorCode::Unauthenticated,
            "requests from other machines need an identity",
        ));
    }
    if PASSED_ON.iter().any(|name| headers.contains_key(name)) {
        return Err(Failure::new(
            ErrorCode::Unauthenticated,
            "requests that a proxy passes on for others need an identity",
        ));
    }
    let Some(host) = host(uri, headers).filter(|host| is_local(host.host())) else {
        return Err(Failure::new(
            ErrorCode::Forbidden,
            "the request is not addressed to this machine: its host is no loopback name",
        ));
    };
    is_of_page_at(&PLAIN, &host, headers, origins)
}

/// Whether a request comes from no page, or from one that may use the certificate of whoever looks at it: a
/// browser shows that to the server for every page.
pub(super) fn is_of_own_page(
    uri: &Uri,
    headers: &HeaderMap,
    origins: &Origins,
) -> Result<(), Failure> {
    match host(uri, headers) {
        Some(host) => is_of_page_at(&ENCRYPTED, &host, headers, origins),
        None if headers.contains_key(ORIGIN) => Err(foreign_page()),
        None => Ok(()),
    }
}

/// How the address of a page begins, and its usual port.
type Scheme = (&'static [u8], u16);
const PLAIN: Scheme = (b"http://", 80);
const ENCRYPTED: Scheme = (b"https://", 443);

fn is_of_page_at(
    scheme: &Scheme,
    host: &Authority,
    headers: &HeaderMap,
    origins: &Origins,
) -> Result<(), Failure> {
    let mut named = headers.get_all(ORIGIN).iter();
    match (named.next(), named.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if is_own(origin.as_bytes(), scheme, host) || origins.has(headers) => {
            Ok(())
        }
        (Some(_), _) => Err(foreign_page()),
    }
}

fn foreign_page() -> Failure {
    Failure::new(
        ErrorCode::Forbidden,
        "the request comes from a page of another origin",
    )
}

/// What a request is addressed to; nothing where it says that twice or not at all.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(Authority::try_from(host.as_bytes()).ok()?),
        (None, _) => None,
        (Some(_), Some(_)) => return None,
    };
    // A request of the absolute form says it in its first line, which wins.
    uri.authority().cloned().or(named)
}

fn is_local(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// Whether a page is this server's own.
fn is_own(origin: &[u8], (scheme, usual_port): &Scheme, host: &Authority) -> bool {
    let Some(origin) = origin.strip_prefix(*scheme) else {
        return false;
    };
    let Ok(origin) = Authority::try_from(origin) else {
        return false;
    };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(*usual_port);
    origin.host().eq_ignore_ascii_case(host.host()) && port(&origin) == port(host)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::response::IntoResponse as _;

    use super::*;

    fn status(peer: &str, uri: &str, named: &[(&'static str, &'static str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in named {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let origins = Origins::read("http://localhost:5173").unwrap();
        let (peer, uri) = (peer.parse().unwrap(), uri.parse().unwrap());
        match is_developer(peer, &uri, &headers, &origins) {
            Ok(()) => 200,
            Err(failure) => failure.into_response().status().as_u16(),
        }
    }

    #[test]
    fn a_developer_is_on_this_machine() {
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "app.localhost:80",
            "127.0.0.1",
            "127.1.2.3:9",
            "[::1]:8082",
        ] {
            assert_eq!(status("127.0.0.1:5", "/", &[("host", host)]), 200, "{host}");
        }
        assert_eq!(status("[::1]:5", "/", &[("host", "localhost")]), 200);
        assert_eq!(
            status("[::ffff:127.0.0.1]:5", "/", &[("host", "localhost")]),
            200
        );
        assert_eq!(status("10.0.0.7:5", "/", &[("host", "localhost")]), 401);
    }

    #[test]
    fn a_rebound_name_is_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "10.0.0.7:8082",
            "user@evil.example",
            "[::1",
            "",
        ] {
            assert_eq!(status("127.0.0.1:5", "/", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status("127.0.0.1:5", "/", &[]), 403);
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(status("127.0.0.1:5", "/", &twice), 403);
        let uri = "http://evil.example/api";
        assert_eq!(status("127.0.0.1:5", uri, &[("host", "localhost")]), 403);
    }

    #[test]
    fn who_comes_through_a_proxy_is_not_on_this_machine() {
        for name in [
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-real-ip",
        ] {
            let headers = [("host", "localhost"), (name, "127.0.0.1")];
            assert_eq!(status("127.0.0.1:5", "/", &headers), 401, "{name}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let with = |origin| {
            status(
                "127.0.0.1:5",
                "/",
                &[("host", "localhost:8082"), ("origin", origin)],
            )
        };
        assert_eq!(with("http://localhost:8082"), 200);
        assert_eq!(with("http://localhost:5173"), 200, "an operator lists it");
        for foreign in [
            "http://localhost:3000",
            "http://localhost",
            "https://localhost:8082",
            "http://127.0.0.1:8082",
            "http://evil.example",
            "null",
            "",
        ] {
            assert_eq!(with(foreign), 403, "{foreign}");
        }
        let plain = [("host", "localhost"), ("origin", "http://localhost:80")];
        assert_eq!(status("127.0.0.1:5", "/", &plain), 200);
    }

    /// A browser shows a certificate to the server for every page that is looked at.
    #[test]
    fn a_certificate_is_not_for_pages_of_others() {
        let with = |origins: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.append(HOST, HeaderValue::from_static("noetl.example:8443"));
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            let listed = Origins::read("https://app.example").unwrap();
            is_of_own_page(&Uri::from_static("/api"), &headers, &listed).is_ok()
        };
        assert!(with(&[]), "programs name no origin");
        assert!(with(&["https://noetl.example:8443"]));
        assert!(with(&["https://app.example"]), "an operator lists it");
        for foreign in [
            &["https://evil.example"][..],
            &["http://noetl.example:8443"],
            &["https://noetl.example"],
            &["null"],
            &["https://noetl.example:8443", "https://evil.example"],
        ] {
            assert!(!with(foreign), "{foreign:?}");
        }
        let mut nowhere = HeaderMap::new();
        let own = |headers: &HeaderMap| {
            is_of_own_page(&Uri::from_static("/api"), headers, &Origins::default()).is_ok()
        };
        assert!(own(&nowhere));
        nowhere.append(ORIGIN, HeaderValue::from_static("https://noetl.example"));
        assert!(!own(&nowhere));
    }

    fn shown(values: &[&'static str]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        let shown = token(&headers);
        shown
            .map(|shown| shown.map(|shown| shown.reveal().to_owned()))
            .map_err(|failure| failure.into_response().status().as_u16())
    }

    #[test]
    fn a_token_is_shown_in_two_ways() {
        assert_eq!(shown(&[]), Ok(None));
        let token = || Ok(Some("noetl_a_b".to_owned()));
        assert_eq!(shown(&["Bearer noetl_a_b"]), token());
        assert_eq!(shown(&["bearer  noetl_a_b "]), token());
        // user:noetl_a_b
        assert_eq!(shown(&["Basic dXNlcjpub2V0bF9hX2I="]), token());
        for wrong in [
            "Bearer",
            "noetl_a_b",
            "Digest x",
            "Basic !",
            "Basic dXNlcg==",
        ] {
            assert_eq!(shown(&[wrong]), Err(401), "{wrong}");
        }
        assert_eq!(shown(&["Bearer a", "Bearer a"]), Err(401));
    }
}
