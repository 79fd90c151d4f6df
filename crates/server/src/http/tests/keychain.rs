//! Keychain entries are stored encrypted, expire, and are rewrapped by a key rotation.

mod access;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::Method;
use noetl_store::{GcTarget, KeychainFilter, Store};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, Millis, Scope, Timestamp};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::create_token;
use super::{TWO_STEPS, TestResponse, TestServer, is_ok, server_from_services, start_server};
use crate::clock::{Clock, SystemClock};
use crate::crypto::{EncryptionKey, KeyRing};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::settings::Settings;

const SECRET: &str = "sesame-opens-42";
const REFRESH_TOKEN: &str = "refresh-me-99";

/// A clock that is ahead by a number of seconds.
#[derive(Default)]
pub(super) struct SkewedClock(pub(super) AtomicU64);

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let skew = Millis::from_secs(self.0.load(Ordering::SeqCst));
        SystemClock.now().saturating_add(skew)
    }
}

fn new_key_ring() -> KeyRing {
    let key = EncryptionKey::from_base64(&EncryptionKey::generate_base64().unwrap()).unwrap();
    KeyRing::new(key, Vec::new())
}

async fn start_keychain_server(
    store: Arc<dyn Store>,
    ring: KeyRing,
    clock: Arc<SkewedClock>,
    is_dev: bool,
) -> TestServer {
    let settings = Settings {
        keys: Some(Arc::new(ring)),
        // Only the test deletes expired entries.
        sweep_interval: Millis::from_hours(24),
        // A clock jump would expire the machine id lease, without which nothing can be audited.
        secret_audit_required: false,
        ..Settings::default()
    };
    let http = HttpSettings { is_dev, ..super::internal::internal_settings() };
    let services = ControlPlane::open(store, clock, settings).await.unwrap();
    server_from_services(services, &http)
}

async fn start_dev_server(fixture: &StoreFixture) -> (TestServer, Arc<SkewedClock>) {
    let clock = Arc::<SkewedClock>::default();
    let store = Arc::clone(&fixture.store);
    let server = start_keychain_server(store, new_key_ring(), Arc::clone(&clock), true).await;
    (server, clock)
}

async fn register_playbook(server: &TestServer) -> String {
    let body = json!({ "content": TWO_STEPS });
    let registered = server.post("/api/catalog/register", body).await;
    registered.text_at("/catalog_id")
}

async fn send_delete(server: &TestServer, path: &str) -> TestResponse {
    server.send(super::build_request(Method::DELETE, path, "")).await
}

