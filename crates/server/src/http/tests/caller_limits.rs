//! Limits per token, tenant and address.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use noetl_types::{ErrorCode, Scope};
use serde_json::json;

use super::backends::{StoreFixture, on_every_store};
use super::tokens::{create_token, with_token};
use super::{TWO_STEPS, TestServer, build_request, is_ok, secured_settings};
use crate::http::settings::HttpSettings;

async fn start_limited_server(change: impl FnOnce(&mut HttpSettings)) -> TestServer {
    let mut settings = secured_settings();
    change(&mut settings);
    StoreFixture::in_memory().start_server(settings, |_| {}).await
}

/// Sends a request for the own identity from an address.
async fn whoami(server: &TestServer, host: [u8; 4], token: Option<&str>) -> u16 {
    let peer = SocketAddr::from((host, 4000));
    let request = build_request(Method::GET, "/api/whoami", Body::empty());
    let request = match token {
        Some(token) => with_token(request, token),
        None => request,
    };
    let response = server.send_from(peer, request).await;
    if response.status == 429 {
        response.assert_problem(ErrorCode::RateLimited);
    }
    response.status
}

#[tokio::test(start_paused = true)]
async fn guesses_of_tokens_are_limited_by_address() {
    const GUESSER: [u8; 4] = [10, 0, 0, 7];
    const OTHER: [u8; 4] = [10, 0, 0, 8];
    let server = start_limited_server(|settings| settings.auth_failures_per_minute = 10).await;
    let valid = create_token(&server.services, "default", &[Scope::ExecRead]).await;
    let wrong_secret = format!("{}x", &valid[..valid.len() - 1]);
    for guess in 0..10 {
        let guess = format!("noetl_{guess:012x}_{}", "0".repeat(64));
        assert_eq!(whoami(&server, GUESSER, Some(&guess)).await, 401);
    }
    for guess in ["noetl_ffff_0", "", wrong_secret.as_str()] {
        assert_eq!(whoami(&server, GUESSER, Some(guess)).await, 429, "{guess}");
    }
    // Neither valid tokens, nor callers without a token, nor other addresses are affected.
    assert_eq!(whoami(&server, GUESSER, Some(&valid)).await, 200);
    assert_eq!(whoami(&server, GUESSER, None).await, 401);
    assert_eq!(whoami(&server, OTHER, Some(&wrong_secret)).await, 401);
    let internal = build_request(Method::GET, "/api/internal/outbox/pending-count", Body::empty());
    let internal = with_token(internal, "internal-token-for-tests");
    assert_eq!(server.send_from((GUESSER, 4000).into(), internal).await.status, 200);
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(whoami(&server, GUESSER, Some(&wrong_secret)).await, 401);
    assert_eq!(whoami(&server, GUESSER, Some(&wrong_secret)).await, 429);

    let unlimited = start_limited_server(|settings| settings.auth_failures_per_minute = 0).await;
    for _ in 0..100 {
        assert_eq!(whoami(&unlimited, GUESSER, Some(&wrong_secret)).await, 401);
    }
}

/// A token in the body is a guess like one in a header.
#[tokio::test(start_paused = true)]
async fn guesses_of_session_tokens_are_limited() {
    let server = start_limited_server(|settings| settings.auth_failures_per_minute = 10).await;
    let guess = async || {
        let body = json!({ "session_token": "noetl_ffff_0" });
        server.post("/api/auth/validate", body).await.status
    };
    for _ in 0..10 {
        assert_eq!(guess().await, 401);
    }
    assert_eq!(guess().await, 429);
}

#[tokio::test]
async fn guesses_of_the_internal_token_are_limited() {
    let server = start_limited_server(|settings| settings.auth_failures_per_minute = 5).await;
    let guess = async || {
        let path = "/api/internal/outbox/pending-count";
        let request = build_request(Method::GET, path, Body::empty());
        server.send(with_token(request, "guess")).await.status
    };
    for _ in 0..5 {
        assert_eq!(guess().await, 403);
    }
    assert_eq!(guess().await, 429);
}

