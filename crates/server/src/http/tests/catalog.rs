//! Registration of definitions over HTTP.

use std::sync::Arc;

use axum::http::Method;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_store::SqliteStore;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::credentials::{new_key, start_server_with_keys};
use super::tokens::create_token;
use super::{TWO_STEPS, TestResponse, TestServer, is_ok, start_server};
use crate::access::CallContext;
use crate::crypto::KeyRing;

async fn register_content(server: &TestServer, content: &str) -> TestResponse {
    server.post("/api/catalog/register", json!({ "content": content })).await
}

#[tokio::test]
async fn new_content_creates_new_version() {
    let server = start_server().await;
    let first = register_content(&server, TWO_STEPS).await;
    assert_eq!(first.text_at("/status"), "success");
    assert_eq!(first.text_at("/path"), "demo/two");
    assert_eq!(first.text_at("/kind"), "playbook");
    assert_eq!((first.json_at("/version"), first.json_at("/unchanged")), (json!(1), json!(false)));
    let catalog_id = first.text_at("/catalog_id");
    // The same content in base64 creates no new version.
    let same = register_content(&server, &BASE64_STANDARD.encode(TWO_STEPS)).await;
    assert_eq!((same.json_at("/version"), same.json_at("/unchanged")), (json!(1), json!(true)));
    assert_eq!(same.text_at("/catalog_id"), catalog_id);
    let other = register_content(&server, &format!("{TWO_STEPS}# more\n")).await;
    assert_eq!((other.json_at("/version"), other.json_at("/unchanged")), (json!(2), json!(false)));

    for (request, version) in [
        (json!({ "path": "demo/two" }), 2),
        (json!({ "path": "demo/two", "version": "latest" }), 2),
        (json!({ "path": "demo/two", "version": 1 }), 1),
        (json!({ "path": "demo/two", "version": "1" }), 1),
        (json!({ "catalog_id": catalog_id }), 1),
        (json!({ "catalog_id": catalog_id, "path": "elsewhere" }), 1),
        (json!({ "catalog_id": catalog_id.parse::<u64>().unwrap() }), 1),
    ] {
        let item = server.post("/api/catalog/resource", request.clone()).await;
        assert!(is_ok(&item), "{request}: {}", item.text);
        assert_eq!(item.json_at("/version"), version, "{request}");
        assert!(item.text_at("/content").starts_with(TWO_STEPS));
    }
    for (request, code) in [
        (json!({}), ErrorCode::Validation),
        (json!({ "path": "demo/two", "version": "newest" }), ErrorCode::Validation),
        (json!({ "path": "demo/two", "version": 3 }), ErrorCode::NotFound),
        (json!({ "path": "nowhere" }), ErrorCode::NotFound),
        (json!({ "catalog_id": 7 }), ErrorCode::NotFound),
    ] {
        let reply = server.post("/api/catalog/resource", request).await;
        reply.assert_problem(code);
    }
}

#[tokio::test]
async fn dry_run_writes_nothing() {
    let server = start_server().await;
    let body = json!({ "content": TWO_STEPS, "dry_run": true });
    let dry = server.post("/api/catalog/register", body.clone()).await;
    assert!(is_ok(&dry), "{}", dry.text);
    assert_eq!(dry.json().get("version"), None);
    let request = json!({ "path": "demo/two" });
    let reply = server.post("/api/catalog/resource", request).await;
    reply.assert_problem(ErrorCode::NotFound);
    register_content(&server, TWO_STEPS).await;
    let dry = server.post("/api/catalog/register", body).await;
    assert_eq!((dry.json_at("/version"), dry.json_at("/unchanged")), (json!(1), json!(true)));
}

