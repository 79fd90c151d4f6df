//! Classic workers over HTTP: they receive a command by its event id, claim it, and report event by
//! event.

use axum::body::Body;
use axum::http::Method;
use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::{TestResponse, TestServer, build_request, is_ok, start_server};

/// A step with a retry policy, and a step that reads its output.
const RETRY_PLAYBOOK: &str = r#"apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: again, path: demo/again }
workload: { city: Berlin }
workflow:
  - step: load
    input: { from: "{{ city }}" }
    tool:
      kind: http
      url: "http://example.org/{{ city }}"
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' and error.kind == 'timeout' }}"
              then: { do: retry, attempts: 3 }
      set: { ctx.rows: "{{ output.data.rows }}" }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: "{{ ctx.rows }}", iterator: row, spec: { mode: sequential } }
    tool: { kind: noop, result: "{{ row }}" }
"#;

impl TestServer {
    /// Newest pending command, by the id of its event.
    async fn newest_pending_command(&self, execution_id: &str) -> String {
        let path = format!("/api/commands?execution_id={execution_id}&status=PENDING");
        let list = self.get(&path).await;
        assert!(is_ok(&list), "{}", list.text);
        list.text_at("/commands/0/command_id")
    }

    async fn claim_command(&self, event_id: &str, worker: &str) -> TestResponse {
        let path = format!("/api/commands/{event_id}/claim");
        self.post(&path, json!({ "worker_id": worker })).await
    }

    async fn post_event(
        &self,
        claimed: &TestResponse,
        event_type: &str,
        payload: Value,
    ) -> TestResponse {
        let body = build_event(claimed, event_type, payload);
        self.post("/api/events", body).await
    }

    /// Claims the newest pending command as `w1` and returns its label.
    pub(super) async fn claim_newest(&self, execution_id: &str) -> Value {
        let event_id = self.newest_pending_command(execution_id).await;
        let claimed = self.claim_command(&event_id, "w1").await;
        assert!(is_ok(&claimed), "{}", claimed.text);
        claimed.json_at("/meta/command_id")
    }

    pub(super) async fn read_log(&self, execution_id: &str) -> Vec<Value> {
        let path = format!("/api/executions/{execution_id}/events?limit=500");
        let log = self.get(&path).await;
        log.json_at("/events").as_array().unwrap().clone()
    }

    pub(super) async fn event_types(&self, execution_id: &str) -> Vec<String> {
        let log = self.read_log(execution_id).await;
        let types = log.iter().map(|event| event["event_type"].as_str());
        types.map(|event_type| event_type.unwrap().to_owned()).collect()
    }

    pub(super) async fn execution_status(&self, execution_id: &str) -> String {
        let path = format!("/api/executions/{execution_id}/status");
        self.get(&path).await.text_at("/status")
    }
}

/// An event of worker `w1` for a command that it claimed.
fn build_event(claimed: &TestResponse, event_type: &str, payload: Value) -> Value {
    let mut payload = payload;
    payload["command_id"] = claimed.json_at("/meta/command_id");
    json!({
        "execution_id": claimed.json_at("/execution_id"),
        "step": claimed.json_at("/node_name"),
        "name": event_type,
        "payload": payload,
        "worker_id": "w1",
        "meta": { "attempts": claimed.json_at("/meta/attempts") },
    })
}

/// Asserts that the first command of [`RETRY_PLAYBOOK`] was claimed for its first attempt.
fn assert_first_command_claimed(claimed: &TestResponse, event_id: &str) {
    assert!(is_ok(claimed), "{}", claimed.text);
    assert_eq!(claimed.text_at("/status"), "ok");
    assert_eq!(claimed.json_at("/event_id").to_string(), event_id);
    assert_eq!(claimed.text_at("/action"), "http");
    assert_eq!(claimed.text_at("/context/tool_config/url"), "http://example.org/{{ city }}");
    assert_eq!(claimed.text_at("/context/args/from"), "{{ city }}");
    assert_eq!(claimed.text_at("/context/render_context/city"), "Berlin");
    assert_eq!(
        (claimed.json_at("/attempt"), claimed.json_at("/meta/attempts")),
        (json!(1), json!(1))
    );
}

