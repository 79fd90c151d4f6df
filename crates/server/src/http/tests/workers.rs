//! Workers over the wire.

use axum::http::Method;
use noetl_api::tokens::NewToken;
use noetl_store::RuntimeKind;
use noetl_types::{ErrorCode, PoolName, Scope, TenantId};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::token_of;
use super::{House, house, is_ok, request};

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

/// The name of a worker is no secret, so whoever is bound to a pool gets nowhere by it in another.
#[tokio::test]
async fn who_is_bound_to_a_pool_ends_and_keeps_nothing_of_another() {
    on_every_store(async |shelter: &Shelter| {
        bound_to_a_pool(shelter).await;
        bound_under_the_same_name(shelter).await;
    })
    .await;
}

/// A token of a worker for one pool.
async fn bound_to(house: &House, pool: &str) -> String {
    let bound = NewToken {
        name: "bound-worker".into(),
        scopes: vec![Scope::Worker, Scope::ExecRun],
        pools: Some(vec![PoolName::new(pool).unwrap()]),
        tenant_id: Some(TenantId::new("acme").unwrap()),
        ..NewToken::default()
    };
    let bound = house.runtime.create_token(bound, &"test".into()).await;
    bound.unwrap().token.to_string()
}

async fn bound_to_a_pool(shelter: &Shelter) {
    let house = shelter.house(super::closed_settings(), |_| ()).await;
    let user = [Scope::ExecRun, Scope::CatalogWrite];
    let user = token_of(&house.runtime, "acme", &user).await;
    let free = token_of(&house.runtime, "acme", &[Scope::Worker]).await;
    let bound = bound_to(&house, "gpu").await;
    let post = async |token: &str, path: &str, body: Value| {
        house.call(token, Method::POST, path, body).await
    };
    let content = json!({ "content": super::TWO_STEPS });
    let registered = post(&user, "/api/catalog/register", content).await;
    assert!(is_ok(&registered), "{}", registered.text);
    post(&user, "/api/execute", json!({ "path": "demo/two" })).await;
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    let command = post(&free, "/api/commands/lease", lease)
        .await
        .at("/commands/0");

    let name = json!({ "name": "w1" });
    let named = |name: &str, pool: &str| json!({ "name": name, "labels": { "pool_name": pool } });
    let (register, heartbeat) = ("/api/worker/pool/register", "/api/worker/pool/heartbeat");
    let leave = "/api/worker/pool/deregister";
    // The worker holds a command and is not registered; nor is it whoever takes its name meanwhile.
    for _ in 0..2 {
        let refused = post(&bound, leave, name.clone()).await;
        refused.is_problem(ErrorCode::Forbidden);
        assert!(is_ok(&post(&bound, register, named("w1", "gpu")).await));
    }
    assert!(is_ok(&post(&free, register, named("w1", "shared")).await));
    for (path, body) in [
        (leave, name.clone()),
        (heartbeat, name.clone()),
        (register, named("w1", "gpu")),
        ("/api/worker/pool/drain", name.clone()),
    ] {
        let refused = post(&bound, path, body).await;
        refused.is_problem(ErrorCode::Forbidden);
    }
    let broker = json!({ "name": "w1", "kind": "broker" });
    assert!(is_ok(&post(&bound, leave, broker).await));
    let server = json!({ "name": "w1", "kind": "server_api" });
    let server = post(&free, leave, server).await;
    server.is_problem(ErrorCode::Forbidden);
    let alive = post(&free, heartbeat, name.clone()).await;
    assert_eq!(alive.at("/drain"), false, "{}", alive.text);
    let report = super::completed(&command, &json!({}));
    let reported = post(&free, "/api/commands/report", report).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");

    // In its own pool it comes, lives and goes.
    for (path, body) in [
        (register, named("w2", "gpu")),
        (heartbeat, json!({ "name": "w2" })),
        (leave, json!({ "name": "w2" })),
        (leave, json!({ "name": "w2" })),
    ] {
        let reply = post(&bound, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
    }
}

/// A worker of one pool that has the name of one of another neither keeps what that one claimed by name,
/// nor takes away from it that nobody wants it any more.
async fn bound_under_the_same_name(shelter: &Shelter) {
    let house = shelter.house(super::closed_settings(), |_| ()).await;
    let user = [Scope::ExecRun, Scope::ExecRead, Scope::CatalogWrite];
    let user = token_of(&house.runtime, "acme", &user).await;
    let free = token_of(&house.runtime, "acme", &[Scope::Worker]).await;
    let bound = bound_to(&house, "gpu").await;
    let post = async |token: &str, path: &str, body: Value| {
        let reply = house.call(token, Method::POST, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    };
    let content = json!({ "content": super::TWO_STEPS });
    post(&user, "/api/catalog/register", content).await;
    let begun = post(&user, "/api/execute", json!({ "path": "demo/two" })).await;
    let run = begun.text_at("/execution_id");
    let commands = format!("/api/commands?execution_id={run}");
    let command = async || {
        let list = house.call(&user, Method::GET, &commands, json!({})).await;
        list.at("/commands/0")
    };
    let id = command().await["command_id"].clone();
    let claim = format!("/api/commands/{}/claim", id.as_str().unwrap());
    post(&free, &claim, json!({ "worker_id": "w2" })).await;
    let seat = async |token: &str, pool: &str| {
        let worker = json!({ "name": "w2", "labels": { "pool_name": pool } });
        post(token, "/api/worker/pool/register", worker).await;
    };
    let told = async |token: &str| {
        let name = json!({ "name": "w2" });
        let alive = post(token, "/api/worker/pool/heartbeat", name).await;
        alive.at("/cancel")
    };
    let until = async || command().await["lease_until"].clone();
    let claimed = until().await;
    assert!(claimed.is_string(), "{claimed}");
    seat(&bound, "gpu").await;
    assert_eq!(told(&bound).await, json!([]));
    assert_eq!(until().await, claimed, "kept by a worker of another pool");
    seat(&free, "shared").await;
    assert_eq!(told(&free).await, json!([]));
    assert_ne!(until().await, claimed, "kept by the one that claimed it");
    let cancel = format!("/api/executions/{run}/cancel");
    post(&user, &cancel, json!({})).await;
    // Whoever has the name has the seat, and it was given back.
    let name = json!({ "name": "w2" });
    post(&free, "/api/worker/pool/deregister", name).await;
    seat(&bound, "gpu").await;
    assert_eq!(told(&bound).await, json!([]));
    assert_eq!(told(&free).await, json!([id]));
}

/// What a worker of another tenant is kept under is no name that anybody can give.
#[tokio::test]
async fn no_name_reaches_a_worker_of_another_tenant() {
    on_every_store(out_of_reach).await;
}

async fn out_of_reach(shelter: &Shelter) {
    let house = shelter.house(super::closed_settings(), |_| ()).await;
    let scopes = [Scope::Worker, Scope::ExecRun];
    let theirs = token_of(&house.runtime, "acme", &scopes).await;
    let spy = token_of(&house.runtime, "default", &scopes).await;
    for kind in ["worker_pool", "broker"] {
        let worker = json!({ "name": "w1", "kind": kind });
        let register = "/api/worker/pool/register";
        let known = house.call(&theirs, Method::POST, register, worker).await;
        assert!(is_ok(&known), "{}", known.text);
    }
    let rows = async || {
        let store = house.runtime.store();
        let workers = store.runtimes(RuntimeKind::WorkerPool).await.unwrap();
        let brokers = store.runtimes(RuntimeKind::Broker).await.unwrap();
        assert_eq!((workers.len(), brokers.len()), (1, 1));
        (workers, brokers)
    };
    let before = rows().await;
    for act in ["drain", "heartbeat", "deregister", "register"] {
        for kind in ["worker_pool", "broker"] {
            // One that is there, and one that is not.
            for name in ["acme\u{1f}w1", "nobody\u{1f}w1"] {
                let path = format!("/api/worker/pool/{act}");
                let body = json!({ "name": name, "kind": kind });
                let refused = house.call(&spy, Method::POST, &path, body).await;
                refused.is_problem(ErrorCode::Validation);
            }
        }
    }
    assert_eq!(rows().await, before);
}
