//! Credentials are stored encrypted, never listed with their data, and issued only to workers that
//! hold a command that uses them.

use std::sync::Arc;

use axum::http::Method;
use noetl_store::prelude::*;
use noetl_store::{CredentialKey, SqliteStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod as Call};
use noetl_types::{ErrorCode, Scope, TenantId};
use serde_json::{Value, json};

use super::tokens::create_token;
use super::{TestServer, is_ok, server_from_services, start_server};
use crate::clock::SystemClock;
use crate::crypto::{EncryptionKey, KeyRing};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::settings::Settings;

pub(super) const SECRET: &str = "sesame-opens-42";
/// The PIN `00471108` as a number.
const NUMERIC_SECRET: u32 = 471_108;

pub(super) const CREDENTIAL_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workflow:
  - step: start
    tool: { kind: http, url: 'http://localhost/', auth: api_main }
";

pub(super) fn new_key() -> EncryptionKey {
    EncryptionKey::from_base64(&EncryptionKey::generate_base64().unwrap()).unwrap()
}

pub(super) async fn start_server_with_keys(
    store: Arc<dyn Store>,
    ring: KeyRing,
    is_dev: bool,
) -> TestServer {
    let settings = Settings { keys: Some(Arc::new(ring)), ..Settings::default() };
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await;
    let services = services.unwrap();
    let http = HttpSettings { is_dev, ..HttpSettings::default() };
    server_from_services(services, &http)
}

pub(super) fn bearer_credential() -> Value {
    json!({ "name": "api_main", "type": "bearer", "data": { "token": SECRET }, "tags": ["prod"] })
}

/// The list has more entries than one page of the store.
#[tokio::test]
async fn lists_all_credentials() {
    let count = 1_005;
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let server = start_server_with_keys(store, KeyRing::new(new_key(), Vec::new()), true).await;
    for number in 0..count {
        let put =
            json!({ "name": format!("c{number}"), "type": "secret", "data": { "secret": SECRET } });
        let stored = server.post("/api/credentials", put).await;
        assert!(is_ok(&stored), "{}", stored.text);
    }
    let listed = server.get("/api/credentials").await;
    assert_eq!(listed.json_at("/items").as_array().unwrap().len(), count);
}

#[tokio::test]
async fn credential_is_stored_and_never_echoed() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let server =
        start_server_with_keys(store.clone(), KeyRing::new(new_key(), Vec::new()), true).await;
    let stored = server.post("/api/credentials", bearer_credential()).await;
    assert!(is_ok(&stored), "{}", stored.text);
    let listed = server.get("/api/credentials").await;
    assert_eq!(listed.json_at("/items").as_array().unwrap().len(), 1);
    let detail = server.get("/api/credentials/api_main").await;
    let id = stored.text_at("/id");
    assert_eq!(detail.text_at("/id"), id);
    for reply in [&stored, &listed, &detail] {
        assert!(!reply.text.contains(SECRET), "{}", reply.text);
    }
    // The stored rows are encrypted.
    let tenant = TenantId::default();
    let row = store.find_credential(&tenant, &CredentialKey::Name("api_main".into())).await;
    assert!(!format!("{row:?}").contains(SECRET));
    let revealed = server.get("/api/credentials/api_main?include_data=true").await;
    assert_eq!(revealed.text_at("/data/token"), SECRET);
    let again = json!({ "name": "api_main", "type": "bearer", "data": { "token": "another-1" } });
    assert_eq!(server.post("/api/credentials", again).await.text_at("/id"), id);
    let revealed = server.get(&format!("/api/credentials/{id}?include_data=true")).await;
    assert_eq!(revealed.text_at("/data/token"), "another-1");
    for wrong in [
        json!({ "name": "", "type": "bearer", "data": {} }),
        json!({ "name": "12345", "type": "bearer", "data": {} }),
        json!({ "name": "x", "type": "", "data": {} }),
    ] {
        let refused = server.post("/api/credentials", wrong).await;
        refused.assert_problem(ErrorCode::Validation);
    }
}

