//! Every operation on a secret is audited once, and no secret is issued without an audit entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use noetl_api::WorkerApi;
use noetl_api::credential::CredentialRequest;
use noetl_store::postgres::PostgresOptions;
use noetl_store::{PostgresStore, SqliteStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod as Call, migrated_database};
use noetl_types::{ErrorCode, Scope, WorkerId};
use serde_json::{Value, json};

use super::backends::on_every_store;
use super::tokens::create_token;
use super::{TestResponse, TestServer, is_ok, server_from_services};
use crate::access::CallContext;
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::{BoxRecipient, EncryptionKey, KeyRing, SealedBox};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::settings::Settings;

const SECRET: &str = "sesame-opens-42";

const CREDENTIAL_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workflow:
  - step: start
    tool: { kind: http, url: 'http://localhost/', auth: api_main }
";

async fn start_audit_server(
    store: Arc<dyn Store>,
    change: impl FnOnce(&mut Settings),
) -> TestServer {
    let key = EncryptionKey::from_base64(&EncryptionKey::generate_base64().unwrap()).unwrap();
    let mut settings =
        Settings { keys: Some(Arc::new(KeyRing::new(key, Vec::new()))), ..Settings::default() };
    change(&mut settings);
    let http = HttpSettings { is_dev: false, ..super::internal::internal_settings() };
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await.unwrap();
    server_from_services(services, &http)
}

/// Tokens of the roles that use secrets, a run that names one, and its playbook.
struct SecretAuditSetup {
    server: TestServer,
    admin: String,
    worker: String,
    user: String,
    catalog_id: String,
    execution_id: String,
}

impl SecretAuditSetup {
    async fn new(store: Arc<dyn Store>) -> Self {
        Self::with_settings(store, |_| {}).await
    }

    async fn with_settings(store: Arc<dyn Store>, change: impl FnOnce(&mut Settings)) -> Self {
        let server = start_audit_server(store, change).await;
        let admin = create_token(&server.services, "acme", &[Scope::CredAdmin]).await;
        let worker = create_token(&server.services, "acme", &[Scope::Worker]).await;
        let user_scopes = [Scope::ExecRun, Scope::CatalogWrite, Scope::CredUse];
        let user = create_token(&server.services, "acme", &user_scopes).await;
        let body = json!({ "content": CREDENTIAL_PLAYBOOK });
        let created =
            server.call_with_token(&user, Method::POST, "/api/catalog/register", body).await;
        let body = json!({ "path": "demo/names" });
        let started = server.call_with_token(&user, Method::POST, "/api/execute", body).await;
        Self {
            catalog_id: created.text_at("/catalog_id"),
            execution_id: started.text_at("/execution_id"),
            server,
            admin,
            worker,
            user,
        }
    }

    async fn put_credential(&self) -> TestResponse {
        let body = json!({ "name": "api_main", "type": "bearer", "data": { "token": SECRET } });
        let path = "/api/credentials";
        self.server.call_with_token(&self.admin, Method::POST, path, body).await
    }

    async fn get(&self, token: &str, path: &str) -> TestResponse {
        self.server.call_with_token(token, Method::GET, path, json!({})).await
    }

    async fn lease_command(&self) {
        let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let path = "/api/commands/lease";
        let leased = self.server.call_with_token(&self.worker, Method::POST, path, lease);
        let leased = leased.await;
        assert_eq!(leased.json_at("/commands").as_array().unwrap().len(), 1);
    }

    async fn register_worker(&self, body: Value) {
        let path = "/api/worker/pool/register";
        let created = self.server.call_with_token(&self.worker, Method::POST, path, body);
        let created = created.await;
        assert!(is_ok(&created), "{}", created.text);
    }

    fn credential_path(&self) -> String {
        let id = &self.execution_id;
        format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1")
    }

    fn sealed_credential_path(&self) -> String {
        let id = &self.execution_id;
        format!("/api/credentials/api_main/sealed?execution_id={id}&worker_id=w1")
    }

    /// Audit rows of the platform, oldest first.
    async fn list_audit_rows(&self, query: &str) -> Vec<Value> {
        let path = format!("secret-audit?{query}");
        let reply = self.server.internal_request(Method::GET, &path, "").await;
        assert!(is_ok(&reply), "{}", reply.text);
        assert!(!reply.text.contains(SECRET), "{}", reply.text);
        let rows = reply.json_at("/rows");
        rows.as_array().unwrap().iter().rev().cloned().collect()
    }

