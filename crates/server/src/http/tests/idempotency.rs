//! Requests with an `Idempotency-Key` get the same answer and have one effect.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::{HeaderValue, Method};
use futures_util::poll;
use noetl_api::execute::ExecuteBatchRequest;
use noetl_api::signal::SignalRequest;
use noetl_store::SqliteStore;
use noetl_types::{ErrorCode, EventId, ExecutionId, Scope};
use serde_json::{Value, json};

use super::backends::on_every_store;
use super::keychain::SkewedClock;
use super::tokens::create_token;
use super::{
    TWO_STEPS, TestResponse, TestServer, build_request, is_ok, server_from_services,
    start_secured_server, start_server, start_server_on,
};
use crate::access::CallContext;
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::settings::Settings;

/// A playbook that waits for two signals in sequence.
const TWO_SIGNALS_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: demo/waits }
workflow:
  - step: start
    tool: { kind: wait, signal: go }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: wait, signal: go }
";

impl TestServer {
    async fn send_with_key(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Value,
    ) -> TestResponse {
        let mut request = build_request(method, path, body.to_string());
        let key = HeaderValue::from_str(key).unwrap();
        request.headers_mut().insert("idempotency-key", key);
        self.send(request).await
    }

    async fn count_events(&self, execution_id: &str) -> usize {
        let path = format!("/api/executions/{execution_id}/events?limit=500");
        let events = self.get(&path).await;
        assert!(is_ok(&events), "{}", events.text);
        events.json_at("/events").as_array().unwrap().len()
    }

    async fn count_runs(&self) -> i64 {
        let stats = self.get("/api/dashboard/stats").await;
        stats.json_at("/total_executions").as_i64().unwrap()
    }
}

/// Sends a request twice and another one with the same key. Returns the first response.
async fn check_idempotent(
    server: &TestServer,
    method: Method,
    path: &str,
    body: Value,
) -> TestResponse {
    let key = format!("key of {path}");
    let first = server.send_with_key(method.clone(), path, &key, body.clone()).await;
    assert!(is_ok(&first), "{path}: {}", first.text);
    assert_eq!(first.header("idempotency-replayed"), None, "{path}");
    let again = server.send_with_key(method.clone(), path, &key, body).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"), "{path}");
    assert_eq!(again.header("content-type"), Some("application/json"));
    assert_eq!((again.status, &again.text), (200, &first.text), "{path}");
    let other = json!({ "path": "demo/two", "payload": { "something": "else" } });
    let other = server.send_with_key(method, path, &key, other).await;
    other.assert_problem(ErrorCode::IdempotencyMismatch);
    first
}

#[tokio::test]
async fn repeated_request_has_one_effect() {
    let server = start_server().await;
    let content = json!({ "content": TWO_STEPS });
    check_idempotent(&server, Method::POST, "/api/catalog/register", content).await;
    let run =
        check_idempotent(&server, Method::POST, "/api/execute", json!({ "path": "demo/two" }))
            .await;
    assert_eq!(run.json_at("/commands_generated"), 1, "{}", run.text);
    let run = run.text_at("/execution_id");
    let batch = json!({ "executions": [{ "path": "demo/two" }, { "path": "demo/two" }] });
    check_idempotent(&server, Method::POST, "/api/execute/batch", batch).await;
    assert_eq!(server.count_runs().await, 3);

    let action_path = |action: &str| format!("/api/executions/{run}/{action}");
    check_idempotent(&server, Method::POST, &action_path("rerun"), json!({})).await;
    assert_eq!(server.count_runs().await, 4);
    let before = server.count_events(&run).await;
    let signal = json!({ "name": "go", "payload": 1 });
    check_idempotent(&server, Method::POST, &action_path("signal"), signal.clone()).await;
    assert_eq!(server.count_events(&run).await, before + 1);
    check_idempotent(&server, Method::POST, &action_path("pause"), json!({ "reason": "r" })).await;
    check_idempotent(&server, Method::POST, &action_path("resume"), json!({})).await;
    assert_eq!(server.count_events(&run).await, before + 3);
    check_idempotent(&server, Method::POST, &action_path("cancel"), json!({})).await;
    check_idempotent(&server, Method::POST, "/api/signals", signal).await;
    let vars = format!("/api/vars/{run}");
    check_idempotent(&server, Method::POST, &vars, json!({ "a": 1, "b": 2 })).await;
    // It existed when the first request arrived.
    let one = format!("{vars}/a");
    check_idempotent(&server, Method::DELETE, &one, Value::Null).await;
    let worker = json!({ "name": "w1" });
    check_idempotent(&server, Method::POST, "/api/worker/pool/register", worker).await;
}

