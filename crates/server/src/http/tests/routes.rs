//! The set of routes and who may call them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HOST, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Method};
use noetl_store::SqliteStore;
use noetl_types::{ByteSize, ErrorCode, Millis};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::tokens::{create_token, with_token};
use super::{
    TestResponse, TestServer, build_request, is_ok, local_peer, start_server, start_server_with,
};
use crate::http::json_response::JsonResponse;
use crate::http::listener_kind::ListenerKind;
use crate::http::middleware::RequestPipeline;
use crate::http::middleware::access::{RouteAccess, Scope};
use crate::http::middleware::authenticator::Authenticator;
use crate::http::middleware::cors::AllowedOrigins;
use crate::http::request_context::AppState;
use crate::http::routes::{Route, get, route_requests};
use crate::http::settings::HttpSettings;

const ID: &str = "7000000000000000000";

const EXPECTED_ROUTES: &[(&str, &str)] = &[
    ("GET", "/livez"),
    ("GET", "/health"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("POST", "/api/execute"),
    ("GET", "/api/executions"),
    ("GET", "/api/executions/7000000000000000000"),
    ("GET", "/api/executions/7000000000000000000/status"),
    ("GET", "/api/executions/7000000000000000000/events"),
    ("GET", "/api/executions/7000000000000000000/explain"),
    ("POST", "/api/executions/7000000000000000000/cancel"),
    ("POST", "/api/catalog/register"),
    ("POST", "/api/catalog/resource"),
    ("POST", "/api/execute/batch"),
    ("POST", "/api/executions/7000000000000000000/rerun"),
    ("POST", "/api/executions/7000000000000000000/stop"),
    ("POST", "/api/executions/7000000000000000000/pause"),
    ("POST", "/api/executions/7000000000000000000/resume"),
    ("POST", "/api/executions/7000000000000000000/finalize"),
    ("GET", "/api/executions/7000000000000000000/cancellation-check"),
    ("POST", "/api/executions/7000000000000000000/analyze/ai"),
    ("POST", "/api/executions/cleanup"),
    ("POST", "/api/catalog/register/batch"),
    ("POST", "/api/catalog/list"),
    ("GET", "/api/catalog/list/playbook"),
    ("POST", "/api/catalog/agents/list"),
    ("GET", "/api/catalog/playbook/content"),
    ("PUT", "/api/catalog/playbook/content"),
    ("PUT", "/api/catalog/playbook"),
    ("POST", "/api/catalog/playbooks/validate"),
    ("POST", "/api/catalog/playbooks/explain/ai"),
    ("POST", "/api/catalog/playbooks/generate/ai"),
    ("GET", "/api/catalog/demo/two/ui_schema"),
    ("GET", "/api/commands"),
    ("GET", "/api/commands/7000000000000000000"),
    ("POST", "/api/commands/7000000000000000000/claim"),
    ("POST", "/api/events"),
    ("POST", "/api/events/batch"),
    ("GET", "/api/dashboard/stats"),
    ("GET", "/api/vars/7000000000000000000"),
    ("POST", "/api/vars/7000000000000000000"),
    ("DELETE", "/api/vars/7000000000000000000"),
    ("GET", "/api/vars/7000000000000000000/x"),
    ("DELETE", "/api/vars/7000000000000000000/x"),
    ("PUT", "/api/result/7000000000000000000"),
    ("DELETE", "/api/catalog/playbooks/demo/two"),
    ("POST", "/api/catalog/restore"),
    ("GET", "/api/catalog/demo/two/versions"),
    ("GET", "/api/dashboard/widgets"),
    ("GET", "/api/runtime/shard-info"),
    ("GET", "/api/whoami"),
    ("GET", "/api/health"),
    ("GET", "/api/status"),
    ("GET", "/api/pool/status"),
    ("POST", "/api/commands/lease"),
    ("POST", "/api/commands/heartbeat"),
    ("POST", "/api/commands/report"),
    ("POST", "/api/commands/output"),
    ("GET", "/api/executions/7000000000000000000/logs"),
    ("GET", "/api/executions/7000000000000000000/logs/stream"),
    ("GET", "/api/result/resolve"),
    ("POST", "/api/worker/pool/register"),
    ("POST", "/api/worker/pool/heartbeat"),
    ("POST", "/api/worker/pool/deregister"),
    ("DELETE", "/api/worker/pool/deregister"),
    ("GET", "/api/worker/pools"),
    ("GET", "/api/stream/status"),
    ("GET", "/api/stream/feed"),
    ("GET", "/api/stream/events/7000000000000000000/1"),
    ("GET", "/api/internal/stream/status"),
    ("POST", "/api/internal/stream/rebuild"),
    ("GET", "/api/tokens"),
    ("POST", "/api/tokens"),
    ("DELETE", "/api/tokens/7000000000000000000"),
    ("GET", "/api/audit"),
    ("GET", "/api/credentials"),
    ("POST", "/api/credentials"),
    ("GET", "/api/credentials/pg_main"),
    ("DELETE", "/api/credentials/pg_main"),
    ("POST", "/api/credentials/rotate"),
    ("GET", "/api/keychain/7000000000000000000/x"),
    ("POST", "/api/keychain/7000000000000000000/x"),
    ("DELETE", "/api/keychain/7000000000000000000/x"),
    ("GET", "/api/keychain/catalog/7000000000000000000"),
    ("POST", "/api/worker/pool/drain"),
];

fn parse_method(name: &str) -> Method {
    name.parse().unwrap()
}

fn is_open_path(path: &str) -> bool {
    matches!(path, "/livez" | "/health" | "/readyz")
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = start_server().await;
    for path in ["/livez", "/health"] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, &*reply.text), (200, r#"{"status":"ok"}"#));
    }
    let reply = server.get("/readyz").await;
    assert_eq!(
        (reply.status, &*reply.text),
        (
            200,
            r#"{"status":"ok","checks":{"clock":"ok","machine_id":"ok","migrations":"ok","partitions":"ok","store":"ok"}}"#
        )
    );
}