    /// Summaries of the audit rows.
    async fn list_audit_summaries(&self, query: &str) -> Vec<String> {
        let rows = self.list_audit_rows(query).await;
        rows.iter().map(summarize_row).collect()
    }
}

fn summarize_row(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let has_run = if row["execution_id"].is_i64() { " for a run" } else { "" };
    format!(
        "{} {} {} {} {}{has_run}",
        text("actor"),
        text("operation"),
        text("credential"),
        text("outcome"),
        text("worker_id"),
    )
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one long sequence of operations")]
async fn each_secret_operation_is_audited_once() {
    on_every_store(async |fixture| {
        let setup = SecretAuditSetup::new(Arc::clone(&fixture.store)).await;
        let SecretAuditSetup { server, admin, worker, user, .. } = &setup;
        let reader = BoxRecipient::new();
        let key = json!({ "public_key": reader.public_key() });
        setup.register_worker(json!({ "name": "w1", "runtime": key })).await;
        setup.put_credential().await;
        let post = async |token: &str, path: &str, body: Value| {
            server.call_with_token(token, Method::POST, path, body).await;
        };
        // Rejected: by kind, by scope, and without a lease.
        post(admin, "/api/credentials", json!({ "name": "7", "type": "x", "data": 1 })).await;
        post(admin, "/api/credentials", json!({ "name": 7 })).await;
        post(worker, "/api/credentials", json!({})).await;
        setup.get(worker, &setup.credential_path()).await;
        setup.lease_command().await;
        setup.get(user, "/api/credentials/api_main").await;
        setup.get(user, "/api/credentials/api_main?include_data=true").await;
        setup.get(admin, "/api/credentials/api_main?include_data=true").await;
        setup.get(admin, "/api/credentials/none?include_data=true").await;
        setup.get(worker, &setup.credential_path()).await;
        setup.get(worker, &setup.sealed_credential_path()).await;
        setup.get(user, &setup.sealed_credential_path()).await;
        let entry_path = format!("/api/keychain/{}/api", setup.catalog_id);
        let id = &setup.execution_id;
        post(admin, &entry_path, json!({ "data": { "token": SECRET } })).await;
        setup.get(worker, &format!("{entry_path}?execution_id={id}&worker_id=w1")).await;
        setup.get(worker, &entry_path).await;
        server.call_with_token(admin, Method::DELETE, &entry_path, json!({})).await;
        post(admin, "/api/credentials/rotate", json!({})).await;
        server.internal_post("wallet/rotate-kek", json!({})).await;
        let path = "/api/credentials/api_main";
        server.call_with_token(admin, Method::DELETE, path, json!({})).await;
        server.call_with_token(user, Method::DELETE, path, json!({})).await;
        // Unauthenticated callers are rejected before any secret is read.
        server.call_with_token("noetl_no_body", Method::GET, path, json!({})).await;
        let summaries = setup.list_audit_summaries("limit=1000").await;
        let expected = [
            "acme-token set api_main ok -",
            "acme-token set 7 validation -",
            "acme-token set - validation -",
            "acme-token set - forbidden -",
            "acme-token issue api_main forbidden w1 for a run",
            "acme-token inspect api_main ok -",
            "acme-token read api_main forbidden -",
            "acme-token read api_main ok -",
            "acme-token read none not_found -",
            "acme-token issue api_main ok w1 for a run",
            "acme-token issue_sealed api_main ok w1 for a run",
            "acme-token issue_sealed api_main forbidden -",
            "acme-token keychain.put api ok -",
            "acme-token keychain.get api ok w1 for a run",
            "acme-token keychain.get api forbidden -",
            "acme-token keychain.delete api ok -",
            "acme-token rotate - ok -",
            "platform rotate - ok -",
            "acme-token delete api_main ok -",
            "acme-token delete api_main forbidden -",
        ];
        assert_eq!(summaries, expected);

        // They are entries of the one audit log, next to those of other operations.
        let auditor = create_token(&server.services, "acme", &[Scope::Admin]).await;
        let audit_log = setup.get(&auditor, "/api/audit?limit=500").await;
        assert_eq!(audit_log.json_at("/intact"), true);
        let entries = audit_log.json_at("/entries");
        let entries = entries.as_array().unwrap().iter().rev();
        let operations = entries.filter_map(|entry| entry["secret"]["operation"].as_str());
        let others = expected.iter().filter(|summary| !summary.starts_with("platform"));
        assert!(operations.eq(others.map(|summary| summary.split(' ').nth(1).unwrap())));

        // Filtered by secret, by run and by time.
        let count = async |query: &str| setup.list_audit_rows(query).await.len();
        assert_eq!(count("credential=none").await, 1);
        assert_eq!(count(&format!("execution_id={id}")).await, 4);
        assert_eq!(count(&format!("execution_id={id}&credential=api")).await, 1);
        assert_eq!(count("limit=3").await, 3);
        assert_eq!(count("to=2020-01-01T00:00:00Z").await, 0);
        let rows = setup.list_audit_rows("").await;
        let middle = rows[5]["occurred_at"].as_str().unwrap();
        let until = count(&format!("to={middle}")).await;
        let since = count(&format!("from={middle}")).await;
        assert!(until >= 6 && since >= rows.len() - 5, "{until} {since}");
        let issued = &rows[9];
        assert_eq!(issued["execution_id"].as_i64().unwrap().to_string(), *id);
        assert_eq!(issued["tenant_id"], "acme");
        assert_eq!(issued["address"], "10.0.0.7");
        assert_eq!(issued["kek_version"], rows[0]["kek_version"]);
        assert!(issued["kek_version"].is_string() && issued["notes"]["token_id"].is_string());
    })
    .await;
}

#[tokio::test]
async fn lists_long_audit_within_bounds() {
    let setup = SecretAuditSetup::new(Arc::new(SqliteStore::in_memory().unwrap())).await;
    for _ in 0..600 {
        setup.get(&setup.admin, "/api/credentials/none").await;
    }
    assert_eq!(setup.list_audit_rows("").await.len(), 100);
    assert_eq!(setup.list_audit_rows("limit=501").await.len(), 501);
    let all = setup.list_audit_rows("limit=10000").await;
    assert_eq!(all.len(), 600);
    let seqs: Vec<_> = all.iter().map(|row| row["seq"].as_i64().unwrap()).collect();
    assert!(seqs.is_sorted());
    for (query, code) in [
        ("limit=0", ErrorCode::OutOfRange),
        ("limit=10001", ErrorCode::OutOfRange),
        ("limit=many", ErrorCode::BadQuery),
        ("execution_id=x", ErrorCode::BadQuery),
        ("from=yesterday", ErrorCode::BadQuery),
    ] {
        let path = format!("secret-audit?{query}");
        let refused = setup.server.internal_request(Method::GET, &path, "").await;
        refused.assert_problem(code);
    }
    // It covers all tenants, so only admins of the operator's tenant may read it.
    let path = "/api/internal/secret-audit";
    let tenant_admin = create_token(&setup.server.services, "acme", &[Scope::Admin]).await;
    setup.get(&tenant_admin, path).await.assert_problem(ErrorCode::Forbidden);
    let operator = create_token(&setup.server.services, "default", &[Scope::Admin]).await;
    assert!(is_ok(&setup.get(&operator, path).await));
}

/// A store whose audit log can be made to fail.
fn store_with_breakable_audit() -> (Arc<dyn Store>, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_broken);
    let plan = Box::new(move |call| {
        if call == Call::AppendAuditLog && flag.load(Ordering::SeqCst) {
            Fault::FailBefore
        } else {
            Fault::None
        }
    });
    let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), plan);
    (Arc::new(store), is_broken)
}

