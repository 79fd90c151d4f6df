//! Explanations of why a run waits or how it ended.

use axum::http::Method;
use noetl_types::{ErrorCode, Scope, Timestamp};
use serde_json::{Value, json};

use super::tokens::create_token;
use super::{TestServer, completed_report, is_ok, start_secured_server, start_server};

/// A playbook whose steps wait in different ways.
const WAITING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: demo/waits }
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: ask }, { step: call }, { step: work }, { step: nap }] }
  - step: ask
    tool: { kind: approval, title: Ship it?, approvers: [ada], quorum: 1 }
    next: { arcs: [{ step: both }] }
  - step: call
    tool: { kind: wait, signal: go, key: k1 }
    next: { arcs: [{ step: both }] }
  - step: nap
    tool: { kind: sleep, for: 1h }
  - step: work
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: noop }
    next: { arcs: [{ step: both }] }
  - step: both
    tool: { kind: noop }
";

const FAILING_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: demo/fails }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: bad }] }
  - step: bad
    tool: { kind: noop }
";

impl TestServer {
    async fn explain_execution(&self, execution_id: &str) -> Value {
        let reply = self.get(&format!("/api/executions/{execution_id}/explain")).await;
        assert!(is_ok(&reply), "{}", reply.text);
        reply.json()
    }
}

/// Formats kind, step, count and detail of each wait.
fn format_waits(explained: &Value) -> Vec<String> {
    let waits = explained["waiting_on"].as_array().unwrap().iter();
    waits
        .map(|wait| {
            let text = |key: &str| wait[key].as_str().unwrap_or("-").to_owned();
            let (kind, step, detail) = (text("kind"), text("step"), text("detail"));
            format!("{kind} {step} {}: {detail}", wait["count"])
        })
        .collect()
}

#[tokio::test]
async fn explains_missing_worker() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let explained = server.explain_execution(&id).await;
    assert_eq!(explained["status"], "RUNNING");
    assert_eq!(
        format_waits(&explained),
        ["pool start 1: waits for a worker of pool `shared`, which has none"]
    );
    assert_eq!(
        explained["summary"],
        "step `start` waits for a worker of pool `shared`, which has none"
    );
    let worker = json!({ "name": "w1", "capacity": 4, "labels": { "pool_name": "shared" } });
    server.post("/api/worker/pool/register", worker).await;
    assert_eq!(
        format_waits(&server.explain_execution(&id).await),
        ["pool start 1: waits for a worker of pool `shared`, which has 1"]
    );
    server.lease_command().await;
    let explained = server.explain_execution(&id).await;
    assert_eq!(format_waits(&explained), ["lease start 1: is running"]);
    assert_eq!(explained["waiting_on"][0]["holders"], json!(["w1"]));
    assert!(explained["waiting_on"][0]["until"].is_string());
}

/// A progress report: the command was started, and these attempts of its task failed and are
/// retried.
fn progress_report(command: &Value, retries: &[(u32, u64)], before: u32) -> Value {
    let error = json!({ "kind": "connection", "message": "no line", "retryable": true });
    let retries = retries.iter().map(|(attempt, retry_in_ms)| {
        json!({ "error": error, "attempt": attempt, "retry_in_ms": retry_in_ms })
    });
    let report = json!({
        "execution_id": command["execution_id"],
        "command_id": command["command_id"],
        "attempt": command["attempt"],
        "lease_token": command["lease_token"],
        "claimed_at": command["claimed_at"],
        "started_at": command["claimed_at"],
        "status": "progress",
        "retries": retries.collect::<Vec<_>>(),
        "retries_before": before,
    });
    json!({ "worker_id": "w1", "reports": [report] })
}

/// Workers wait for retry delays on their own, so the server must report them.
#[tokio::test]
async fn explains_retry_delay() {
    const HOUR_MS: u64 = 3_600_000;
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let command = server.lease_command().await;
    let report_progress = async |retries: &[(u32, u64)], before| {
        let report = progress_report(&command, retries, before);
        let reported = server.post("/api/commands/report", report).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
    };
    report_progress(&[], 0).await;
    assert_eq!(format_waits(&server.explain_execution(&id).await), ["lease start 1: is running"]);
    // A repeated report counts once.
    for _ in 0..2 {
        report_progress(&[(1, HOUR_MS)], 0).await;
        let explained = server.explain_execution(&id).await;
        let wait = &explained["waiting_on"][0];
        assert_eq!(format_waits(&explained), ["retry start 1: failed and waits for attempt 2"]);
        assert_eq!(explained["summary"], "step `start` failed and waits for attempt 2");
        assert_eq!(wait["holders"], json!(["w1"]));
        let time = |key: &str| Timestamp::parse(wait[key].as_str().unwrap()).unwrap();
        let delay = time("until").duration_since(time("since"));
        assert_eq!(delay.as_ms(), HOUR_MS);
    }
    // The next attempt failed too, and the following one is running.
    report_progress(&[(2, 0)], 1).await;
    assert_eq!(
        format_waits(&server.explain_execution(&id).await),
        ["lease start 1: is running, after 2 failed attempts"]
    );
    let mut report = completed_report(&command, &json!({ "ok": true }));
    report["reports"][0]["retries_before"] = json!(2);
    let done = server.post("/api/commands/report", report).await;
    assert_eq!(done.text_at("/results/0/status"), "accepted");

    let path = format!("/api/executions/{id}/events?step=start&limit=100");
    let events = server.get(&path).await.json();
    let types = events["events"].as_array().unwrap().iter();
    let types: Vec<_> = types.map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "step.enter", "command.issued", "command.claimed", "command.started", "call.error",
            "call.error", "call.done", "command.completed", "ctx.updated", "step.exit"
        ]
    );
    // Late reports are ignored.
    let late = progress_report(&command, &[(1, HOUR_MS)], 0);
    let late = server.post("/api/commands/report", late).await;
    assert_eq!(late.text_at("/results/0/status"), "duplicate");
}