#[tokio::test]
async fn classic_worker_drives_run() {
    let server = start_server().await;
    let execution_id = server.start_playbook(RETRY_PLAYBOOK, "demo/again").await;
    let event_id = server.newest_pending_command(&execution_id).await;

    let details = server.get(&format!("/api/commands/{event_id}")).await;
    assert!(is_ok(&details), "{}", details.text);
    assert!(details.json_at("/execution_id").is_i64());
    let claimed = server.claim_command(&event_id, "w1").await;
    assert_first_command_claimed(&claimed, &event_id);
    // The same worker gets the same attempt again. Another one is rejected.
    let again = server.claim_command(&event_id, "w1").await;
    assert_eq!((again.status, again.json_at("/attempt")), (200, json!(1)));
    assert_eq!(again.json_at("/lease_token"), claimed.json_at("/lease_token"));
    let second = server.claim_command(&event_id, "w2").await;
    second.assert_problem(ErrorCode::ActiveClaim);

    let started = server.post_event(&claimed, "command_started", json!({})).await;
    assert_eq!(started.text_at("/status"), "ok", "{}", started.text);
    let result = json!({ "result": { "rows": ["a", "b"] } });
    let done = server.post_event(&claimed, "call.done", result.clone()).await;
    assert_eq!(done.text_at("/status"), "ok", "{}", done.text);
    assert_eq!(done.json_at("/commands_generated"), 1);
    assert!(done.json_at("/event_id").is_i64() && done.json_at("/seq").is_i64());
    // Accompanying events change nothing and are not late results.
    for event_type in ["step.exit", "command.completed"] {
        let reply = server.post_event(&claimed, event_type, result.clone()).await;
        assert_eq!(reply.text_at("/status"), "ok", "{event_type}: {}", reply.text);
        assert_eq!(reply.json_at("/commands_generated"), 0);
    }
    for item in ["a", "b"] {
        let event_id = server.newest_pending_command(&execution_id).await;
        let claimed = server.claim_command(&event_id, "w1").await;
        assert_eq!(claimed.text_at("/context/render_context/row"), item);
        assert_eq!(claimed.text_at("/meta/item_var"), "row");
        assert_eq!(claimed.json_at("/meta/iteration_total"), 2);
        let exit = server.post_event(&claimed, "step_exit", json!({ "result": item })).await;
        assert_eq!(exit.text_at("/status"), "ok", "{}", exit.text);
    }
    assert_eq!(server.execution_status(&execution_id).await, "COMPLETED");
    let types = server.event_types(&execution_id).await;
    assert!(!types.contains(&"command.result_ignored".to_owned()), "{types:?}");
    let log = server.read_log(&execution_id).await;
    let exits = log.iter().filter(|event| event["event_type"] == "call.done");
    let as_sent: Vec<&Value> = exits.map(|event| &event["meta"]["event_type_as_sent"]).collect();
    assert_eq!(as_sent, [&Value::Null, &json!("step_exit"), &json!("step_exit")]);
    let late = server.claim_command(&event_id, "w1").await;
    late.assert_problem(ErrorCode::AlreadyTerminal);
}

/// The server applies the task policy and offers the same command again.
#[tokio::test]
async fn task_policy_retries_command() {
    let server = start_server().await;
    let execution_id = server.start_playbook(RETRY_PLAYBOOK, "demo/again").await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let timeout_error = json!({ "error": { "kind": "timeout", "message": "slow" } });
    for attempt in 1..=2 {
        let claimed = server.claim_command(&event_id, "w1").await;
        assert_eq!(claimed.json_at("/attempt"), attempt, "{}", claimed.text);
        let failed = server.post_event(&claimed, "call.error", timeout_error.clone()).await;
        assert_eq!(failed.text_at("/status"), "ok", "{}", failed.text);
        assert_eq!(server.execution_status(&execution_id).await, "RUNNING");
        assert_eq!(server.newest_pending_command(&execution_id).await, event_id);
    }
    let claimed = server.claim_command(&event_id, "w1").await;
    server.post_event(&claimed, "call.error", timeout_error).await;
    assert_eq!(server.execution_status(&execution_id).await, "FAILED");
    let log = server.read_log(&execution_id).await;
    let errors = log.iter().filter(|event| event["event_type"] == "call.error");
    let finals: Vec<&Value> = errors.map(|event| &event["meta"]["final"]).collect();
    assert_eq!(finals, [&json!(false), &json!(false), &json!(true)]);
}

