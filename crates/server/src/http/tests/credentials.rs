//! Credentials are kept sealed, shown to nobody, and lent to who works with them.

use std::sync::Arc;

use axum::http::Method;
use noetl_store::faulty::{Fault, FaultyStore, Method as Call};
use noetl_store::{CredentialKey, Credentials as _, MemoryStore, Store};
use noetl_types::{ErrorCode, Scope, TenantId};
use serde_json::{Value, json};

use super::tokens::token_of;
use super::{House, house, house_of, is_ok};
use crate::clock::SystemClock;
use crate::http::settings::HttpSettings;
use crate::runtime::{Runtime, Settings};
use crate::vault::{Key, KeyRing};

pub(super) const SECRET: &str = "sesame-opens-42";

pub(super) const NAMES_IT: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workflow:
  - step: start
    tool: { kind: http, url: 'http://localhost/', auth: api_main }
";

pub(super) fn key() -> Key {
    Key::read(&Key::text_of_new().unwrap()).unwrap()
}

pub(super) async fn house_with(store: Arc<dyn Store>, ring: KeyRing, is_dev: bool) -> House {
    let settings = Settings {
        keys: Some(Arc::new(ring)),
        ..Settings::default()
    };
    let runtime = Runtime::open(store, Arc::new(SystemClock), settings).await;
    let runtime = runtime.unwrap();
    let http = HttpSettings {
        is_dev,
        ..HttpSettings::default()
    };
    house_of(runtime, &http)
}

pub(super) fn bearer() -> Value {
    json!({ "name": "api_main", "type": "bearer", "data": { "token": SECRET }, "tags": ["prod"] })
}

/// A page of the store is not all of it.
#[tokio::test]
async fn a_long_list_is_whole() {
    let count = 1_005;
    let store = Arc::new(MemoryStore::new());
    let house = house_with(store, KeyRing::new(key(), Vec::new()), true).await;
    for number in 0..count {
        let put =
            json!({ "name": format!("c{number}"), "type": "secret", "data": { "secret": SECRET } });
        let kept = house.post("/api/credentials", put).await;
        assert!(is_ok(&kept), "{}", kept.text);
    }
    let listed = house.get("/api/credentials").await;
    assert_eq!(listed.at("/items").as_array().unwrap().len(), count);
}

#[tokio::test]
async fn a_credential_is_kept_and_never_echoed() {
    let store = Arc::new(MemoryStore::new());
    let house = house_with(store.clone(), KeyRing::new(key(), Vec::new()), true).await;
    let kept = house.post("/api/credentials", bearer()).await;
    assert!(is_ok(&kept), "{}", kept.text);
    let listed = house.get("/api/credentials").await;
    assert_eq!(listed.at("/items").as_array().unwrap().len(), 1);
    let shown = house.get("/api/credentials/api_main").await;
    let id = kept.text_at("/id");
    assert_eq!(shown.text_at("/id"), id);
    for reply in [&kept, &listed, &shown] {
        assert!(!reply.text.contains(SECRET), "{}", reply.text);
    }
    // What lies in the store says nothing either.
    let tenant = TenantId::default();
    let row = store
        .credential(&tenant, &CredentialKey::Name("api_main".into()))
        .await;
    assert!(!format!("{row:?}").contains(SECRET));
    let revealed = house
        .get("/api/credentials/api_main?include_data=true")
        .await;
    assert_eq!(revealed.text_at("/data/token"), SECRET);
    let again = json!({ "name": "api_main", "type": "bearer", "data": { "token": "another-1" } });
    assert_eq!(
        house.post("/api/credentials", again).await.text_at("/id"),
        id
    );
    let revealed = house
        .get(&format!("/api/credentials/{id}?include_data=true"))
        .await;
    assert_eq!(revealed.text_at("/data/token"), "another-1");
    for wrong in [
        json!({ "name": "", "type": "bearer", "data": {} }),
        json!({ "name": "12345", "type": "bearer", "data": {} }),
        json!({ "name": "x", "type": "", "data": {} }),
    ] {
        let refused = house.post("/api/credentials", wrong).await;
        refused.is_problem(ErrorCode::Validation);
    }
}

