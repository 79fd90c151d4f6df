//! Why a run waits, or how it came to its end.

use axum::http::Method;
use noetl_types::{ErrorCode, Scope, Timestamp};
use serde_json::{Value, json};

use super::tokens::token_of;
use super::{House, closed_house, completed, house, is_ok};

/// A playbook whose steps come to stand still in different ways.
const WAITS: &str = "apiVersion: noetl.io/v2
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

const FAILS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: demo/fails }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: bad }] }
  - step: bad
    tool: { kind: noop }
";

impl House {
    async fn explained(&self, execution_id: &str) -> Value {
        let reply = self
            .get(&format!("/api/executions/{execution_id}/explain"))
            .await;
        assert!(is_ok(&reply), "{}", reply.text);
        reply.json()
    }
}

/// Kind, step, count and words of each thing that is waited for.
fn told(explained: &Value) -> Vec<String> {
    let waits = explained["waiting_on"].as_array().unwrap().iter();
    waits
        .map(|waits| {
            let text = |key: &str| waits[key].as_str().unwrap_or("-").to_owned();
            let (kind, step, detail) = (text("kind"), text("step"), text("detail"));
            format!("{kind} {step} {}: {detail}", waits["count"])
        })
        .collect()
}

#[tokio::test]
async fn a_run_without_a_worker_says_so() {
    let house = house().await;
    let id = house.started().await;
    let explained = house.explained(&id).await;
    assert_eq!(explained["status"], "RUNNING");
    assert_eq!(
        told(&explained),
        ["pool start 1: waits for a worker of pool `shared`, which has none"]
    );
    assert_eq!(
        explained["summary"],
        "step `start` waits for a worker of pool `shared`, which has none"
    );
    let worker = json!({ "name": "w1", "capacity": 4, "labels": { "pool_name": "shared" } });
    house.post("/api/worker/pool/register", worker).await;
    assert_eq!(
        told(&house.explained(&id).await),
        ["pool start 1: waits for a worker of pool `shared`, which has 1"]
    );
    house.leased().await;
    let explained = house.explained(&id).await;
    assert_eq!(told(&explained), ["lease start 1: is at work"]);
    assert_eq!(explained["waiting_on"][0]["holders"], json!(["w1"]));
    assert!(explained["waiting_on"][0]["until"].is_string());
}

/// What a worker says of a command in the middle of its work: it began, and these attempts of its
/// task failed and are made again.
fn at_work(command: &Value, retries: &[(u32, u64)], before: u32) -> Value {
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

/// A worker waits out the delay before the next attempt by itself, and people want to know.
#[tokio::test]
async fn a_task_that_waits_for_its_next_attempt_says_until_when() {
    const HOUR: u64 = 3_600_000;
    let house = house().await;
    let id = house.started().await;
    let command = house.leased().await;
    let say = async |retries: &[(u32, u64)], before| {
        let said = at_work(&command, retries, before);
        let heard = house.post("/api/commands/report", said).await;
        assert_eq!(heard.text_at("/results/0/status"), "accepted");
    };
    say(&[], 0).await;
    assert_eq!(
        told(&house.explained(&id).await),
        ["lease start 1: is at work"]
    );
    // What is said twice happened once.
    for _ in 0..2 {
        say(&[(1, HOUR)], 0).await;
        let explained = house.explained(&id).await;
        let waits = &explained["waiting_on"][0];
        assert_eq!(
            told(&explained),
            ["retry start 1: failed and waits for attempt 2"]
        );
        assert_eq!(
            explained["summary"],
            "step `start` failed and waits for attempt 2"
        );
        assert_eq!(waits["holders"], json!(["w1"]));
        let time = |key: &str| Timestamp::parse(waits[key].as_str().unwrap()).unwrap();
        let delay = time("until").since(time("since"));
        assert_eq!(delay.as_ms(), HOUR);
    }
    // The next attempt has begun and failed, and the one after it is under way.
    say(&[(2, 0)], 1).await;
    assert_eq!(
        told(&house.explained(&id).await),
        ["lease start 1: is at work, after 2 failed attempts"]
    );
    let mut report = completed(&command, &json!({ "ok": true }));
    report["reports"][0]["retries_before"] = json!(2);
    let done = house.post("/api/commands/report", report).await;
    assert_eq!(done.text_at("/results/0/status"), "accepted");

    let path = format!("/api/executions/{id}/events?step=start&limit=100");
    let events = house.get(&path).await.json();
    let types = events["events"].as_array().unwrap().iter();
    let types: Vec<_> = types
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "step.enter",
            "command.issued",
            "command.claimed",
            "command.started",
            "call.error",
            "call.error",
            "call.done",
            "command.completed",
            "ctx.updated",
            "step.exit"
        ]
    );
    // Who is late with what it says is not heard, and it does no harm.
    let late = at_work(&command, &[(1, HOUR)], 0);
    let late = house.post("/api/commands/report", late).await;
    assert_eq!(late.text_at("/results/0/status"), "duplicate");
}