#[tokio::test]
async fn lists_each_wait_once() {
    let server = start_server().await;
    let id = server.start_playbook(WAITING_PLAYBOOK, "demo/waits").await;
    let command = server.lease_command().await;
    server.complete_command(&command, json!({})).await;
    let explained = server.explain_execution(&id).await;
    let nap = explained["waiting_on"][3]["until"].as_str().unwrap();
    assert_eq!(
        format_waits(&explained),
        [
            "pool work 3: waits for a worker of pool `shared`, which has none".to_owned(),
            "approval ask 1: waits for approval: Ship it?".to_owned(),
            "signal call 1: waits for signal `go` with key `k1`".to_owned(),
            format!("timer nap 1: sleeps until {nap}"),
        ]
    );
    assert_eq!(explained["waiting_on"][1]["holders"], json!(["ada"]));

    let signal = json!({ "name": "go", "key": "k1" });
    let sent = server.post(&format!("/api/executions/{id}/signal"), signal).await;
    assert!(is_ok(&sent), "{}", sent.text);
    let explained = server.explain_execution(&id).await;
    let last = format_waits(&explained).pop().unwrap();
    assert_eq!(last, "join both 1: waits for `ask`, `work`, which may still lead to it");

    let one = server.get(&format!("/api/executions/{id}/explain?step=ask")).await;
    assert_eq!(format_waits(&one.json()).len(), 1);
    let none = server.get(&format!("/api/executions/{id}/explain?step=nope")).await;
    none.assert_problem(ErrorCode::NotFound);

    server.post(&format!("/api/executions/{id}/pause"), json!({})).await;
    let explained = server.explain_execution(&id).await;
    assert_eq!(explained["status"], "PAUSED");
    assert_eq!(
        explained["summary"],
        "the run is paused; no command is leased until it is resumed; and 3 more"
    );
}

