//! Batch starts, reruns, pause, resume and finalization of executions.

use axum::http::Method;
use noetl_api::execution::{CleanupRequest, FinalizeRequest};
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Scope};
use serde_json::{Value, json};

use super::tokens::create_token;
use super::{TWO_STEPS, TestResponse, TestServer, is_ok, start_server};
use crate::access::CallContext;

async fn send_control(server: &TestServer, execution_id: &str, verb: &str) -> TestResponse {
    let path = format!("/api/executions/{execution_id}/{verb}");
    server.post(&path, json!({ "reason": "a test" })).await
}

#[tokio::test]
async fn run_is_paused_and_resumed() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    for _ in 0..2 {
        let paused = send_control(&server, &execution_id, "pause").await;
        assert_eq!(paused.text_at("/status"), "PAUSED", "{}", paused.text);
        assert_eq!(paused.json_at("/seq"), 4);
    }
    for _ in 0..2 {
        let resumed = send_control(&server, &execution_id, "resume").await;
        assert_eq!(resumed.text_at("/status"), "RUNNING", "{}", resumed.text);
        assert_eq!(resumed.json_at("/seq"), 5);
    }
    let unknown = format!("/api/executions/{execution_id}/pause");
    let unknown = server.post(&unknown, json!({ "why": 1 })).await;
    unknown.assert_problem(ErrorCode::Validation);
    assert!(is_ok(&send_control(&server, &execution_id, "stop").await));
    let ended = send_control(&server, &execution_id, "pause").await;
    ended.assert_problem(ErrorCode::AlreadyTerminal);
    let nowhere = send_control(&server, "7000000000000000000", "pause").await;
    nowhere.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn finalize_and_cleanup_require_admin() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let finalize = format!("/api/executions/{execution_id}/finalize");
    let body = json!({ "status": "COMPLETED" });
    let user = create_token(&server.services, "default", &[Scope::ExecRun]).await;
    for (path, body) in [(&*finalize, body), ("/api/executions/cleanup", json!({}))] {
        let refused = server.call_with_token(&user, Method::POST, path, body).await;
        refused.assert_problem(ErrorCode::Forbidden);
    }

    let id: ExecutionId = execution_id.parse().unwrap();
    let request = |status| FinalizeRequest { status, error: None, reason: Some("stuck".into()) };
    let wrong = server.services.executions.finalize_execution(
        CallContext::server(),
        id,
        None,
        request(ExecutionStatus::Paused),
    );
    assert!(wrong.await.is_err());
    let actor = Some("ann".into());
    let finalized = server.services.executions.finalize_execution(
        CallContext::server(),
        id,
        actor,
        request(ExecutionStatus::Failed),
    );
    assert_eq!(finalized.await.unwrap().status, ExecutionStatus::Failed);
    let log = server.get(&format!("/api/executions/{execution_id}/events?order=desc")).await;
    assert_eq!(log.text_at("/events/0/event_type"), "playbook.failed");
    assert_eq!(log.text_at("/events/0/meta/actor"), "ann");
    assert_eq!(log.text_at("/events/0/meta/reason"), "stuck");
    assert_eq!(log.text_at("/events/1/event_type"), "command.cancelled");
    let again = server.services.executions.finalize_execution(
        CallContext::server(),
        id,
        None,
        request(ExecutionStatus::Failed),
    );
    let problem = again.await.unwrap_err().into_problem();
    assert_eq!(problem.known_code(), Some(ErrorCode::AlreadyTerminal));

    // A run with a pending command is not idle.
    server.start_two_steps().await;
    let all = CleanupRequest { older_than_minutes: 0, dry_run: false };
    let cleaned = server
        .services
        .executions
        .cancel_idle_executions(CallContext::server(), None, all)
        .await
        .unwrap();
    assert_eq!(cleaned.cancelled_count, 0);
}

#[tokio::test]
async fn rerun_merges_workload() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let path = format!("/api/executions/{execution_id}/rerun");
    let again = server.post(&path, json!({ "workload": { "more": [1] } })).await;
    assert!(is_ok(&again), "{}", again.text);
    let id = again.text_at("/execution_id");
    assert_ne!(id, execution_id);
    let detail = server.get(&format!("/api/executions/{id}")).await;
    assert_eq!(detail.json_at("/workload"), json!({ "greeting": "hello", "more": [1] }));
    assert_eq!(detail.json_at("/events/0/meta/rerun_of"), json!(execution_id));
    let plain = server.send(super::build_request(Method::POST, &path, "")).await;
    assert!(is_ok(&plain), "{}", plain.text);
}