#[tokio::test]
async fn each_thing_that_is_waited_for_is_told_once() {
    let house = house().await;
    let id = house.started_with(WAITS, "demo/waits").await;
    let command = house.leased().await;
    house.finish(&command, json!({})).await;
    let explained = house.explained(&id).await;
    let nap = explained["waiting_on"][3]["until"].as_str().unwrap();
    assert_eq!(
        told(&explained),
        [
            "pool work 3: waits for a worker of pool `shared`, which has none".to_owned(),
            "approval ask 1: waits for approval: Ship it?".to_owned(),
            "signal call 1: waits for signal `go` with key `k1`".to_owned(),
            format!("timer nap 1: sleeps until {nap}"),
        ]
    );
    assert_eq!(explained["waiting_on"][1]["holders"], json!(["ada"]));

    let signal = json!({ "name": "go", "key": "k1" });
    let sent = house
        .post(&format!("/api/executions/{id}/signal"), signal)
        .await;
    assert!(is_ok(&sent), "{}", sent.text);
    let explained = house.explained(&id).await;
    let last = told(&explained).pop().unwrap();
    assert_eq!(
        last,
        "join both 1: waits for `ask`, `work`, which may still lead to it"
    );

    let one = house
        .get(&format!("/api/executions/{id}/explain?step=ask"))
        .await;
    assert_eq!(told(&one.json()).len(), 1);
    let none = house
        .get(&format!("/api/executions/{id}/explain?step=nope"))
        .await;
    none.is_problem(ErrorCode::NotFound);

    house
        .post(&format!("/api/executions/{id}/pause"), json!({}))
        .await;
    let explained = house.explained(&id).await;
    assert_eq!(explained["status"], "PAUSED");
    assert_eq!(
        explained["summary"],
        "the run is paused: nothing is handed out until it is resumed; 3 things more are waited for"
    );
}

