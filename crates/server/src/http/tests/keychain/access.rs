//! A worker may access the keychain of a playbook only while it works on a run of it.

use std::sync::Arc;

use axum::http::Method;
use noetl_api::tokens::CreateTokenRequest;
use noetl_types::{ErrorCode, PoolName, Scope};
use serde_json::{Value, json};

use super::super::backends::{StoreFixture, on_every_store};
use super::super::tokens::create_token;
use super::super::{TWO_STEPS, TestResponse, TestServer, completed_report, is_ok};
use super::{SECRET, new_key_ring, start_keychain_server};
use crate::access::CallContext;

/// Stores an entry and calls another playbook with one step.
const PARENT_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: above, path: demo/above }
workflow:
  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: call }] } }
  - { step: call, tool: { kind: playbook, path: demo/below, return_result: true } }
";
const CHILD_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: below, path: demo/below }
workflow:
  - { step: start, tool: { kind: noop } }
";

/// A server that requires tokens, and tokens of the involved roles.
struct KeychainSetup {
    server: TestServer,
    worker: String,
    admin: String,
    user: String,
}

impl KeychainSetup {
    async fn on_store(fixture: &StoreFixture) -> Self {
        let store = Arc::clone(&fixture.store);
        let server = start_keychain_server(store, new_key_ring(), Arc::default(), false).await;
        let user_scopes = [Scope::ExecRun, Scope::CatalogWrite, Scope::CredUse];
        Self {
            worker: create_token(&server.services, "default", &[Scope::Worker]).await,
            admin: create_token(&server.services, "default", &[Scope::CredAdmin]).await,
            user: create_token(&server.services, "default", &user_scopes).await,
            server,
        }
    }

    async fn call(&self, token: &str, method: Method, path: &str, body: Value) -> TestResponse {
        self.server.call_with_token(token, method, path, body).await
    }

    async fn register_playbook(&self, content: &str) -> String {
        let body = json!({ "content": content });
        let path = "/api/catalog/register";
        let created = self.call(&self.user, Method::POST, path, body).await;
        created.text_at("/catalog_id")
    }

    async fn start_run(&self, path: &str) -> String {
        let body = json!({ "path": path });
        let started = self.call(&self.user, Method::POST, "/api/execute", body);
        started.await.text_at("/execution_id")
    }

    /// Leases the next command as worker `w1`.
    async fn lease_command(&self) -> Value {
        let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let path = "/api/commands/lease";
        let leased = self.call(&self.worker, Method::POST, path, lease).await;
        leased.json_at("/commands/0")
    }

    async fn complete_command(&self, command: &Value) {
        let body = completed_report(command, &json!(1));
        let path = "/api/commands/report";
        let reported = self.call(&self.worker, Method::POST, path, body).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
    }

    async fn put_entry(&self, token: &str, path: &str, body: Value) -> TestResponse {
        self.call(token, Method::POST, path, body).await
    }

    async fn get_entry(&self, token: &str, path: &str) -> TestResponse {
        self.call(token, Method::GET, path, json!({})).await
    }

    async fn delete_entry(&self, token: &str, path: &str) -> TestResponse {
        self.call(token, Method::DELETE, path, json!({})).await
    }
}

