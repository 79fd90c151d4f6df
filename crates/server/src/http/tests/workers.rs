//! Workers over HTTP.

use axum::http::Method;
use noetl_api::tokens::CreateTokenRequest;
use noetl_store::RuntimeKind;
use noetl_types::{ErrorCode, PoolName, Scope, TenantId};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::create_token;
use super::{TestServer, build_request, is_ok, start_server};
use crate::access::CallContext;

#[tokio::test]
async fn worker_registers_renews_and_leaves() {
    let server = start_server().await;
    let name = json!({ "name": "w1", "component_type": "worker_pool" });
    let reply = server.post("/api/worker/pool/heartbeat", name.clone()).await;
    reply.assert_problem(ErrorCode::NotFound);

    let worker = json!({ "name": "w1", "component_type": "worker_pool", "capacity": 4,
        "labels": { "pool_name": "shared" }, "hostname": "h", "pid": 1 });
    let registered = server.post("/api/worker/pool/register", worker.clone()).await;
    assert!(is_ok(&registered), "{}", registered.text);
    assert_eq!(registered.text_at("/status"), "active");
    assert_eq!(registered.json_at("/capacity"), 4);
    let again = server.post("/api/worker/pool/register", worker).await;
    assert_eq!(again.json_at("/runtime_id"), registered.json_at("/runtime_id"));
    assert!(again.json_at("/runtime_id").is_string());

    let reply = server.post("/api/worker/pool/heartbeat", name.clone()).await;
    assert_eq!(reply.json(), json!({ "status": "ok", "cancel": [], "drain": false }));

    let execution_id = server.start_two_steps().await;
    let command = server.lease_command().await;
    assert_eq!(command["execution_id"], json!(execution_id));
    let pools = server.get("/api/worker/pools").await;
    assert_eq!(pools.json_at("/count"), 1);
    assert_eq!(pools.text_at("/items/0/name"), "w1");
    assert_eq!(pools.text_at("/pools/0/pool"), "shared");
    assert_eq!(
        (pools.json_at("/pools/0/in_flight"), pools.json_at("/pools/0/pending")),
        (json!(1), json!(0))
    );
    for (query, count) in
        [("name=w1", 1), ("name=w2", 0), ("status=offline", 0), ("kind=broker", 0)]
    {
        let pools = server.get(&format!("/api/worker/pools?{query}")).await;
        assert_eq!(pools.json_at("/count"), count, "{query}");
    }
    server.get("/api/worker/pools?kind=x").await.assert_problem(ErrorCode::BadQuery);

    for method in [Method::DELETE, Method::POST] {
        let deregister = build_request(method, "/api/worker/pool/deregister", name.to_string());
        let reply = server.send(deregister).await;
        assert_eq!((reply.status, &*reply.text), (200, r#"{"status":"ok"}"#));
    }
    let reply = server.post("/api/worker/pool/heartbeat", name).await;
    reply.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn validates_worker_registration() {
    let server = start_server().await;
    for (worker, code) in [
        (json!({ "name": "" }), ErrorCode::Validation),
        (json!({ "name": "w", "kind": "toaster" }), ErrorCode::Validation),
        (json!({ "name": "w", "kind": "server_api" }), ErrorCode::Forbidden),
        (json!({ "name": "w", "labels": { "pool_name": "no pool" } }), ErrorCode::Validation),
        (json!({ "name": "w", "labels": { "pool_name": 7 } }), ErrorCode::Validation),
    ] {
        let reply = server.post("/api/worker/pool/register", worker).await;
        reply.assert_problem(code);
    }
}

#[tokio::test]
async fn lease_is_renewed_and_report_counts_once() {
    let server = start_server().await;
    server.start_two_steps().await;
    let command = server.lease_command().await;
    for field in ["execution_id", "command_id", "event_id", "lease_token"] {
        assert!(command[field].is_string(), "{field} of {command}");
    }
    let held = json!({ "execution_id": command["execution_id"],
        "command_id": command["command_id"], "attempt": command["attempt"],
        "lease_token": command["lease_token"] });
    let body = json!({ "worker_id": "w1", "leases": [held] });
    let renewed = server.post("/api/commands/heartbeat", body).await;
    assert_eq!(renewed.json_at("/leases/0/ok"), true, "{}", renewed.text);
    let reported = server.complete_command(&command, json!(1)).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");
    let reported = server.complete_command(&command, json!(1)).await;
    assert_eq!(reported.text_at("/results/0/status"), "duplicate");
    let empty = json!({ "worker_id": "w9", "pool": "elsewhere" });
    let leased = server.post("/api/commands/lease", empty).await;
    assert_eq!(leased.json_at("/commands"), json!([]));
    assert_eq!(leased.json_at("/poll_after_ms"), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_answers_waiting_poll() {
    let server = start_server().await;
    let started = tokio::time::Instant::now();
    let request = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 30_000 });
    let stop = async {
        // The poll runs first, so it is waiting by now.
        tokio::task::yield_now().await;
        server.shutdown.cancel();
    };
    let (leased, ()) = tokio::join!(server.post("/api/commands/lease", request), stop);
    assert_eq!(leased.json_at("/commands"), json!([]));
    assert_eq!(leased.json_at("/poll_after_ms"), 0);
    assert!(started.elapsed().as_secs() < 30);
}

/// Worker names are not secret, so a pool-bound token must not gain access to another pool by a
/// name.
#[tokio::test]
async fn pool_bound_worker_cannot_affect_other_pools() {
    on_every_store(async |fixture: &StoreFixture| {
        check_pool_binding(fixture).await;
        check_pool_binding_with_same_name(fixture).await;
    })
    .await;
}

/// Creates a worker token for one pool.
async fn create_pool_token(server: &TestServer, pool: &str) -> String {
    let bound = CreateTokenRequest {
        name: "bound-worker".into(),
        scopes: vec![Scope::Worker, Scope::ExecRun],
        pools: Some(vec![PoolName::new(pool).unwrap()]),
        tenant_id: Some(TenantId::new("acme").unwrap()),
        ..CreateTokenRequest::default()
    };
    let bound =
        server.services.identities.create_token(CallContext::server(), bound, &"test".into()).await;
    bound.unwrap().token.to_string()
}

async fn check_pool_binding(fixture: &StoreFixture) {
    let server = fixture.start_server(super::secured_settings(), |_| ()).await;
    let user = [Scope::ExecRun, Scope::CatalogWrite];
    let user = create_token(&server.services, "acme", &user).await;
    let unbound = create_token(&server.services, "acme", &[Scope::Worker]).await;
    let bound = create_pool_token(&server, "gpu").await;
    let post = async |token: &str, path: &str, body: Value| {
        server.call_with_token(token, Method::POST, path, body).await
    };
    let content = json!({ "content": super::TWO_STEPS });
    let registered = post(&user, "/api/catalog/register", content).await;
    assert!(is_ok(&registered), "{}", registered.text);
    post(&user, "/api/execute", json!({ "path": "demo/two" })).await;
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    let command = post(&unbound, "/api/commands/lease", lease).await.json_at("/commands/0");

    let name = json!({ "name": "w1" });
    let worker = |name: &str, pool: &str| json!({ "name": name, "labels": { "pool_name": pool } });
    let (register, heartbeat) = ("/api/worker/pool/register", "/api/worker/pool/heartbeat");
    let deregister = "/api/worker/pool/deregister";
    // The worker holds a command and is not registered. Another worker that registers under its
    // name does not become its owner.
    for _ in 0..2 {
        let refused = post(&bound, deregister, name.clone()).await;
        refused.assert_problem(ErrorCode::Forbidden);
        assert!(is_ok(&post(&bound, register, worker("w1", "gpu")).await));
    }
    assert!(is_ok(&post(&unbound, register, worker("w1", "shared")).await));
    for (path, body) in [
        (deregister, name.clone()),
        (heartbeat, name.clone()),
        (register, worker("w1", "gpu")),
        ("/api/worker/pool/drain", name.clone()),
    ] {
        let refused = post(&bound, path, body).await;
        refused.assert_problem(ErrorCode::Forbidden);
    }
    let broker = json!({ "name": "w1", "kind": "broker" });
    assert!(is_ok(&post(&bound, deregister, broker).await));
    let api_server = json!({ "name": "w1", "kind": "server_api" });
    let api_server = post(&unbound, deregister, api_server).await;
    api_server.assert_problem(ErrorCode::Forbidden);
    let reply = post(&unbound, heartbeat, name.clone()).await;
    assert_eq!(reply.json_at("/drain"), false, "{}", reply.text);
    let report = super::completed_report(&command, &json!({}));
    let reported = post(&unbound, "/api/commands/report", report).await;
    assert_eq!(reported.text_at("/results/0/status"), "accepted");

    // In its own pool it can register, send heartbeats and deregister.
    for (path, body) in [
        (register, worker("w2", "gpu")),
        (heartbeat, json!({ "name": "w2" })),
        (deregister, json!({ "name": "w2" })),
        (deregister, json!({ "name": "w2" })),
    ] {
        let reply = post(&bound, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
    }
}

/// A worker that has the same name as one of another pool neither renews that worker's claims nor
/// receives its cancellations.
async fn check_pool_binding_with_same_name(fixture: &StoreFixture) {
    let server = fixture.start_server(super::secured_settings(), |_| ()).await;
    let user = [Scope::ExecRun, Scope::ExecRead, Scope::CatalogWrite];
    let user = create_token(&server.services, "acme", &user).await;
    let unbound = create_token(&server.services, "acme", &[Scope::Worker]).await;
    let bound = create_pool_token(&server, "gpu").await;
    let post = async |token: &str, path: &str, body: Value| {
        let reply = server.call_with_token(token, Method::POST, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    };
    let content = json!({ "content": super::TWO_STEPS });
    post(&user, "/api/catalog/register", content).await;
    let started = post(&user, "/api/execute", json!({ "path": "demo/two" })).await;
    let run = started.text_at("/execution_id");
    let commands = format!("/api/commands?execution_id={run}");
    let command = async || {
        let list = server.call_with_token(&user, Method::GET, &commands, json!({})).await;
        list.json_at("/commands/0")
    };
    let id = command().await["command_id"].clone();
    let claim = format!("/api/commands/{}/claim", id.as_str().unwrap());
    post(&unbound, &claim, json!({ "worker_id": "w2" })).await;
    let register_in = async |token: &str, pool: &str| {
        let worker = json!({ "name": "w2", "labels": { "pool_name": pool } });
        post(token, "/api/worker/pool/register", worker).await;
    };
    let heartbeat = async |token: &str| {
        let name = json!({ "name": "w2" });
        let reply = post(token, "/api/worker/pool/heartbeat", name).await;
        reply.json_at("/cancel")
    };
    let lease_until = async || command().await["lease_until"].clone();
    let first_expiry = lease_until().await;
    assert!(first_expiry.is_string(), "{first_expiry}");
    register_in(&bound, "gpu").await;
    assert_eq!(heartbeat(&bound).await, json!([]));
    assert_eq!(lease_until().await, first_expiry, "renewed by a worker of another pool");
    register_in(&unbound, "shared").await;
    assert_eq!(heartbeat(&unbound).await, json!([]));
    assert_ne!(lease_until().await, first_expiry, "renewed by the worker that claimed it");
    let cancel = format!("/api/executions/{run}/cancel");
    post(&user, &cancel, json!({})).await;
    // A name belongs to its current registration. After it is deregistered, another pool may
    // register it.
    let name = json!({ "name": "w2" });
    post(&unbound, "/api/worker/pool/deregister", name).await;
    register_in(&bound, "gpu").await;
    assert_eq!(heartbeat(&bound).await, json!([]));
    assert_eq!(heartbeat(&unbound).await, json!([id]));
}

/// The internal key of another tenant's worker is not a valid worker name.
#[tokio::test]
async fn worker_names_cannot_reach_other_tenants() {
    on_every_store(check_unreachable_names).await;
}

async fn check_unreachable_names(fixture: &StoreFixture) {
    let server = fixture.start_server(super::secured_settings(), |_| ()).await;
    let scopes = [Scope::Worker, Scope::ExecRun];
    let acme = create_token(&server.services, "acme", &scopes).await;
    let outsider = create_token(&server.services, "default", &scopes).await;
    for kind in ["worker_pool", "broker"] {
        let worker = json!({ "name": "w1", "kind": kind });
        let register = "/api/worker/pool/register";
        let registered = server.call_with_token(&acme, Method::POST, register, worker).await;
        assert!(is_ok(&registered), "{}", registered.text);
    }
    let rows = async || {
        let store = server.services.infra.store();
        let workers = store.list_runtimes(RuntimeKind::WorkerPool).await.unwrap();
        let brokers = store.list_runtimes(RuntimeKind::Broker).await.unwrap();
        assert_eq!((workers.len(), brokers.len()), (1, 1));
        (workers, brokers)
    };
    let before = rows().await;
    for operation in ["drain", "heartbeat", "deregister", "register"] {
        for kind in ["worker_pool", "broker"] {
            // One existing and one unknown name.
            for name in ["acme\u{1f}w1", "nobody\u{1f}w1"] {
                let path = format!("/api/worker/pool/{operation}");
                let body = json!({ "name": name, "kind": kind });
                let refused = server.call_with_token(&outsider, Method::POST, &path, body).await;
                refused.assert_problem(ErrorCode::Validation);
            }
        }
    }
    assert_eq!(rows().await, before);
}