fn is_internal_path(path: &str) -> bool {
    path.starts_with("/api/internal/")
}

#[tokio::test]
async fn unauthenticated_callers_reach_only_health() {
    let server = start_server().await;
    let stranger = SocketAddr::from(([10, 0, 0, 7], 4000));
    for (name, path) in EXPECTED_ROUTES {
        let reply = server.send_from(stranger, build_request(parse_method(name), path, "{}")).await;
        if is_open_path(path) {
            assert!(is_ok(&reply), "{name} {path}: {}", reply.text);
        } else if is_internal_path(path) {
            // Closed to all callers if no internal token is configured.
            reply.assert_problem(ErrorCode::NotReady);
        } else {
            reply.assert_problem(ErrorCode::Unauthenticated);
            assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"noetl\""));
        }
    }
    for path in ["/", "/api/secrets", "/api/execute/../x"] {
        let reply = server.send_from(stranger, build_request(Method::GET, path, "")).await;
        reply.assert_problem(ErrorCode::Unauthenticated);
    }
    let wrong_method = build_request(Method::PUT, "/api/execute", "{}");
    let reply = server.send_from(stranger, wrong_method).await;
    reply.assert_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn rejects_foreign_page_origins() {
    let server = start_server().await;
    let is_protected = |path: &str| !is_open_path(path) && !is_internal_path(path);
    for (name, path) in EXPECTED_ROUTES.iter().filter(|(_, path)| is_protected(path)) {
        let mut rebound = build_request(parse_method(name), path, "{}");
        let host = HeaderValue::from_static("evil.example");
        rebound.headers_mut().insert(HOST, host);
        server.send(rebound).await.assert_problem(ErrorCode::Forbidden);

        let mut foreign = build_request(parse_method(name), path, "{}");
        let origin = HeaderValue::from_static("http://evil.example");
        foreign.headers_mut().insert(ORIGIN, origin);
        let reply = server.send(foreign).await;
        reply.assert_problem(ErrorCode::Forbidden);
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

/// Starts a server with one allowed origin.
async fn start_cors_server(is_dev: bool) -> TestServer {
    let settings = HttpSettings {
        is_dev,
        allowed_origins: AllowedOrigins::parse_list("https://app.example, http://localhost:5173")
            .unwrap(),
        ..HttpSettings::default()
    };
    start_server_with(Arc::new(SqliteStore::in_memory().unwrap()), &settings).await
}

fn page_request(origin: &'static str, method: Method, path: &str) -> Request<Body> {
    let mut request = build_request(method, path, "{}");
    let origin = HeaderValue::from_static(origin);
    request.headers_mut().insert(ORIGIN, origin);
    request
}

fn preflight_request(origin: &'static str) -> Request<Body> {
    let mut request = page_request(origin, Method::OPTIONS, "/api/execute");
    for (name, value) in [
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ] {
        let value = HeaderValue::from_static(value);
        request.headers_mut().insert(name, value);
    }
    request
}

#[tokio::test]
async fn listed_origins_may_call_with_token() {
    let server = start_cors_server(false).await;
    let token = create_token(&server.services, "default", &[Scope::ExecRead]).await;
    let preflight = server.send(preflight_request("https://app.example")).await;
    assert_eq!((preflight.status, &*preflight.text), (204, ""));
    for (name, expected) in [
        ("access-control-allow-origin", "https://app.example"),
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-headers", "authorization"),
        ("vary", "origin"),
    ] {
        let value = preflight.header(name).unwrap_or_default();
        assert!(value.contains(expected), "{name}: {value}");
    }
    assert_eq!(preflight.header("access-control-allow-credentials"), None);

    let page = || page_request("https://app.example", Method::GET, "/api/executions");
    // Rejections have CORS headers too, so that the page can report them.
    let anonymous = server.send(page()).await;
    anonymous.assert_problem(ErrorCode::Unauthenticated);
    let accepted = server.send(with_token(page(), &token)).await;
    assert!(is_ok(&accepted), "{}", accepted.text);
    for reply in [&anonymous, &accepted] {
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, Some("https://app.example"));
        let exposed = reply.header("access-control-expose-headers");
        assert!(exposed.unwrap().contains("x-request-id"), "{exposed:?}");
        assert_eq!(reply.header("vary"), Some("origin"));
    }
    // A preflight answer reveals nothing that needs a token.
    let request = server.send(page_request("https://app.example", Method::OPTIONS, "/api/execute"));
    request.await.assert_problem(ErrorCode::Unauthenticated);
}

fn has_cors_headers(reply: &TestResponse) -> bool {
    let mut names = reply.headers.keys();
    names.any(|name| name.as_str().starts_with("access-control-"))
}

#[tokio::test]
async fn unlisted_origins_get_no_cors_headers() {
    let server = start_cors_server(false).await;
    let token = create_token(&server.services, "default", &[Scope::ExecRead]).await;
    for origin in [
        "https://evil.example",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://APP.example",
        "null",
        "*",
        "",
    ] {
        let preflight = server.send(preflight_request(origin)).await;
        preflight.assert_problem(ErrorCode::Unauthenticated);
        let page = page_request(origin, Method::GET, "/api/executions");
        let accepted = server.send(with_token(page, &token)).await;
        assert!(is_ok(&accepted), "{origin}: {}", accepted.text);
        for reply in [&preflight, &accepted] {
            assert!(!has_cors_headers(reply), "{origin}: {:?}", reply.headers);
            assert_eq!(reply.header("vary"), Some("origin"));
        }
    }
    let mut two_origins = page_request("https://app.example", Method::GET, "/livez");
    let other = HeaderValue::from_static("https://evil.example");
    two_origins.headers_mut().append(ORIGIN, other);
    assert!(!has_cors_headers(&server.send(two_origins).await));
}

#[tokio::test]
async fn no_cors_headers_without_listed_origins() {
    let server = start_server().await;
    for request in [
        preflight_request("https://app.example"),
        page_request("https://app.example", Method::GET, "/livez"),
    ] {
        let reply = server.send(request).await;
        assert!(!has_cors_headers(&reply), "{:?}", reply.headers);
        assert_eq!(reply.header("vary"), None);
    }
}

#[tokio::test]
async fn developer_may_use_listed_origins() {
    let server = start_cors_server(true).await;
    let page = page_request("http://localhost:5173", Method::GET, "/api/executions");
    let accepted = server.send(page).await;
    assert!(is_ok(&accepted), "{}", accepted.text);
    assert!(has_cors_headers(&accepted));
    let page = page_request("http://localhost:5174", Method::GET, "/api/executions");
    server.send(page).await.assert_problem(ErrorCode::Forbidden);
}

/// True if a route handled the request, with any result.
fn was_routed(reply: &TestResponse) -> bool {
    let is_unrouted = reply.status == 404 && reply.text.contains("no such path");
    !is_unrouted && reply.status != 405
}

#[tokio::test]
async fn every_route_and_alias_exists() {
    let server = start_server().await;
    for (name, path) in EXPECTED_ROUTES {
        let reply = server.send(build_request(parse_method(name), path, "{}")).await;
        assert!(was_routed(&reply), "{name} {path}: {}", reply.text);
        let Some(rest) = path.strip_prefix("/api") else {
            continue;
        };
        let alias = format!("/noetl{rest}");
        let other = server.send(build_request(parse_method(name), &alias, "{}")).await;
        assert!(was_routed(&other), "{name} {alias}: {}", other.text);
        assert_eq!(other.status, reply.status, "{alias}");
    }
}

#[tokio::test]
async fn unknown_path_is_a_problem() {
    let server = start_server().await;
    for path in ["/", "/api", "/api/", "/api/executions/", "/noetl/livez", "/api/execute/x", "/%ff"]
    {
        server.get(path).await.assert_problem(ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn wrong_method_lists_allowed_methods() {
    let server = start_server().await;
    for (path, wrong, allowed) in [
        ("/api/execute", Method::GET, "POST"),
        ("/api/executions", Method::OPTIONS, "GET,HEAD"),
        ("/api/executions", Method::DELETE, "GET,HEAD"),
        ("/livez", Method::POST, "GET,HEAD"),
        ("/api/worker/pool/deregister", Method::GET, "DELETE,POST"),
    ] {
        let reply = server.send(build_request(wrong, path, "{}")).await;
        reply.assert_problem(ErrorCode::MethodNotAllowed);
        let mut methods: Vec<&str> = reply.header("allow").unwrap().split(',').collect();
        methods.sort_unstable();
        assert_eq!(methods.join(","), allowed, "{path}");
    }
}

#[tokio::test]
async fn head_answers_like_get_without_body() {
    let server = start_server().await;
    let head = build_request(Method::HEAD, "/api/executions", "");
    let reply = server.send(head).await;
    assert_eq!((reply.status, &*reply.text), (200, ""));
}

#[tokio::test]
async fn requests_have_ids() {
    let server = start_server().await;
    let request_with_id = |id: &'static str| {
        let mut request = build_request(Method::GET, "/nowhere", "");
        let id = HeaderValue::from_static(id);
        request.headers_mut().insert("x-request-id", id);
        request
    };
    let reply = server.send(request_with_id("order 66")).await;
    reply.assert_problem(ErrorCode::NotFound);
    assert_eq!(reply.text_at("/request_id"), "order 66");
    let one = server.get("/livez").await;
    let other = server.get("/livez").await;
    assert!(one.header("x-request-id").is_some());
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
}

#[tokio::test]
async fn answers_disable_sniffing_and_caching() {
    let server = start_server().await;
    let reply = server.get("/api/executions").await;
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn rejects_invalid_ids() {
    let server = start_server().await;
    for id in ["x", "0", "-1", "1.5", "99999999999999999999", "%ff", "7%2F8"] {
        for route in ["", "/status", "/events"] {
            let reply = server.get(&format!("/api/executions/{id}{route}")).await;
            reply.assert_problem(ErrorCode::BadId);
        }
        let cancel = format!("/api/executions/{id}/cancel");
        let reply = server.send(build_request(Method::POST, &cancel, "")).await;
        reply.assert_problem(ErrorCode::BadId);
    }
    for route in ["", "/status", "/events"] {
        let reply = server.get(&format!("/api/executions/{ID}{route}")).await;
        reply.assert_problem(ErrorCode::NotFound);
    }
    let cancel = format!("/api/executions/{ID}/cancel");
    let reply = server.send(build_request(Method::POST, &cancel, "")).await;
    reply.assert_problem(ErrorCode::NotFound);
}

/// Starts a server that has only the given routes.
async fn start_server_with_routes(routes: Vec<Route>) -> TestServer {
    let server = start_server().await;
    let settings = HttpSettings {
        body_timeout: Millis::from_secs(1),
        max_body: ByteSize::from_kib(1),
        ..HttpSettings::default()
    };
    let services = server.services.clone();
    let app = AppState::new(services.clone(), &settings, CancellationToken::new());
    let authenticator = Authenticator::new(services, &settings);
    let router = route_requests(routes, ListenerKind::All, &settings, app);
    TestServer { pipeline: RequestPipeline::new(router, authenticator), ..server }
}

async fn panicking_handler() -> JsonResponse<()> {
    panic!("on purpose")
}

#[tokio::test]
async fn panicking_handler_fails_only_its_request() {
    let server = start_server_with_routes(vec![
        get("/breaks", RouteAccess::Open, panicking_handler),
        get("/works", RouteAccess::Open, || async { JsonResponse(1) }),
    ])
    .await;
    let reply = server.get("/breaks").await;
    reply.assert_problem(ErrorCode::Internal);
    assert!(!reply.text.contains("on purpose"), "{}", reply.text);
    assert!(is_ok(&server.get("/works").await));
}

#[tokio::test]
async fn local_program_is_admin_and_page_is_not() {
    let server = start_cors_server(true).await;
    for (method, path) in [
        (Method::POST, "/api/db/init"),
        (Method::GET, "/api/db/validate"),
        (Method::POST, "/api/executions/cleanup"),
    ] {
        let program = server.send(build_request(method.clone(), path, "{}")).await;
        assert!(is_ok(&program), "{path}: {}", program.text);
        let page = page_request("http://localhost:5173", method, path);
        let page = server.send(page).await;
        page.assert_problem(ErrorCode::Forbidden);
        assert_eq!(page.text_at("/detail"), "this requires the scope admin");
    }
    // The published CLI shows why its query is refused.
    let query = server.post("/api/postgres/execute", json!({ "query": "SELECT 1" })).await;
    query.assert_problem(ErrorCode::Forbidden);
    assert!(query.text_at("/message").contains("the SQL console is disabled"), "{}", query.text);
    let stranger = SocketAddr::from(([10, 0, 0, 7], 4000));
    let remote = build_request(Method::GET, "/api/db/validate", "");
    server.send_from(stranger, remote).await.assert_problem(ErrorCode::Unauthenticated);
}

/// The browser of the developer sends these without an origin.
#[tokio::test]
async fn rejects_requests_of_other_pages_without_origin() {
    let server = start_server().await;
    let mut image = build_request(Method::GET, "/api/tokens", "");
    image.headers_mut().insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
    server.send(image).await.assert_problem(ErrorCode::Forbidden);
}

const SESSION_ROUTES: [&str; 2] = ["/api/auth/validate", "/api/auth/check-access"];

/// The published console sends its token in the body or in a header of its own.
#[tokio::test]
async fn published_console_logs_in_with_token() {
    let server = super::start_secured_server().await;
    let token = create_token(&server.services, "default", &[Scope::ExecRun]).await;
    let session = server.post(SESSION_ROUTES[0], json!({ "session_token": token })).await;
    assert_eq!(session.json_at("/valid"), true, "{}", session.text);
    assert_eq!(session.json_at("/user/roles"), json!(["exec:run"]));
    let with_header = |path: &str, body: &'static str| {
        let method = if body.is_empty() { Method::GET } else { Method::POST };
        let mut request = build_request(method, path, body);
        request.headers_mut().insert("x-session-token", HeaderValue::try_from(&token).unwrap());
        request
    };
    let session = server.send(with_header(SESSION_ROUTES[0], "{}")).await;
    assert_eq!(session.json_at("/valid"), true, "{}", session.text);
    assert!(is_ok(&server.send(with_header("/api/whoami", "")).await));
    for (body, allowed) in [
        (r#"{"playbook_path":"demo/two"}"#, true),
        (r#"{"playbook_path":"demo/two","permission_type":"execute"}"#, true),
        (r#"{"playbook_path":"demo/two","action":"view"}"#, false),
        (r#"{"playbook_path":"demo/two","permission_type":"own"}"#, false),
    ] {
        let access = server.send(with_header(SESSION_ROUTES[1], body)).await;
        assert_eq!(access.json_at("/allowed"), allowed, "{body}: {}", access.text);
    }
    for path in SESSION_ROUTES {
        let wrong = server.post(path, json!({ "session_token": "noetl_ffff_0" })).await;
        wrong.assert_problem(ErrorCode::Unauthenticated);
        server.post(path, json!({})).await.assert_problem(ErrorCode::Unauthenticated);
    }
    let mut stale = with_header("/api/whoami", "");
    stale.headers_mut().insert("x-session-token", HeaderValue::from_static("stale"));
    server.send(stale).await.assert_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn session_header_is_allowed_for_listed_origins() {
    let server = start_cors_server(false).await;
    let preflight = server.send(preflight_request("http://localhost:5173")).await;
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    assert!(allowed.split(", ").any(|name| name == "x-session-token"), "{allowed}");
}

#[tokio::test]
async fn request_without_host_is_unauthenticated() {
    let server = start_server().await;
    let request = Request::builder().uri("/api/executions").body(Body::empty()).unwrap();
    assert_eq!(request.headers(), &HeaderMap::new());
    let reply = server.send_from(local_peer(), request).await;
    reply.assert_problem(ErrorCode::Forbidden);
}
