//! What was lent for a run is hidden in what its workers tell, and tells nobody else anything.

use std::sync::Arc;

use axum::http::Method;
use noetl_store::MemoryStore;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::credentials::{NAMES_IT, SECRET, bearer, house_with, key};
use super::tokens::token_of;
use super::{House, Reply, completed, is_ok};
use crate::vault::KeyRing;

/// A run for which a worker was lent a credential.
struct Scene {
    house: House,
    worker: String,
    user: String,
    catalog_id: String,
    run: String,
    command: Value,
}

impl Scene {
    async fn with(credential: Value) -> Self {
        let store = Arc::new(MemoryStore::new());
        let house = house_with(store, KeyRing::new(key(), Vec::new()), false).await;
        let admin = [Scope::CatalogWrite, Scope::CredAdmin];
        let admin = token_of(&house.runtime, "acme", &admin).await;
        let post = async |token: &str, path: &str, body: Value| {
            let reply = house.call(token, Method::POST, path, body).await;
            assert!(is_ok(&reply), "{path}: {}", reply.text);
            reply
        };
        post(&admin, "/api/credentials", credential).await;
        let body = json!({ "content": NAMES_IT });
        let registered = post(&admin, "/api/catalog/register", body).await;
        let catalog_id = registered.text_at("/catalog_id");
        let worker = token_of(&house.runtime, "acme", &[Scope::Worker]).await;
        let user = [Scope::ExecRun, Scope::ExecRead];
        let user = token_of(&house.runtime, "acme", &user).await;
        let begun = post(&user, "/api/execute", json!({ "path": "demo/names" })).await;
        let run = begun.text_at("/execution_id");
        let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let leased = post(&worker, "/api/commands/lease", lease).await;
        let command = leased.at("/commands/0");
        let lent =
            format!("/api/credentials/api_main?include_data=true&execution_id={run}&worker_id=w1");
        let lent = house.call(&worker, Method::GET, &lent, json!({})).await;
        assert!(is_ok(&lent), "{}", lent.text);
        Self {
            house,
            worker,
            user,
            catalog_id,
            run,
            command,
        }
    }

    async fn events(&self, run: &str) -> Reply {
        let events = format!("/api/executions/{run}/events?limit=500");
        let events = self.house.call(&self.user, Method::GET, &events, json!({}));
        let events = events.await;
        assert!(is_ok(&events), "{}", events.text);
        events
    }

    /// What is kept of a payload with which somebody starts a run under the one of the scene.
    async fn started_with(&self, token: &str, payload: Value) -> String {
        let run = &self.run;
        let body = json!({ "path": "demo/names", "parent_execution_id": run, "payload": payload });
        let begun = self.house.call(token, Method::POST, "/api/execute", body);
        let begun = begun.await;
        assert!(is_ok(&begun), "{}", begun.text);
        self.events(&begun.text_at("/execution_id")).await.text
    }

    async fn reported(&self, result: &Value) -> String {
        let path = "/api/commands/report";
        let report = completed(&self.command, result);
        let told = self.house.call(&self.worker, Method::POST, path, report);
        let told = told.await;
        assert!(is_ok(&told), "{}", told.text);
        self.events(&self.run).await.text
    }
}

#[tokio::test]
async fn a_payload_tells_only_a_worker_what_was_lent() {
    let scene = Scene::with(bearer()).await;
    let beginning = format!("{}{}", "many words ".repeat(100), &SECRET[..8]);
    let payload =
        json!({ "whole": SECRET, "cut": beginning, "marked": format!("{}…", &SECRET[..8]) });
    let by_user = scene.started_with(&scene.user, payload.clone()).await;
    assert!(!by_user.contains("[REDACTED]"), "{by_user}");
    let by_worker = scene.started_with(&scene.worker, payload).await;
    assert!(!by_worker.contains(SECRET), "{by_worker}");
    assert!(by_worker.contains("[REDACTED]"), "{by_worker}");
    for shown in [&*beginning, "sesame-o…"] {
        assert!(by_worker.contains(shown), "{by_worker}");
    }
}

#[tokio::test]
async fn what_is_refused_for_its_size_is_not_kept_in_mind() {
    let scene = Scene::with(bearer()).await;
    let path = format!("/api/keychain/{}/api", scene.catalog_id);
    let large = json!({
        "execution_id": scene.run,
        "data": { "token": "never-kept-1", "more": "x".repeat(70_000) },
    });
    let put = scene.house.call(&scene.worker, Method::POST, &path, large);
    put.await.is_problem(ErrorCode::TooLarge);
    let log = scene.reported(&json!({ "said": "never-kept-1" })).await;
    assert!(log.contains("never-kept-1"), "{log}");
}

/// A step may return the name of the database that another one asks with.
#[tokio::test]
async fn what_a_type_of_credential_makes_public_changes_no_result() {
    let credential = json!({ "name": "api_main", "type": "postgres", "data": {
        "db_host": "db.example.org", "db_name": "analytics", "db_user": "reporting",
        "db_password": SECRET, "note": "unheard-of",
    } });
    let scene = Scene::with(credential).await;
    let result = json!({ "rows": ["analytics", "reporting", "unheard-of", SECRET] });
    let log = scene.reported(&result).await;
    assert!(
        !log.contains(SECRET) && !log.contains("unheard-of"),
        "{log}"
    );
    assert!(
        log.contains("analytics") && log.contains("reporting"),
        "{log}"
    );
}
