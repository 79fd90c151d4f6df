//! Secrets issued for a run are redacted in what its workers send, without revealing them to
//! others.

use std::sync::Arc;

use axum::http::Method;
use noetl_store::SqliteStore;
use noetl_types::{ErrorCode, Scope};
use serde_json::{Value, json};

use super::credentials::{
    CREDENTIAL_PLAYBOOK, SECRET, bearer_credential, new_key, start_server_with_keys,
};
use super::tokens::create_token;
use super::{TestResponse, TestServer, completed_report, is_ok};
use crate::crypto::KeyRing;

/// A run whose worker was issued a credential.
struct IssuedSecretSetup {
    server: TestServer,
    worker: String,
    user: String,
    catalog_id: String,
    run: String,
    command: Value,
}

impl IssuedSecretSetup {
    async fn with_credential(credential: Value) -> Self {
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let server =
            start_server_with_keys(store, KeyRing::new(new_key(), Vec::new()), false).await;
        let admin = [Scope::CatalogWrite, Scope::CredAdmin];
        let admin = create_token(&server.services, "acme", &admin).await;
        let post = async |token: &str, path: &str, body: Value| {
            let reply = server.call_with_token(token, Method::POST, path, body).await;
            assert!(is_ok(&reply), "{path}: {}", reply.text);
            reply
        };
        post(&admin, "/api/credentials", credential).await;
        let body = json!({ "content": CREDENTIAL_PLAYBOOK });
        let registered = post(&admin, "/api/catalog/register", body).await;
        let catalog_id = registered.text_at("/catalog_id");
        let worker = create_token(&server.services, "acme", &[Scope::Worker]).await;
        let user = [Scope::ExecRun, Scope::ExecRead];
        let user = create_token(&server.services, "acme", &user).await;
        let started = post(&user, "/api/execute", json!({ "path": "demo/names" })).await;
        let run = started.text_at("/execution_id");
        let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let leased = post(&worker, "/api/commands/lease", lease).await;
        let command = leased.json_at("/commands/0");
        let issued =
            format!("/api/credentials/api_main?include_data=true&execution_id={run}&worker_id=w1");
        let issued = server.call_with_token(&worker, Method::GET, &issued, json!({})).await;
        assert!(is_ok(&issued), "{}", issued.text);
        Self { server, worker, user, catalog_id, run, command }
    }

    async fn read_events(&self, run: &str) -> TestResponse {
        let events = format!("/api/executions/{run}/events?limit=500");
        let events = self.server.call_with_token(&self.user, Method::GET, &events, json!({}));
        let events = events.await;
        assert!(is_ok(&events), "{}", events.text);
        events
    }

    /// Starts a child run with a payload, and returns the stored events of the child.
    async fn start_child_with_payload(&self, token: &str, payload: Value) -> String {
        let run = &self.run;
        let body = json!({ "path": "demo/names", "parent_execution_id": run, "payload": payload });
        let started = self.server.call_with_token(token, Method::POST, "/api/execute", body);
        let started = started.await;
        assert!(is_ok(&started), "{}", started.text);
        self.read_events(&started.text_at("/execution_id")).await.text
    }

    async fn report_result(&self, result: &Value) -> String {
        let path = "/api/commands/report";
        let report = completed_report(&self.command, result);
        let reply = self.server.call_with_token(&self.worker, Method::POST, path, report);
        let reply = reply.await;
        assert!(is_ok(&reply), "{}", reply.text);
        self.read_events(&self.run).await.text
    }
}

#[tokio::test]
async fn redacts_issued_secrets_in_worker_payloads_only() {
    let setup = IssuedSecretSetup::with_credential(bearer_credential()).await;
    let prefix_text = format!("{}{}", "many words ".repeat(100), &SECRET[..8]);
    let payload =
        json!({ "whole": SECRET, "cut": prefix_text, "marked": format!("{}…", &SECRET[..8]) });
    let by_user = setup.start_child_with_payload(&setup.user, payload.clone()).await;
    assert!(!by_user.contains("[REDACTED]"), "{by_user}");
    let by_worker = setup.start_child_with_payload(&setup.worker, payload).await;
    assert!(!by_worker.contains(SECRET), "{by_worker}");
    assert!(by_worker.contains("[REDACTED]"), "{by_worker}");
    for text in [&*prefix_text, "sesame-o…"] {
        assert!(by_worker.contains(text), "{by_worker}");
    }
}

#[tokio::test]
async fn rejected_keychain_entry_is_not_redacted() {
    let setup = IssuedSecretSetup::with_credential(bearer_credential()).await;
    let path = format!("/api/keychain/{}/api", setup.catalog_id);
    let large = json!({
        "execution_id": setup.run,
        "data": { "token": "never-kept-1", "more": "x".repeat(70_000) },
    });
    let put = setup.server.call_with_token(&setup.worker, Method::POST, &path, large);
    put.await.assert_problem(ErrorCode::TooLarge);
    let log = setup.report_result(&json!({ "output": "never-kept-1" })).await;
    assert!(log.contains("never-kept-1"), "{log}");
}

/// A step may return a database name that another step uses.
#[tokio::test]
async fn public_credential_fields_are_not_redacted() {
    let credential = json!({ "name": "api_main", "type": "postgres", "data": {
        "db_host": "db.example.org", "db_name": "analytics", "db_user": "reporting",
        "db_password": SECRET, "note": "unheard-of",
    } });
    let setup = IssuedSecretSetup::with_credential(credential).await;
    let result = json!({ "rows": ["analytics", "reporting", "unheard-of", SECRET] });
    let log = setup.report_result(&result).await;
    assert!(!log.contains(SECRET) && !log.contains("unheard-of"), "{log}");
    assert!(log.contains("analytics") && log.contains("reporting"), "{log}");
}