#[tokio::test]
async fn repeated_event_is_stored_once() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let claimed = server.claim_command(&event_id, "w1").await;
    let mut body = build_event(&claimed, "call.done", json!({ "result": 1 }));
    body["event_id"] = json!(4_200_000_000_i64);
    let first = server.post("/api/events", body.clone()).await;
    assert_eq!(first.json_at("/event_id"), 4_200_000_000_i64, "{}", first.text);
    let length = server.read_log(&execution_id).await.len();
    let second = server.post("/api/events", body.clone()).await;
    assert_eq!(second.json_at("/commands_generated"), first.json_at("/commands_generated"));
    assert_eq!(
        (second.text_at("/status"), second.json_at("/event_id")),
        ("ok".into(), first.json_at("/event_id"))
    );
    assert_eq!(server.read_log(&execution_id).await.len(), length);
    body["payload"]["result"] = json!(2);
    let other = server.post("/api/events", body.clone()).await;
    other.assert_problem(ErrorCode::IdConflict);
    body["event_id"] = json!(i64::MAX);
    let future = server.post("/api/events", body).await;
    future.assert_problem(ErrorCode::OutOfRange);
}

#[tokio::test]
async fn only_claim_holder_may_report() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let claimed = server.claim_command(&event_id, "w1").await;
    let mut body = build_event(&claimed, "call.done", json!({ "result": 1 }));
    body["worker_id"] = json!("w2");
    let stranger = server.post("/api/events", body.clone()).await;
    stranger.assert_problem(ErrorCode::NotLeaseHolder);
    // A report from another worker of the pool may be a mistake, so it is recorded.
    let worker = json!({ "name": "w2", "labels": { "pool_name": "shared" } });
    server.post("/api/worker/pool/register", worker).await;
    let ignored = server.post("/api/events", body.clone()).await;
    assert_eq!(ignored.text_at("/status"), "ignored", "{}", ignored.text);
    let types = server.event_types(&execution_id).await;
    assert_eq!(types.last().map(String::as_str), Some("command.result_ignored"));
    body["meta"] = json!({ "attempts": 7 });
    let impossible = server.post("/api/events", body.clone()).await;
    impossible.assert_problem(ErrorCode::NotLeaseHolder);
    let other_pool = json!({ "name": "w2", "labels": { "pool_name": "other" } });
    server.post("/api/worker/pool/register", other_pool).await;
    body["meta"] = json!({ "attempts": 1 });
    let foreign = server.post("/api/events", body).await;
    foreign.assert_problem(ErrorCode::NotLeaseHolder);
    assert_eq!(server.execution_status(&execution_id).await, "RUNNING");
}

#[tokio::test]
async fn late_result_is_recorded() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let claimed = server.claim_command(&event_id, "w1").await;
    let name = json!({ "name": "w1", "kind": "worker_pool" });
    server.post("/api/worker/pool/register", name.clone()).await;
    let cancel = format!("/api/executions/{execution_id}/stop");
    assert!(is_ok(&server.post(&cancel, json!({})).await));
    let check = format!("/api/executions/{execution_id}/cancellation-check");
    let check = server.get(&check).await;
    assert_eq!(check.json(), json!({ "execution_id": execution_id, "is_cancelled": true }));
    // The next heartbeat asks the worker to stop.
    let heartbeat = server.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(heartbeat.json_at("/cancel"), json!([event_id]));
    let heartbeat = server.post("/api/worker/pool/heartbeat", name).await;
    assert_eq!(heartbeat.json_at("/cancel"), json!([]));
    let late = server.post_event(&claimed, "call.done", json!({ "result": 1 })).await;
    assert_eq!(late.text_at("/status"), "ignored", "{}", late.text);
    let types = server.event_types(&execution_id).await;
    assert_eq!(types.last().map(String::as_str), Some("command.result_ignored"));
    let second = server.claim_command(&event_id, "w1").await;
    second.assert_problem(ErrorCode::AlreadyTerminal);
}

#[tokio::test]
async fn paused_run_refuses_claims() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let pause = format!("/api/executions/{execution_id}/pause");
    assert!(is_ok(&server.post(&pause, json!({})).await));
    let refused = server.claim_command(&event_id, "w1").await;
    refused.assert_problem(ErrorCode::Paused);
    let resume = format!("/api/executions/{execution_id}/resume");
    assert!(is_ok(&server.post(&resume, json!({})).await));
    assert!(is_ok(&server.claim_command(&event_id, "w1").await));
}