#[tokio::test]
async fn explains_failure_with_causes() {
    let server = start_server().await;
    let id = server.start_playbook(FAILING_PLAYBOOK, "demo/fails").await;
    let first = server.lease_command().await;
    server.complete_command(&first, json!({})).await;
    let second = server.lease_command().await;
    let report = json!({
        "execution_id": second["execution_id"],
        "command_id": second["command_id"],
        "attempt": second["attempt"],
        "lease_token": second["lease_token"],
        "status": "failed",
        "error": { "kind": "transform", "message": "boom", "retryable": false },
    });
    let body = json!({ "worker_id": "w1", "reports": [report] });
    let reported = server.post("/api/commands/report", body).await;
    assert!(is_ok(&reported), "{}", reported.text);
    let explained = server.explain_execution(&id).await;
    assert_eq!(explained["status"], "FAILED");
    assert_eq!(explained["summary"], "step `bad` failed: boom");
    assert_eq!(explained["waiting_on"], json!([]));
    assert_eq!(explained["failure"]["step"], "bad");
    assert_eq!(explained["failure"]["error"]["message"], "boom");
    assert_eq!(explained["failure"]["line"], 8, "{explained}");
    let chain: Vec<&str> = explained["cause"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(chain.first(), Some(&"playbook.failed"));
    assert_eq!(chain.last(), Some(&"playbook.started"), "{chain:?}");
    assert!(chain.contains(&"call.error"), "{chain:?}");
}

#[tokio::test]
async fn completed_run_waits_for_nothing() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let explained = server.explain_execution(&id).await;
    assert_eq!(explained["waiting_on"], json!([]));
    let summary = explained["summary"].as_str().unwrap();
    assert!(summary.starts_with("it completed after "), "{summary}");
    let unknown = server.get("/api/executions/7000000000000000000/explain").await;
    unknown.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn heartbeat_reports_drain_request() {
    let server = start_server().await;
    let name = json!({ "name": "w1" });
    let drained = server.post("/api/worker/pool/drain", name.clone()).await;
    drained.assert_problem(ErrorCode::NotFound);
    let worker = json!({ "name": "w1", "capacity": 4, "labels": { "pool_name": "shared" } });
    server.post("/api/worker/pool/register", worker.clone()).await;
    let heartbeat = server.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(heartbeat.json_at("/drain"), false);
    let drained = server.post("/api/worker/pool/drain", name.clone()).await;
    assert_eq!(drained.text_at("/status"), "draining");
    assert_eq!(drained.json_at("/capacity"), 4);
    let heartbeat = server.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(heartbeat.json_at("/drain"), true);
    let pools = server.get("/api/worker/pools").await;
    assert_eq!(pools.text_at("/items/0/status"), "draining");
    let again = server.post("/api/worker/pool/register", worker).await;
    assert_eq!(again.text_at("/status"), "active");
}

#[tokio::test]
async fn explains_past_state() {
    let server = start_server().await;
    let run = server.start_two_steps().await;
    let initial = server.explain_execution(&run).await;
    let last = initial["cause"][0]["seq"].as_i64().unwrap();
    server.complete_two_steps().await;
    let now = server.explain_execution(&run).await;
    assert_eq!(now["status"], "COMPLETED");
    let path = format!("/api/executions/{run}/explain?at={last}");
    let then = server.get(&path).await;
    assert!(is_ok(&then), "{}", then.text);
    assert_eq!(then.json_at("/status"), "RUNNING");
    assert_eq!(format_waits(&then.json()), ["command start 1: was issued and had not ended"]);
    assert_eq!(then.json_at("/cause"), initial["cause"]);
    // Selected by time: before the start there were no waits.
    let path = format!("/api/executions/{run}/explain?at=2020-01-01T00:00:00Z");
    let before = server.get(&path).await;
    assert_eq!(before.json_at("/waiting_on"), json!([]), "{}", before.text);
    let later = format!("/api/executions/{run}/explain?at=2999-01-01T00:00:00Z");
    assert_eq!(server.get(&later).await.json(), now);
    for wrong in ["0", "-1", "soon"] {
        let path = format!("/api/executions/{run}/explain?at={wrong}");
        server.get(&path).await.assert_problem(ErrorCode::BadQuery);
    }
}

const LIMITED_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: limited, path: demo/limited }
concurrency: { key: one }
workflow:
  - step: hold
    tool: { kind: wait, signal: go }
";

#[tokio::test]
async fn explains_slot_holder() {
    let server = start_server().await;
    let first = server.start_playbook(LIMITED_PLAYBOOK, "demo/limited").await;
    let wait_until_held = async {
        while !format_waits(&server.explain_execution(&first).await)[0].starts_with("signal hold") {
            tokio::task::yield_now().await;
        }
    };
    let timeout = std::time::Duration::from_mins(1);
    tokio::time::timeout(timeout, wait_until_held).await.unwrap();
    let body = json!({ "path": "demo/limited" });
    let second = server.post("/api/execute", body).await;
    let second = second.text_at("/execution_id");
    let explained = server.explain_execution(&second).await;
    assert_eq!(format_waits(&explained), ["limit - 1: the run waits for one of 1 slots of `one`"]);
    assert_eq!(explained["waiting_on"][0]["holders"], json!([first]));
}

#[tokio::test]
async fn explains_pool_by_workers_of_own_tenant() {
    let server = start_secured_server().await;
    let mut runs = Vec::new();
    for tenant in ["default", "acme"] {
        let token = create_token(&server.services, tenant, &[Scope::Admin]).await;
        let post = |path: &'static str, body: Value| {
            server.call_with_token(&token, Method::POST, path, body)
        };
        post("/api/catalog/register", json!({ "content": FAILING_PLAYBOOK })).await;
        let started = post("/api/execute", json!({ "path": "demo/fails" })).await;
        runs.push((token.clone(), started.text_at("/execution_id")));
    }
    let first_wait = async |index: usize| {
        let (token, run) = &runs[index];
        let path = format!("/api/executions/{run}/explain");
        let reply = server.call_with_token(token, Method::GET, &path, json!({})).await;
        format_waits(&reply.json()).remove(0)
    };
    let expected_wait =
        |suffix: &str| format!("pool start 1: waits for a worker of pool `shared`, {suffix}");
    for (index, other) in [(1, "which has none"), (0, "which has 1")] {
        let worker = json!({ "name": "w", "labels": { "pool_name": "shared" } });
        let registered = server.call_with_token(
            &runs[index].0,
            Method::POST,
            "/api/worker/pool/register",
            worker,
        );
        assert!(is_ok(&registered.await));
        assert_eq!(first_wait(index).await, expected_wait("which has 1"));
        // Workers of other tenants are not counted.
        assert_eq!(first_wait(1 - index).await, expected_wait(other));
    }
}
