//! What workers resolved is kept sealed for a while, and comes under a new key.

mod lending;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::Method;
use noetl_store::{KeychainFilter, Store, Swept};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, Millis, Scope, Timestamp};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::token_of;
use super::{House, Reply, TWO_STEPS, house, house_of, is_ok};
use crate::clock::{Clock, SystemClock};
use crate::http::settings::HttpSettings;
use crate::runtime::{Runtime, Settings};
use crate::vault::{Key, KeyRing};

const SECRET: &str = "sesame-opens-42";
const RENEWAL: &str = "refresh-me-99";

/// A clock that is so many seconds ahead.
#[derive(Default)]
pub(super) struct Ahead(pub(super) AtomicU64);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let ahead = Millis::from_secs(self.0.load(Ordering::SeqCst));
        SystemClock.now().saturating_add(ahead)
    }
}

fn new_ring() -> KeyRing {
    let key = Key::read(&Key::text_of_new().unwrap()).unwrap();
    KeyRing::new(key, Vec::new())
}

async fn open(store: Arc<dyn Store>, ring: KeyRing, clock: Arc<Ahead>, is_dev: bool) -> House {
    let settings = Settings {
        keys: Some(Arc::new(ring)),
        // Nothing is swept but by the test.
        sweep: Millis::from_hours(24),
        // A clock that leaps takes the machine's id along, without which there is no trail.
        secret_audit_required: false,
        ..Settings::default()
    };
    let http = HttpSettings {
        is_dev,
        ..super::internal::http()
    };
    let runtime = Runtime::open(store, clock, settings).await.unwrap();
    house_of(runtime, &http)
}

async fn dev(shelter: &Shelter) -> (House, Arc<Ahead>) {
    let clock = Arc::<Ahead>::default();
    let store = Arc::clone(&shelter.store);
    let house = open(store, new_ring(), Arc::clone(&clock), true).await;
    (house, clock)
}

async fn registered(house: &House) -> String {
    let body = json!({ "content": TWO_STEPS });
    let registered = house.post("/api/catalog/register", body).await;
    registered.text_at("/catalog_id")
}

async fn delete(house: &House, path: &str) -> Reply {
    house.send(super::request(Method::DELETE, path, "")).await
}

#[tokio::test]
async fn an_entry_is_kept_sealed_and_found_by_its_scope() {
    on_every_store(async |shelter| {
        let (house, _) = dev(shelter).await;
        let execution_id = house.started().await;
        let catalog_id = registered(&house).await;
        let path = format!("/api/keychain/{catalog_id}/api");
        let bound = [
            ("global", "global".to_owned()),
            ("shared", format!("shared:{execution_id}")),
            ("local", execution_id.clone()),
        ];
        for (scope, end) in &bound {
            let put = json!({
                "data": { "token": SECRET, "of": scope }, "scope_type": scope,
                "execution_id": execution_id, "expires_in": 60, "auto_renew": true,
                "renew_config": { "secret": RENEWAL },
            });
            let kept = house.post(&path, put).await;
            assert!(is_ok(&kept), "{}", kept.text);
            assert_eq!(kept.text_at("/status"), "success");
            assert_eq!(
                kept.text_at("/cache_key"),
                format!("api:{catalog_id}:{end}")
            );
            let asked = format!("{path}?scope_type={scope}&execution_id={execution_id}");
            let found = house.get(&asked).await;
            assert_eq!(found.text_at("/status"), "found");
            assert_eq!(found.at("/data"), json!({ "token": SECRET, "of": scope }));
            assert_eq!(found.at("/renew_config"), json!({ "secret": RENEWAL }));
            assert_eq!(found.text_at("/scope_type"), *scope);
            assert_eq!(found.at("/auto_renew"), true);
            assert_eq!(found.at("/expires_at"), kept.at("/expires_at"));
        }
        for (scope, end) in [("local", "local"), ("catalog", "shared")] {
            let asked = format!("{path}?scope_type={scope}");
            let none = house.get(&asked).await;
            assert_eq!(none.text_at("/status"), "not_found");
            assert_eq!(
                none.text_at("/cache_key"),
                format!("api:{catalog_id}:{end}")
            );
        }
        // What lies in the store says nothing.
        let all = shelter
            .store
            .keychain_entries(KeychainFilter::default(), PageLimit::MAX);
        let rows = all.await.unwrap();
        assert_eq!(rows.len(), bound.len());
        let rows = format!("{rows:?}");
        assert!(!rows.contains(SECRET) && !rows.contains(RENEWAL), "{rows}");
        // Neither does the list, which comes in pages.
        let list = format!("/api/keychain/catalog/{catalog_id}");
        let listed = house.get(&format!("{list}?limit=2")).await;
        assert_eq!(listed.at("/count"), 2);
        let cursor = listed.text_at("/next_cursor");
        let rest = house.get(&format!("{list}?limit=2&cursor={cursor}")).await;
        assert_eq!(rest.at("/count"), 1);
        assert_eq!(rest.text_at("/entries/0/keychain_name"), "api");
        assert_eq!(rest.json().get("next_cursor"), None);
        for told in [&listed, &rest] {
            assert!(!told.text.contains(SECRET) && !told.text.contains(RENEWAL));
        }
        house
            .get(&format!("{list}?cursor=x"))
            .await
            .is_problem(ErrorCode::BadQuery);
        let gone = delete(&house, &path).await;
        assert_eq!(gone.text_at("/status"), "deleted");
        assert_eq!(delete(&house, &path).await.text_at("/status"), "not_found");
        assert_eq!(house.get(&path).await.text_at("/status"), "not_found");
    })
    .await;
}