#[tokio::test]
async fn key_is_bound_to_route_and_canonical_body() {
    let server = start_server().await;
    let (first, second) = (server.start_two_steps().await, server.start_two_steps().await);
    let signal = |run: &str| format!("/api/executions/{run}/signal");
    let send = async |path: String, body: &'static str| {
        let mut request = build_request(Method::POST, &path, body);
        let key = HeaderValue::from_static("k");
        request.headers_mut().insert("idempotency-key", key);
        server.send(request).await
    };
    let sent = send(signal(&first), r#"{"name":"go","payload":1}"#).await;
    assert!(is_ok(&sent), "{}", sent.text);
    let spaced = send(signal(&first), r#"{ "payload": 1, "name": "go" }"#).await;
    assert_eq!(spaced.text, sent.text);
    let elsewhere = signal(&first).replace("/api/", "/noetl/");
    let elsewhere = send(elsewhere, r#"{"name":"go","payload":1}"#).await;
    assert_eq!(elsewhere.header("idempotency-replayed"), Some("true"));
    // The same request for another run is a different request.
    send(signal(&second), r#"{"name":"go","payload":1}"#)
        .await
        .assert_problem(ErrorCode::IdempotencyMismatch);
    let paused = send(format!("/api/executions/{second}/pause"), "{}").await;
    assert_eq!(paused.header("idempotency-replayed"), None);
    assert!(is_ok(&paused), "{}", paused.text);
}

#[tokio::test]
async fn rejected_request_frees_its_key() {
    let server = start_server().await;
    let run = server.start_two_steps().await;
    let path = format!("/api/executions/{run}/signal");
    let refused = server.send_with_key(Method::POST, &path, "k", json!({ "nome": "go" })).await;
    refused.assert_problem(ErrorCode::Validation);
    let sent = server.send_with_key(Method::POST, &path, "k", json!({ "name": "go" })).await;
    assert!(is_ok(&sent), "{}", sent.text);
    for key in ["", "k\u{e4}", &"k".repeat(256)] {
        server
            .send_with_key(Method::POST, &path, key, json!({ "name": "go" }))
            .await
            .assert_problem(ErrorCode::Validation);
    }
}

#[tokio::test]
async fn concurrent_request_is_asked_to_retry() {
    let server = start_server().await;
    let request = json!({ "worker_id": "w", "pool": "shared", "wait_ms": 30_000 });
    let lease = || server.send_with_key(Method::POST, "/api/commands/lease", "k", request.clone());
    let mut first = pin!(lease());
    assert!(poll!(first.as_mut()).is_pending());
    lease().await.assert_problem(ErrorCode::InFlight);
    server.shutdown.cancel();
    let first = first.await;
    assert!(is_ok(&first), "{}", first.text);
    let again = lease().await;
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn other_server_returns_stored_answer() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let server = start_server_on(Arc::clone(&store) as _).await;
    let run = server.start_two_steps().await;
    let path = format!("/api/executions/{run}/signal");
    let send = async |server: &TestServer| {
        let body = json!({ "name": "go" });
        server.send_with_key(Method::POST, &path, "k", body).await
    };
    let first = send(&server).await;
    let events = server.count_events(&run).await;
    drop(server);
    let server = start_server_on(store).await;
    let again = send(&server).await;
    assert_eq!((again.status, &again.text), (200, &first.text));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(server.count_events(&run).await, events);
}

#[tokio::test]
async fn disconnected_client_does_not_abort_request() {
    let server = start_server().await;
    let run = server.start_two_steps().await;
    let path = format!("/api/executions/{run}/signal");
    let send = || server.send_with_key(Method::POST, &path, "k", json!({ "name": "go" }));
    let before = server.count_events(&run).await;
    {
        let mut first = pin!(send());
        // The client disconnects at once.
        let _ = poll!(first.as_mut());
    }
    let again = loop {
        let again = send().await;
        if again.status != 409 {
            break again;
        }
        tokio::task::yield_now().await;
    };
    assert!(is_ok(&again), "{}", again.text);
    assert_eq!(server.count_events(&run).await, before + 1);
}

#[tokio::test]
async fn retried_follow_up_has_one_effect() {
    let server = start_server().await;
    let run = server.start_playbook(TWO_SIGNALS_PLAYBOOK, "demo/waits").await;
    // Each request has one of these keys.
    let context_with_work_id = |number| CallContext {
        work_id: Some(EventId::new(number).unwrap()),
        ..CallContext::default()
    };
    let executions = &server.services.executions;
    let ctx = context_with_work_id(77);
    let id: ExecutionId = run.parse().unwrap();
    let signal = |name: &str| SignalRequest { name: name.into(), key: None, payload: None };
    let before = server.count_events(&run).await;
    for _ in 0..2 {
        executions.send_signal(&ctx, id, None, signal("other")).await.unwrap();
    }
    assert_eq!(server.count_events(&run).await, before + 1);

    // The broadcast reaches the first wait. When it is repeated, the second wait does not receive
    // it.
    let ctx = context_with_work_id(78);
    let sent = executions.broadcast_signal(&ctx, None, signal("go")).await.unwrap();
    assert_eq!(sent.delivered, [id]);
    let again = executions.broadcast_signal(&ctx, None, signal("go")).await.unwrap();
    assert_eq!((again.signal_id, again.delivered.len()), (sent.signal_id, 0));

    let one = noetl_types::Json::object([("path", "demo/waits".into())]);
    let runs = server.count_runs().await;
    let batch = || ExecuteBatchRequest { executions: vec![one.clone(), one.clone()] };
    let ctx = context_with_work_id(79);
    let first = executions.execute_batch(&ctx, batch()).await.unwrap();
    let again = executions.execute_batch(&ctx, batch()).await.unwrap();
    assert_eq!(first.results, again.results);
    assert_eq!(server.count_runs().await, runs + 2);
}

/// The answer to a request is the same after the dedup window, in which it was a duplicate.
#[tokio::test]
async fn duplicate_answer_is_repeated_after_dedup_window() {
    on_every_store(async |fixture| {
        let clock = Arc::<SkewedClock>::default();
        let store = Arc::clone(&fixture.store);
        let services = ControlPlane::open(store, clock.clone(), Settings::default()).await.unwrap();
        let server = server_from_services(services, &HttpSettings::default());
        server.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
        let body = json!({ "path": "demo/two", "dedup": { "key": "m", "window_secs": 2 } });
        let first = server.post("/api/execute", body.clone()).await;
        let send = || server.send_with_key(Method::POST, "/api/execute", "k", body.clone());
        let duplicate = send().await;
        assert_eq!(duplicate.text_at("/status"), "duplicate", "{}", duplicate.text);
        assert_eq!(duplicate.json_at("/execution_id"), first.json_at("/execution_id"));
        clock.0.fetch_add(3, Ordering::SeqCst);
        let again = send().await;
        assert_eq!(again.text, duplicate.text);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(server.count_runs().await, 1);
        // A request without the key is fresh.
        let fresh = server.post("/api/execute", body.clone()).await;
        assert_eq!(fresh.text_at("/status"), "started", "{}", fresh.text);
    })
    .await;
}

#[tokio::test]
async fn token_secret_is_shown_once() {
    let server = start_secured_server().await;
    let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
    let create = async || {
        let body = json!({ "name": "t", "scopes": ["exec:read"] }).to_string();
        let mut request = build_request(Method::POST, "/api/tokens", body);
        let headers = request.headers_mut();
        headers.insert("idempotency-key", HeaderValue::from_static("k"));
        let bearer = HeaderValue::from_str(&format!("Bearer {admin}")).unwrap();
        headers.insert("authorization", bearer);
        server.send(request).await
    };
    let (first, again) = (create().await, create().await);
    assert!(first.text_at("/token").starts_with("noetl_"));
    assert_eq!(again.text_at("/token"), "[REDACTED]");
    assert_eq!(again.json_at("/id"), first.json_at("/id"));
}
