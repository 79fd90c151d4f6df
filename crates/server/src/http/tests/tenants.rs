//! One tenant learns nothing of another, and changes nothing there.

use axum::http::Method;
use noetl_types::Scope;
use serde_json::{Value, json};

use super::tokens::{filled, routes, token_of};
use super::{House, Reply, closed_house, is_ok};

/// What everything of the tenant holds that is spied upon, and nothing else.
const MARKER: &str = "zebra";

const THEIRS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: zebra_book, path: zebra/book }
workload: { secret: zebra-workload }
workflow:
  - step: zebra_start
    tool: { kind: noop }
    next: { arcs: [{ step: zebra_ask }] }
  - step: zebra_ask
    tool: { kind: approval, title: zebra title }
";

/// A tenant with something of everything.
struct Tenant {
    token: String,
    execution_id: String,
    command_id: String,
    lease_token: String,
    catalog_id: String,
    token_id: String,
    reference: String,
}

async fn ok(house: &House, token: &str, method: Method, path: &str, body: Value) -> Reply {
    let reply = house.call(token, method.clone(), path, body).await;
    assert!(is_ok(&reply), "{method} {path}: {}", reply.text);
    reply
}

async fn settle(house: &House) -> Tenant {
    let token = token_of(&house.runtime, MARKER, &[Scope::Admin]).await;
    let post = |path: &'static str, body: Value| {
        let token = token.clone();
        async move { ok(house, &token, Method::POST, path, body).await }
    };
    let registered = post("/api/catalog/register", json!({ "content": THEIRS })).await;
    let wanted = json!({ "path": "zebra/book", "labels": { "zebra": "zebra" } });
    let started = post("/api/execute", wanted.clone()).await;
    let execution_id = started.text_at("/execution_id");
    post(
        "/api/worker/pool/register",
        json!({ "name": "zebra-worker" }),
    )
    .await;
    let lease = json!({ "worker_id": "zebra-worker", "pool": "shared", "wait_ms": 10_000 });
    let first = post("/api/commands/lease", lease.clone())
        .await
        .at("/commands/0");
    let report = json!({
        "execution_id": first["execution_id"], "command_id": first["command_id"],
        "attempt": first["attempt"], "lease_token": first["lease_token"],
        "status": "completed", "result": { "zebra": MARKER },
    });
    let body = json!({ "worker_id": "zebra-worker", "reports": [report] });
    post("/api/commands/report", body).await;
    // A second one stays in the hands of the worker.
    post("/api/execute", wanted).await;
    let held = post("/api/commands/lease", lease).await.at("/commands/0");
    let vars = format!("/api/vars/{execution_id}");
    ok(
        house,
        &token,
        Method::POST,
        &vars,
        json!({ "zebra": MARKER }),
    )
    .await;
    let result = format!("/api/result/{execution_id}");
    let body = json!({ "name": "zebra", "data": MARKER });
    let kept = ok(house, &token, Method::PUT, &result, body).await;
    post(
        "/api/signals",
        json!({ "name": "zebra-signal", "payload": MARKER }),
    )
    .await;
    let made = json!({ "name": "zebra-token", "scopes": ["exec:read"] });
    let made = post("/api/tokens", made).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Tenant {
        execution_id,
        command_id: text(&held["command_id"]),
        lease_token: text(&held["lease_token"]),
        catalog_id: registered.text_at("/catalog_id"),
        token_id: made.text_at("/id"),
        reference: kept.text_at("/ref"),
        token,
    }
}

/// Everything that the tenant sees of itself.
async fn look(house: &House, tenant: &Tenant) -> Vec<String> {
    let id = &tenant.execution_id;
    let mut seen = Vec::new();
    for path in [
        format!("/api/executions/{id}"),
        format!("/api/executions/{id}/events?limit=500"),
        format!("/api/vars/{id}"),
        "/api/commands".to_owned(),
        "/api/approvals".to_owned(),
        "/api/worker/pools".to_owned(),
        "/api/catalog/list/playbook".to_owned(),
        "/api/catalog/zebra/book/versions".to_owned(),
        "/api/tokens".to_owned(),
        "/api/dashboard/stats".to_owned(),
    ] {
        let reply = ok(house, &tenant.token, Method::GET, &path, json!({})).await;
        let moving = ["duration", "last_used_at"];
        let mut told = reply.json();
        forget(&mut told, &moving);
        seen.push(format!("{path}: {told}"));
    }
    seen
}