#[track_caller]
fn assert_forbidden(reply: &TestResponse) {
    reply.assert_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn entry_requires_lease_on_its_playbook() {
    on_every_store(async |fixture| {
        let setup = KeychainSetup::on_store(fixture).await;
        let KeychainSetup { worker, admin, user, .. } = &setup;
        let catalog_id = setup.register_playbook(TWO_STEPS).await;
        let other = TWO_STEPS.replace("demo/two", "demo/other");
        let other_id = setup.register_playbook(&other).await;
        let id = setup.start_run("demo/two").await;
        let [path, other_path] =
            &[&catalog_id, &other_id].map(|id| format!("/api/keychain/{id}/api"));
        let put = json!({ "data": { "token": SECRET } });
        for path in [path, other_path] {
            assert_forbidden(&setup.put_entry(user, path, put.clone()).await);
            assert!(is_ok(&setup.put_entry(admin, path, put.clone()).await));
        }
        let (entry_path, other_entry_path) =
            (format!("{path}?execution_id={id}"), format!("{other_path}?execution_id={id}"));
        // The command is not leased yet.
        assert_forbidden(&setup.get_entry(worker, &entry_path).await);
        setup.lease_command().await;
        for entry_path in [&entry_path, &format!("{entry_path}&worker_id=w1")] {
            assert_eq!(setup.get_entry(worker, entry_path).await.text_at("/data/token"), SECRET);
        }
        for forbidden in [path, &other_entry_path, &format!("{entry_path}&worker_id=w2")] {
            assert_forbidden(&setup.get_entry(worker, forbidden).await);
        }
        assert_eq!(setup.get_entry(admin, path).await.text_at("/data/token"), SECRET);
        // A caller with `cred:use` can see that it exists.
        let metadata = setup.get_entry(user, path).await;
        assert_eq!(metadata.text_at("/status"), "found");
        assert!(!metadata.text.contains(SECRET), "{}", metadata.text);
        // Another tenant cannot even see the playbook.
        let all = [Scope::CredAdmin, Scope::Worker, Scope::CredUse];
        let outsider = create_token(&setup.server.services, "spies", &all).await;
        let list = format!("/api/keychain/catalog/{catalog_id}");
        for (method, path) in [
            (Method::GET, path),
            (Method::GET, &entry_path),
            (Method::GET, &list),
            (Method::POST, path),
            (Method::DELETE, path),
        ] {
            let reply = setup.call(&outsider, method, path, put.clone()).await;
            reply.assert_problem(ErrorCode::NotFound);
        }
        assert_eq!(setup.get_entry(admin, path).await.text_at("/data/token"), SECRET);
        assert_audited(&setup.server).await;
    })
    .await;
}

/// Every read of an entry is audited, without the secret.
async fn assert_audited(server: &TestServer) {
    let auditor = create_token(&server.services, "default", &[Scope::Admin]).await;
    let audit =
        server.call_with_token(&auditor, Method::GET, "/api/audit?limit=500", json!({})).await;
    let reads = audit.json_at("/entries");
    let reads = reads.as_array().unwrap().iter();
    let reads = reads.filter(|entry| entry["action"] == "GET /api/keychain/{catalog_id}/{name}");
    let outcomes: Vec<_> = reads.map(|entry| entry["outcome"].clone()).collect();
    assert!(outcomes.contains(&json!("ok")), "{}", audit.text);
    assert!(!audit.text.contains(SECRET));
}

/// A worker of one pool can neither write nor delete entries for runs of another.
#[tokio::test]
async fn writes_require_lease_on_the_playbook() {
    on_every_store(async |fixture| {
        let setup = KeychainSetup::on_store(fixture).await;
        let (worker, admin) = (&setup.worker, &setup.admin);
        let catalog_id = setup.register_playbook(TWO_STEPS).await;
        let other = TWO_STEPS.replace("demo/two", "demo/other");
        let other_id = setup.register_playbook(&other).await;
        let id = setup.start_run("demo/two").await;
        let path = format!("/api/keychain/{catalog_id}/api");
        let other_path = format!("/api/keychain/{other_id}/api");
        let foreign = json!({ "data": { "token": SECRET } });
        for path in [&path, &other_path] {
            assert!(is_ok(&setup.put_entry(admin, path, foreign.clone()).await));
        }
        let planted = json!({ "data": { "token": "planted" }, "execution_id": id });
        let assert_refused = async |token: &str, path: &str, put: &Value, query: &str| {
            assert_forbidden(&setup.put_entry(token, path, put.clone()).await);
            assert_forbidden(&setup.delete_entry(token, &format!("{path}?{query}")).await);
        };
        let run = format!("execution_id={id}");
        // The command is not leased yet.
        assert_refused(worker, &path, &planted, &run).await;
        setup.lease_command().await;
        // The run must be named and must be a run of this playbook.
        let without_run = json!({ "data": { "token": "planted" } });
        assert_refused(worker, &path, &without_run, "").await;
        assert_refused(worker, &other_path, &planted, &run).await;
        let mut by_other_worker = planted.clone();
        by_other_worker["worker_id"] = json!("w2");
        assert_refused(worker, &path, &by_other_worker, &format!("{run}&worker_id=w2")).await;
        let pool_token = CreateTokenRequest {
            name: "untrusted".into(),
            scopes: vec![Scope::Worker],
            pools: Some(vec![PoolName::new("untrusted").unwrap()]),
            ..CreateTokenRequest::default()
        };
        let created = setup
            .server
            .services
            .identities
            .create_token(CallContext::server(), pool_token, &"test".into())
            .await;
        let pool_token = created.unwrap().token.to_string();
        assert_refused(&pool_token, &path, &planted, &run).await;
        for path in [&path, &other_path] {
            let stored = setup.get_entry(admin, path).await;
            assert_eq!(stored.text_at("/data/token"), SECRET);
        }
        // A worker that works on the run may write.
        let mut fresh = planted.clone();
        (fresh["data"]["token"], fresh["worker_id"]) = (json!("fresh"), json!("w1"));
        assert!(is_ok(&setup.put_entry(worker, &path, fresh).await));
        let stored = setup.get_entry(admin, &path).await;
        assert_eq!(stored.text_at("/data/token"), "fresh");
        let deleted = setup.delete_entry(worker, &format!("{path}?{run}")).await;
        assert_eq!(deleted.text_at("/status"), "deleted");
        let deleted = setup.delete_entry(admin, &other_path).await;
        assert_eq!(deleted.text_at("/status"), "deleted");
    })
    .await;
}

#[tokio::test]
async fn nearest_scope_wins() {
    on_every_store(async |fixture| {
        let setup = KeychainSetup::on_store(fixture).await;
        let (worker, admin) = (&setup.worker, &setup.admin);
        let path = format!("/api/keychain/{}/api", setup.register_playbook(TWO_STEPS).await);
        let id = setup.start_run("demo/two").await;
        setup.lease_command().await;
        for scope in ["shared", "local"] {
            let entry_path = format!("{path}?scope_type={scope}&execution_id={id}");
            let none = setup.get_entry(worker, &entry_path).await;
            assert_eq!(none.text_at("/status"), "not_found");
            let put = async |token: &str, data: &str, run: Option<&str>, seconds: u64| {
                let body = json!({ "data": data, "scope_type": scope, "execution_id": run,
                                  "expires_in": seconds });
                let stored = setup.put_entry(token, &path, body).await;
                assert!(is_ok(&stored), "{}", stored.text);
                stored.text_at("/cache_key")
            };
            let common_key = put(admin, "for all", None, 60).await;
            let found = setup.get_entry(worker, &entry_path).await;
            assert_eq!(found.text_at("/data"), "for all");
            assert_eq!(found.text_at("/cache_key"), common_key);
            let run_key = put(worker, "for the run", Some(&id), 60).await;
            let found = setup.get_entry(worker, &entry_path).await;
            assert_eq!(found.text_at("/data"), "for the run");
            assert_eq!(found.text_at("/cache_key"), run_key);
            // An expired entry does not hide others, and is reported only if there is no other.
            put(worker, "over", Some(&id), 0).await;
            assert_eq!(setup.get_entry(worker, &entry_path).await.text_at("/data"), "for all");
            // A worker can delete entries of its run, but not those for all runs.
            for status in ["deleted", "not_found"] {
                let deleted = setup.delete_entry(worker, &entry_path).await;
                assert_eq!(deleted.text_at("/status"), status);
            }
            put(worker, "over", Some(&id), 0).await;
            let scope_path = format!("{path}?scope_type={scope}");
            assert!(is_ok(&setup.delete_entry(admin, &scope_path).await));
            let expired = setup.get_entry(worker, &entry_path).await;
            assert_eq!(expired.text_at("/status"), "expired");
        }
    })
    .await;
}

#[tokio::test]
async fn child_reads_shared_entries_of_root() {
    on_every_store(async |fixture| {
        let setup = KeychainSetup::on_store(fixture).await;
        let worker = &setup.worker;
        let parent_id = setup.register_playbook(PARENT_PLAYBOOK).await;
        setup.register_playbook(CHILD_PLAYBOOK).await;
        let other_id = setup.register_playbook(TWO_STEPS).await;
        let root = setup.start_run("demo/above").await;
        let first = setup.lease_command().await;
        let path = format!("/api/keychain/{parent_id}/api");
        for scope in ["global", "shared", "local"] {
            let put = json!({ "data": SECRET, "scope_type": scope, "execution_id": root });
            assert!(is_ok(&setup.put_entry(worker, &path, put.clone()).await));
        }
        setup.complete_command(&first).await;
        let child = setup.lease_command().await;
        let child = child["execution_id"].as_str().unwrap();
        assert_ne!(child, root);
        let entry_path = |path: &str, scope: &str| {
            format!("{path}?scope_type={scope}&execution_id={child}&worker_id=w1")
        };
        let found = setup.get_entry(worker, &entry_path(&path, "shared")).await;
        assert_eq!(found.text_at("/data"), SECRET);
        let entry_key = format!("api:{parent_id}:shared:{root}");
        assert_eq!(found.text_at("/cache_key"), entry_key);
        // Other entries of another playbook are not accessible, and it cannot change them.
        for scope in ["global", "local"] {
            assert_forbidden(&setup.get_entry(worker, &entry_path(&path, scope)).await);
        }
        let foreign = format!("/api/keychain/{other_id}/api");
        assert_forbidden(&setup.get_entry(worker, &entry_path(&foreign, "shared")).await);
        let put = json!({ "data": "planted", "scope_type": "shared", "execution_id": child });
        assert_forbidden(&setup.put_entry(worker, &path, put).await);
        assert_forbidden(&setup.delete_entry(worker, &entry_path(&path, "shared")).await);
    })
    .await;
}
