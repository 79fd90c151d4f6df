//! A classic worker over the wire: it hears of a command by the id of an event, claims it, and tells
//! what happens event by event.

use axum::body::Body;
use axum::http::Method;
use noetl_types::ErrorCode;
use serde_json::{Value, json};

use super::{House, Reply, house, is_ok, request};

/// A step whose policy makes a task again, and one that reads what the first one wrote.
const RETRIED: &str = r#"apiVersion: noetl.io/v2
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

impl House {
    /// The newest command that waits, by the id of its event.
    async fn waiting(&self, execution_id: &str) -> String {
        let path = format!("/api/commands?execution_id={execution_id}&status=PENDING");
        let list = self.get(&path).await;
        assert!(is_ok(&list), "{}", list.text);
        list.text_at("/commands/0/command_id")
    }

    async fn claim(&self, event_id: &str, worker: &str) -> Reply {
        let path = format!("/api/commands/{event_id}/claim");
        self.post(&path, json!({ "worker_id": worker })).await
    }

    async fn tell(&self, claimed: &Reply, event_type: &str, payload: Value) -> Reply {
        let body = told(claimed, event_type, payload);
        self.post("/api/events", body).await
    }

    /// The newest command that waits, claimed by `w1`: its label.
    pub(super) async fn claimed(&self, execution_id: &str) -> Value {
        let event_id = self.waiting(execution_id).await;
        let claimed = self.claim(&event_id, "w1").await;
        assert!(is_ok(&claimed), "{}", claimed.text);
        claimed.at("/meta/command_id")
    }

    pub(super) async fn log(&self, execution_id: &str) -> Vec<Value> {
        let path = format!("/api/executions/{execution_id}/events?limit=500");
        let log = self.get(&path).await;
        log.at("/events").as_array().unwrap().clone()
    }

    pub(super) async fn words(&self, execution_id: &str) -> Vec<String> {
        let log = self.log(execution_id).await;
        let words = log.iter().map(|event| event["event_type"].as_str());
        words.map(|word| word.unwrap().to_owned()).collect()
    }

    pub(super) async fn status(&self, execution_id: &str) -> String {
        let path = format!("/api/executions/{execution_id}/status");
        self.get(&path).await.text_at("/status")
    }
}

/// What a worker `w1` tells of a command that it claimed.
fn told(claimed: &Reply, event_type: &str, payload: Value) -> Value {
    let mut payload = payload;
    payload["command_id"] = claimed.at("/meta/command_id");
    json!({
        "execution_id": claimed.at("/execution_id"),
        "step": claimed.at("/node_name"),
        "name": event_type,
        "payload": payload,
        "worker_id": "w1",
        "meta": { "attempts": claimed.at("/meta/attempts") },
    })
}

