//! Error responses never reveal internal details of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noetl_store::{SqliteStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_types::ErrorCode;
use serde_json::json;

use super::tokens::{declared_routes, path_with_sample_ids};
use super::{TWO_STEPS, TestResponse, build_request, start_server_on};

/// Fragments of internal details: statements, code locations, paths, underlying causes.
const INTERNAL_DETAILS: [&str; 10] = [
    "failed on purpose", "SELECT ", "INSERT ", "UPDATE ", "sqlite", "postgres", "panicked", ".rs:",
    "src/", "/home/",
];

/// Bodies, some of which reach the store.
const REQUEST_BODIES: [&str; 6] = [
    "{}",
    "[]",
    r#"{"path":"demo/two"}"#,
    r#"{"name":"go","step":"start","decision":"approve","status":"FAILED"}"#,
    r#"{"executions":[{"path":"demo/two"}]}"#,
    r#"{"worker_id":"w","pool":"shared","runtime_id":"7000000000000000000"}"#,
];

fn assert_hides_internals(request: &str, reply: &TestResponse) {
    // The OpenAPI document is static and may contain these words.
    let is_document = reply.status == 200 && reply.text.contains("openapi");
    for detail in INTERNAL_DETAILS.iter().filter(|_| !is_document) {
        assert!(!reply.text.contains(detail), "{request}: {}", reply.text);
    }
    // Health reports are not problem documents.
    let is_health = [noetl_api::paths::READYZ, noetl_api::paths::API_HEALTH]
        .iter()
        .any(|path| request.contains(path));
    if reply.status >= 400 && !is_health {
        let problem = reply.json();
        assert!(problem["code"].is_string(), "{request}: {problem}");
        assert!(problem["request_id"].is_string(), "{request}: {problem}");
    }
}

/// A store whose calls all fail while it is broken.
pub(super) fn breakable_store() -> (Arc<dyn Store>, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_broken);
    let plan = Box::new(
        move |_| {
            if flag.load(Ordering::SeqCst) { Fault::FailBefore } else { Fault::None }
        },
    );
    let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), plan);
    (Arc::new(store), is_broken)
}

#[tokio::test]
async fn errors_hide_store_details() {
    let (store, is_broken) = breakable_store();
    let server = start_server_on(store).await;
    let registered = server.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
    assert_eq!(registered.status, 200, "{}", registered.text);
    is_broken.store(true, Ordering::SeqCst);
    let mut unavailable = 0;
    for (method, route) in declared_routes() {
        let path = path_with_sample_ids(route.path);
        for body in REQUEST_BODIES {
            let reply = server.send(build_request(method.clone(), &path, body)).await;
            assert_hides_internals(&format!("{method} {path} {body}"), &reply);
            unavailable += usize::from(reply.status == 503);
        }
        // With an idempotency key, the store is queried first.
        let mut keyed = build_request(method.clone(), &path, "{}");
        let key = axum::http::HeaderValue::from_static("k");
        keyed.headers_mut().insert("idempotency-key", key);
        let reply = server.send(keyed).await;
        assert_hides_internals(&format!("{method} {path} with a key"), &reply);
    }
    assert!(unavailable > 50, "the store was rarely called: {unavailable}");
    server.shutdown.cancel();
}

/// A saturated pool is reported as retryable, both per item and for the whole request, and nothing
/// is written.
#[tokio::test]
async fn reports_saturated_pool() {
    let is_saturated = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_saturated);
    let plan = Box::new(move |method| match method {
        StoreMethod::AppendEvents | StoreMethod::FindCommand if flag.load(Ordering::SeqCst) => {
            Fault::Saturated
        }
        _ => Fault::None,
    });
    let server =
        start_server_on(Arc::new(FaultyStore::new(SqliteStore::in_memory().unwrap(), plan))).await;
    let execution_id = server.start_two_steps().await;
    let command = server.lease_command().await;
    let before = server.read_log(&execution_id).await;
    // For an unknown command the run queries the queue.
    let mut unknown = command.clone();
    unknown["command_id"] = json!("7000000000000000000");
    is_saturated.store(true, Ordering::SeqCst);
    for command in [&command, &unknown] {
        let reported = server.complete_command(command, json!(1)).await;
        let result = reported.json_at("/results/0");
        assert_eq!(result["status"], "rejected", "{result}");
        assert_eq!(result["code"], ErrorCode::PoolSaturated.as_str(), "{result}");
        assert!(result["detail"].is_string(), "{result}");
    }
    let event = json!({ "step": "start", "event_type": "order.made",
        "meta": { "business_object": {} } });
    let events = json!({ "execution_id": execution_id, "events": [event] });
    let reply = server.post("/api/events/batch", events).await;
    reply.assert_problem(ErrorCode::PoolSaturated);
    assert_eq!(server.read_log(&execution_id).await, before);
    is_saturated.store(false, Ordering::SeqCst);
    let reported = server.complete_command(&command, json!(1)).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");
}