#[tokio::test]
async fn secrets_are_refused_without_audit() {
    let (store, is_broken) = store_with_breakable_audit();
    let setup = SecretAuditSetup::new(store).await;
    let reader = BoxRecipient::new();
    let key = json!({ "public_key": reader.public_key() });
    setup.register_worker(json!({ "name": "w1", "runtime": key })).await;
    setup.put_credential().await;
    setup.lease_command().await;
    let entry_path = format!("/api/keychain/{}/api", setup.catalog_id);
    let body = json!({ "data": { "token": SECRET } });
    let path = entry_path.as_str();
    setup.server.call_with_token(&setup.worker, Method::POST, path, body).await;
    let entry_path_with_run = format!("{entry_path}?execution_id={}", setup.execution_id);
    let requests = [
        (&setup.admin, "/api/credentials/api_main?include_data=true"),
        (&setup.worker, &setup.credential_path()),
        (&setup.worker, &setup.sealed_credential_path()),
        (&setup.worker, &entry_path_with_run),
    ];
    let before = setup.list_audit_rows("limit=1000").await.len();
    is_broken.store(true, Ordering::SeqCst);
    for (token, path) in requests {
        let refused = setup.get(token, path).await;
        refused.assert_problem(ErrorCode::StoreUnavailable);
        assert!(!refused.text.contains(SECRET) && !refused.text.contains("eph_pub"));
    }
    // Secrets that were not issued are not counted.
    let metrics =
        setup.server.services.system_status.render_metrics(CallContext::server()).await.unwrap();
    let read = |outcome: &str| format!("{{operation=\"read\",outcome=\"{outcome}\"}} 1\n");
    assert!(metrics.contains(&read("failed")), "{metrics}");
    assert!(!metrics.contains(&read("ok")), "{metrics}");
    // Operations that reveal no secret still work.
    assert!(is_ok(&setup.get(&setup.user, "/api/credentials/api_main").await));
    assert!(is_ok(&setup.put_credential().await));
    is_broken.store(false, Ordering::SeqCst);
    for (token, path) in requests {
        assert!(is_ok(&setup.get(token, path).await), "{path}");
    }
    // Failed attempts are audited later, and once.
    let after = setup.list_audit_rows("limit=1000").await.len();
    assert_eq!(after - before, 2 * requests.len() + 2);
}