#[tokio::test]
async fn validation_errors_have_positions() {
    let server = start_server().await;
    let wrong = TWO_STEPS.replace("step: last }] }", "step: lost }] }");
    let reply = register_content(&server, &wrong).await;
    reply.assert_problem(ErrorCode::Validation);
    assert_eq!(reply.json_at("/errors/0/line"), 9, "{}", reply.text);
    assert!(reply.text_at("/errors/0/code").starts_with("NP"));
    let reply = register_content(&server, "workflow: [").await;
    reply.assert_problem(ErrorCode::YamlSyntax);
    assert!(reply.json_at("/errors/0/line").is_u64());
    for content in ["", "just words", "a: b"] {
        let reply = register_content(&server, content).await;
        assert!((400..=422).contains(&reply.status), "{content}: {}", reply.text);
    }
}

#[tokio::test]
async fn other_documents_are_stored_by_kind() {
    let server = start_server().await;
    let schedule = "apiVersion: noetl.io/v1
kind: Schedule
metadata: { name: nightly }
spec: { playbook: demo/two, cron: '0 3 * * *' }
";
    let reply = register_content(&server, schedule).await;
    reply.assert_problem(ErrorCode::Validation);
    assert_eq!(reply.text_at("/errors/0/code"), "NP021", "{}", reply.text);
    let unchecked = "apiVersion: v1\nkind: Toaster\nmetadata: { name: m, path: models/m }\n";
    let reply = register_content(&server, unchecked).await;
    assert!(is_ok(&reply), "{}", reply.text);
    assert_eq!((&*reply.text_at("/kind"), &*reply.text_at("/path")), ("toaster", "models/m"));
    let codes = reply.json_at("/warnings");
    assert!(codes.as_array().unwrap().iter().any(|found| found["code"] == "NP009"), "{codes}");
    let nameless = register_content(&server, "apiVersion: v1\nkind: Model\n").await;
    nameless.assert_problem(ErrorCode::Validation);
}

#[tokio::test]
async fn system_playbooks_require_admin() {
    let server = start_server().await;
    let system = TWO_STEPS.replace("demo/two", "system/two");
    let user = create_token(&server.services, "default", &[Scope::CatalogWrite]).await;
    let body = json!({ "content": system });
    let reply = server.call_with_token(&user, Method::POST, "/api/catalog/register", body).await;
    reply.assert_problem(ErrorCode::Forbidden);
    let request = serde_json::from_value(json!({ "content": system })).unwrap();
    let response = server
        .services
        .catalog
        .register_definition_as_admin(CallContext::server(), request)
        .await
        .unwrap();
    assert_eq!(serde_json::to_value(response).unwrap()["version"], Value::from(1));
}

#[tokio::test]
async fn unknown_references_are_warnings() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let server = start_server_with_keys(store, KeyRing::new(new_key(), Vec::new()), true).await;
    let parent = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: demo/parent }
workflow:
  - step: again
    tool: { kind: playbook, path: demo/parent }
    next: { arcs: [{ step: child }] }
  - step: child
    tool: { kind: playbook, path: /demo/two, return_result: true }
    next: { arcs: [{ step: load }] }
  - step: load
    tool: { kind: postgres, auth: pg_prod, query: SELECT 1 }
";
    let codes = |reply: &TestResponse, key: &str| -> Vec<String> {
        assert!(is_ok(reply), "{}", reply.text);
        let list = reply.json().pointer(key).and_then(Value::as_array).cloned();
        let list = list.unwrap_or_default();
        let found = list.iter();
        found
            .map(|found| format!("{}@{}", found["code"].as_str().unwrap(), found["line"]))
            .collect()
    };
    let reply = register_content(&server, parent).await;
    assert_eq!(codes(&reply, "/warnings"), ["NP706@9", "NP605@12"]);
    let validate = "/api/catalog/playbooks/validate";
    let reply = server.post(validate, json!({ "content": parent })).await;
    assert_eq!(codes(&reply, "/diagnostics"), ["NP706@9", "NP605@12"]);

    register_content(&server, TWO_STEPS).await;
    let credential = json!({ "name": "pg_prod", "type": "postgres", "data": { "db_host": "h" } });
    let stored = server.post("/api/credentials", credential).await;
    assert!(is_ok(&stored), "{}", stored.text);
    let reply = register_content(&server, parent).await;
    assert_eq!(codes(&reply, "/warnings"), Vec::<String>::new());
}
