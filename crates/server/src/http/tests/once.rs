//! Requests under an `Idempotency-Key`: the same answer, and no effect twice.

use std::pin::pin;
use std::sync::Arc;

use axum::http::{HeaderValue, Method};
use futures_util::poll;
use noetl_api::execute::ExecuteBatch;
use noetl_api::signal::SignalRequest;
use noetl_store::MemoryStore;
use noetl_types::{ErrorCode, EventId, ExecutionId, Scope};
use serde_json::{Value, json};

use super::tokens::token_of;
use super::{House, Reply, TWO_STEPS, closed_house, house, house_on, is_ok, request};

/// A playbook that waits for two signals, one after the other.
const WAITS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: demo/waits }
workflow:
  - step: start
    tool: { kind: wait, signal: go }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: wait, signal: go }
";

impl House {
    async fn keyed(&self, method: Method, path: &str, (key, body): (&str, Value)) -> Reply {
        let mut request = request(method, path, body.to_string());
        let key = HeaderValue::from_str(key).unwrap();
        request.headers_mut().insert("idempotency-key", key);
        self.send(request).await
    }

    async fn events_of(&self, execution_id: &str) -> usize {
        let path = format!("/api/executions/{execution_id}/events?limit=500");
        let events = self.get(&path).await;
        assert!(is_ok(&events), "{}", events.text);
        events.at("/events").as_array().unwrap().len()
    }

    async fn runs(&self) -> i64 {
        let stats = self.get("/api/dashboard/stats").await;
        stats.at("/total_executions").as_i64().unwrap()
    }
}