#[tokio::test]
async fn batch_start_reports_each_item() {
    let server = start_server().await;
    server.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    let one = json!({ "path": "demo/two", "workload": { "n": 1 } });
    let items = json!([one, { "path": "nowhere" }, { "path": 7 }, one]);
    let batch = json!({ "executions": items });
    let reply = server.post("/api/execute/batch", batch).await;
    assert!(is_ok(&reply), "{}", reply.text);
    let counts: Vec<Value> = ["count", "started", "duplicates", "failed"]
        .map(|key| reply.json_at(&format!("/{key}")))
        .to_vec();
    assert_eq!(counts, [4, 2, 0, 2]);
    let statuses: Vec<String> =
        (0..4).map(|index| reply.text_at(&format!("/results/{index}/status"))).collect();
    assert_eq!(statuses, ["started", "error", "error", "started"]);
    assert!(reply.json_at("/results/0/execution_id").is_string());
    assert_eq!(reply.json_at("/results/3/index"), 3);
    for wrong in [json!([]), Value::from(vec![json!({}); 1001])] {
        let refused = server.post("/api/execute/batch", json!({ "executions": wrong })).await;
        refused.assert_problem(ErrorCode::Validation);
    }
}

#[tokio::test]
async fn rejects_out_of_range_start_options() {
    let server = start_server().await;
    server.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    for (field, value, code) in [
        ("dedup", json!({ "key": "k", "window_secs": 0 }), ErrorCode::OutOfRange),
        ("dedup", json!({ "key": "k", "window_secs": 2_592_001 }), ErrorCode::OutOfRange),
        ("dedup", json!({ "key": "k", "window_secs": 1_u64 << 63 }), ErrorCode::OutOfRange),
        ("dedup", json!({ "key": "k", "window_secs": 1e30 }), ErrorCode::OutOfRange),
        ("start_at", json!("2999-01-01T00:00:00Z"), ErrorCode::OutOfRange),
        ("priority", json!(101), ErrorCode::OutOfRange),
    ] {
        let mut body = json!({ "path": "demo/two" });
        body[field] = value;
        let reply = server.post("/api/execute", body).await;
        reply.assert_problem(code);
    }
    let body = json!({ "path": "demo/two", "resource_kind": "Playbook", "start_at": "2020-01-01T00:00:00Z" });
    assert!(is_ok(&server.post("/api/execute", body).await));
}

#[tokio::test]
async fn filters_runs_by_label_time_and_text() {
    let server = start_server().await;
    server.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    for team in ["red", "blue"] {
        let body = json!({ "path": "demo/two", "labels": { "team": team } });
        assert!(is_ok(&server.post("/api/execute", body).await));
    }
    let count = async |query: &str| {
        let list = server.get(&format!("/api/executions?{query}")).await;
        list.json().as_array().unwrap_or_else(|| panic!("{}", list.text)).len()
    };
    for (query, expected) in [
        ("label=team", 2),
        ("label=team%3Dred", 1),
        ("label=team%3Dgreen", 0),
        ("label=other", 0),
        ("since=2020-01-01T00:00:00Z", 2),
        ("since=2999-01-01T00:00:00Z", 0),
        ("until=2020-01-01T00:00:00Z", 0),
        ("until=2999-01-01T00:00:00Z", 2),
        ("q=demo", 2),
        ("q=nothing", 0),
    ] {
        assert_eq!(count(query).await, expected, "{query}");
    }
    server.get("/api/executions?since=yesterday").await.assert_problem(ErrorCode::BadQuery);
}

/// The first item with a dedup key starts, also if a later item with the same key is faster.
#[tokio::test]
async fn batch_order_decides_between_items_with_one_dedup_key() {
    let server = start_server().await;
    server.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    let item = |key: usize, number: usize| json!({ "path": "demo/two", "payload": { "n": number }, "dedup": { "key": key.to_string() } });
    for round in 0..8 {
        let items: Vec<Value> =
            (0..60).map(|index| item(round * 20 + index % 20, index / 20)).collect();
        let reply = server.post("/api/execute/batch", json!({ "executions": items })).await;
        let results = reply.json_at("/results");
        let statuses: Vec<&str> = results
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["status"].as_str().unwrap())
            .collect();
        assert_eq!(statuses[..20], ["started"; 20], "{}", reply.text);
        assert_eq!(statuses[20..], ["error"; 40], "the payloads differ: {}", reply.text);
    }
}
