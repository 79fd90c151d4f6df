//! Tenants are isolated: one can neither observe nor change another.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use futures_util::StreamExt as _;
use noetl_api::paths;
use noetl_types::{Millis, Scope};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::{create_token, declared_routes, fill_path, with_token};
use super::{TestResponse, TestServer, build_request, is_ok};
use crate::crypto::{EncryptionKey, KeyRing};

/// Marker that occurs in all data of the observed tenant, and nowhere else.
const MARKER: &str = "zebra";

const OTHER_PLAYBOOK: &str = "apiVersion: noetl.io/v2
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

const OWN_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: own_book, path: own/book }
workflow:
  - step: ask
    tool: { kind: approval, title: own }
";

/// Starts a server that requires tokens and stores secrets.
async fn start_server_with_secrets(fixture: &StoreFixture) -> TestServer {
    let key = EncryptionKey::from_base64(&EncryptionKey::generate_base64().unwrap()).unwrap();
    let ring = KeyRing::new(key, Vec::new());
    let change = |settings: &mut crate::settings::Settings| {
        settings.keys = Some(Arc::new(ring));
        // Leases outlast the test.
        settings.lease_duration = Millis::from_hours(24);
    };
    fixture.start_server(super::secured_settings(), change).await
}

/// Ids of a tenant with data of every kind.
struct TenantData {
    token: String,
    execution_id: String,
    command_id: String,
    lease_token: String,
    catalog_id: String,
    token_id: String,
    reference: String,
    credential: String,
}

async fn call_ok(
    server: &TestServer,
    token: &str,
    method: Method,
    path: &str,
    body: Value,
) -> TestResponse {
    let reply = server.call_with_token(token, method.clone(), path, body).await;
    assert!(is_ok(&reply), "{method} {path}: {}", reply.text);
    reply
}

/// Builds the request that reports a leased command as completed.
fn build_completed_report(leased: &Value) -> Value {
    let report = json!({
        "execution_id": leased["execution_id"], "command_id": leased["command_id"],
        "attempt": leased["attempt"], "lease_token": leased["lease_token"],
        "status": "completed", "result": { "zebra": MARKER },
    });
    json!({ "worker_id": "zebra-worker", "reports": [report] })
}

async fn populate_tenant(server: &TestServer) -> TenantData {
    let token = create_token(&server.services, MARKER, &[Scope::Admin]).await;
    let post = |path: &'static str, body: Value| {
        let token = token.clone();
        async move { call_ok(server, &token, Method::POST, path, body).await }
    };
    let registered = post("/api/catalog/register", json!({ "content": OTHER_PLAYBOOK })).await;
    let request = json!({ "path": "zebra/book", "labels": { "zebra": "zebra" } });
    let started = post("/api/execute", request.clone()).await;
    let execution_id = started.text_at("/execution_id");
    post("/api/worker/pool/register", json!({ "name": "zebra-worker" })).await;
    let lease = json!({ "worker_id": "zebra-worker", "pool": "shared", "wait_ms": 10_000 });
    let first = post("/api/commands/lease", lease.clone()).await.json_at("/commands/0");
    let output = json!({
        "execution_id": first["execution_id"], "command_id": first["command_id"],
        "attempt": first["attempt"], "lease_token": first["lease_token"],
        "chunks": [{ "number": 0, "stdout": MARKER }],
    });
    let output = json!({ "worker_id": "zebra-worker", "outputs": [output] });
    assert_eq!(post("/api/commands/output", output).await.json_at("/results/0/ok"), true);
    post("/api/commands/report", build_completed_report(&first)).await;
    // A second command stays leased.
    post("/api/execute", request).await;
    let leased = post("/api/commands/lease", lease).await.json_at("/commands/0");
    let vars = format!("/api/vars/{execution_id}");
    call_ok(server, &token, Method::POST, &vars, json!({ "zebra": MARKER })).await;
    let result = format!("/api/result/{execution_id}");
    let body = json!({ "name": "zebra", "data": MARKER });
    let stored = call_ok(server, &token, Method::PUT, &result, body).await;
    post("/api/signals", json!({ "name": "zebra-signal", "payload": MARKER })).await;
    let credential = json!({
        "name": "zebra_key", "type": "bearer", "data": { "token": "zebra-sesame" },
        "description": "zebra-purpose",
    });
    post("/api/credentials", credential).await;
    let created = json!({ "name": "zebra-token", "scopes": ["exec:read"] });
    let created = post("/api/tokens", created).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let catalog_id = registered.text_at("/catalog_id");
    let keychain = format!("/api/keychain/{catalog_id}/api");
    let body = json!({ "data": { "token": "zebra-resolved" } });
    call_ok(server, &token, Method::POST, &keychain, body).await;
    TenantData {
        execution_id,
        command_id: text(&leased["command_id"]),
        lease_token: text(&leased["lease_token"]),
        catalog_id,
        token_id: created.text_at("/id"),
        reference: stored.text_at("/ref"),
        credential: "zebra_key".to_owned(),
        token,
    }
}