#[tokio::test]
async fn what_is_over_says_so_until_it_is_swept() {
    on_every_store(async |shelter| {
        let (house, clock) = dev(shelter).await;
        let path = format!("/api/keychain/{}/api", registered(&house).await);
        let put = json!({ "data": { "token": SECRET }, "renew_config": { "secret": RENEWAL } });
        assert!(is_ok(&house.post(&path, put).await));
        assert_eq!(house.get(&path).await.text_at("/status"), "found");
        // Ten minutes where nobody says anything else.
        clock.0.store(601, Ordering::SeqCst);
        let over = house.get(&path).await;
        assert_eq!(over.text_at("/status"), "expired");
        assert!(!over.text.contains(SECRET), "{}", over.text);
        assert_eq!(over.text_at("/renew_config/secret"), RENEWAL);
        let swept = shelter
            .store
            .sweep(Swept::Keychain, clock.now(), PageLimit::MAX);
        assert_eq!(swept.await.unwrap(), 1);
        assert_eq!(house.get(&path).await.text_at("/status"), "not_found");
    })
    .await;
}

#[tokio::test]
async fn entries_have_bounds() {
    let (house, clock) = dev(&Shelter::memory()).await;
    let catalog_id = registered(&house).await;
    let path = format!("/api/keychain/{catalog_id}/api");
    let before = clock.now();
    let kept = house
        .post(&path, json!({ "data": 1, "expires_in": 9_000_000_000_u64 }))
        .await;
    let end = Timestamp::parse(&kept.text_at("/expires_at")).unwrap();
    assert!(end.since(before) < Millis::from_days(31), "{}", kept.text);
    let at = json!({ "data": 1, "expires_at": "2001-02-03T04:05:06" });
    let kept = house.post(&path, at).await;
    assert!(
        kept.text_at("/expires_at")
            .starts_with("2001-02-03T04:05:06")
    );
    assert_eq!(house.get(&path).await.text_at("/status"), "expired");
    for wrong in [
        json!({ "data": 1, "expires_at": "tomorrow" }),
        json!({ "data": 1, "scope_type": "wide" }),
    ] {
        house
            .post(&path, wrong)
            .await
            .is_problem(ErrorCode::Validation);
    }
    let large = json!({ "data": "x".repeat(65 << 10) });
    house
        .post(&path, large)
        .await
        .is_problem(ErrorCode::TooLarge);
    let nobodys =
        json!({ "data": 1, "scope_type": "local", "execution_id": "7000000000000000000" });
    house
        .post(&path, nobodys)
        .await
        .is_problem(ErrorCode::NotFound);
    let long = format!("/api/keychain/{catalog_id}/{}", "n".repeat(256));
    let refused = house.post(&long, json!({ "data": 1 })).await;
    refused.is_problem(ErrorCode::Validation);
    house
        .get("/api/keychain/x/api")
        .await
        .is_problem(ErrorCode::BadId);
    house
        .get("/api/keychain/catalog/x")
        .await
        .is_problem(ErrorCode::BadId);
}

#[tokio::test]
async fn a_server_without_a_key_keeps_no_entry() {
    let house = house().await;
    let path = format!("/api/keychain/{}/api", registered(&house).await);
    let refused = house.post(&path, json!({ "data": 1 })).await;
    refused.is_problem(ErrorCode::NotReady);
}

/// Keys of a server before, during and after a rotation.
fn rings() -> [KeyRing; 3] {
    let [old, new] = [(); 2].map(|()| Key::text_of_new().unwrap());
    let key = |text: &str| Key::read(text).unwrap();
    [
        KeyRing::new(key(&old), Vec::new()),
        KeyRing::new(key(&new), vec![key(&old)]),
        KeyRing::new(key(&new), Vec::new()),
    ]
}