/// Leaves out what changes by itself.
fn forget(told: &mut Value, moving: &[&str]) {
    match told {
        Value::Object(map) => {
            map.retain(|key, _| !moving.iter().any(|moving| key.starts_with(moving)));
            map.values_mut().for_each(|value| forget(value, moving));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forget(item, moving)),
        _ => {}
    }
}

/// Bodies that name what is another tenant's, in all the ways that routes have.
fn bodies(tenant: &Tenant) -> Vec<Value> {
    let (execution_id, command_id) = (&tenant.execution_id, &tenant.command_id);
    let lease = json!({
        "execution_id": execution_id, "command_id": command_id, "attempt": 1,
        "lease_token": tenant.lease_token,
    });
    let mut report = lease.clone();
    report["status"] = "completed".into();
    report["result"] = json!({});
    vec![
        json!({}),
        json!({ "catalog_id": tenant.catalog_id }),
        json!({ "path": "zebra/book" }),
        json!({ "path": "own/book", "parent_execution_id": execution_id }),
        json!({ "executions": [{ "catalog_id": tenant.catalog_id }, { "path": "zebra/book" }] }),
        json!({ "name": "zebra-worker" }),
        json!({ "name": "zebra-signal", "payload": 1 }),
        json!({ "step": "zebra_ask", "decision": "approve" }),
        json!({ "status": "COMPLETED" }),
        json!({ "older_than_minutes": 0 }),
        json!({ "worker_id": "zebra-worker" }),
        json!({ "worker_id": "zebra-worker", "pool": "shared", "wait_ms": 0 }),
        json!({ "worker_id": "zebra-worker", "leases": [lease] }),
        json!({ "worker_id": "zebra-worker", "reports": [report] }),
        json!({ "execution_id": execution_id, "worker_id": "zebra-worker",
                "event_type": "command.completed", "command_id": command_id,
                "node_name": "zebra_start", "status": "COMPLETED", "payload": {} }),
        json!({ "execution_id": execution_id, "worker_id": "zebra-worker",
                "events": [{ "event_type": "command.completed", "command_id": command_id }] }),
        json!({ "name": "x", "data": 1 }),
        json!({ "content": "x", "name": "x" }),
    ]
}

fn address(route: &str, tenant: &Tenant) -> String {
    let path = filled(route, |name| match name {
        "execution_id" => tenant.execution_id.clone(),
        "event_id" => tenant.command_id.clone(),
        "token_id" => tenant.token_id.clone(),
        "catalog_id" => tenant.catalog_id.clone(),
        "*playbook_id" => "zebra/book".to_owned(),
        "*path" => "zebra/book/versions".to_owned(),
        // The trail of whoever asks repeats the addresses that they asked for.
        "name" if route.starts_with("/api/keychain/") => "api".to_owned(),
        "name" => "zebra".to_owned(),
        _ => "playbook".to_owned(),
    });
    let queries: &[(&str, String)] = &[
        ("/api/result/resolve", format!("?ref={}", tenant.reference)),
        (
            "/api/catalog/playbook/content",
            format!("?playbook_id={}", tenant.catalog_id),
        ),
    ];
    let query = queries.iter().find(|(route, _)| *route == path);
    path.clone() + query.map_or("", |(_, query)| query)
}

/// Every scope that a tenant gives.
fn public_scopes() -> Vec<Scope> {
    let scopes = Scope::ALL.iter().copied();
    scopes.filter(|scope| !scope.is_internal()).collect()
}

/// Whether an answer merely repeats the address or the body of its own request.
fn learned(reply: &Reply, path: &str, body: &Value) -> bool {
    let said = reply.text.replace(path, "");
    let asked = format!("{path} {body}");
    // A word of the request that comes back tells nothing; anything longer does.
    let words =
        said.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_');
    words
        .filter(|word| word.contains(MARKER))
        .any(|word| !asked.contains(word))
}