#[tokio::test]
async fn audit_requirement_can_be_disabled() {
    let (store, is_broken) = store_with_breakable_audit();
    let setup =
        SecretAuditSetup::with_settings(store, |settings| settings.secret_audit_required = false)
            .await;
    setup.put_credential().await;
    is_broken.store(true, Ordering::SeqCst);
    let path = "/api/credentials/api_main?include_data=true";
    let read = setup.get(&setup.admin, path).await;
    assert_eq!(read.text_at("/data/token"), SECRET);
    is_broken.store(false, Ordering::SeqCst);
    let inspected = setup.get(&setup.user, "/api/credentials/api_main").await;
    assert!(is_ok(&inspected));
    assert_eq!(setup.list_audit_rows("").await.len(), 3);
}

/// An embedded worker does not use HTTP.
#[tokio::test]
async fn embedded_worker_is_audited() {
    let (store, is_broken) = store_with_breakable_audit();
    let server = start_audit_server(store, |_| {}).await;
    let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
    let post = async |path: &str, body: Value| {
        server.call_with_token(&admin, Method::POST, path, body).await
    };
    let body = json!({ "name": "api_main", "type": "bearer", "data": { "token": SECRET } });
    post("/api/credentials", body).await;
    post("/api/catalog/register", json!({ "content": CREDENTIAL_PLAYBOOK })).await;
    let started = post("/api/execute", json!({ "path": "demo/names" })).await;
    let worker_api = server.services.worker_api();
    let credential_request = || CredentialRequest {
        name: "api_main".into(),
        execution_id: started.text_at("/execution_id").parse().unwrap(),
        worker_id: WorkerId::new("w1").unwrap(),
    };
    let refused = worker_api.fetch_credential(credential_request()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    post("/api/commands/lease", lease).await;
    let issued = worker_api.fetch_credential(credential_request()).await.unwrap();
    assert_eq!(issued.data.unwrap().get("token").unwrap().as_str(), Some(SECRET));
    is_broken.store(true, Ordering::SeqCst);
    let refused = worker_api.fetch_credential(credential_request()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::StoreUnavailable));
    is_broken.store(false, Ordering::SeqCst);
    let listed = server.internal_request(Method::GET, "secret-audit?limit=2", "").await;
    let rows = listed.json_at("/rows");
    let listed: Vec<String> = rows.as_array().unwrap().iter().map(summarize_row).collect();
    let expected =
        ["worker issue api_main ok w1 for a run", "worker issue api_main forbidden w1 for a run"];
    assert_eq!(listed, expected);
}

/// An entry that is deleted or changed in the database is detected.
#[tokio::test]
async fn detects_deleted_audit_entry() {
    let now = SystemClock.now();
    let database = migrated_database(now).unwrap();
    let options = PostgresOptions::new(database.connection_config(), now);
    let store = PostgresStore::open(&options).await.unwrap();
    let setup = SecretAuditSetup::new(Arc::new(store)).await;
    setup.put_credential().await;
    for _ in 0..3 {
        let path = "/api/credentials/api_main?include_data=true";
        setup.get(&setup.admin, path).await;
    }
    let auditor = create_token(&setup.server.services, "acme", &[Scope::Admin]).await;
    let is_intact = async || {
        let audit_log = setup.get(&auditor, "/api/audit?limit=500").await;
        audit_log.json_at("/intact").as_bool().unwrap()
    };
    assert!(is_intact().await);
    let tamper_sql = "UPDATE noetl.audit SET credential = 'x' WHERE tenant_id = 'acme' AND seq = 3";
    database.run_statement(tamper_sql).unwrap();
    assert!(!is_intact().await);
    let restore_sql = "UPDATE noetl.audit SET credential = 'api_main' WHERE credential = 'x'";
    database.run_statement(restore_sql).unwrap();
    assert!(is_intact().await);
    let delete_sql = "DELETE FROM noetl.audit WHERE tenant_id = 'acme' AND seq = 2";
    database.run_statement(delete_sql).unwrap();
    assert!(!is_intact().await);
}