#[tokio::test]
async fn a_rotation_reaches_what_is_cached() {
    on_every_store(async |shelter| {
        let [old, both, new] = rings();
        let store = || Arc::clone(&shelter.store);
        let before = open(store(), old, Arc::default(), true).await;
        let catalog_id = registered(&before).await;
        let path = |name: &str| format!("/api/keychain/{catalog_id}/{name}");
        let put = json!({ "data": { "token": SECRET } });
        for name in ["one", "two", "three"] {
            assert!(is_ok(&before.post(&path(name), put.clone()).await));
        }
        let during = open(store(), both, Arc::default(), true).await;
        // A batch at a time; the next goes on behind it.
        let batch = json!({ "batch_size": 2, "max_batches": 1 });
        let rotated = during.post("/api/credentials/rotate", batch).await;
        let did = |count: u64| json!({ "processed": count, "rewrapped": count, "skipped": 0, "failed": 0 });
        assert_eq!(rotated.json(), did(2));
        let rotated = during.post("/api/credentials/rotate", json!({})).await;
        assert_eq!(rotated.json(), did(1));
        let again = during.post("/api/credentials/rotate", json!({})).await;
        assert_eq!(again.json(), did(0));
        let after = open(store(), new, Arc::default(), true).await;
        for name in ["one", "two", "three"] {
            assert_eq!(after.get(&path(name)).await.text_at("/data/token"), SECRET);
        }
    })
    .await;
}

#[tokio::test]
async fn the_platform_rotates_for_all_tenants_and_tells_which_key_may_go() {
    on_every_store(async |shelter| {
        let [old, both, new] = rings();
        let kids = [&old, &both].map(|ring| ring.current().kid().to_string());
        let [old_kid, new_kid] = &kids;
        let store = || Arc::clone(&shelter.store);
        let before = open(store(), old, Arc::default(), false).await;
        let scopes = [Scope::CredAdmin, Scope::Worker, Scope::CatalogWrite];
        let mut theirs = Vec::new();
        for tenant in ["default", "acme"] {
            let token = token_of(&before.runtime, tenant, &scopes).await;
            let post = async |path: &str, body: Value| {
                let reply = before.call(&token, Method::POST, path, body).await;
                assert!(is_ok(&reply), "{}", reply.text);
                reply
            };
            let body = json!({ "content": TWO_STEPS });
            let made = post("/api/catalog/register", body).await;
            let path = format!("/api/keychain/{}/api", made.text_at("/catalog_id"));
            post(&path, json!({ "data": { "token": SECRET } })).await;
            let credential = json!({ "name": "c", "type": "secret", "data": { "secret": SECRET } });
            post("/api/credentials", credential).await;
            theirs.push((token, path));
        }
        let during = open(store(), both, Arc::default(), false).await;
        let status = async |house: &House| {
            let told = house.ask(Method::GET, "wallet/key-status", "").await;
            assert!(is_ok(&told), "{}", told.text);
            told.json()
        };
        let all_under = |kid: &str| {
            json!({ "current": new_kid, "credential": { kid: 2 }, "keychain": { kid: 2 } })
        };
        assert_eq!(status(&during).await, all_under(old_kid));
        let rotated = during.told("wallet/rotate-kek", json!({})).await;
        for table in ["credential", "keychain"] {
            let mut did = rotated[table].clone();
            let last_id = did.as_object_mut().unwrap().remove("last_id");
            assert!(last_id.is_some_and(|id| id.is_i64()), "{rotated}");
            let wanted = json!({ "processed": 2, "rewrapped": 2, "skipped": 0, "failed": 0 });
            assert_eq!(did, wanted, "{rotated}");
        }
        assert_eq!(status(&during).await, all_under(new_kid));
        let again = during.ask(Method::POST, "wallet/rotate-kek", "").await;
        assert_eq!(again.at("/keychain/processed"), 0);
        // The old key may go.
        let after = open(store(), new, Arc::default(), false).await;
        for (token, path) in &theirs {
            let found = after.call(token, Method::GET, path, json!({})).await;
            assert_eq!(found.text_at("/data/token"), SECRET);
        }
        // An admin of secrets rotates for all only where they run the installation.
        let [(operator, _), (stranger, _)] = &theirs[..] else {
            unreachable!()
        };
        let path = "/api/internal/wallet/key-status";
        let ask = async |token: &str| after.call(token, Method::GET, path, json!({})).await;
        assert!(is_ok(&ask(operator).await));
        ask(stranger).await.is_problem(ErrorCode::Forbidden);
    })
    .await;
}

#[tokio::test]
async fn a_wallet_without_a_key_is_not_ready() {
    let house = Shelter::memory()
        .house(super::internal::http(), |_| ())
        .await;
    for (method, path) in [
        (Method::POST, "wallet/rotate-kek"),
        (Method::GET, "wallet/key-status"),
    ] {
        let refused = house.ask(method, path, "").await;
        refused.is_problem(ErrorCode::NotReady);
    }
}
