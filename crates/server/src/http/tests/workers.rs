//! Workers over the wire.

use axum::http::Method;
use noetl_types::ErrorCode;
use serde_json::json;

use super::{house, is_ok, request};

#[tokio::test]
async fn a_worker_comes_lives_and_goes() {
    let house = house().await;
    let name = json!({ "name": "w1", "component_type": "worker_pool" });
    let reply = house.post("/api/worker/pool/heartbeat", name.clone()).await;
    reply.is_problem(ErrorCode::NotFound);

    let worker = json!({ "name": "w1", "component_type": "worker_pool", "capacity": 4,
        "labels": { "pool_name": "shared" }, "hostname": "h", "pid": 1 });
    let registered = house
        .post("/api/worker/pool/register", worker.clone())
        .await;
    assert!(is_ok(&registered), "{}", registered.text);
    assert_eq!(registered.text_at("/status"), "active");
    assert_eq!(registered.at("/capacity"), 4);
    let again = house.post("/api/worker/pool/register", worker).await;
    assert_eq!(again.at("/runtime_id"), registered.at("/runtime_id"));
    assert!(again.at("/runtime_id").is_string());

    let reply = house.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(
        reply.json(),
        json!({ "status": "ok", "cancel": [], "drain": false })
    );

    let execution_id = house.started().await;
    let command = house.leased().await;
    assert_eq!(command["execution_id"], json!(execution_id));
    let pools = house.get("/api/worker/pools").await;
    assert_eq!(pools.at("/count"), 1);
    assert_eq!(pools.text_at("/items/0/name"), "w1");
    assert_eq!(pools.text_at("/pools/0/pool"), "shared");
    assert_eq!(
        (pools.at("/pools/0/in_flight"), pools.at("/pools/0/pending")),
        (json!(1), json!(0))
    );
    for (query, count) in [
        ("name=w1", 1),
        ("name=w2", 0),
        ("status=offline", 0),
        ("kind=broker", 0),
    ] {
        let pools = house.get(&format!("/api/worker/pools?{query}")).await;
        assert_eq!(pools.at("/count"), count, "{query}");
    }
    house
        .get("/api/worker/pools?kind=x")
        .await
        .is_problem(ErrorCode::BadQuery);

    for method in [Method::DELETE, Method::POST] {
        let gone = request(method, "/api/worker/pool/deregister", name.to_string());
        let reply = house.send(gone).await;
        assert_eq!((reply.status, &*reply.text), (200, r#"{"status":"ok"}"#));
    }
    let reply = house.post("/api/worker/pool/heartbeat", name).await;
    reply.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn what_a_worker_says_of_itself_is_checked() {
    let house = house().await;
    for (worker, code) in [
        (json!({ "name": "" }), ErrorCode::Validation),
        (
            json!({ "name": "w", "kind": "toaster" }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": "w", "kind": "server_api" }),
            ErrorCode::Forbidden,
        ),
        (
            json!({ "name": "w", "labels": { "pool_name": "no pool" } }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": "w", "labels": { "pool_name": 7 } }),
            ErrorCode::Validation,
        ),
    ] {
        let reply = house.post("/api/worker/pool/register", worker).await;
        reply.is_problem(code);
    }
}

#[tokio::test]
async fn a_lease_is_kept_and_a_report_counts_once() {
    let house = house().await;
    house.started().await;
    let command = house.leased().await;
    for field in ["execution_id", "command_id", "event_id", "lease_token"] {
        assert!(command[field].is_string(), "{field} of {command}");
    }
    let held = json!({ "execution_id": command["execution_id"],
        "command_id": command["command_id"], "attempt": command["attempt"],
        "lease_token": command["lease_token"] });
    let body = json!({ "worker_id": "w1", "leases": [held] });
    let kept = house.post("/api/commands/heartbeat", body).await;
    assert_eq!(kept.at("/leases/0/ok"), true, "{}", kept.text);
    let reported = house.finish(&command, json!(1)).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");
    let reported = house.finish(&command, json!(1)).await;
    assert_eq!(reported.text_at("/results/0/status"), "duplicate");
    let empty = json!({ "worker_id": "w9", "pool": "elsewhere" });
    let leased = house.post("/api/commands/lease", empty).await;
    assert_eq!(leased.json(), json!({ "commands": [], "poll_after_ms": 0 }));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_work_is_answered_at_a_stop() {
    let house = house().await;
    let started = tokio::time::Instant::now();
    let wanted = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 30_000 });
    let stop = async {
        // The wait is polled first, so it is under way by now.
        tokio::task::yield_now().await;
        house.shutdown.cancel();
    };
    let (leased, ()) = tokio::join!(house.post("/api/commands/lease", wanted), stop);
    assert_eq!(leased.json(), json!({ "commands": [], "poll_after_ms": 0 }));
    assert!(started.elapsed().as_secs() < 30);
}
