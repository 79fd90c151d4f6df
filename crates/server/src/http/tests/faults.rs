//! What a client is told when something breaks below: never what broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noetl_store::faulty::{Fault, FaultyStore, Method};
use noetl_store::{MemoryStore, Store};
use noetl_types::ErrorCode;
use serde_json::json;

use super::tokens::{routes, with_some_id};
use super::{Reply, TWO_STEPS, house_on, request};

/// What only an operator may read: statements, places in the code or on a disk, causes from below.
const INNER: [&str; 10] = [
    "failed on purpose",
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "sqlite",
    "postgres",
    "panicked",
    ".rs:",
    "src/",
    "/home/",
];

/// Bodies that go as far as the store, and such that do not.
const BODIES: [&str; 6] = [
    "{}",
    "[]",
    r#"{"path":"demo/two"}"#,
    r#"{"name":"go","step":"start","decision":"approve","status":"FAILED"}"#,
    r#"{"executions":[{"path":"demo/two"}]}"#,
    r#"{"worker_id":"w","pool":"shared","runtime_id":"7000000000000000000"}"#,
];

fn tells_nothing(what: &str, reply: &Reply) {
    // The document of the API is the same text always, and has words of all kinds.
    let is_document = reply.status == 200 && reply.text.contains("openapi");
    for inner in INNER.iter().filter(|_| !is_document) {
        assert!(!reply.text.contains(inner), "{what}: {}", reply.text);
    }
    // How the server is doing is no problem of a request.
    let is_health = [noetl_api::paths::READYZ, noetl_api::paths::API_HEALTH]
        .iter()
        .any(|path| what.contains(path));
    if reply.status >= 400 && !is_health {
        let problem = reply.json();
        assert!(problem["code"].is_string(), "{what}: {problem}");
        assert!(problem["request_id"].is_string(), "{what}: {problem}");
    }
}

/// A store that fails whatever is asked of it while it is broken.
pub(super) fn breakable() -> (Arc<dyn Store>, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_broken);
    let plan = Box::new(move |_| {
        if flag.load(Ordering::SeqCst) {
            Fault::Before
        } else {
            Fault::None
        }
    });
    let store = FaultyStore::new(MemoryStore::new(), plan);
    (Arc::new(store), is_broken)
}

#[tokio::test]
async fn no_answer_tells_what_broke_below() {
    let (store, is_broken) = breakable();
    let house = house_on(store).await;
    let registered = house
        .post("/api/catalog/register", json!({ "content": TWO_STEPS }))
        .await;
    assert_eq!(registered.status, 200, "{}", registered.text);
    is_broken.store(true, Ordering::SeqCst);
    let mut unavailable = 0;
    for (method, route) in routes() {
        let path = with_some_id(&route.path);
        for body in BODIES {
            let reply = house.send(request(method.clone(), &path, body)).await;
            tells_nothing(&format!("{method} {path} {body}"), &reply);
            unavailable += usize::from(reply.status == 503);
        }
        // The same under a key, which is looked for in the store first.
        let mut keyed = request(method.clone(), &path, "{}");
        let key = axum::http::HeaderValue::from_static("k");
        keyed.headers_mut().insert("idempotency-key", key);
        let reply = house.send(keyed).await;
        tells_nothing(&format!("{method} {path} under a key"), &reply);
    }
    assert!(unavailable > 50, "the store was not asked: {unavailable}");
    house.shutdown.cancel();
}

/// Whoever waited for a connection in vain is told so and may come again, in a verdict as in an
/// answer: nothing was done.
#[tokio::test]
async fn a_saturated_pool_is_told_as_what_it_is() {
    let is_saturated = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_saturated);
    let plan = Box::new(move |method| match method {
        Method::Append | Method::Command if flag.load(Ordering::SeqCst) => Fault::Saturated,
        _ => Fault::None,
    });
    let house = house_on(Arc::new(FaultyStore::new(MemoryStore::new(), plan))).await;
    let execution_id = house.started().await;
    let command = house.leased().await;
    let before = house.log(&execution_id).await;
    // A run that does not know a command asks the queue.
    let mut forgotten = command.clone();
    forgotten["command_id"] = json!("7000000000000000000");
    is_saturated.store(true, Ordering::SeqCst);
    for command in [&command, &forgotten] {
        let reported = house.finish(command, json!(1)).await;
        let result = reported.at("/results/0");
        assert_eq!(result["status"], "rejected", "{result}");
        assert_eq!(
            result["code"],
            ErrorCode::PoolSaturated.as_str(),
            "{result}"
        );
        assert!(result["detail"].is_string(), "{result}");
    }
    let event = json!({ "step": "start", "event_type": "order.made",
        "meta": { "business_object": {} } });
    let events = json!({ "execution_id": execution_id, "events": [event] });
    let told = house.post("/api/events/batch", events).await;
    told.is_problem(ErrorCode::PoolSaturated);
    assert_eq!(house.log(&execution_id).await, before);
    is_saturated.store(false, Ordering::SeqCst);
    let reported = house.finish(&command, json!(1)).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");
}