/// Workers of earlier releases do not redact issued secrets in what they send.
#[tokio::test]
async fn redacts_issued_secrets_in_events() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let server = start_server_with_keys(store, KeyRing::new(new_key(), Vec::new()), false).await;
    let worker = create_token(&server.services, "acme", &[Scope::Worker]).await;
    let scopes = [Scope::ExecRun, Scope::ExecRead, Scope::CatalogWrite, Scope::CredAdmin];
    let user = create_token(&server.services, "acme", &scopes).await;
    let post = async |token: &str, path: &str, body: Value| {
        let reply = server.call_with_token(token, Method::POST, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    };
    let mut credential = bearer_credential();
    credential["data"] = json!({ "token": SECRET, "pin": "00471108", "price": 1234.5 });
    post(&user, "/api/credentials", credential).await;
    let body = json!({ "content": CREDENTIAL_PLAYBOOK });
    post(&user, "/api/catalog/register", body).await;
    let started = post(&user, "/api/execute", json!({ "path": "demo/names" })).await;
    let run = started.text_at("/execution_id");
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    let leased = post(&worker, "/api/commands/lease", lease).await;
    let issued =
        format!("/api/credentials/api_main?include_data=true&execution_id={run}&worker_id=w1");
    let issued = server.call_with_token(&worker, Method::GET, &issued, json!({})).await;
    assert_eq!(issued.text_at("/data/token"), SECRET);

    let stored = json!({ "name": "it", "data": [SECRET] });
    let results = format!("/api/result/{run}");
    let stored = server.call_with_token(&worker, Method::PUT, &results, stored).await;
    assert!(is_ok(&stored), "{}", stored.text);
    let found = format!("/api/result/resolve?ref={}", stored.text_at("/ref"));
    let found = server.call_with_token(&user, Method::GET, &found, json!({})).await;
    assert!(found.text.contains("[REDACTED]"), "{}", found.text);
    let named = json!({ "name": SECRET, "data": 1 });
    let named = server.call_with_token(&worker, Method::PUT, &results, named).await;
    assert!(is_ok(&named) && !named.text.contains(SECRET), "{}", named.text);
    let vars = format!("/api/vars/{run}");
    let list = json!({ "variables": [
        { "var_name": "kept", "var_value": { SECRET: [SECRET, NUMERIC_SECRET] }, "source_step": SECRET },
    ] });
    for body in [json!({ "plain": SECRET, "pin": NUMERIC_SECRET }), list] {
        post(&worker, &vars, body).await;
    }
    for path in [vars.clone(), format!("{vars}/kept")] {
        let found = server.call_with_token(&user, Method::GET, &path, json!({})).await;
        assert!(found.text.contains("[REDACTED]"), "{}", found.text);
        for secret in [SECRET, &NUMERIC_SECRET.to_string()] {
            assert!(!found.text.contains(secret), "{}", found.text);
        }
    }
    let event = json!({
        "execution_id": run, "worker_id": "w1", "event_type": "note.added", "step": SECRET,
        "status": SECRET,
        "payload": { "text": SECRET, "pin": NUMERIC_SECRET, "price": 1234.5 },
        "meta": { "business_object": { "id": SECRET }, SECRET: 1, "traceparent": SECRET },
    });
    post(&worker, "/api/events", event).await;
    let event = json!({
        "execution_id": run, "worker_id": "w1", "event_type": "batch.completed",
        "result_kind": "ref", "result_uri": format!("s3://b/{SECRET}"),
    });
    post(&worker, "/api/events", event).await;
    let command = leased.json_at("/commands/0");
    let result = json!({ "output": format!("<{SECRET}>"), SECRET: 1 });
    let report = super::completed_report(&command, &result);
    post(&worker, "/api/commands/report", report).await;
    let events = format!("/api/executions/{run}/events?limit=500");
    let events = server.call_with_token(&user, Method::GET, &events, json!({})).await;
    for secret in [SECRET, "471108", "1234.5"] {
        assert!(!events.text.contains(secret), "{}", events.text);
    }
    assert!(events.text.matches("[REDACTED]").count() >= 4, "{}", events.text);
}

#[tokio::test]
async fn rejects_credentials_without_key() {
    let refused = start_server().await.post("/api/credentials", bearer_credential()).await;
    refused.assert_problem(ErrorCode::NotReady);
}

