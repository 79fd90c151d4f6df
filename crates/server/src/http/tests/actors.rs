//! Actors in run logs, in the audit log, and in the server log.

use std::sync::atomic::Ordering;

use axum::body::{Body, to_bytes};
use axum::http::Method;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::log_capture::LogCapture;
use super::store_faults::breakable_store;
use super::tokens::{create_token, with_token};
use super::{
    TWO_STEPS, TestServer, build_request, is_ok, secured_settings, start_secured_server,
    start_server, start_server_with,
};

const USER_SCOPES: [Scope; 4] =
    [Scope::ExecRead, Scope::ExecRun, Scope::CatalogWrite, Scope::Worker];

/// Actor of the first event of a run.
async fn start_actor(server: &TestServer, token: Option<&str>, execution_id: &Value) -> Value {
    let id = execution_id.as_str().unwrap();
    let path = format!("/api/executions/{id}/events?limit=1");
    let page = match token {
        Some(token) => server.call_with_token(token, Method::GET, &path, json!({})).await,
        None => server.get(&path).await,
    };
    assert_eq!(page.text_at("/events/0/event_type"), "playbook.started");
    page.json_at("/events/0/meta").get("actor").cloned().unwrap_or_default()
}

#[tokio::test]
async fn run_records_its_actor() {
    let server = start_secured_server().await;
    let user = create_token(&server.services, "acme", &USER_SCOPES).await;
    let post = async |path: &str, body: Value| {
        let reply = server.call_with_token(&user, Method::POST, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    };
    post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    let request = json!({ "path": "demo/two" });
    let single = post("/api/execute", request.clone()).await.json_at("/execution_id");
    let batch = post("/api/execute/batch", json!({ "executions": [request] })).await;
    let rerun = format!("/api/executions/{}/rerun", single.as_str().unwrap());
    let again = post(&rerun, json!({})).await.json_at("/execution_id");
    for id in [single, batch.json_at("/results/0/execution_id"), again] {
        assert_eq!(start_actor(&server, Some(&user), &id).await, "acme-token");
    }
}

#[tokio::test]
async fn anonymous_start_has_no_actor() {
    let server = start_server().await;
    let id = json!(server.start_two_steps().await);
    assert_eq!(start_actor(&server, None, &id).await, Value::Null);
}

#[tokio::test]
async fn catalog_changes_and_drains_are_audited() {
    let server = start_secured_server().await;
    let user = create_token(&server.services, "acme", &USER_SCOPES).await;
    let admin = create_token(&server.services, "acme", &[Scope::Admin]).await;
    let calls = [
        (Method::POST, "/api/catalog/register", json!({ "content": TWO_STEPS })),
        (Method::DELETE, "/api/catalog/playbooks/demo/two", json!({})),
        (Method::POST, "/api/catalog/restore", json!({ "path": "demo/two" })),
        (Method::POST, "/api/worker/pool/register", json!({ "name": "w1" })),
        (Method::POST, "/api/worker/pool/drain", json!({ "name": "w1" })),
    ];
    for (method, path, body) in calls {
        let reply = server.call_with_token(&user, method, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
    }
    let unknown = json!({ "name": "w2" });
    let none = server.call_with_token(&user, Method::POST, "/api/worker/pool/drain", unknown);
    none.await.assert_problem(ErrorCode::NotFound);
    let audit = server.call_with_token(&admin, Method::GET, "/api/audit", json!({})).await;
    let entries = audit.json_at("/entries");
    let entries = entries.as_array().unwrap().iter().rev();
    let recorded: Vec<_> = entries
        .map(|entry| {
            assert_eq!(entry["actor"], "acme-token");
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            (text("action"), text("outcome"))
        })
        .collect();
    let expected = [
        ("POST /api/catalog/register", "ok"),
        ("DELETE /api/catalog/playbooks/{*playbook_id}", "ok"),
        ("POST /api/catalog/restore", "ok"),
        ("POST /api/worker/pool/drain", "ok"),
        ("POST /api/worker/pool/drain", "not_found"),
    ]
    .map(|(action, outcome)| (action.to_owned(), outcome.to_owned()));
    assert_eq!(recorded, expected);
}

#[tokio::test]
async fn request_logs_name_tenant_actor_and_run() {
    let server = start_secured_server().await;
    let user = create_token(&server.services, "acme", &USER_SCOPES).await;
    let logs = LogCapture::default();
    let capture = logs.start_capture();
    let path = "/api/executions/7000000000000000000";
    let none = server.call_with_token(&user, Method::GET, path, json!({})).await;
    none.assert_problem(ErrorCode::NotFound);
    let wrong = "/api/executions/anything-at-all";
    let wrong = server.call_with_token(&user, Method::GET, wrong, json!({})).await;
    wrong.assert_problem(ErrorCode::BadId);
    drop(capture);
    let lines = logs.entries_with_message("request");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, reply) in lines.iter().zip([&none, &wrong]) {
        let span = &line["span"];
        assert_eq!(span["request_id"].as_str(), reply.header("x-request-id"));
        assert_eq!((&span["tenant"], &span["actor"]), (&json!("acme"), &json!("acme-token")));
    }
    assert_eq!(lines[0]["span"]["execution_id"], "7000000000000000000");
    assert_eq!(lines[1]["span"].get("execution_id"), None);
}

/// Logs written before authentication and long after the response have the request id.
#[tokio::test]
async fn authentication_and_stream_logs_name_their_request() {
    let (store, is_broken) = breakable_store();
    let server = start_server_with(store, &secured_settings()).await;
    let user = create_token(&server.services, "acme", &USER_SCOPES).await;
    let register = json!({ "content": TWO_STEPS });
    server.call_with_token(&user, Method::POST, "/api/catalog/register", register).await;
    let start = json!({ "path": "demo/two" });
    let started = server.call_with_token(&user, Method::POST, "/api/execute", start).await;
    let id = started.text_at("/execution_id");
    let logs = LogCapture::default();
    let capture = logs.start_capture();
    let follow = format!("/api/executions/{id}/events/stream");
    let follow = with_token(build_request(Method::GET, &follow, Body::empty()), &user);
    let live = server.pipeline.handle_request(&super::local_peer().into(), follow).await;
    assert_eq!(live.status(), 200);
    is_broken.store(true, Ordering::SeqCst);
    to_bytes(live.into_body(), 1 << 20).await.unwrap();
    let ends = logs.entries_with_message("live response ends early");
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0]["span"]["actor"], "acme-token");
    assert_eq!(ends[0]["span"]["execution_id"], json!(id));
    // An unknown token must be looked up in the store.
    let unknown_token = format!("noetl_{}_{}", "a".repeat(8), "b".repeat(43));
    let refused =
        server.call_with_token(&unknown_token, Method::GET, "/api/whoami", json!({})).await;
    drop(capture);
    let request_id = refused.header("x-request-id").unwrap();
    let entries = logs.entries_with_message("the store failed");
    let found = entries.iter().find(|line| line["span"]["request_id"] == request_id);
    assert!(found.is_some(), "{request_id}: {} {entries:?}", refused.text);
}