/// Associated data of a sealed credential.
fn sealed_box_context(worker_id: &str, execution_id: &str, key: &str) -> Vec<u8> {
    [worker_id, execution_id, key].join("\0").into_bytes()
}

fn parse_sealed_box(sealed: &TestResponse) -> SealedBox {
    let alg = "x25519-hkdf-sha256-chacha20-poly1305";
    assert_eq!(sealed.text_at("/alg"), alg);
    assert_eq!(sealed.json_at("/v"), 1);
    assert!(!sealed.text.contains(SECRET));
    SealedBox {
        eph_pub: sealed.text_at("/eph_pub").into(),
        ciphertext: sealed.text_at("/ciphertext").into(),
    }
}

fn open_sealed_credential(
    reader: BoxRecipient,
    sealed: &TestResponse,
    context: &[u8],
) -> Option<Value> {
    let text = reader.open(&parse_sealed_box(sealed), context)?;
    Some(serde_json::from_slice(&text).unwrap())
}

#[tokio::test]
async fn sealed_credential_opens_only_for_its_worker() {
    on_every_store(async |fixture| {
        let setup = SecretAuditSetup::new(Arc::clone(&fixture.store)).await;
        setup.put_credential().await;
        let sealed_path = setup.sealed_credential_path();
        let get = async |token: &str, path: &str| setup.get(token, path).await;
        // The command is not leased yet.
        get(&setup.worker, &sealed_path).await.assert_problem(ErrorCode::Forbidden);
        setup.lease_command().await;
        // The worker has not registered a key yet.
        let none = get(&setup.worker, &sealed_path).await;
        none.assert_problem(ErrorCode::BadQuery);
        assert!(none.text.contains("public_key"), "{}", none.text);
        for key in ["", "AAAA", "no base64"] {
            let wrong = json!({ "public_key": key });
            setup.register_worker(json!({ "name": "w1", "runtime": wrong })).await;
            let none = get(&setup.worker, &sealed_path).await;
            none.assert_problem(ErrorCode::BadQuery);
        }
        for part in ["runtime", "capabilities"] {
            for _ in 0..2 {
                let (reader, other) = (BoxRecipient::new(), BoxRecipient::new());
                let key = json!({ "public_key": reader.public_key() });
                setup.register_worker(json!({ "name": "w1", part: key })).await;
                let sealed = get(&setup.worker, &sealed_path).await;
                assert!(is_ok(&sealed), "{}", sealed.text);
                let context = sealed_box_context("w1", &setup.execution_id, "api_main");
                assert_eq!(open_sealed_credential(other, &sealed, &context), None);
                let found = open_sealed_credential(reader, &sealed, &context).unwrap();
                assert_eq!(found["data"], json!({ "token": SECRET }));
                assert_eq!(found["name"], "api_main");
                assert_eq!(found["type"], "bearer");
            }
        }
        let other = sealed_path.replace("w1", "w2");
        get(&setup.worker, &other).await.assert_problem(ErrorCode::Forbidden);
        let path_without_run = "/api/credentials/api_main/sealed?worker_id=w1";
        for token in [&setup.worker, &setup.user] {
            get(token, path_without_run).await.assert_problem(ErrorCode::Forbidden);
        }
        let path_without_worker = "/api/credentials/api_main/sealed";
        get(&setup.worker, path_without_worker).await.assert_problem(ErrorCode::BadQuery);
        // A credential admin may seal a credential for any worker, without a run.
        let reader = BoxRecipient::new();
        let key = json!({ "public_key": reader.public_key() });
        setup.register_worker(json!({ "name": "w1", "runtime": key })).await;
        let sealed = get(&setup.admin, path_without_run).await;
        let found =
            open_sealed_credential(reader, &sealed, &sealed_box_context("w1", "", "api_main"))
                .unwrap();
        assert_eq!(found["data"], json!({ "token": SECRET }));
        // Another tenant cannot detect the credential or the worker's key.
        let services = &setup.server.services;
        let outsider = create_token(services, "spies", &[Scope::CredAdmin, Scope::Worker]).await;
        for path in [path_without_run, &sealed_path] {
            get(&outsider, path).await.assert_problem(ErrorCode::NotFound);
        }
    })
    .await;
}