#[tokio::test]
async fn credential_requires_lease_on_command() {
    let ring = KeyRing::new(new_key(), Vec::new());
    let server =
        start_server_with_keys(Arc::new(SqliteStore::in_memory().unwrap()), ring, false).await;
    let admin = create_token(&server.services, "default", &[Scope::CredAdmin]).await;
    let worker = create_token(&server.services, "default", &[Scope::Worker]).await;
    let scopes = [Scope::ExecRun, Scope::CatalogWrite, Scope::CredUse];
    let user = create_token(&server.services, "default", &scopes).await;
    let stored =
        server.call_with_token(&admin, Method::POST, "/api/credentials", bearer_credential()).await;
    assert!(is_ok(&stored), "{}", stored.text);
    let body = json!({ "content": CREDENTIAL_PLAYBOOK });
    server.call_with_token(&user, Method::POST, "/api/catalog/register", body).await;
    let body = json!({ "path": "demo/names" });
    let started = server.call_with_token(&user, Method::POST, "/api/execute", body).await;
    let id = started.text_at("/execution_id");
    let path_with_data =
        format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1");
    let get = async |token: &str, path: &str| {
        server.call_with_token(token, Method::GET, path, json!({})).await
    };
    // The command is not leased yet.
    get(&worker, &path_with_data).await.assert_problem(ErrorCode::Forbidden);
    let lease = json!({ "worker_id": "w1", "pool": "shared" });
    let leased = server.call_with_token(&worker, Method::POST, "/api/commands/lease", lease).await;
    assert_eq!(leased.json_at("/commands").as_array().unwrap().len(), 1);
    let issued = get(&worker, &path_with_data).await;
    assert_eq!(issued.text_at("/data/token"), SECRET);
    let other = path_with_data.replace("w1", "w2");
    get(&worker, &other).await.assert_problem(ErrorCode::Forbidden);
    let path_without_run = "/api/credentials/api_main?include_data=true";
    get(&worker, path_without_run).await.assert_problem(ErrorCode::Forbidden);
    get(&user, path_without_run).await.assert_problem(ErrorCode::Forbidden);
    assert_eq!(get(&admin, path_without_run).await.text_at("/data/token"), SECRET);
    // Another tenant cannot detect that it exists.
    let outsider =
        create_token(&server.services, "spies", &[Scope::CredAdmin, Scope::Worker]).await;
    for path in [path_without_run, "/api/credentials/api_main", &path_with_data] {
        get(&outsider, path).await.assert_problem(ErrorCode::NotFound);
    }
}

/// Two playbooks with templates. In one of them a template computes a credential name.
#[tokio::test]
async fn dynamic_credential_name_allows_any_credential() {
    let ring = KeyRing::new(new_key(), Vec::new());
    let server =
        start_server_with_keys(Arc::new(SqliteStore::in_memory().unwrap()), ring, true).await;
    server.post("/api/credentials", bearer_credential()).await;
    for (auth, code) in [("other", Some(ErrorCode::Forbidden)), ("'{{ workload.account }}'", None)]
    {
        let content = CREDENTIAL_PLAYBOOK
            .replace("api_main", auth)
            .replace("localhost/", "localhost/{{ workload.place }}");
        let id = server.start_playbook(&content, "demo/names").await;
        server.lease_command().await;
        let path_with_data =
            format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1");
        let reply = server.get(&path_with_data).await;
        match code {
            Some(code) => drop(reply.assert_problem(code)),
            None => assert_eq!(reply.text_at("/data/token"), SECRET),
        }
    }
}

/// A transfer uses the credentials of both sides.
#[tokio::test]
async fn transfer_side_may_compute_credential_name() {
    let ring = KeyRing::new(new_key(), Vec::new());
    let server =
        start_server_with_keys(Arc::new(SqliteStore::in_memory().unwrap()), ring, true).await;
    server.post("/api/credentials", bearer_credential()).await;
    let target = "target: { type: sqlite, database: x.db, table: t }";
    for (source, code) in [
        (
            "{ type: http, url: 'http://localhost/{{ workload.place }}', auth: other }",
            Some(ErrorCode::Forbidden),
        ),
        ("{ type: http, url: 'http://localhost/', auth: '{{ workload.account }}' }", None),
        ("'{{ workload.side }}'", None),
    ] {
        let transfer = format!("{{ kind: transfer, source: {source}, {target} }}");
        let http = "{ kind: http, url: 'http://localhost/', auth: api_main }";
        let content = CREDENTIAL_PLAYBOOK.replace(http, &transfer);
        let id = server.start_playbook(&content, "demo/names").await;
        server.lease_command().await;
        let path_with_data =
            format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1");
        let reply = server.get(&path_with_data).await;
        match code {
            Some(code) => drop(reply.assert_problem(code)),
            None => assert_eq!(reply.text_at("/data/token"), SECRET, "{source}"),
        }
    }
}

