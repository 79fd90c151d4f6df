//! Limits of live executions per tenant and per root execution.

use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use noetl_api::execute::ExecuteRequest;
use noetl_types::{ErrorCode, Scope, TenantId};
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

/// A parent does not exempt from the quota, also not if a worker starts the child.
#[tokio::test]
async fn parent_or_system_path_does_not_bypass_quota() {
    let fixture = StoreFixture::in_memory();
    let server = start_limited_server(&fixture).await;
    let parent = start_run(&server).await.text_at("/execution_id");
    for _ in 0..2 {
        assert_eq!(start_run(&server).await.status, 200);
    }
    let child = json!({ "path": "demo/two", "parent_execution_id": parent });
    for scope in [Scope::ExecRun, Scope::Worker] {
        let token = create_token(&server.services, "default", &[scope]).await;
        let execute = "/api/execute";
        let refused = server.call_with_token(&token, Method::POST, execute, child.clone()).await;
        refused.assert_problem(ErrorCode::QuotaExceeded);
    }

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

/// Rejected platform runs would stop the platform.
#[tokio::test]
async fn platform_runs_bypass_quota() {
    on_every_store(async |fixture: &StoreFixture| {
        let server = start_limited_server(fixture).await;
        server.services.system_playbooks.register_system_playbooks().await.unwrap();
        for _ in 0..3 {
            assert_eq!(start_run(&server).await.status, 200);
        }
        let cleanup = ExecuteRequest {
            path: Some("system/scheduled_cleanup".parse().unwrap()),
            ..ExecuteRequest::default()
        };
        server.services.executions.start(CallContext::server(), cleanup).await.unwrap();
        start_run(&server).await.assert_problem(ErrorCode::QuotaExceeded);
    })
    .await;
}

/// A run with ten parallel children, each of which waits for a signal.
const FAN_OUT: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: wide, path: demo/wide }
workflow:
  - step: children
    loop: { in: 10, iterator: i, spec: { mode: parallel, max_in_flight: 10 } }
    tool: { kind: playbook, path: demo/waits, return_result: true }
";

const WAITING_CHILD: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: demo/waits }
workflow:
  - step: wait
    tool: { kind: wait, signal: go }
";

/// A run that starts itself twice, and waits for both.
const SELF_STARTING: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: bomb, path: demo/bomb }
workflow:
  - step: children
    loop: { in: 2, iterator: i, spec: { mode: parallel, max_in_flight: 2 } }
    tool: { kind: playbook, path: demo/bomb, return_result: true }
";

async fn start_server_with_limits(
    fixture: &StoreFixture,
    live: u32,
    descendants: u32,
) -> TestServer {
    let server = fixture
        .start_server(HttpSettings::default(), |settings| {
            settings.max_live_executions = live;
            settings.max_live_descendants = descendants;
        })
        .await;
    for content in [FAN_OUT, WAITING_CHILD, SELF_STARTING] {
        let registered = server.post("/api/catalog/register", json!({ "content": content })).await;
        assert_eq!(registered.status, 200, "{}", registered.text);
    }
    server
}

/// Numbers of children of a run that wait, and of its children that could not start.
async fn child_counts(server: &TestServer, parent: &str) -> (usize, usize) {
    let child = format!("\"parent_execution_id\":\"{parent}\"");
    loop {
        let children = server.get(&format!("/api/executions?parent={parent}&limit=500")).await;
        let open = children.text.matches(&child).count();
        let log = server.get(&format!("/api/executions/{parent}/events?limit=500")).await;
        let log = log.json();
        let events = log["events"].as_array().unwrap();
        let is_refused_child = |event: &&Value| {
            event["event_type"] == "command.failed"
                && event.to_string().contains("has reached its limit of")
        };
        let failed = events.iter().filter(is_refused_child).count();
        if open + failed >= 10 {
            return (open, failed);
        }
        tokio::task::yield_now().await;
    }
}

/// Children that playbooks start count against both limits.
#[tokio::test]
async fn children_count_against_the_quotas() {
    on_every_store(async |fixture: &StoreFixture| {
        for (live, descendants, started) in [(5, 1000, 4), (1000, 3, 3), (1000, 1000, 10)] {
            let server = start_server_with_limits(fixture, live, descendants).await;
            let wide = server.post("/api/execute", json!({ "path": "demo/wide" })).await;
            let wide = wide.text_at("/execution_id");
            assert_eq!(child_counts(&server, &wide).await, (started, 10 - started));
            let cancelled = server.post(&format!("/api/executions/{wide}/cancel"), json!({})).await;
            assert_eq!(cancelled.status, 200, "{}", cancelled.text);
            server.services.close(Duration::from_secs(30)).await;
        }
    })
    .await;
}

async fn count_live_runs(server: &TestServer) -> u32 {
    let store = server.services.infra.store();
    store.count_live_executions(&TenantId::default(), 100_000).await.unwrap()
}

/// The tree of a run that starts itself twice stays within the quota and ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn run_that_starts_itself_stays_within_quota() {
    let server = start_server_with_limits(&StoreFixture::in_memory(), 30, 1000).await;
    let root = server.post("/api/execute", json!({ "path": "demo/bomb" })).await;
    assert_eq!(root.status, 200, "{}", root.text);
    loop {
        let live = count_live_runs(&server).await;
        assert!(live <= 30, "{live}");
        if live == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let root = root.text_at("/execution_id");
    let status = server.get(&format!("/api/executions/{root}/status")).await;
    assert_eq!(status.text_at("/status"), "FAILED", "{}", status.text);
}

/// A cancelled tree stops growing at once, and all of it is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn cancellation_gets_ahead_of_growth() {
    let server = start_server_with_limits(&StoreFixture::in_memory(), 100_000, 100_000).await;
    let root = server.post("/api/execute", json!({ "path": "demo/bomb" })).await;
    let root = root.text_at("/execution_id");
    while count_live_runs(&server).await < 200 {
        tokio::task::yield_now().await;
    }
    let cancelled = server.post(&format!("/api/executions/{root}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    while count_live_runs(&server).await > 0 {
        tokio::task::yield_now().await;
    }
}

/// While a tenant starts more and more runs, the run of another tenant still ends.
#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_get_their_turns() {
    let server = start_server_with_limits(&StoreFixture::in_memory(), 100_000, 100_000).await;
    let acme = create_token(&server.services, "acme", &[Scope::Admin]).await;
    let post =
        async |path: &str, body| server.call_with_token(&acme, Method::POST, path, body).await;
    let sleeps = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: nap, path: demo/nap }
workflow:
  - step: nap
    tool: { kind: sleep, for: 0s }
";
    post("/api/catalog/register", json!({ "content": sleeps })).await;
    let root = server.post("/api/execute", json!({ "path": "demo/bomb" })).await;
    let root = root.text_at("/execution_id");
    while count_live_runs(&server).await < 200 {
        tokio::task::yield_now().await;
    }
    let ended = post("/api/execute", json!({ "path": "demo/nap", "wait_ms": 30_000 })).await;
    assert_eq!(ended.text_at("/outcome/status"), "COMPLETED", "{}", ended.text);
    let cancelled = server.post(&format!("/api/executions/{root}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
}