/// Creates another tenant with every scope and a run that is newer than all data of the first.
/// Returns its token and the id of that run.
async fn create_second_tenant(server: &TestServer) -> (String, String) {
    let outsider = create_token(&server.services, "spy", &public_scopes()).await;
    let register = "/api/catalog/register";
    let content = json!({ "content": OWN_PLAYBOOK });
    call_ok(server, &outsider, Method::POST, register, content).await;
    let request = json!({ "path": "own/book" });
    let started = call_ok(server, &outsider, Method::POST, "/api/execute", request).await;
    (outsider, started.text_at("/execution_id"))
}

/// Everything that the tenant can see of itself.
async fn observe_tenant(server: &TestServer, tenant: &TenantData) -> Vec<String> {
    let id = &tenant.execution_id;
    let mut observed = Vec::new();
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
        let reply = call_ok(server, &tenant.token, Method::GET, &path, json!({})).await;
        let volatile = ["duration", "last_used_at", "access_count", "accessed_at"];
        let mut content = reply.json();
        remove_fields(&mut content, &volatile);
        observed.push(format!("{path}: {content}"));
    }
    observed
}

/// Removes the fields whose names start with one of these.
fn remove_fields(json: &mut Value, names: &[&str]) {
    match json {
        Value::Object(map) => {
            map.retain(|key, _| !names.iter().any(|name| key.starts_with(name)));
            map.values_mut().for_each(|value| remove_fields(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_fields(item, names)),
        _ => {}
    }
}

/// Request bodies that name resources of the other tenant, in all forms that routes accept.
fn request_bodies(tenant: &TenantData) -> Vec<Value> {
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

fn route_path_for(route: &str, tenant: &TenantData) -> String {
    let path = fill_path(route, |name| match name {
        "execution_id" => tenant.execution_id.clone(),
        "event_id" => tenant.command_id.clone(),
        "token_id" => tenant.token_id.clone(),
        "catalog_id" => tenant.catalog_id.clone(),
        "credential" => tenant.credential.clone(),
        "seq" => "1".to_owned(),
        "*playbook_id" => "zebra/book".to_owned(),
        "*path" => "zebra/book/versions".to_owned(),
        // The audit log of the caller repeats the paths that it requested.
        "name" if route.starts_with("/api/keychain/") => "api".to_owned(),
        "name" => "zebra".to_owned(),
        _ => "playbook".to_owned(),
    });
    let queries: &[(&str, String)] = &[
        ("/api/result/resolve", format!("?ref={}", tenant.reference)),
        ("/api/catalog/playbook/content", format!("?playbook_id={}", tenant.catalog_id)),
    ];
    let query = queries.iter().find(|(route, _)| *route == path);
    path.clone() + query.map_or("", |(_, query)| query)
}

/// Queries for resources of the other tenant, and streams from the beginning instead of from now.
fn query_paths(tenant: &TenantData) -> Vec<String> {
    let (id, credential) = (&tenant.execution_id, &tenant.credential);
    let worker_params = format!("execution_id={id}&worker_id=zebra-worker");
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
        format!("/api/credentials/{credential}?include_data=true&{worker_params}"),
        format!("/api/credentials/{credential}/sealed?{worker_params}"),
        format!("/api/keychain/{}/api?execution_id={id}", tenant.catalog_id),
    ]
}

/// Follows all events from the beginning until the caller's own run appears. Returns the text of
/// the stream.
async fn follow_until_own_run(server: &TestServer, token: &str, own: &str) -> String {
    let path = format!("{}?last_event_id=0.0", paths::EVENTS_STREAM);
    let request = with_token(build_request(Method::GET, &path, Body::empty()), token);
    let response = server.pipeline.handle_request(&super::local_peer().into(), request).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    // Keep-alive messages never end, so a missing run would be awaited forever without a timeout.
    let outcome = tokio::time::timeout(Duration::from_secs(30), async {
        while !text.contains(own) {
            let bytes = body.next().await.unwrap().unwrap();
            text.push_str(str::from_utf8(&bytes).unwrap());
        }
    });
    let outcome = outcome.await;
    assert!(outcome.is_ok(), "{own} was not streamed: {text}");
    text
}

/// Every scope that a tenant can grant.
fn public_scopes() -> Vec<Scope> {
    let scopes = Scope::ALL.iter().copied();
    scopes.filter(|scope| !scope.is_internal()).collect()
}

/// True if an answer contains marker data that is not part of the request.
fn leaks_marker(reply: &TestResponse, path: &str, request: &str) -> bool {
    let text = reply.text.replace(path, "");
    // Repeating a word of the request reveals nothing. Anything longer does.
    let words = text.split(|character: char| {
        !character.is_alphanumeric() && character != '-' && character != '_'
    });
    words.filter(|word| word.contains(MARKER)).any(|word| !request.contains(word))
}

#[tokio::test]
async fn tenants_are_isolated() {
    on_every_store(check_isolation).await;
}

async fn check_isolation(fixture: &StoreFixture) {
    let server = start_server_with_secrets(fixture).await;
    let populated = populate_tenant(&server).await;
    let before = observe_tenant(&server, &populated).await;
    for secret in ["zebra-workload", "zebra-sesame", "zebra-resolved"] {
        assert!(before.iter().any(|entry| entry.contains(secret)), "{secret}");
    }
    let (outsider, own) = create_second_tenant(&server).await;
    let events = follow_until_own_run(&server, &outsider, &own).await;
    assert!(!events.contains(MARKER), "{events}");
    let mut requests = Vec::new();
    for (method, route) in declared_routes() {
        let path = route_path_for(route.path, &populated);
        let bodies = request_bodies(&populated).into_iter();
        requests.extend(bodies.map(|body| (method.clone(), path.clone(), body)));
    }
    let queries = query_paths(&populated).into_iter();
    requests.extend(queries.map(|path| (Method::GET, path, json!({}))));
    // The audit log of the caller repeats the paths that it requested.
    let mut requested_paths = String::new();
    for (method, path, body) in requests {
        let reply = server.call_with_token(&outsider, method.clone(), &path, body.clone()).await;
        assert_ne!(reply.status, 500, "{method} {path} {body}: {}", reply.text);
        let request = format!("{path} {body}");
        requested_paths.push_str(&path);
        let is_audit = path == paths::AUDIT;
        let leaks = leaks_marker(&reply, &path, if is_audit { &requested_paths } else { &request });
        assert!(!leaks, "{method} {path} {body}: {}", reply.text);
    }
    assert_eq!(observe_tenant(&server, &populated).await, before);
}

#[tokio::test]
async fn foreign_resources_look_missing() {
    on_every_store(check_indistinguishable).await;
}

async fn check_indistinguishable(fixture: &StoreFixture) {
    let server = start_server_with_secrets(fixture).await;
    let populated = populate_tenant(&server).await;
    let missing = TenantData {
        token: String::new(),
        execution_id: "7000000000000000000".to_owned(),
        command_id: "7000000000000000001".to_owned(),
        lease_token: populated.lease_token.clone(),
        catalog_id: "7000000000000000002".to_owned(),
        token_id: "7000000000000000003".to_owned(),
        reference: "noetl://execution/7000000000000000000/result/zebra/9".to_owned(),
        credential: "nobodys_key".to_owned(),
    };
    let (outsider, _) = create_second_tenant(&server).await;
    let normalize = |reply: &TestResponse, tenant: &TenantData| {
        let mut text = reply.json();
        remove_fields(&mut text, &["request_id"]);
        let text = text.to_string();
        text.replace(&tenant.execution_id, "ID")
            .replace(&tenant.command_id, "ID")
            .replace(&tenant.token_id, "ID")
            .replace(&tenant.credential, "ID")
    };
    let has_id = |path: &str| path.contains("_id}") || path.contains("{credential}");
    for (method, route) in declared_routes() {
        if !has_id(route.path) {
            continue;
        }
        let path = route_path_for(route.path, &populated);
        let elsewhere = route_path_for(route.path, &missing);
        for (body, other) in request_bodies(&populated).into_iter().zip(request_bodies(&missing)) {
            let foreign = server.call_with_token(&outsider, method.clone(), &path, body).await;
            let unknown =
                server.call_with_token(&outsider, method.clone(), &elsewhere, other).await;
            let (text, expected) = (&foreign.text, unknown.status);
            assert_eq!(foreign.status, expected, "{method} {path}: {text}");
            let (foreign, unknown) =
                (normalize(&foreign, &populated), normalize(&unknown, &missing));
            assert_eq!(foreign, unknown, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn same_worker_name_in_two_tenants_is_separate() {
    let server = start_server_with_secrets(&StoreFixture::in_memory()).await;
    let populated = populate_tenant(&server).await;
    let own = create_token(&server.services, "spy", &[Scope::Worker, Scope::ExecRead]).await;
    let name = json!({ "name": "zebra-worker" });
    let register = "/api/worker/pool/register";
    call_ok(&server, &own, Method::POST, register, name.clone()).await;
    let pools = call_ok(&server, &own, Method::GET, "/api/worker/pools", json!({})).await;
    assert_eq!(pools.json_at("/count"), 1);
    assert_eq!(pools.json_at("/pools"), json!([]));
    let deregister = "/api/worker/pool/deregister";
    call_ok(&server, &own, Method::POST, deregister, name.clone()).await;
    let heartbeat = "/api/worker/pool/heartbeat";
    call_ok(&server, &populated.token, Method::POST, heartbeat, name).await;
    let lease = json!({
        "execution_id": populated.execution_id, "command_id": populated.command_id, "attempt": 1,
        "lease_token": populated.lease_token,
    });
    let body = json!({ "worker_id": "zebra-worker", "leases": [lease] });
    let renew = "/api/commands/heartbeat";
    let renewed = call_ok(&server, &populated.token, Method::POST, renew, body).await;
    assert_eq!(renewed.json_at("/leases/0/ok"), true);
}
