//! What a client is told when something breaks below: never what broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noetl_store::MemoryStore;
use noetl_store::faulty::{Fault, FaultyStore};
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

#[tokio::test]
async fn no_answer_tells_what_broke_below() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_broken);
    let plan = Box::new(move |_| {
        if flag.load(Ordering::SeqCst) {
            Fault::Before
        } else {
            Fault::None
        }
    });
    let house = house_on(Arc::new(FaultyStore::new(MemoryStore::new(), plan))).await;
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
