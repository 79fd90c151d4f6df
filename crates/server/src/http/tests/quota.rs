//! Limit of running executions per tenant.

use axum::body::Body;
use axum::http::Method;
use noetl_api::execute::ExecuteRequest;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::create_token;
use super::{TWO_STEPS, TestResponse, TestServer, build_request};
use crate::access::CallContext;
use crate::http::settings::HttpSettings;

/// Starts a server with a limit of three running executions.
async fn start_limited_server(fixture: &StoreFixture) -> TestServer {
    let server = fixture
        .start_server(HttpSettings::default(), |settings| {
            settings.max_live_executions = 3;
        })
        .await;
    let body = json!({ "content": TWO_STEPS });
    let registered = server.post("/api/catalog/register", body).await;
    assert_eq!(registered.status, 200, "{}", registered.text);
    server
}

async fn start_with_key(server: &TestServer, key: &str) -> TestResponse {
    let body = Body::from(json!({ "path": "demo/two" }).to_string());
    let mut request = build_request(Method::POST, "/api/execute", body);
    let headers = request.headers_mut();
    headers.insert("idempotency-key", key.parse().unwrap());
    server.send(request).await
}

async fn start_run(server: &TestServer) -> TestResponse {
    server.post("/api/execute", json!({ "path": "demo/two" })).await
}

#[tokio::test]
async fn quota_rejects_starts_until_runs_end() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = start_limited_server(fixture).await;
        let first = start_with_key(&server, "k1").await;
        assert_eq!(first.status, 200, "{}", first.text);
        let first = first.text_at("/execution_id");
        assert_eq!(start_run(&server).await.status, 200);
        let two = json!({ "executions": [{ "path": "demo/two" }, { "path": "demo/two" }] });
        let batch = server.post("/api/execute/batch", two).await;
        assert_eq!(batch.json_at("/started"), json!(1), "{}", batch.text);
        assert_eq!(batch.json_at("/failed"), json!(1), "{}", batch.text);

        let refused = start_run(&server).await;
        refused.assert_problem(ErrorCode::QuotaExceeded);
        assert!(refused.text.contains("its limit of 3 live executions"), "{}", refused.text);
        let rerun = format!("/api/executions/{first}/rerun");
        let rerun = server.post(&rerun, json!({})).await;
        rerun.assert_problem(ErrorCode::QuotaExceeded);
        // A repeated request with a key returns the earlier answer.
        let again = start_with_key(&server, "k1").await;
        assert_eq!(again.text_at("/execution_id"), first);
        start_with_key(&server, "k2").await.assert_problem(ErrorCode::QuotaExceeded);

        for _ in 0..3 {
            server.complete_two_steps().await;
        }
        for _ in 0..3 {
            assert_eq!(start_run(&server).await.status, 200);
        }
        start_run(&server).await.assert_problem(ErrorCode::QuotaExceeded);
    })
    .await;
}

/// A duplicate message starts nothing, so the limit does not apply.
#[tokio::test]
async fn duplicate_message_is_answered_at_quota() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = start_limited_server(fixture).await;
        let message = async |key: &str, payload: Value| {
            let dedup = json!({ "key": key });
            let body = json!({ "path": "demo/two", "payload": payload, "dedup": dedup });
            server.post("/api/execute", body).await
        };
        let first = message("m", json!({})).await;
        assert_eq!(first.text_at("/status"), "started");
        for _ in 0..2 {
            assert_eq!(start_run(&server).await.status, 200);
        }
        let again = message("m", json!({})).await;
        assert_eq!(again.text_at("/status"), "duplicate", "{}", again.text);
        let id = "/execution_id";
        assert_eq!(again.text_at(id), first.text_at(id));
        let other = message("m", json!({ "other": 1 })).await;
        other.assert_problem(ErrorCode::DedupMismatch);
        message("n", json!({})).await.assert_problem(ErrorCode::QuotaExceeded);
    })
    .await;
}

/// Only workers may start children beyond the limit. Other callers could name any of their runs as
/// the parent.
#[tokio::test]
async fn parent_or_system_path_does_not_bypass_quota() {
    let fixture = StoreFixture::in_memory();
    let server = start_limited_server(&fixture).await;
    let parent = start_run(&server).await.text_at("/execution_id");
    for _ in 0..2 {
        assert_eq!(start_run(&server).await.status, 200);
    }
    let child = json!({ "path": "demo/two", "parent_execution_id": parent });
    let start_child = async |scope: Scope| {
        let token = create_token(&server.services, "default", &[scope]).await;
        let execute = "/api/execute";
        server.call_with_token(&token, Method::POST, execute, child.clone()).await
    };
    start_child(Scope::ExecRun).await.assert_problem(ErrorCode::QuotaExceeded);
    assert_eq!(start_child(Scope::Worker).await.status, 200);

    let acme = create_token(&server.services, "acme", &[Scope::Admin]).await;
    let post =
        async |path: &str, body| server.call_with_token(&acme, Method::POST, path, body).await;
    let content = TWO_STEPS.replace("demo/two", "system/two");
    post("/api/catalog/register", json!({ "content": content })).await;
    let request = json!({ "path": "system/two" });
    for _ in 0..3 {
        assert_eq!(post("/api/execute", request.clone()).await.status, 200);
    }
    let refused = post("/api/execute", request).await;
    refused.assert_problem(ErrorCode::QuotaExceeded);
}

/// A rejected child would fail its parent, and rejected platform runs would stop the platform.
#[tokio::test]
async fn children_and_platform_runs_bypass_quota() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = start_limited_server(fixture).await;
        server.services.system_playbooks.register_system_playbooks().await.unwrap();
        let parent = start_run(&server).await.text_at("/execution_id");
        for _ in 0..2 {
            assert_eq!(start_run(&server).await.status, 200);
        }
        let execute = async |body: Value| server.post("/api/execute", body).await;
        let child = json!({ "path": "demo/two", "parent_execution_id": parent });
        assert_eq!(execute(child.clone()).await.status, 200);
        let cleanup = ExecuteRequest {
            path: Some("system/scheduled_cleanup".parse().unwrap()),
            ..ExecuteRequest::default()
        };
        server.services.executions.start(CallContext::server(), cleanup).await.unwrap();
        start_run(&server).await.assert_problem(ErrorCode::QuotaExceeded);
        // Ended runs cannot have new children.
        let cancelled = format!("/api/executions/{parent}/cancel");
        let cancelled = server.post(&cancelled, json!({ "cascade": false })).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text);
        execute(child).await.assert_problem(ErrorCode::QuotaExceeded);
    })
    .await;
}