#[tokio::test]
async fn a_run_is_driven_by_a_classic_worker() {
    let house = house().await;
    let execution_id = house.started_with(RETRIED, "demo/again").await;
    let event_id = house.waiting(&execution_id).await;

    let shown = house.get(&format!("/api/commands/{event_id}")).await;
    assert!(is_ok(&shown), "{}", shown.text);
    assert!(shown.at("/execution_id").is_i64());
    let claimed = house.claim(&event_id, "w1").await;
    assert!(is_ok(&claimed), "{}", claimed.text);
    assert_eq!(claimed.text_at("/status"), "ok");
    assert_eq!(claimed.at("/event_id").to_string(), event_id);
    assert_eq!(claimed.text_at("/action"), "http");
    assert_eq!(
        claimed.text_at("/context/tool_config/url"),
        "http://example.org/{{ city }}"
    );
    assert_eq!(claimed.text_at("/context/args/from"), "{{ city }}");
    assert_eq!(claimed.text_at("/context/render_context/city"), "Berlin");
    assert_eq!(
        (claimed.at("/attempt"), claimed.at("/meta/attempts")),
        (json!(1), json!(1))
    );
    // The same worker again has the same attempt; another one has nothing.
    let again = house.claim(&event_id, "w1").await;
    assert_eq!((again.status, again.at("/attempt")), (200, json!(1)));
    assert_eq!(again.at("/lease_token"), claimed.at("/lease_token"));
    let second = house.claim(&event_id, "w2").await;
    second.is_problem(ErrorCode::ActiveClaim);

    let started = house.tell(&claimed, "command_started", json!({})).await;
    assert_eq!(started.text_at("/status"), "ok", "{}", started.text);
    let result = json!({ "result": { "rows": ["a", "b"] } });
    let done = house.tell(&claimed, "call.done", result.clone()).await;
    assert_eq!(done.text_at("/status"), "ok", "{}", done.text);
    assert_eq!(done.at("/commands_generated"), 1);
    assert!(done.at("/event_id").is_i64() && done.at("/seq").is_i64());
    // What goes with it changes nothing, and is no late result.
    for word in ["step.exit", "command.completed"] {
        let reply = house.tell(&claimed, word, result.clone()).await;
        assert_eq!(reply.text_at("/status"), "ok", "{word}: {}", reply.text);
        assert_eq!(reply.at("/commands_generated"), 0);
    }
    for item in ["a", "b"] {
        let event_id = house.waiting(&execution_id).await;
        let claimed = house.claim(&event_id, "w1").await;
        assert_eq!(claimed.text_at("/context/render_context/row"), item);
        assert_eq!(claimed.text_at("/meta/item_var"), "row");
        assert_eq!(claimed.at("/meta/iteration_total"), 2);
        let exit = house
            .tell(&claimed, "step_exit", json!({ "result": item }))
            .await;
        assert_eq!(exit.text_at("/status"), "ok", "{}", exit.text);
    }
    assert_eq!(house.status(&execution_id).await, "COMPLETED");
    let words = house.words(&execution_id).await;
    assert!(
        !words.contains(&"command.result_ignored".to_owned()),
        "{words:?}"
    );
    let log = house.log(&execution_id).await;
    let exits = log
        .iter()
        .filter(|event| event["event_type"] == "call.done");
    let as_sent: Vec<&Value> = exits
        .map(|event| &event["meta"]["event_type_as_sent"])
        .collect();
    assert_eq!(
        as_sent,
        [&Value::Null, &json!("step_exit"), &json!("step_exit")]
    );
    let late = house.claim(&event_id, "w1").await;
    late.is_problem(ErrorCode::AlreadyTerminal);
}

/// The policy of a task is followed by the server: the same command is offered again.
#[tokio::test]
async fn a_task_is_made_again_as_its_policy_says() {
    let house = house().await;
    let execution_id = house.started_with(RETRIED, "demo/again").await;
    let event_id = house.waiting(&execution_id).await;
    let slow = json!({ "error": { "kind": "timeout", "message": "slow" } });
    for attempt in 1..=2 {
        let claimed = house.claim(&event_id, "w1").await;
        assert_eq!(claimed.at("/attempt"), attempt, "{}", claimed.text);
        let failed = house.tell(&claimed, "call.error", slow.clone()).await;
        assert_eq!(failed.text_at("/status"), "ok", "{}", failed.text);
        assert_eq!(house.status(&execution_id).await, "RUNNING");
        assert_eq!(house.waiting(&execution_id).await, event_id);
    }
    let claimed = house.claim(&event_id, "w1").await;
    house.tell(&claimed, "call.error", slow).await;
    assert_eq!(house.status(&execution_id).await, "FAILED");
    let log = house.log(&execution_id).await;
    let errors = log
        .iter()
        .filter(|event| event["event_type"] == "call.error");
    let finals: Vec<&Value> = errors.map(|event| &event["meta"]["final"]).collect();
    assert_eq!(finals, [&json!(false), &json!(false), &json!(true)]);
}

#[tokio::test]
async fn the_same_event_twice_is_one_event() {
    let house = house().await;
    let execution_id = house.started().await;
    let event_id = house.waiting(&execution_id).await;
    let claimed = house.claim(&event_id, "w1").await;
    let mut body = told(&claimed, "call.done", json!({ "result": 1 }));
    body["event_id"] = json!(4_200_000_000_i64);
    let first = house.post("/api/events", body.clone()).await;
    assert_eq!(first.at("/event_id"), 4_200_000_000_i64, "{}", first.text);
    let length = house.log(&execution_id).await.len();
    let second = house.post("/api/events", body.clone()).await;
    assert_eq!(
        second.at("/commands_generated"),
        first.at("/commands_generated")
    );
    assert_eq!(
        (second.text_at("/status"), second.at("/event_id")),
        ("ok".into(), first.at("/event_id"))
    );
    assert_eq!(house.log(&execution_id).await.len(), length);
    body["payload"]["result"] = json!(2);
    let other = house.post("/api/events", body.clone()).await;
    other.is_problem(ErrorCode::IdConflict);
    body["event_id"] = json!(i64::MAX);
    let future = house.post("/api/events", body).await;
    future.is_problem(ErrorCode::OutOfRange);
}

