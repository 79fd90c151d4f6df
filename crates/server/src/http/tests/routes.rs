//! Which routes there are, and who may call them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HOST, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Method};
use noetl_store::MemoryStore;
use noetl_types::ErrorCode;
use std::net::SocketAddr;
use tokio_util::sync::CancellationToken;

use noetl_types::{ByteSize, Millis};

use super::tokens::{token_of, with_token};
use super::{House, Reply, house, house_with, is_ok, peer, request};
use crate::http::access::{Access, Scope};
use crate::http::acting::App;
use crate::http::answer::Answer;
use crate::http::cors::Origins;
use crate::http::door::Doorman;
use crate::http::front::Front;
use crate::http::routing::Routes;
use crate::http::settings::HttpSettings;

const ID: &str = "7000000000000000000";

/// Every route, by method and path.
const ROUTES: &[(&str, &str)] = &[
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
    (
        "GET",
        "/api/executions/7000000000000000000/cancellation-check",
    ),
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
    ("GET", "/api/threads"),
    ("GET", "/api/profiler/status"),
    ("POST", "/api/profiler/memory/start"),
    ("POST", "/api/commands/lease"),
    ("POST", "/api/commands/heartbeat"),
    ("POST", "/api/commands/report"),
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

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

fn is_open(path: &str) -> bool {
    matches!(path, "/livez" | "/health" | "/readyz")
}

#[tokio::test]
async fn health_is_told_to_everybody() {
    let house = house().await;
    for path in ["/livez", "/health"] {
        let reply = house.get(path).await;
        assert_eq!((reply.status, &*reply.text), (200, r#"{"status":"ok"}"#));
    }
    let reply = house.get("/readyz").await;
    assert_eq!(
        (reply.status, &*reply.text),
        (
            200,
            r#"{"status":"ok","checks":{"machine_id":"ok","migrations":"ok","partitions":"ok","store":"ok"}}"#
        )
    );
}

fn is_internal(path: &str) -> bool {
    path.starts_with("/api/internal/")
}

#[tokio::test]
async fn strangers_find_nothing_but_health() {
    let house = house().await;
    let stranger = SocketAddr::from(([10, 0, 0, 7], 4000));
    for (name, path) in ROUTES {
        let reply = house
            .send_from(stranger, request(method(name), path, "{}"))
            .await;
        if is_open(path) {
            assert!(is_ok(&reply), "{name} {path}: {}", reply.text);
        } else if is_internal(path) {
            // Closed to everybody where it has no token.
            reply.is_problem(ErrorCode::NotReady);
        } else {
            reply.is_problem(ErrorCode::Unauthenticated);
            assert_eq!(
                reply.header("www-authenticate"),
                Some("Bearer realm=\"noetl\"")
            );
        }
    }
    for path in ["/", "/api/secrets", "/api/execute/../x"] {
        let reply = house
            .send_from(stranger, request(Method::GET, path, ""))
            .await;
        reply.is_problem(ErrorCode::Unauthenticated);
    }
    let wrong_method = request(Method::PUT, "/api/execute", "{}");
    let reply = house.send_from(stranger, wrong_method).await;
    reply.is_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn pages_of_others_are_kept_out() {
    let house = house().await;
    let guarded = |path: &str| !is_open(path) && !is_internal(path);
    for (name, path) in ROUTES.iter().filter(|(_, path)| guarded(path)) {
        let mut rebound = request(method(name), path, "{}");
        let host = HeaderValue::from_static("evil.example");
        rebound.headers_mut().insert(HOST, host);
        house.send(rebound).await.is_problem(ErrorCode::Forbidden);

        let mut foreign = request(method(name), path, "{}");
        let origin = HeaderValue::from_static("http://evil.example");
        foreign.headers_mut().insert(ORIGIN, origin);
        let reply = house.send(foreign).await;
        reply.is_problem(ErrorCode::Forbidden);
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

/// A server that lists an origin.
async fn house_for_pages(is_dev: bool) -> House {
    let settings = HttpSettings {
        is_dev,
        origins: Origins::read("https://app.example, http://localhost:5173").unwrap(),
        ..HttpSettings::default()
    };
    house_with(Arc::new(MemoryStore::new()), &settings).await
}

fn of_page(origin: &'static str, method: Method, path: &str) -> Request<Body> {
    let mut request = request(method, path, "{}");
    let origin = HeaderValue::from_static(origin);
    request.headers_mut().insert(ORIGIN, origin);
    request
}

fn asking_first(origin: &'static str) -> Request<Body> {
    let mut request = of_page(origin, Method::OPTIONS, "/api/execute");
    for (name, value) in [
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type",
        ),
    ] {
        let value = HeaderValue::from_static(value);
        request.headers_mut().insert(name, value);
    }
    request
}

#[tokio::test]
async fn pages_of_listed_origins_call_with_a_token() {
    let house = house_for_pages(false).await;
    let token = token_of(&house.runtime, "default", &[Scope::ExecRead]).await;
    let asked = house.send(asking_first("https://app.example")).await;
    assert_eq!((asked.status, &*asked.text), (204, ""));
    for (name, wanted) in [
        ("access-control-allow-origin", "https://app.example"),
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-headers", "authorization"),
        ("vary", "origin"),
    ] {
        let told = asked.header(name).unwrap_or_default();
        assert!(told.contains(wanted), "{name}: {told}");
    }
    assert_eq!(asked.header("access-control-allow-credentials"), None);

    let page = || of_page("https://app.example", Method::GET, "/api/executions");
    // A refusal is told to the page too, so that it can say what is wrong.
    let nobody = house.send(page()).await;
    nobody.is_problem(ErrorCode::Unauthenticated);
    let answered = house.send(with_token(page(), &token)).await;
    assert!(is_ok(&answered), "{}", answered.text);
    for reply in [&nobody, &answered] {
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, Some("https://app.example"));
        let exposed = reply.header("access-control-expose-headers");
        assert!(exposed.unwrap().contains("x-request-id"), "{exposed:?}");
        assert_eq!(reply.header("vary"), Some("origin"));
    }
    // A browser that only asks is told nothing that needs a token.
    let asked = house.send(of_page(
        "https://app.example",
        Method::OPTIONS,
        "/api/execute",
    ));
    asked.await.is_problem(ErrorCode::Unauthenticated);
}

fn is_told_to_pages(reply: &Reply) -> bool {
    let mut names = reply.headers.keys();
    names.any(|name| name.as_str().starts_with("access-control-"))
}

#[tokio::test]
async fn pages_of_other_origins_are_told_nothing() {
    let house = house_for_pages(false).await;
    let token = token_of(&house.runtime, "default", &[Scope::ExecRead]).await;
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
        let asked = house.send(asking_first(origin)).await;
        asked.is_problem(ErrorCode::Unauthenticated);
        let page = of_page(origin, Method::GET, "/api/executions");
        let answered = house.send(with_token(page, &token)).await;
        assert!(is_ok(&answered), "{origin}: {}", answered.text);
        for reply in [&asked, &answered] {
            assert!(!is_told_to_pages(reply), "{origin}: {:?}", reply.headers);
            assert_eq!(reply.header("vary"), Some("origin"));
        }
    }
    let mut twice = of_page("https://app.example", Method::GET, "/livez");
    let other = HeaderValue::from_static("https://evil.example");
    twice.headers_mut().append(ORIGIN, other);
    assert!(!is_told_to_pages(&house.send(twice).await));
}

#[tokio::test]
async fn where_no_origin_is_listed_no_page_is_told_anything() {
    let house = house().await;
    for request in [
        asking_first("https://app.example"),
        of_page("https://app.example", Method::GET, "/livez"),
    ] {
        let reply = house.send(request).await;
        assert!(!is_told_to_pages(&reply), "{:?}", reply.headers);
        assert_eq!(reply.header("vary"), None);
    }
}

#[tokio::test]
async fn a_developer_may_use_pages_of_listed_origins() {
    let house = house_for_pages(true).await;
    let page = of_page("http://localhost:5173", Method::GET, "/api/executions");
    let answered = house.send(page).await;
    assert!(is_ok(&answered), "{}", answered.text);
    assert!(is_told_to_pages(&answered));
    let page = of_page("http://localhost:5174", Method::GET, "/api/executions");
    house.send(page).await.is_problem(ErrorCode::Forbidden);
}

/// Whether a route took the request, whatever it then said about it.
fn was_routed(reply: &Reply) -> bool {
    let is_lost = reply.status == 404 && reply.text.contains("nothing at this address");
    !is_lost && reply.status != 405
}

#[tokio::test]
async fn every_route_is_there_and_under_its_alias() {
    let house = house().await;
    for (name, path) in ROUTES {
        let reply = house.send(request(method(name), path, "{}")).await;
        assert!(was_routed(&reply), "{name} {path}: {}", reply.text);
        let Some(rest) = path.strip_prefix("/api") else {
            continue;
        };
        let alias = format!("/noetl{rest}");
        let other = house.send(request(method(name), &alias, "{}")).await;
        assert!(was_routed(&other), "{name} {alias}: {}", other.text);
        assert_eq!(other.status, reply.status, "{alias}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem() {
    let house = house().await;
    for path in [
        "/",
        "/api",
        "/api/",
        "/api/executions/",
        "/noetl/livez",
        "/api/execute/x",
        "/%ff",
    ] {
        house.get(path).await.is_problem(ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn other_methods_are_a_problem_that_names_the_right_ones() {
    let house = house().await;
    for (path, wrong, allowed) in [
        ("/api/execute", Method::GET, "POST"),
        ("/api/executions", Method::OPTIONS, "GET,HEAD"),
        ("/api/executions", Method::DELETE, "GET,HEAD"),
        ("/livez", Method::POST, "GET,HEAD"),
        ("/api/worker/pool/deregister", Method::GET, "DELETE,POST"),
    ] {
        let reply = house.send(request(wrong, path, "{}")).await;
        reply.is_problem(ErrorCode::MethodNotAllowed);
        let mut methods: Vec<&str> = reply.header("allow").unwrap().split(',').collect();
        methods.sort_unstable();
        assert_eq!(methods.join(","), allowed, "{path}");
    }
}

#[tokio::test]
async fn head_answers_as_get_without_a_body() {
    let house = house().await;
    let head = request(Method::HEAD, "/api/executions", "");
    let reply = house.send(head).await;
    assert_eq!((reply.status, &*reply.text), (200, ""));
}

#[tokio::test]
async fn requests_have_names() {
    let house = house().await;
    let named = |name: &'static str| {
        let mut request = request(Method::GET, "/nowhere", "");
        let name = HeaderValue::from_static(name);
        request.headers_mut().insert("x-request-id", name);
        request
    };
    let reply = house.send(named("order 66")).await;
    reply.is_problem(ErrorCode::NotFound);
    assert_eq!(reply.text_at("/request_id"), "order 66");
    let one = house.get("/livez").await;
    let other = house.get("/livez").await;
    assert!(one.header("x-request-id").is_some());
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
}

#[tokio::test]
async fn answers_are_not_guessed_at_or_kept() {
    let house = house().await;
    let reply = house.get("/api/executions").await;
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn ids_that_are_none_are_refused() {
    let house = house().await;
    for id in [
        "x",
        "0",
        "-1",
        "1.5",
        "99999999999999999999",
        "%ff",
        "7%2F8",
    ] {
        for route in ["", "/status", "/events"] {
            let reply = house.get(&format!("/api/executions/{id}{route}")).await;
            reply.is_problem(ErrorCode::BadId);
        }
        let cancel = format!("/api/executions/{id}/cancel");
        let reply = house.send(request(Method::POST, &cancel, "")).await;
        reply.is_problem(ErrorCode::BadId);
    }
    for route in ["", "/status", "/events"] {
        let reply = house.get(&format!("/api/executions/{ID}{route}")).await;
        reply.is_problem(ErrorCode::NotFound);
    }
    let cancel = format!("/api/executions/{ID}/cancel");
    let reply = house.send(request(Method::POST, &cancel, "")).await;
    reply.is_problem(ErrorCode::NotFound);
}

/// A server with routes of its own beside no others.
async fn with_routes(add: impl FnOnce(Routes) -> Routes) -> House {
    let house = house().await;
    let settings = HttpSettings {
        body_timeout: Millis::from_secs(1),
        max_body: ByteSize::from_kib(1),
        ..HttpSettings::default()
    };
    let runtime = house.runtime.clone();
    let app = App::new(runtime.clone(), &settings, CancellationToken::new());
    let door = Doorman::new(runtime, &settings);
    let routes = add(Routes::new(ByteSize::from_kib(1), None, Arc::default()));
    House {
        front: Front::new(routes.finish(app), door),
        ..house
    }
}

async fn breaks() -> Answer<()> {
    panic!("on purpose")
}

#[tokio::test]
async fn a_handler_that_breaks_fails_its_own_request_only() {
    let get = axum::routing::MethodFilter::GET;
    let house = with_routes(|routes| {
        routes.add(Access::Open, get, "/breaks", breaks).add(
            Access::Open,
            get,
            "/works",
            || async { Answer(1) },
        )
    })
    .await;
    let reply = house.get("/breaks").await;
    reply.is_problem(ErrorCode::Internal);
    assert!(!reply.text.contains("on purpose"), "{}", reply.text);
    assert!(is_ok(&house.get("/works").await));
}

#[tokio::test]
async fn a_developer_is_no_admin() {
    let get = axum::routing::MethodFilter::GET;
    let house = with_routes(|routes| {
        let admin = Access::AnyOf(&[Scope::Admin]);
        routes.add(admin, get, "/admin", || async { Answer(1) })
    })
    .await;
    let reply = house.get("/admin").await;
    reply.is_problem(ErrorCode::Forbidden);
    assert_eq!(reply.text_at("/detail"), "this needs the scope admin");
}

#[tokio::test]
async fn a_request_without_a_host_is_nobodys() {
    let house = house().await;
    let bare = Request::builder()
        .uri("/api/executions")
        .body(Body::empty())
        .unwrap();
    assert_eq!(bare.headers(), &HeaderMap::new());
    let reply = house.send_from(peer(), bare).await;
    reply.is_problem(ErrorCode::Forbidden);
}