#[tokio::test]
async fn a_failure_has_its_place_and_its_causes() {
    let house = house().await;
    let id = house.started_with(FAILS, "demo/fails").await;
    let first = house.leased().await;
    house.finish(&first, json!({})).await;
    let second = house.leased().await;
    let report = json!({
        "execution_id": second["execution_id"],
        "command_id": second["command_id"],
        "attempt": second["attempt"],
        "lease_token": second["lease_token"],
        "status": "failed",
        "error": { "kind": "transform", "message": "boom", "retryable": false },
    });
    let body = json!({ "worker_id": "w1", "reports": [report] });
    let reported = house.post("/api/commands/report", body).await;
    assert!(is_ok(&reported), "{}", reported.text);
    let explained = house.explained(&id).await;
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
async fn a_run_that_ended_well_waits_for_nothing() {
    let house = house().await;
    let id = house.finished().await;
    let explained = house.explained(&id).await;
    assert_eq!(explained["waiting_on"], json!([]));
    let summary = explained["summary"].as_str().unwrap();
    assert!(summary.starts_with("it completed after "), "{summary}");
    let nobody = house
        .get("/api/executions/7000000000000000000/explain")
        .await;
    nobody.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn a_worker_that_is_asked_to_leave_hears_of_it() {
    let house = house().await;
    let name = json!({ "name": "w1" });
    let asked = house.post("/api/worker/pool/drain", name.clone()).await;
    asked.is_problem(ErrorCode::NotFound);
    let worker = json!({ "name": "w1", "capacity": 4, "labels": { "pool_name": "shared" } });
    house
        .post("/api/worker/pool/register", worker.clone())
        .await;
    let alive = house.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(alive.at("/drain"), false);
    let asked = house.post("/api/worker/pool/drain", name.clone()).await;
    assert_eq!(asked.text_at("/status"), "draining");
    assert_eq!(asked.at("/capacity"), 4);
    let alive = house.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(alive.at("/drain"), true);
    let pools = house.get("/api/worker/pools").await;
    assert_eq!(pools.text_at("/items/0/status"), "draining");
    let again = house.post("/api/worker/pool/register", worker).await;
    assert_eq!(again.text_at("/status"), "active");
}

#[tokio::test]
async fn a_run_is_explained_as_it_was() {
    let house = house().await;
    let run = house.started().await;
    let began = house.explained(&run).await;
    let last = began["cause"][0]["seq"].as_i64().unwrap();
    house.work().await;
    let now = house.explained(&run).await;
    assert_eq!(now["status"], "COMPLETED");
    let path = format!("/api/executions/{run}/explain?at={last}");
    let then = house.get(&path).await;
    assert!(is_ok(&then), "{}", then.text);
    assert_eq!(then.at("/status"), "RUNNING");
    assert_eq!(
        told(&then.json()),
        ["command start 1: was issued and not done yet"]
    );
    assert_eq!(then.at("/cause"), began["cause"]);
    // By time: before everything there was nothing to wait for.
    let path = format!("/api/executions/{run}/explain?at=2020-01-01T00:00:00Z");
    let before = house.get(&path).await;
    assert_eq!(before.at("/waiting_on"), json!([]), "{}", before.text);
    let later = format!("/api/executions/{run}/explain?at=2999-01-01T00:00:00Z");
    assert_eq!(house.get(&later).await.json(), now);
    for wrong in ["0", "-1", "soon"] {
        let path = format!("/api/executions/{run}/explain?at={wrong}");
        house.get(&path).await.is_problem(ErrorCode::BadQuery);
    }
}

const LIMITED: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: limited, path: demo/limited }
concurrency: { key: one }
workflow:
  - step: hold
    tool: { kind: wait, signal: go }
";

#[tokio::test]
async fn who_waits_for_a_slot_is_told_who_has_it() {
    let house = house().await;
    let first = house.started_with(LIMITED, "demo/limited").await;
    let holds = async {
        while !told(&house.explained(&first).await)[0].starts_with("signal hold") {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_mins(1);
    tokio::time::timeout(patience, holds).await.unwrap();
    let body = json!({ "path": "demo/limited" });
    let second = house.post("/api/execute", body).await;
    let second = second.text_at("/execution_id");
    let explained = house.explained(&second).await;
    assert_eq!(
        told(&explained),
        ["limit - 1: the run waits for one of 1 slots of `one`"]
    );
    assert_eq!(explained["waiting_on"][0]["holders"], json!([first]));
}

#[tokio::test]
async fn a_pool_has_the_workers_of_its_tenant() {
    let house = closed_house().await;
    let mut runs = Vec::new();
    for tenant in ["default", "acme"] {
        let token = token_of(&house.runtime, tenant, &[Scope::Admin]).await;
        let post = |path: &'static str, body: Value| house.call(&token, Method::POST, path, body);
        post("/api/catalog/register", json!({ "content": FAILS })).await;
        let started = post("/api/execute", json!({ "path": "demo/fails" })).await;
        runs.push((token.clone(), started.text_at("/execution_id")));
    }
    let words = async |place: usize| {
        let (token, run) = &runs[place];
        let path = format!("/api/executions/{run}/explain");
        let reply = house.call(token, Method::GET, &path, json!({})).await;
        told(&reply.json()).remove(0)
    };
    let has = |what: &str| format!("pool start 1: waits for a worker of pool `shared`, {what}");
    for (place, other) in [(1, "which has none"), (0, "which has 1")] {
        let worker = json!({ "name": "w", "labels": { "pool_name": "shared" } });
        let registered = house.call(
            &runs[place].0,
            Method::POST,
            "/api/worker/pool/register",
            worker,
        );
        assert!(is_ok(&registered.await));
        assert_eq!(words(place).await, has("which has 1"));
        // What others have is nobody's business, and helps nobody.
        assert_eq!(words(1 - place).await, has(other));
    }
}