/// Sends a request twice and something else under its key; gives the answer.
async fn thrice(house: &House, method: Method, path: &str, body: Value) -> Reply {
    let key = format!("key of {path}");
    let first = house
        .keyed(method.clone(), path, (&key, body.clone()))
        .await;
    assert!(is_ok(&first), "{path}: {}", first.text);
    assert_eq!(first.header("idempotency-replayed"), None, "{path}");
    let again = house.keyed(method.clone(), path, (&key, body)).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"), "{path}");
    assert_eq!(again.header("content-type"), Some("application/json"));
    assert_eq!((again.status, &again.text), (200, &first.text), "{path}");
    let other = json!({ "path": "demo/two", "payload": { "something": "else" } });
    let other = house.keyed(method, path, (&key, other)).await;
    other.is_problem(ErrorCode::IdempotencyMismatch);
    first
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_answered_alike_and_does_nothing() {
    let house = house().await;
    let content = json!({ "content": TWO_STEPS });
    thrice(&house, Method::POST, "/api/catalog/register", content).await;
    let run = thrice(
        &house,
        Method::POST,
        "/api/execute",
        json!({ "path": "demo/two" }),
    )
    .await;
    assert_eq!(run.at("/commands_generated"), 1, "{}", run.text);
    let run = run.text_at("/execution_id");
    let batch = json!({ "executions": [{ "path": "demo/two" }, { "path": "demo/two" }] });
    thrice(&house, Method::POST, "/api/execute/batch", batch).await;
    assert_eq!(house.runs().await, 3);

    let of = |what: &str| format!("/api/executions/{run}/{what}");
    thrice(&house, Method::POST, &of("rerun"), json!({})).await;
    assert_eq!(house.runs().await, 4);
    let before = house.events_of(&run).await;
    let signal = json!({ "name": "go", "payload": 1 });
    thrice(&house, Method::POST, &of("signal"), signal.clone()).await;
    assert_eq!(house.events_of(&run).await, before + 1);
    thrice(&house, Method::POST, &of("pause"), json!({ "reason": "r" })).await;
    thrice(&house, Method::POST, &of("resume"), json!({})).await;
    assert_eq!(house.events_of(&run).await, before + 3);
    thrice(&house, Method::POST, &of("cancel"), json!({})).await;
    thrice(&house, Method::POST, "/api/signals", signal).await;
    let vars = format!("/api/vars/{run}");
    thrice(&house, Method::POST, &vars, json!({ "a": 1, "b": 2 })).await;
    // It was there when the request came first.
    let one = format!("{vars}/a");
    thrice(&house, Method::DELETE, &one, Value::Null).await;
    let worker = json!({ "name": "w1" });
    thrice(&house, Method::POST, "/api/worker/pool/register", worker).await;
}

#[tokio::test]
async fn a_key_belongs_to_a_route_and_a_request_may_be_written_in_many_ways() {
    let house = house().await;
    let (first, second) = (house.started().await, house.started().await);
    let signal = |run: &str| format!("/api/executions/{run}/signal");
    let send = async |path: String, body: &'static str| {
        let mut request = request(Method::POST, &path, body);
        let key = HeaderValue::from_static("k");
        request.headers_mut().insert("idempotency-key", key);
        house.send(request).await
    };
    let sent = send(signal(&first), r#"{"name":"go","payload":1}"#).await;
    assert!(is_ok(&sent), "{}", sent.text);
    let spaced = send(signal(&first), r#"{ "payload": 1, "name": "go" }"#).await;
    assert_eq!(spaced.text, sent.text);
    let elsewhere = signal(&first).replace("/api/", "/noetl/");
    let elsewhere = send(elsewhere, r#"{"name":"go","payload":1}"#).await;
    assert_eq!(elsewhere.header("idempotency-replayed"), Some("true"));
    // The same to another run is something else.
    send(signal(&second), r#"{"name":"go","payload":1}"#)
        .await
        .is_problem(ErrorCode::IdempotencyMismatch);
    let paused = send(format!("/api/executions/{second}/pause"), "{}").await;
    assert_eq!(paused.header("idempotency-replayed"), None);
    assert!(is_ok(&paused), "{}", paused.text);
}

#[tokio::test]
async fn what_was_refused_leaves_its_key_free() {
    let house = house().await;
    let run = house.started().await;
    let path = format!("/api/executions/{run}/signal");
    let refused = house
        .keyed(Method::POST, &path, ("k", json!({ "nome": "go" })))
        .await;
    refused.is_problem(ErrorCode::Validation);
    let sent = house
        .keyed(Method::POST, &path, ("k", json!({ "name": "go" })))
        .await;
    assert!(is_ok(&sent), "{}", sent.text);
    for key in ["", "k\u{e4}", &"k".repeat(256)] {
        house
            .keyed(Method::POST, &path, (key, json!({ "name": "go" })))
            .await
            .is_problem(ErrorCode::Validation);
    }
}

#[tokio::test]
async fn while_the_first_is_under_way_a_second_one_comes_back_later() {
    let house = house().await;
    let wanted = json!({ "worker_id": "w", "pool": "shared", "wait_ms": 30_000 });
    let lease = || {
        let asked = ("k", wanted.clone());
        house.keyed(Method::POST, "/api/commands/lease", asked)
    };
    let mut first = pin!(lease());
    assert!(poll!(first.as_mut()).is_pending());
    lease().await.is_problem(ErrorCode::InFlight);
    house.shutdown.cancel();
    let first = first.await;
    assert!(is_ok(&first), "{}", first.text);
    let again = lease().await;
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn another_server_on_the_same_store_knows_the_answer() {
    let store = Arc::new(MemoryStore::new());
    let house = house_on(Arc::clone(&store) as _).await;
    let run = house.started().await;
    let path = format!("/api/executions/{run}/signal");
    let send = async |house: &House| {
        let asked = ("k", json!({ "name": "go" }));
        house.keyed(Method::POST, &path, asked).await
    };
    let first = send(&house).await;
    let events = house.events_of(&run).await;
    drop(house);
    let house = house_on(store).await;
    let again = send(&house).await;
    assert_eq!((again.status, &again.text), (200, &first.text));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(house.events_of(&run).await, events);
}

#[tokio::test]
async fn who_leaves_in_between_does_not_leave_it_half_done() {
    let house = house().await;
    let run = house.started().await;
    let path = format!("/api/executions/{run}/signal");
    let send = || house.keyed(Method::POST, &path, ("k", json!({ "name": "go" })));
    let before = house.events_of(&run).await;
    {
        let mut first = pin!(send());
        // Whoever asks goes away at once.
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
    assert_eq!(house.events_of(&run).await, before + 1);
}

#[tokio::test]
async fn what_follows_from_taken_work_happens_once_however_often_it_is_tried() {
    let house = house().await;
    let run = house.started_with(WAITS, "demo/waits").await;
    // A request has one of these.
    let working_on = |number| {
        let work = EventId::new(number).unwrap();
        house.runtime.clone().working_on(Some(work))
    };
    let runtime = working_on(77);
    let id: ExecutionId = run.parse().unwrap();
    let named = |name: &str| SignalRequest {
        name: name.into(),
        key: None,
        payload: None,
    };
    let before = house.events_of(&run).await;
    for _ in 0..2 {
        runtime.signal(id, None, named("other")).await.unwrap();
    }
    assert_eq!(house.events_of(&run).await, before + 1);

    // The broadcast reaches the first wait; sent again it is not taken for another by the second.
    let runtime = working_on(78);
    let sent = runtime.broadcast(None, named("go")).await.unwrap();
    assert_eq!(sent.delivered, [id]);
    let again = runtime.broadcast(None, named("go")).await.unwrap();
    assert_eq!(
        (again.signal_id, again.delivered.len()),
        (sent.signal_id, 0)
    );

    let one = noetl_types::Json::object([("path", "demo/waits".into())]);
    let runs = house.runs().await;
    let batch = || ExecuteBatch {
        executions: vec![one.clone(), one.clone()],
    };
    let runtime = working_on(79);
    let first = runtime.execute_batch(batch()).await.unwrap();
    let again = runtime.execute_batch(batch()).await.unwrap();
    assert_eq!(first.results, again.results);
    assert_eq!(house.runs().await, runs + 2);
}

#[tokio::test]
async fn a_secret_is_shown_once_even_under_a_key() {
    let house = closed_house().await;
    let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let make = async || {
        let body = json!({ "name": "t", "scopes": ["exec:read"] }).to_string();
        let mut request = request(Method::POST, "/api/tokens", body);
        let headers = request.headers_mut();
        headers.insert("idempotency-key", HeaderValue::from_static("k"));
        let bearer = HeaderValue::from_str(&format!("Bearer {admin}")).unwrap();
        headers.insert("authorization", bearer);
        house.send(request).await
    };
    let (first, again) = (make().await, make().await);
    assert!(first.text_at("/token").starts_with("noetl_"));
    assert_eq!(again.text_at("/token"), "[REDACTED]");
    assert_eq!(again.at("/id"), first.at("/id"));
}