/// Workers of earlier releases do not look for what they were lent in what they tell.
#[tokio::test]
async fn what_was_lent_is_hidden_in_what_comes_back() {
    let store = Arc::new(MemoryStore::new());
    let house = house_with(store, KeyRing::new(key(), Vec::new()), false).await;
    let worker = token_of(&house.runtime, "acme", &[Scope::Worker]).await;
    let everyday = [
        Scope::ExecRun,
        Scope::ExecRead,
        Scope::CatalogWrite,
        Scope::CredAdmin,
    ];
    let user = token_of(&house.runtime, "acme", &everyday).await;
    let post = async |token: &str, path: &str, body: Value| {
        let reply = house.call(token, Method::POST, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    };
    post(&user, "/api/credentials", bearer()).await;
    let body = json!({ "content": NAMES_IT });
    post(&user, "/api/catalog/register", body).await;
    let begun = post(&user, "/api/execute", json!({ "path": "demo/names" })).await;
    let run = begun.text_at("/execution_id");
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    let leased = post(&worker, "/api/commands/lease", lease).await;
    let lent =
        format!("/api/credentials/api_main?include_data=true&execution_id={run}&worker_id=w1");
    let lent = house.call(&worker, Method::GET, &lent, json!({})).await;
    assert_eq!(lent.text_at("/data/token"), SECRET);

    let kept = json!({ "name": "it", "data": [SECRET] });
    let results = format!("/api/result/{run}");
    let kept = house.call(&worker, Method::PUT, &results, kept).await;
    assert!(is_ok(&kept), "{}", kept.text);
    let found = format!("/api/result/resolve?ref={}", kept.text_at("/ref"));
    let found = house.call(&user, Method::GET, &found, json!({})).await;
    assert!(found.text.contains("[REDACTED]"), "{}", found.text);
    let remark = json!({
        "execution_id": run, "worker_id": "w1", "event_type": "remark.made",
        "payload": { "heard": SECRET }, "meta": { "business_object": { "id": SECRET } },
    });
    post(&worker, "/api/events", remark).await;
    let command = leased.at("/commands/0");
    let result = json!({ "said": format!("<{SECRET}>"), SECRET: 1 });
    let report = super::completed(&command, &result);
    post(&worker, "/api/commands/report", report).await;
    let events = format!("/api/executions/{run}/events?limit=500");
    let events = house.call(&user, Method::GET, &events, json!({})).await;
    assert!(!events.text.contains(SECRET), "{}", events.text);
    assert!(
        events.text.matches("[REDACTED]").count() >= 4,
        "{}",
        events.text
    );
}

#[tokio::test]
async fn a_server_without_a_key_keeps_none() {
    let refused = house().await.post("/api/credentials", bearer()).await;
    refused.is_problem(ErrorCode::NotReady);
}

#[tokio::test]
async fn only_who_holds_a_command_borrows() {
    let ring = KeyRing::new(key(), Vec::new());
    let house = house_with(Arc::new(MemoryStore::new()), ring, false).await;
    let admin = token_of(&house.runtime, "default", &[Scope::CredAdmin]).await;
    let worker = token_of(&house.runtime, "default", &[Scope::Worker]).await;
    let everyday = [Scope::ExecRun, Scope::CatalogWrite, Scope::CredUse];
    let user = token_of(&house.runtime, "default", &everyday).await;
    let kept = house
        .call(&admin, Method::POST, "/api/credentials", bearer())
        .await;
    assert!(is_ok(&kept), "{}", kept.text);
    let body = json!({ "content": NAMES_IT });
    house
        .call(&user, Method::POST, "/api/catalog/register", body)
        .await;
    let body = json!({ "path": "demo/names" });
    let begun = house.call(&user, Method::POST, "/api/execute", body).await;
    let id = begun.text_at("/execution_id");
    let wish =
        format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1");
    let ask = async |token: &str, path: &str| house.call(token, Method::GET, path, json!({})).await;
    // Nobody has leased the command yet.
    ask(&worker, &wish).await.is_problem(ErrorCode::Forbidden);
    let lease = json!({ "worker_id": "w1", "pool": "shared" });
    let leased = house
        .call(&worker, Method::POST, "/api/commands/lease", lease)
        .await;
    assert_eq!(leased.at("/commands").as_array().unwrap().len(), 1);
    let lent = ask(&worker, &wish).await;
    assert_eq!(lent.text_at("/data/token"), SECRET);
    let other = wish.replace("w1", "w2");
    ask(&worker, &other).await.is_problem(ErrorCode::Forbidden);
    let alone = "/api/credentials/api_main?include_data=true";
    ask(&worker, alone).await.is_problem(ErrorCode::Forbidden);
    ask(&user, alone).await.is_problem(ErrorCode::Forbidden);
    assert_eq!(ask(&admin, alone).await.text_at("/data/token"), SECRET);
    // Another tenant does not even learn that there is one.
    let spy = token_of(&house.runtime, "spies", &[Scope::CredAdmin, Scope::Worker]).await;
    for path in [alone, "/api/credentials/api_main", &wish] {
        ask(&spy, path).await.is_problem(ErrorCode::NotFound);
    }
}

/// Two playbooks with templates: one of them makes the name of a credential.
#[tokio::test]
async fn only_a_template_that_makes_a_name_may_mean_any_credential() {
    let ring = KeyRing::new(key(), Vec::new());
    let house = house_with(Arc::new(MemoryStore::new()), ring, true).await;
    house.post("/api/credentials", bearer()).await;
    for (auth, code) in [
        ("other", Some(ErrorCode::Forbidden)),
        ("'{{ workload.account }}'", None),
    ] {
        let content = NAMES_IT
            .replace("api_main", auth)
            .replace("localhost/", "localhost/{{ workload.place }}");
        let id = house.started_with(&content, "demo/names").await;
        house.leased().await;
        let wish =
            format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1");
        let reply = house.get(&wish).await;
        match code {
            Some(code) => drop(reply.is_problem(code)),
            None => assert_eq!(reply.text_at("/data/token"), SECRET),
        }
    }
}

/// A transfer asks with the credentials of its sides.
#[tokio::test]
async fn a_side_of_a_transfer_may_make_the_name_of_a_credential() {
    let ring = KeyRing::new(key(), Vec::new());
    let house = house_with(Arc::new(MemoryStore::new()), ring, true).await;
    house.post("/api/credentials", bearer()).await;
    let target = "target: { type: sqlite, database: x.db, table: t }";
    for (source, code) in [
        (
            "{ type: http, url: 'http://localhost/{{ workload.place }}', auth: other }",
            Some(ErrorCode::Forbidden),
        ),
        (
            "{ type: http, url: 'http://localhost/', auth: '{{ workload.account }}' }",
            None,
        ),
        ("'{{ workload.side }}'", None),
    ] {
        let transfer = format!("{{ kind: transfer, source: {source}, {target} }}");
        let http = "{ kind: http, url: 'http://localhost/', auth: api_main }";
        let content = NAMES_IT.replace(http, &transfer);
        let id = house.started_with(&content, "demo/names").await;
        house.leased().await;
        let wish =
            format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1");
        let reply = house.get(&wish).await;
        match code {
            Some(code) => drop(reply.is_problem(code)),
            None => assert_eq!(reply.text_at("/data/token"), SECRET, "{source}"),
        }
    }
}

/// However many commands wait before the one that is held.
#[tokio::test]
async fn who_holds_one_of_many_commands_borrows() {
    let ring = KeyRing::new(key(), Vec::new());
    let house = house_with(Arc::new(MemoryStore::new()), ring, true).await;
    house.post("/api/credentials", bearer()).await;
    let many = "loop: { in: '{{ range(600) | list }}', iterator: item, spec: { mode: parallel, max_in_flight: 600 } }";
    let content = NAMES_IT.replace("    tool:", &format!("    {many}\n    tool:"));
    let catalog_id = {
        let body = json!({ "content": content });
        let registered = house.post("/api/catalog/register", body).await;
        registered.text_at("/catalog_id")
    };
    let id = house.started_with(&content, "demo/names").await;
    let list = format!("/api/commands?execution_id={id}&limit=500");
    let next = house.get(&list).await.text_at("/next_cursor");
    let rest = house.get(&format!("{list}&cursor={next}")).await;
    let last = rest.text_at("/commands/99/command_id");
    let claim = format!("/api/commands/{last}/claim");
    let claimed = house.post(&claim, json!({ "worker_id": "w1" })).await;
    assert!(is_ok(&claimed), "{}", claimed.text);
    // A worker of the classic wire need not say which one it is.
    let entry = format!("/api/keychain/{catalog_id}/api");
    let worker = token_of(&house.runtime, "default", &[Scope::Worker]).await;
    let entry = format!("{entry}?execution_id={id}");
    let shown = house.call(&worker, Method::GET, &entry, json!({})).await;
    assert_eq!(shown.text_at("/status"), "not_found", "{}", shown.text);
}

#[tokio::test]
async fn an_old_key_may_go_after_a_rotation() {
    let store = Arc::new(MemoryStore::new());
    let (old, new) = (Key::text_of_new().unwrap(), Key::text_of_new().unwrap());
    let key = |text: &str| Key::read(text).unwrap();
    let before = house_with(store.clone(), KeyRing::new(key(&old), Vec::new()), true).await;
    before.post("/api/credentials", bearer()).await;
    let both = KeyRing::new(key(&new), vec![key(&old)]);
    let during = house_with(store.clone(), both, true).await;
    let rotated = during.post("/api/credentials/rotate", json!({})).await;
    assert_eq!(
        rotated.json(),
        json!({ "processed": 1, "rewrapped": 1, "skipped": 0, "failed": 0 })
    );
    let again = during.post("/api/credentials/rotate", json!({})).await;
    assert_eq!(again.at("/processed"), 0);
    let path = "/api/credentials/api_main?include_data=true";
    let after = house_with(store.clone(), KeyRing::new(key(&new), Vec::new()), true).await;
    assert_eq!(after.get(path).await.text_at("/data/token"), SECRET);
    let lost = house_with(store, KeyRing::new(key(&old), Vec::new()), true).await;
    lost.get(path).await.is_problem(ErrorCode::NotReady);
}

#[tokio::test]
async fn what_a_rotation_did_before_it_failed_is_counted() {
    let store = Arc::new(MemoryStore::new());
    let (old, new) = (Key::text_of_new().unwrap(), Key::text_of_new().unwrap());
    let key = |text: &str| Key::read(text).unwrap();
    let before = house_with(store.clone(), KeyRing::new(key(&old), Vec::new()), true).await;
    before.post("/api/credentials", bearer()).await;
    let plan = |call| match call {
        Call::KeychainEntries => Fault::Before,
        _ => Fault::None,
    };
    let store = FaultyStore::sharing(store, Box::new(plan));
    let both = KeyRing::new(key(&new), vec![key(&old)]);
    let during = house_with(Arc::new(store), both, true).await;
    let failed = during.post("/api/credentials/rotate", json!({})).await;
    failed.is_problem(ErrorCode::StoreUnavailable);
    let counted = during.get("/metrics").await.text;
    let line = "noetl_wallet_rotate_total{outcome=\"rewrapped\"} 1\n";
    assert!(counted.contains(line), "{counted}");
}
