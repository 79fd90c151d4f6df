//! One tenant learns nothing of another, and changes nothing there.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use futures_util::StreamExt as _;
use noetl_api::paths;
use noetl_types::{Millis, Scope};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::{filled, routes, token_of, with_token};
use super::{House, Reply, is_ok, request};
use crate::vault::{Key, KeyRing};

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

const OWN: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: own_book, path: own/book }
workflow:
  - step: ask
    tool: { kind: approval, title: own }
";

/// A server that wants to see tokens and keeps secrets, on some store.
async fn safe_house(shelter: &Shelter) -> House {
    let key = Key::read(&Key::text_of_new().unwrap()).unwrap();
    let ring = KeyRing::new(key, Vec::new());
    let change = |settings: &mut crate::runtime::Settings| {
        settings.keys = Some(Arc::new(ring));
        // However long the spying takes, what is leased stays so.
        settings.lease = Millis::from_hours(24);
    };
    shelter.house(super::closed_settings(), change).await
}

/// A tenant with something of everything.
struct Tenant {
    token: String,
    execution_id: String,
    command_id: String,
    lease_token: String,
    catalog_id: String,
    token_id: String,
    reference: String,
    credential: String,
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
    let credential = json!({
        "name": "zebra_key", "type": "bearer", "data": { "token": "zebra-sesame" },
        "description": "zebra-purpose",
    });
    post("/api/credentials", credential).await;
    let made = json!({ "name": "zebra-token", "scopes": ["exec:read"] });
    let made = post("/api/tokens", made).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let catalog_id = registered.text_at("/catalog_id");
    let keychain = format!("/api/keychain/{catalog_id}/api");
    let body = json!({ "data": { "token": "zebra-resolved" } });
    ok(house, &token, Method::POST, &keychain, body).await;
    Tenant {
        execution_id,
        command_id: text(&held["command_id"]),
        lease_token: text(&held["lease_token"]),
        catalog_id,
        token_id: made.text_at("/id"),
        reference: kept.text_at("/ref"),
        credential: "zebra_key".to_owned(),
        token,
    }
}

/// Somebody else with every scope, and a run of its own behind everything of the other; gives its token
/// and the id of that run.
async fn spy(house: &House) -> (String, String) {
    let spy = token_of(&house.runtime, "spy", &public_scopes()).await;
    let register = "/api/catalog/register";
    let content = json!({ "content": OWN });
    ok(house, &spy, Method::POST, register, content).await;
    let wanted = json!({ "path": "own/book" });
    let started = ok(house, &spy, Method::POST, "/api/execute", wanted).await;
    (spy, started.text_at("/execution_id"))
}