#[tokio::test]
async fn rejects_events_reserved_for_server() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let event = |name: &str| json!({ "execution_id": execution_id, "name": name, "worker_id": "w1", "step": "start" });
    for (name, code) in [
        ("playbook.completed", ErrorCode::Forbidden),
        ("step.enter", ErrorCode::Forbidden),
        ("command.claimed", ErrorCode::Forbidden),
        ("order.made", ErrorCode::Forbidden),
        ("Not A Name", ErrorCode::Validation),
        ("call.done", ErrorCode::NotFound),
    ] {
        let reply = server.post("/api/events", event(name)).await;
        reply.assert_problem(code);
    }
    let mut order = event("order.made");
    order["meta"] = json!({ "business_object": { "type": "order", "id": "7" } });
    order["payload"] = json!([1, 2]);
    let accepted = server.post("/api/events", order.clone()).await;
    assert!(is_ok(&accepted), "{}", accepted.text);
    let log = server.read_log(&execution_id).await;
    let last = log.last().unwrap();
    assert_eq!(last["event_type"], "order.made");
    assert_eq!(last["result"]["context"], json!({ "value": [1, 2] }));
    assert_eq!(last["meta"]["business_object"]["id"], "7");
    assert_eq!((&last["worker_id"], &last["status"]), (&json!("w1"), &json!("RUNNING")));
    order["execution_id"] = json!("7000000000000000000");
    let unknown = server.post("/api/events", order).await;
    unknown.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn accepts_event_batches() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let claimed = server.claim_command(&event_id, "w1").await;
    let command_label = claimed.json_at("/meta/command_id");
    let item = |name: &str| {
        json!({ "step": "start", "event_type": name,
            "payload": { "command_id": command_label, "result": 1 } })
    };
    let batch = |names: &[&str]| {
        let events: Vec<Value> = names.iter().map(|name| item(name)).collect();
        json!({ "execution_id": execution_id, "worker_id": "w1", "events": events })
    };
    // One forbidden event rejects the whole batch.
    let before = server.read_log(&execution_id).await.len();
    let refused = batch(&["command.started", "playbook.failed"]);
    let refused = server.post("/api/events/batch", refused).await;
    refused.assert_problem(ErrorCode::Forbidden);
    assert_eq!(server.read_log(&execution_id).await.len(), before);
    let names = ["command.started", "call.done", "command.completed"];
    let accepted = server.post("/api/events/batch", batch(&names)).await;
    assert!(is_ok(&accepted), "{}", accepted.text);
    assert_eq!(accepted.json_at("/event_ids").as_array().unwrap().len(), 3);
    assert_eq!(accepted.json_at("/commands_generated"), 1);
    let types = server.event_types(&execution_id).await;
    let command_events: Vec<&str> = types.iter().map(String::as_str).skip(3).take(4).collect();
    assert_eq!(
        command_events,
        ["command.claimed", "command.started", "call.done", "command.completed"]
    );
}

#[tokio::test]
async fn heartbeats_renew_claims() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let name = json!({ "name": "w1", "kind": "worker_pool" });
    server.post("/api/worker/pool/register", name.clone()).await;
    let event_id = server.newest_pending_command(&execution_id).await;
    let claimed = server.claim_command(&event_id, "w1").await;
    let path = format!("/api/commands?execution_id={execution_id}&worker_id=w1");
    let lease_until = |list: &TestResponse| list.text_at("/commands/0/lease_until");
    let before = lease_until(&server.get(&path).await);
    assert_eq!(before, claimed.text_at("/lease_until"));
    assert!(is_ok(&server.post("/api/worker/pool/heartbeat", name.clone()).await));
    let after = lease_until(&server.get(&path).await);
    assert!(after > before, "{after} after {before}");
    // A deregistered worker releases all its claims.
    let deregister =
        build_request(Method::DELETE, "/api/worker/pool/deregister", Body::from(name.to_string()));
    assert!(is_ok(&server.send(deregister).await));
    let released = lease_until(&server.get(&path).await);
    assert!(released < after, "{released} after {after}");
}

#[tokio::test]
async fn rejects_unknown_commands() {
    let server = start_server().await;
    server.get("/api/commands/x").await.assert_problem(ErrorCode::BadId);
    server.claim_command("0", "w1").await.assert_problem(ErrorCode::BadId);
    server.claim_command("7000000000000000000", "w1").await.assert_problem(ErrorCode::NotFound);
    server.get("/api/commands/7000000000000000000").await.assert_problem(ErrorCode::NotFound);
    server.get("/api/commands?status=LOST").await.assert_problem(ErrorCode::BadQuery);
    server.get("/api/commands?what=1").await.assert_problem(ErrorCode::BadQuery);
}