#[tokio::test]
async fn a_tenant_learns_and_changes_nothing_of_another() {
    let house = closed_house().await;
    let theirs = settle(&house).await;
    let before = look(&house, &theirs).await;
    assert!(before.iter().any(|seen| seen.contains(MARKER)));
    let spy = token_of(&house.runtime, "spy", &public_scopes()).await;
    for (method, route) in routes() {
        let path = address(&route.path, &theirs);
        for body in bodies(&theirs) {
            let reply = house.call(&spy, method.clone(), &path, body.clone()).await;
            assert_ne!(reply.status, 500, "{method} {path} {body}: {}", reply.text);
            assert!(
                !learned(&reply, &path, &body),
                "{method} {path} {body}: {}",
                reply.text
            );
        }
    }
    assert_eq!(look(&house, &theirs).await, before);
}

#[tokio::test]
async fn what_is_foreign_looks_like_what_is_not_there() {
    let house = closed_house().await;
    let theirs = settle(&house).await;
    let nothing = Tenant {
        token: String::new(),
        execution_id: "7000000000000000000".to_owned(),
        command_id: "7000000000000000001".to_owned(),
        lease_token: theirs.lease_token.clone(),
        catalog_id: "7000000000000000002".to_owned(),
        token_id: "7000000000000000003".to_owned(),
        reference: "noetl://execution/7000000000000000000/result/zebra/9".to_owned(),
    };
    let spy = token_of(&house.runtime, "spy", &public_scopes()).await;
    for (method, route) in routes() {
        if !route.path.contains("_id}") {
            continue;
        }
        for (body, other) in bodies(&theirs).into_iter().zip(bodies(&nothing)) {
            let (path, elsewhere) = (
                address(&route.path, &theirs),
                address(&route.path, &nothing),
            );
            let foreign = house.call(&spy, method.clone(), &path, body).await;
            let unknown = house.call(&spy, method.clone(), &elsewhere, other).await;
            assert_eq!(
                foreign.status, unknown.status,
                "{method} {path}: {}",
                foreign.text
            );
            let bare = |reply: &Reply, tenant: &Tenant| {
                let mut told = reply.json();
                forget(&mut told, &["request_id"]);
                let told = told.to_string();
                told.replace(&tenant.execution_id, "ID")
                    .replace(&tenant.command_id, "ID")
                    .replace(&tenant.token_id, "ID")
            };
            assert_eq!(
                bare(&foreign, &theirs),
                bare(&unknown, &nothing),
                "{method} {path}"
            );
        }
    }
}

#[tokio::test]
async fn workers_of_one_name_in_two_tenants_do_not_meet() {
    let house = closed_house().await;
    let theirs = settle(&house).await;
    let own = token_of(&house.runtime, "spy", &[Scope::Worker, Scope::ExecRead]).await;
    let name = json!({ "name": "zebra-worker" });
    let register = "/api/worker/pool/register";
    ok(&house, &own, Method::POST, register, name.clone()).await;
    let pools = ok(&house, &own, Method::GET, "/api/worker/pools", json!({})).await;
    assert_eq!(pools.at("/count"), 1);
    assert_eq!(pools.at("/pools"), json!([]));
    let leave = "/api/worker/pool/deregister";
    ok(&house, &own, Method::POST, leave, name.clone()).await;
    let heartbeat = "/api/worker/pool/heartbeat";
    ok(&house, &theirs.token, Method::POST, heartbeat, name).await;
    let lease = json!({
        "execution_id": theirs.execution_id, "command_id": theirs.command_id, "attempt": 1,
        "lease_token": theirs.lease_token,
    });
    let body = json!({ "worker_id": "zebra-worker", "leases": [lease] });
    let keep = "/api/commands/heartbeat";
    let kept = ok(&house, &theirs.token, Method::POST, keep, body).await;
    assert_eq!(kept.at("/leases/0/ok"), true);
}