/// Everything that the tenant sees of itself.
async fn look(house: &House, tenant: &Tenant) -> Vec<String> {
    let id = &tenant.execution_id;
    let mut seen = Vec::new();
    for path in [
        format!("/api/executions/{id}"),
        format!("/api/executions/{id}/events?limit=500"),
        format!("/api/vars/{id}"),
        format!("/api/credentials/{}?include_data=true", tenant.credential),
        format!("/api/keychain/{}/api", tenant.catalog_id),
        "/api/commands".to_owned(),
        "/api/approvals".to_owned(),
        "/api/worker/pools".to_owned(),
        "/api/catalog/list/playbook".to_owned(),
        "/api/catalog/zebra/book/versions".to_owned(),
        "/api/tokens".to_owned(),
        "/api/dashboard/stats".to_owned(),
    ] {
        let reply = ok(house, &tenant.token, Method::GET, &path, json!({})).await;
        let moving = ["duration", "last_used_at", "access_count", "accessed_at"];
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
        "credential" => tenant.credential.clone(),
        "seq" => "1".to_owned(),
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

/// Questions that routes take beside their addresses: by what is another tenant's, and from the beginning
/// where they would tell from now on.
fn questions(tenant: &Tenant) -> Vec<String> {
    let (id, credential) = (&tenant.execution_id, &tenant.credential);
    let who = format!("execution_id={id}&worker_id=zebra-worker");
    vec![
        "/api/stream/feed?after=0.0&limit=1000".to_owned(),
        "/api/executions?path=zebra&q=zebra".to_owned(),
        format!("/api/executions?parent={id}"),
        format!("/api/executions?catalog_id={}", tenant.catalog_id),
        "/api/executions?label=zebra%3Dzebra".to_owned(),
        format!("/api/commands?execution_id={id}"),
        "/api/commands?worker_id=zebra-worker".to_owned(),
        "/api/worker/pools?name=zebra-worker".to_owned(),
        "/api/credentials?q=zebra".to_owned(),
        format!("/api/credentials/{credential}?include_data=true"),
        format!("/api/credentials/{credential}?include_data=true&{who}"),
        format!("/api/credentials/{credential}/sealed?{who}"),
        format!("/api/keychain/{}/api?execution_id={id}", tenant.catalog_id),
    ]
}

/// What somebody is told who follows everything from the beginning until it sees a run of its own.
async fn followed(house: &House, token: &str, own: &str) -> String {
    let path = format!("{}?last_event_id=0.0", paths::EVENTS_STREAM);
    let request = with_token(request(Method::GET, &path, Body::empty()), token);
    let response = house.front.answer(&super::peer().into(), request).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    // Signs of life never end, so a run that is not told would be waited for without a bound.
    let told = tokio::time::timeout(Duration::from_secs(30), async {
        while !text.contains(own) {
            let bytes = body.next().await.unwrap().unwrap();
            text.push_str(str::from_utf8(&bytes).unwrap());
        }
    });
    let told = told.await;
    assert!(told.is_ok(), "{own} is not told: {text}");
    text
}

/// Every scope that a tenant gives.
fn public_scopes() -> Vec<Scope> {
    let scopes = Scope::ALL.iter().copied();
    scopes.filter(|scope| !scope.is_internal()).collect()
}

/// Whether an answer merely repeats the address or the body of its own request.
fn learned(reply: &Reply, path: &str, asked: &str) -> bool {
    let said = reply.text.replace(path, "");
    // A word of the request that comes back tells nothing; anything longer does.
    let words =
        said.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_');
    words
        .filter(|word| word.contains(MARKER))
        .any(|word| !asked.contains(word))
}

#[tokio::test]
async fn a_tenant_learns_and_changes_nothing_of_another() {
    on_every_store(spied_upon).await;
}

async fn spied_upon(shelter: &Shelter) {
    let house = safe_house(shelter).await;
    let theirs = settle(&house).await;
    let before = look(&house, &theirs).await;
    for seen in ["zebra-workload", "zebra-sesame", "zebra-resolved"] {
        assert!(before.iter().any(|told| told.contains(seen)), "{seen}");
    }
    let (spy, own) = spy(&house).await;
    let told = followed(&house, &spy, &own).await;
    assert!(!told.contains(MARKER), "{told}");
    let mut requests = Vec::new();
    for (method, route) in routes() {
        let path = address(&route.path, &theirs);
        let bodies = bodies(&theirs).into_iter();
        requests.extend(bodies.map(|body| (method.clone(), path.clone(), body)));
    }
    let questions = questions(&theirs).into_iter();
    requests.extend(questions.map(|path| (Method::GET, path, json!({}))));
    // The trail of whoever asks repeats the addresses that they asked for.
    let mut all = String::new();
    for (method, path, body) in requests {
        let reply = house.call(&spy, method.clone(), &path, body.clone()).await;
        assert_ne!(reply.status, 500, "{method} {path} {body}: {}", reply.text);
        let asked = format!("{path} {body}");
        all.push_str(&path);
        let is_trail = path == paths::AUDIT;
        let told = learned(&reply, &path, if is_trail { &all } else { &asked });
        assert!(!told, "{method} {path} {body}: {}", reply.text);
    }
    assert_eq!(look(&house, &theirs).await, before);
}

#[tokio::test]
async fn what_is_foreign_looks_like_what_is_not_there() {
    on_every_store(compared).await;
}

async fn compared(shelter: &Shelter) {
    let house = safe_house(shelter).await;
    let theirs = settle(&house).await;
    let nothing = Tenant {
        token: String::new(),
        execution_id: "7000000000000000000".to_owned(),
        command_id: "7000000000000000001".to_owned(),
        lease_token: theirs.lease_token.clone(),
        catalog_id: "7000000000000000002".to_owned(),
        token_id: "7000000000000000003".to_owned(),
        reference: "noetl://execution/7000000000000000000/result/zebra/9".to_owned(),
        credential: "nobodys_key".to_owned(),
    };
    let (spy, _) = spy(&house).await;
    let bare = |reply: &Reply, tenant: &Tenant| {
        let mut told = reply.json();
        forget(&mut told, &["request_id"]);
        let told = told.to_string();
        told.replace(&tenant.execution_id, "ID")
            .replace(&tenant.command_id, "ID")
            .replace(&tenant.token_id, "ID")
            .replace(&tenant.credential, "ID")
    };
    let is_named = |path: &str| path.contains("_id}") || path.contains("{credential}");
    for (method, route) in routes() {
        if !is_named(&route.path) {
            continue;
        }
        let path = address(&route.path, &theirs);
        let elsewhere = address(&route.path, &nothing);
        for (body, other) in bodies(&theirs).into_iter().zip(bodies(&nothing)) {
            let foreign = house.call(&spy, method.clone(), &path, body).await;
            let unknown = house.call(&spy, method.clone(), &elsewhere, other).await;
            let (told, expected) = (&foreign.text, unknown.status);
            assert_eq!(foreign.status, expected, "{method} {path}: {told}");
            let (foreign, unknown) = (bare(&foreign, &theirs), bare(&unknown, &nothing));
            assert_eq!(foreign, unknown, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn workers_of_one_name_in_two_tenants_do_not_meet() {
    let house = safe_house(&Shelter::memory()).await;
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