#[tokio::test]
async fn only_the_holder_is_heard() {
    let house = house().await;
    let execution_id = house.started().await;
    let event_id = house.waiting(&execution_id).await;
    let claimed = house.claim(&event_id, "w1").await;
    let mut body = told(&claimed, "call.done", json!({ "result": 1 }));
    body["worker_id"] = json!("w2");
    let stranger = house.post("/api/events", body.clone()).await;
    stranger.is_problem(ErrorCode::NotLeaseHolder);
    // One of the same pool may have been mistaken: that is noted.
    let worker = json!({ "name": "w2", "labels": { "pool_name": "shared" } });
    house.post("/api/worker/pool/register", worker).await;
    let ignored = house.post("/api/events", body.clone()).await;
    assert_eq!(ignored.text_at("/status"), "ignored", "{}", ignored.text);
    let words = house.words(&execution_id).await;
    assert_eq!(
        words.last().map(String::as_str),
        Some("command.result_ignored")
    );
    body["meta"] = json!({ "attempts": 7 });
    let impossible = house.post("/api/events", body.clone()).await;
    impossible.is_problem(ErrorCode::NotLeaseHolder);
    let of_another = json!({ "name": "w2", "labels": { "pool_name": "other" } });
    house.post("/api/worker/pool/register", of_another).await;
    body["meta"] = json!({ "attempts": 1 });
    let foreign = house.post("/api/events", body).await;
    foreign.is_problem(ErrorCode::NotLeaseHolder);
    assert_eq!(house.status(&execution_id).await, "RUNNING");
}

#[tokio::test]
async fn a_result_after_the_end_is_noted() {
    let house = house().await;
    let execution_id = house.started().await;
    let event_id = house.waiting(&execution_id).await;
    let claimed = house.claim(&event_id, "w1").await;
    let name = json!({ "name": "w1", "kind": "worker_pool" });
    house.post("/api/worker/pool/register", name.clone()).await;
    let cancel = format!("/api/executions/{execution_id}/stop");
    assert!(is_ok(&house.post(&cancel, json!({})).await));
    let check = format!("/api/executions/{execution_id}/cancellation-check");
    let check = house.get(&check).await;
    assert_eq!(
        check.json(),
        json!({ "execution_id": execution_id, "is_cancelled": true })
    );
    // The next sign of life tells the worker to stop.
    let alive = house.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(alive.at("/cancel"), json!([event_id]));
    let alive = house.post("/api/worker/pool/heartbeat", name).await;
    assert_eq!(alive.at("/cancel"), json!([]));
    let late = house
        .tell(&claimed, "call.done", json!({ "result": 1 }))
        .await;
    assert_eq!(late.text_at("/status"), "ignored", "{}", late.text);
    let words = house.words(&execution_id).await;
    assert_eq!(
        words.last().map(String::as_str),
        Some("command.result_ignored")
    );
    let second = house.claim(&event_id, "w1").await;
    second.is_problem(ErrorCode::AlreadyTerminal);
}

#[tokio::test]
async fn a_paused_run_hands_nothing_out() {
    let house = house().await;
    let execution_id = house.started().await;
    let event_id = house.waiting(&execution_id).await;
    let pause = format!("/api/executions/{execution_id}/pause");
    assert!(is_ok(&house.post(&pause, json!({})).await));
    let refused = house.claim(&event_id, "w1").await;
    refused.is_problem(ErrorCode::Paused);
    let resume = format!("/api/executions/{execution_id}/resume");
    assert!(is_ok(&house.post(&resume, json!({})).await));
    assert!(is_ok(&house.claim(&event_id, "w1").await));
}

