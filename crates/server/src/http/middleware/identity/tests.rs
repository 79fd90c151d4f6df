use axum::http::HeaderValue;
use axum::response::IntoResponse as _;

use super::*;

fn developer_status(peer: &str, uri: &str, header_values: &[(&'static str, &'static str)]) -> u16 {
    let mut headers = HeaderMap::new();
    for (name, value) in header_values {
        headers.append(*name, HeaderValue::from_static(value));
    }
    let origins = AllowedOrigins::parse_list("http://localhost:5173").unwrap();
    let (peer, uri) = (peer.parse().unwrap(), uri.parse().unwrap());
    match check_developer(peer, &uri, &headers, &origins) {
        Ok(_) => 200,
        Err(error) => error.into_response().status().as_u16(),
    }
}

#[test]
fn accepts_local_developer() {
    for host in [
        "localhost", "LOCALHOST:8082", "app.localhost:80", "127.0.0.1", "127.1.2.3:9", "[::1]:8082",
    ] {
        assert_eq!(developer_status("127.0.0.1:5", "/", &[("host", host)]), 200, "{host}");
    }
    assert_eq!(developer_status("[::1]:5", "/", &[("host", "localhost")]), 200);
    assert_eq!(developer_status("[::ffff:127.0.0.1]:5", "/", &[("host", "localhost")]), 200);
    assert_eq!(developer_status("10.0.0.7:5", "/", &[("host", "localhost")]), 401);
}

/// Browsers send no origin with requests for images and frames, but they name the relation of the
/// page.
#[test]
fn rejects_request_of_other_page_without_origin() {
    for (site, status) in
        [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("", 403)]
    {
        let headers = [("host", "localhost"), ("sec-fetch-site", site)];
        assert_eq!(developer_status("127.0.0.1:5", "/", &headers), status, "{site}");
    }
}

/// A page of another origin may act as the developer, but does not operate the server.
#[test]
fn page_of_listed_origin_is_not_operator() {
    let client_of = |origin: &'static str| {
        let headers = [("host", "localhost:8082"), ("origin", origin)];
        let headers = headers
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let origins = AllowedOrigins::parse_list("http://localhost:5173").unwrap();
        let peer = "127.0.0.1:5".parse().unwrap();
        check_developer(peer, &Uri::from_static("/"), &headers.into_iter().collect(), &origins)
    };
    assert_eq!(client_of("http://localhost:5173").unwrap(), LocalClient::ListedPage);
    assert_eq!(client_of("http://localhost:8082").unwrap(), LocalClient::Operator);
}

#[test]
fn rejects_rebound_host_name() {
    for host in [
        "evil.example", "localhost.evil.example", "notlocalhost", "10.0.0.7:8082",
        "user@evil.example", "[::1", "",
    ] {
        assert_eq!(developer_status("127.0.0.1:5", "/", &[("host", host)]), 403, "{host}");
    }
    assert_eq!(developer_status("127.0.0.1:5", "/", &[]), 403);
    let twice = [("host", "localhost"), ("host", "localhost")];
    assert_eq!(developer_status("127.0.0.1:5", "/", &twice), 403);
    let uri = "http://evil.example/api";
    assert_eq!(developer_status("127.0.0.1:5", uri, &[("host", "localhost")]), 403);
}

#[test]
fn rejects_proxied_developer() {
    for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"] {
        let headers = [("host", "localhost"), (name, "127.0.0.1")];
        assert_eq!(developer_status("127.0.0.1:5", "/", &headers), 401, "{name}");
    }
}

#[test]
fn rejects_unlisted_origin() {
    let status_with_origin = |origin| {
        developer_status("127.0.0.1:5", "/", &[("host", "localhost:8082"), ("origin", origin)])
    };
    assert_eq!(status_with_origin("http://localhost:8082"), 200);
    assert_eq!(status_with_origin("http://localhost:5173"), 200, "listed by the operator");
    for foreign in [
        "http://localhost:3000", "http://localhost", "https://localhost:8082",
        "http://127.0.0.1:8082", "http://evil.example", "null", "",
    ] {
        assert_eq!(status_with_origin(foreign), 403, "{foreign}");
    }
    let plain = [("host", "localhost"), ("origin", "http://localhost:80")];
    assert_eq!(developer_status("127.0.0.1:5", "/", &plain), 200);
}

/// A browser presents the client certificate for requests of every page.
#[test]
fn rejects_certificate_from_unlisted_origin() {
    let accepts_origins = |origins: &[&'static str]| {
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("noetl.example:8443"));
        for origin in origins {
            headers.append(ORIGIN, HeaderValue::from_static(origin));
        }
        let listed = AllowedOrigins::parse_list("https://app.example").unwrap();
        check_certificate_origin(&Uri::from_static("/api"), &headers, &listed).is_ok()
    };
    assert!(accepts_origins(&[]), "programs send no Origin header");
    assert!(accepts_origins(&["https://noetl.example:8443"]));
    assert!(accepts_origins(&["https://app.example"]), "listed by the operator");
    for foreign in [
        &["https://evil.example"][..],
        &["http://noetl.example:8443"],
        &["https://noetl.example"],
        &["null"],
        &["https://noetl.example:8443", "https://evil.example"],
    ] {
        assert!(!accepts_origins(foreign), "{foreign:?}");
    }
    let mut without_host = HeaderMap::new();
    let is_accepted = |headers: &HeaderMap| {
        check_certificate_origin(&Uri::from_static("/api"), headers, &AllowedOrigins::default())
            .is_ok()
    };
    assert!(is_accepted(&without_host));
    without_host.append(ORIGIN, HeaderValue::from_static("https://noetl.example"));
    assert!(!is_accepted(&without_host));
}

fn parse_authorization(values: &[&'static str]) -> Result<Option<String>, u16> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, HeaderValue::from_static(value));
    }
    let token = request_token(&headers);
    token
        .map(|token| token.map(|token| token.expose_secret().to_owned()))
        .map_err(|error| error.into_response().status().as_u16())
}

#[test]
fn reads_token_from_bearer_and_basic() {
    assert_eq!(parse_authorization(&[]), Ok(None));
    let token = || Ok(Some("noetl_a_b".to_owned()));
    assert_eq!(parse_authorization(&["Bearer noetl_a_b"]), token());
    assert_eq!(parse_authorization(&["bearer  noetl_a_b "]), token());
    // user:noetl_a_b
    assert_eq!(parse_authorization(&["Basic dXNlcjpub2V0bF9hX2I="]), token());
    for wrong in ["Bearer", "noetl_a_b", "Digest x", "Basic !", "Basic dXNlcg=="] {
        assert_eq!(parse_authorization(&[wrong]), Err(401), "{wrong}");
    }
    assert_eq!(parse_authorization(&["Bearer a", "Bearer a"]), Err(401));
}