/// Asserts that the list of three entries comes in pages and contains no secrets.
async fn assert_list_has_pages_without_secrets(server: &TestServer, catalog_id: &str) {
    let list = format!("/api/keychain/catalog/{catalog_id}");
    let listed = server.get(&format!("{list}?limit=2")).await;
    assert_eq!(listed.json_at("/count"), 2);
    let cursor = listed.text_at("/next_cursor");
    let rest = server.get(&format!("{list}?limit=2&cursor={cursor}")).await;
    assert_eq!(rest.json_at("/count"), 1);
    assert_eq!(rest.text_at("/entries/0/keychain_name"), "api");
    assert_eq!(rest.json().get("next_cursor"), None);
    for reply in [&listed, &rest] {
        assert!(!reply.text.contains(SECRET) && !reply.text.contains(REFRESH_TOKEN));
    }
    server.get(&format!("{list}?cursor=x")).await.assert_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn entry_is_encrypted_and_found_by_scope() {
    on_every_store(async |fixture| {
        let (server, _) = start_dev_server(fixture).await;
        let execution_id = server.start_two_steps().await;
        let catalog_id = register_playbook(&server).await;
        let path = format!("/api/keychain/{catalog_id}/api");
        let scopes = [
            ("global", "global".to_owned()),
            ("shared", format!("shared:{execution_id}")),
            ("local", execution_id.clone()),
        ];
        for (scope, suffix) in &scopes {
            let put = json!({
                "data": { "token": SECRET, "of": scope }, "scope_type": scope,
                "execution_id": execution_id, "expires_in": 60, "auto_renew": true,
                "renew_config": { "secret": REFRESH_TOKEN },
            });
            let stored = server.post(&path, put).await;
            assert!(is_ok(&stored), "{}", stored.text);
            assert_eq!(stored.text_at("/status"), "success");
            assert_eq!(stored.text_at("/cache_key"), format!("api:{catalog_id}:{suffix}"));
            let query_path = format!("{path}?scope_type={scope}&execution_id={execution_id}");
            let found = server.get(&query_path).await;
            assert_eq!(found.text_at("/status"), "found");
            assert_eq!(found.json_at("/data"), json!({ "token": SECRET, "of": scope }));
            assert_eq!(found.json_at("/renew_config"), json!({ "secret": REFRESH_TOKEN }));
            assert_eq!(found.text_at("/scope_type"), *scope);
            assert_eq!(found.json_at("/auto_renew"), true);
            assert_eq!(found.json_at("/expires_at"), stored.json_at("/expires_at"));
        }
        for (scope, suffix) in [("local", "local"), ("catalog", "shared")] {
            let query_path = format!("{path}?scope_type={scope}");
            let none = server.get(&query_path).await;
            assert_eq!(none.text_at("/status"), "not_found");
            assert_eq!(none.text_at("/cache_key"), format!("api:{catalog_id}:{suffix}"));
        }
        // The stored rows are encrypted.
        let all = fixture.store.list_keychain_entries(KeychainFilter::default(), PageLimit::MAX);
        let rows = all.await.unwrap();
        assert_eq!(rows.len(), scopes.len());
        let rows = format!("{rows:?}");
        assert!(!rows.contains(SECRET) && !rows.contains(REFRESH_TOKEN), "{rows}");
        assert_list_has_pages_without_secrets(&server, &catalog_id).await;
        let deleted = send_delete(&server, &path).await;
        assert_eq!(deleted.text_at("/status"), "deleted");
        assert_eq!(send_delete(&server, &path).await.text_at("/status"), "not_found");
        assert_eq!(server.get(&path).await.text_at("/status"), "not_found");
    })
    .await;
}

#[tokio::test]
async fn expired_entry_is_reported_until_swept() {
    on_every_store(async |fixture| {
        let (server, clock) = start_dev_server(fixture).await;
        let path = format!("/api/keychain/{}/api", register_playbook(&server).await);
        let put =
            json!({ "data": { "token": SECRET }, "renew_config": { "secret": REFRESH_TOKEN } });
        assert!(is_ok(&server.post(&path, put).await));
        assert_eq!(server.get(&path).await.text_at("/status"), "found");
        // The default is ten minutes.
        clock.0.store(601, Ordering::SeqCst);
        let expired = server.get(&path).await;
        assert_eq!(expired.text_at("/status"), "expired");
        assert!(!expired.text.contains(SECRET), "{}", expired.text);
        assert_eq!(expired.text_at("/renew_config/secret"), REFRESH_TOKEN);
        let deleted = fixture.store.delete_expired(GcTarget::Keychain, clock.now(), PageLimit::MAX);
        assert_eq!(deleted.await.unwrap(), 1);
        assert_eq!(server.get(&path).await.text_at("/status"), "not_found");
    })
    .await;
}

#[tokio::test]
async fn rejects_out_of_bounds_entries() {
    let (server, clock) = start_dev_server(&StoreFixture::in_memory()).await;
    let catalog_id = register_playbook(&server).await;
    let path = format!("/api/keychain/{catalog_id}/api");
    let before = clock.now();
    let stored = server.post(&path, json!({ "data": 1, "expires_in": 9_000_000_000_u64 })).await;
    let end = Timestamp::parse(&stored.text_at("/expires_at")).unwrap();
    assert!(end.duration_since(before) < Millis::from_days(31), "{}", stored.text);
    let fixed_expiry = json!({ "data": 1, "expires_at": "2001-02-03T04:05:06" });
    let stored = server.post(&path, fixed_expiry).await;
    assert!(stored.text_at("/expires_at").starts_with("2001-02-03T04:05:06"));
    assert_eq!(server.get(&path).await.text_at("/status"), "expired");
    for wrong in
        [json!({ "data": 1, "expires_at": "tomorrow" }), json!({ "data": 1, "scope_type": "wide" })]
    {
        server.post(&path, wrong).await.assert_problem(ErrorCode::Validation);
    }
    let large = json!({ "data": "x".repeat(65 << 10) });
    server.post(&path, large).await.assert_problem(ErrorCode::TooLarge);
    let unknown_run =
        json!({ "data": 1, "scope_type": "local", "execution_id": "7000000000000000000" });
    server.post(&path, unknown_run).await.assert_problem(ErrorCode::NotFound);
    let long = format!("/api/keychain/{catalog_id}/{}", "n".repeat(256));
    let refused = server.post(&long, json!({ "data": 1 })).await;
    refused.assert_problem(ErrorCode::Validation);
    server.get("/api/keychain/x/api").await.assert_problem(ErrorCode::BadId);
    server.get("/api/keychain/catalog/x").await.assert_problem(ErrorCode::BadId);
}

#[tokio::test]
async fn rejects_entries_without_key() {
    let server = start_server().await;
    let path = format!("/api/keychain/{}/api", register_playbook(&server).await);
    let refused = server.post(&path, json!({ "data": 1 })).await;
    refused.assert_problem(ErrorCode::NotReady);
}

/// Key rings before, during and after a rotation.
fn rotation_key_rings() -> [KeyRing; 3] {
    let [old, new] = [(); 2].map(|()| EncryptionKey::generate_base64().unwrap());
    let key = |text: &str| EncryptionKey::from_base64(text).unwrap();
    [
        KeyRing::new(key(&old), Vec::new()),
        KeyRing::new(key(&new), vec![key(&old)]),
        KeyRing::new(key(&new), Vec::new()),
    ]
}

#[tokio::test]
async fn rotation_rewraps_keychain_entries() {
    on_every_store(async |fixture| {
        let [old, both, new] = rotation_key_rings();
        let store = || Arc::clone(&fixture.store);
        let before = start_keychain_server(store(), old, Arc::default(), true).await;
        let catalog_id = register_playbook(&before).await;
        let path = |name: &str| format!("/api/keychain/{catalog_id}/{name}");
        let put = json!({ "data": { "token": SECRET } });
        for name in ["one", "two", "three"] {
            assert!(is_ok(&before.post(&path(name), put.clone()).await));
        }
        let during = start_keychain_server(store(), both, Arc::default(), true).await;
        // One batch per call. The next call continues after it.
        let batch = json!({ "batch_size": 2, "max_batches": 1 });
        let rotated = during.post("/api/credentials/rotate", batch).await;
        let summary = |count: u64| json!({ "processed": count, "rewrapped": count, "skipped": 0, "failed": 0 });
        assert_eq!(rotated.json(), summary(2));
        let rotated = during.post("/api/credentials/rotate", json!({})).await;
        assert_eq!(rotated.json(), summary(1));
        let again = during.post("/api/credentials/rotate", json!({})).await;
        assert_eq!(again.json(), summary(0));
        let after = start_keychain_server(store(), new, Arc::default(), true).await;
        for name in ["one", "two", "three"] {
            assert_eq!(after.get(&path(name)).await.text_at("/data/token"), SECRET);
        }
    })
    .await;
}

#[tokio::test]
async fn platform_rotates_all_tenants_and_reports_unused_keys() {
    on_every_store(async |fixture| {
        let [old, both, new] = rotation_key_rings();
        let kids = [&old, &both].map(|ring| ring.current().kid().to_string());
        let [old_kid, new_kid] = &kids;
        let store = || Arc::clone(&fixture.store);
        let before = start_keychain_server(store(), old, Arc::default(), false).await;
        let scopes = [Scope::CredAdmin, Scope::Worker, Scope::CatalogWrite];
        let mut tenants = Vec::new();
        for tenant in ["default", "acme"] {
            let token = create_token(&before.services, tenant, &scopes).await;
            let post = async |path: &str, body: Value| {
                let reply = before.call_with_token(&token, Method::POST, path, body).await;
                assert!(is_ok(&reply), "{}", reply.text);
                reply
            };
            let body = json!({ "content": TWO_STEPS });
            let registered = post("/api/catalog/register", body).await;
            let path = format!("/api/keychain/{}/api", registered.text_at("/catalog_id"));
            post(&path, json!({ "data": { "token": SECRET } })).await;
            let credential = json!({ "name": "c", "type": "secret", "data": { "secret": SECRET } });
            post("/api/credentials", credential).await;
            tenants.push((token, path));
        }
        let during = start_keychain_server(store(), both, Arc::default(), false).await;
        let status = async |server: &TestServer| {
            let reply = server.internal_request(Method::GET, "wallet/key-status", "").await;
            assert!(is_ok(&reply), "{}", reply.text);
            reply.json()
        };
        let all_with_key = |kid: &str| {
            json!({ "current": new_kid, "credential": { kid: 2 }, "keychain": { kid: 2 } })
        };
        assert_eq!(status(&during).await, all_with_key(old_kid));
        let rotated = during.internal_post("wallet/rotate-kek", json!({})).await;
        for table in ["credential", "keychain"] {
            let mut summary = rotated[table].clone();
            let last_id = summary.as_object_mut().unwrap().remove("last_id");
            assert!(last_id.is_some_and(|id| id.is_i64()), "{rotated}");
            let expected = json!({ "processed": 2, "rewrapped": 2, "skipped": 0, "failed": 0 });
            assert_eq!(summary, expected, "{rotated}");
        }
        assert_eq!(status(&during).await, all_with_key(new_kid));
        let again = during.internal_request(Method::POST, "wallet/rotate-kek", "").await;
        assert_eq!(again.json_at("/keychain/processed"), 0);
        // The old key can be removed.
        let after = start_keychain_server(store(), new, Arc::default(), false).await;
        for (token, path) in &tenants {
            let found = after.call_with_token(token, Method::GET, path, json!({})).await;
            assert_eq!(found.text_at("/data/token"), SECRET);
        }
        // A credential admin rotates for all tenants only in the operator's tenant.
        let [(operator, _), (stranger, _)] = &tenants[..] else {
            unreachable!()
        };
        let path = "/api/internal/wallet/key-status";
        let get_status = async |token: &str| after.call_with_token(token, Method::GET, path, json!({})).await;
        assert!(is_ok(&get_status(operator).await));
        get_status(stranger).await.assert_problem(ErrorCode::Forbidden);
    })
    .await;
}

#[tokio::test]
async fn wallet_without_key_is_not_ready() {
    let server =
        StoreFixture::in_memory().start_server(super::internal::internal_settings(), |_| ()).await;
    for (method, path) in [(Method::POST, "wallet/rotate-kek"), (Method::GET, "wallet/key-status")]
    {
        let refused = server.internal_request(method, path, "").await;
        refused.assert_problem(ErrorCode::NotReady);
    }
}