#[tokio::test]
async fn workers_say_only_what_is_theirs_to_say() {
    let house = house().await;
    let execution_id = house.started().await;
    let event = |name: &str| json!({ "execution_id": execution_id, "name": name, "worker_id": "w1", "step": "start" });
    for (name, code) in [
        ("playbook.completed", ErrorCode::Forbidden),
        ("step.enter", ErrorCode::Forbidden),
        ("command.claimed", ErrorCode::Forbidden),
        ("order.made", ErrorCode::Forbidden),
        ("Not A Name", ErrorCode::Validation),
        ("call.done", ErrorCode::NotFound),
    ] {
        let reply = house.post("/api/events", event(name)).await;
        reply.is_problem(code);
    }
    let mut order = event("order.made");
    order["meta"] = json!({ "business_object": { "type": "order", "id": "7" } });
    order["payload"] = json!([1, 2]);
    let taken = house.post("/api/events", order.clone()).await;
    assert!(is_ok(&taken), "{}", taken.text);
    let log = house.log(&execution_id).await;
    let last = log.last().unwrap();
    assert_eq!(last["event_type"], "order.made");
    assert_eq!(last["result"]["context"], json!({ "value": [1, 2] }));
    assert_eq!(last["meta"]["business_object"]["id"], "7");
    assert_eq!(
        (&last["worker_id"], &last["status"]),
        (&json!("w1"), &json!("RUNNING"))
    );
    order["execution_id"] = json!("7000000000000000000");
    let nowhere = house.post("/api/events", order).await;
    nowhere.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn events_come_in_batches() {
    let house = house().await;
    let execution_id = house.started().await;
    let event_id = house.waiting(&execution_id).await;
    let claimed = house.claim(&event_id, "w1").await;
    let label = claimed.at("/meta/command_id");
    let item = |name: &str| {
        json!({ "step": "start", "event_type": name,
            "payload": { "command_id": label, "result": 1 } })
    };
    let batch = |names: &[&str]| {
        let events: Vec<Value> = names.iter().map(|name| item(name)).collect();
        json!({ "execution_id": execution_id, "worker_id": "w1", "events": events })
    };
    // One that may not be told refuses all of them.
    let before = house.log(&execution_id).await.len();
    let refused = batch(&["command.started", "playbook.failed"]);
    let refused = house.post("/api/events/batch", refused).await;
    refused.is_problem(ErrorCode::Forbidden);
    assert_eq!(house.log(&execution_id).await.len(), before);
    let names = ["command.started", "call.done", "command.completed"];
    let taken = house.post("/api/events/batch", batch(&names)).await;
    assert!(is_ok(&taken), "{}", taken.text);
    assert_eq!(taken.at("/event_ids").as_array().unwrap().len(), 3);
    assert_eq!(taken.at("/commands_generated"), 1);
    let words = house.words(&execution_id).await;
    let of_command: Vec<&str> = words.iter().map(String::as_str).skip(3).take(4).collect();
    assert_eq!(
        of_command,
        [
            "command.claimed",
            "command.started",
            "call.done",
            "command.completed"
        ]
    );
}

#[tokio::test]
async fn a_claim_lasts_while_its_worker_lives() {
    let house = house().await;
    let execution_id = house.started().await;
    let name = json!({ "name": "w1", "kind": "worker_pool" });
    house.post("/api/worker/pool/register", name.clone()).await;
    let event_id = house.waiting(&execution_id).await;
    let claimed = house.claim(&event_id, "w1").await;
    let path = format!("/api/commands?execution_id={execution_id}&worker_id=w1");
    let until = |list: &Reply| list.text_at("/commands/0/lease_until");
    let before = until(&house.get(&path).await);
    assert_eq!(before, claimed.text_at("/lease_until"));
    assert!(is_ok(
        &house.post("/api/worker/pool/heartbeat", name.clone()).await
    ));
    let after = until(&house.get(&path).await);
    assert!(after > before, "{after} after {before}");
    // Who leaves gives all up.
    let gone = request(
        Method::DELETE,
        "/api/worker/pool/deregister",
        Body::from(name.to_string()),
    );
    assert!(is_ok(&house.send(gone).await));
    let left = until(&house.get(&path).await);
    assert!(left < after, "{left} after {after}");
}

#[tokio::test]
async fn what_names_no_command_is_refused() {
    let house = house().await;
    house
        .get("/api/commands/x")
        .await
        .is_problem(ErrorCode::BadId);
    house.claim("0", "w1").await.is_problem(ErrorCode::BadId);
    house
        .claim("7000000000000000000", "w1")
        .await
        .is_problem(ErrorCode::NotFound);
    house
        .get("/api/commands/7000000000000000000")
        .await
        .is_problem(ErrorCode::NotFound);
    house
        .get("/api/commands?status=LOST")
        .await
        .is_problem(ErrorCode::BadQuery);
    house
        .get("/api/commands?what=1")
        .await
        .is_problem(ErrorCode::BadQuery);
}