/// Opens a live stream, which lasts until the response is dropped.
async fn open_stream(server: &TestServer, token: &str) -> Response {
    let mut request = build_request(Method::GET, "/api/events/stream", Body::empty());
    let host = HeaderValue::from_static("noetl.example");
    request.headers_mut().insert("host", host);
    let peer = SocketAddr::from(([10, 0, 0, 7], 4000));
    server.pipeline.handle_request(&peer.into(), with_token(request, token)).await
}

#[tokio::test]
async fn live_streams_are_limited_per_token_and_tenant() {
    let server = start_limited_server(|settings| {
        settings.max_requests_per_token = 3;
        settings.max_requests_per_tenant = 5;
    })
    .await;
    let scopes = [Scope::ExecRead];
    let first = create_token(&server.services, "default", &scopes).await;
    let second = create_token(&server.services, "default", &scopes).await;
    let other_tenant = create_token(&server.services, "acme", &scopes).await;
    let mut streams = Vec::new();
    for (token, count) in [(&first, 3), (&second, 2), (&other_tenant, 3)] {
        for _ in 0..count {
            let stream = open_stream(&server, token).await;
            assert_eq!(stream.status(), 200);
            streams.push(stream);
        }
    }
    // The first and the last token have reached their limit, the second one its tenant's.
    for token in [&first, &second, &other_tenant] {
        assert_eq!(open_stream(&server, token).await.status(), 429);
        let whoami = server.call_with_token(token, Method::GET, "/api/whoami", json!({})).await;
        whoami.assert_problem(ErrorCode::RateLimited);
    }
    drop(streams.remove(0));
    let whoami = server.call_with_token(&second, Method::GET, "/api/whoami", json!({})).await;
    assert!(is_ok(&whoami), "{}", whoami.text);
    assert_eq!(open_stream(&server, &first).await.status(), 200);
}

/// Figures of the whole server would show the load of other tenants.
#[tokio::test]
async fn figures_of_all_tenants_are_for_the_operator() {
    let server = start_limited_server(|_| {}).await;
    let scopes = [Scope::Admin, Scope::ExecRead, Scope::MetricsRead];
    let operator = create_token(&server.services, "default", &scopes).await;
    let tenant = create_token(&server.services, "acme", &scopes).await;
    for (method, path) in [
        (Method::GET, "/metrics"),
        (Method::GET, "/api/stream/status"),
        (Method::POST, "/api/db/init"),
    ] {
        let allowed = server.call_with_token(&operator, method.clone(), path, json!({})).await;
        assert!(is_ok(&allowed), "{path}: {}", allowed.text);
        let refused = server.call_with_token(&tenant, method, path, json!({})).await;
        refused.assert_problem(ErrorCode::Forbidden);
    }
}

#[tokio::test]
async fn rows_of_a_tenant_are_limited() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = fixture
            .start_server(HttpSettings::default(), |settings| {
                settings.max_tokens = 2;
                settings.max_definitions = 2;
                settings.max_broadcasts = 2;
            })
            .await;
        let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
        let post =
            async |path: &str, body| server.call_with_token(&admin, Method::POST, path, body).await;
        let token = json!({ "name": "ci", "scopes": ["exec:read"] });
        assert!(is_ok(&post("/api/tokens", token.clone()).await));
        let refused = post("/api/tokens", token).await;
        refused.assert_problem(ErrorCode::QuotaExceeded);
        assert!(refused.text.contains("NOETL_MAX_TOKENS"), "{}", refused.text);

        let content = |version: usize| {
            let text = TWO_STEPS.replace("hello", &format!("hello {version}"));
            json!({ "content": text })
        };
        for version in [1, 2, 2] {
            let registered = post("/api/catalog/register", content(version)).await;
            assert!(is_ok(&registered), "{}", registered.text);
        }
        post("/api/catalog/register", content(3)).await.assert_problem(ErrorCode::QuotaExceeded);

        let signal = json!({ "name": "go" });
        for _ in 0..2 {
            let sent = post("/api/signals", signal.clone()).await;
            assert!(is_ok(&sent), "{}", sent.text);
        }
        post("/api/signals", signal).await.assert_problem(ErrorCode::QuotaExceeded);
        let large = json!({ "name": "go", "payload": "x".repeat(70_000) });
        post("/api/signals", large).await.assert_problem(ErrorCode::TooLarge);
    })
    .await;
}