/// The held command is found behind many pending ones.
#[tokio::test]
async fn holder_of_any_command_reads_credential() {
    let ring = KeyRing::new(new_key(), Vec::new());
    let server =
        start_server_with_keys(Arc::new(SqliteStore::in_memory().unwrap()), ring, true).await;
    server.post("/api/credentials", bearer_credential()).await;
    let loop_spec = "loop: { in: '{{ range(600) | list }}', iterator: item, spec: { mode: parallel, max_in_flight: 600 } }";
    let content = CREDENTIAL_PLAYBOOK.replace("    tool:", &format!("    {loop_spec}\n    tool:"));
    let catalog_id = {
        let body = json!({ "content": content });
        let registered = server.post("/api/catalog/register", body).await;
        registered.text_at("/catalog_id")
    };
    let id = server.start_playbook(&content, "demo/names").await;
    let list = format!("/api/commands?execution_id={id}&limit=500");
    let next = server.get(&list).await.text_at("/next_cursor");
    let rest = server.get(&format!("{list}&cursor={next}")).await;
    let last = rest.text_at("/commands/99/command_id");
    let claim = format!("/api/commands/{last}/claim");
    let claimed = server.post(&claim, json!({ "worker_id": "w1" })).await;
    assert!(is_ok(&claimed), "{}", claimed.text);
    // Classic workers need not name themselves.
    let entry = format!("/api/keychain/{catalog_id}/api");
    let worker = create_token(&server.services, "default", &[Scope::Worker]).await;
    let entry = format!("{entry}?execution_id={id}");
    let detail = server.call_with_token(&worker, Method::GET, &entry, json!({})).await;
    assert_eq!(detail.text_at("/status"), "not_found", "{}", detail.text);
}

#[tokio::test]
async fn old_key_is_unneeded_after_rotation() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let (old, new) =
        (EncryptionKey::generate_base64().unwrap(), EncryptionKey::generate_base64().unwrap());
    let key = |text: &str| EncryptionKey::from_base64(text).unwrap();
    let before =
        start_server_with_keys(store.clone(), KeyRing::new(key(&old), Vec::new()), true).await;
    before.post("/api/credentials", bearer_credential()).await;
    let both = KeyRing::new(key(&new), vec![key(&old)]);
    let during = start_server_with_keys(store.clone(), both, true).await;
    let rotated = during.post("/api/credentials/rotate", json!({})).await;
    assert_eq!(
        rotated.json(),
        json!({ "processed": 1, "rewrapped": 1, "skipped": 0, "failed": 0 })
    );
    let again = during.post("/api/credentials/rotate", json!({})).await;
    assert_eq!(again.json_at("/processed"), 0);
    let path = "/api/credentials/api_main?include_data=true";
    let after =
        start_server_with_keys(store.clone(), KeyRing::new(key(&new), Vec::new()), true).await;
    assert_eq!(after.get(path).await.text_at("/data/token"), SECRET);
    let old_only = KeyRing::new(key(&old), Vec::new());
    let settings = Settings { keys: Some(Arc::new(old_only)), ..Settings::default() };
    let opened = ControlPlane::open(store, Arc::new(SystemClock), settings).await;
    assert_eq!(opened.err().and_then(|error| error.code()), Some(ErrorCode::NotReady));
}

#[tokio::test]
async fn failed_rotation_reports_progress() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let (old, new) =
        (EncryptionKey::generate_base64().unwrap(), EncryptionKey::generate_base64().unwrap());
    let key = |text: &str| EncryptionKey::from_base64(text).unwrap();
    let before =
        start_server_with_keys(store.clone(), KeyRing::new(key(&old), Vec::new()), true).await;
    before.post("/api/credentials", bearer_credential()).await;
    let plan = |call| match call {
        Call::ListKeychainEntries => Fault::FailBefore,
        _ => Fault::None,
    };
    let store = FaultyStore::with_shared_store(store, Box::new(plan));
    let both = KeyRing::new(key(&new), vec![key(&old)]);
    let during = start_server_with_keys(Arc::new(store), both, true).await;
    let failed = during.post("/api/credentials/rotate", json!({})).await;
    failed.assert_problem(ErrorCode::StoreUnavailable);
    let metrics = during.get("/metrics").await.text;
    let line = "noetl_wallet_rotate_total{outcome=\"rewrapped\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
}
