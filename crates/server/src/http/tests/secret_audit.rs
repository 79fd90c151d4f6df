//! Whatever is done to a secret is told of once, by whomever, and nothing is lent that is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use noetl_api::WorkerApi;
use noetl_api::credential::CredentialWish;
use noetl_store::faulty::{Fault, FaultyStore, Method as Call};
use noetl_store::postgres::PostgresOptions;
use noetl_store::{MemoryStore, PostgresStore, Store};
use noetl_testkit::postgres::Database;
use noetl_types::{ErrorCode, Scope, WorkerId};
use serde_json::{Value, json};

use super::backends::on_every_store;
use super::tokens::token_of;
use super::{House, Reply, house_of, is_ok};
use crate::clock::{Clock as _, SystemClock};
use crate::http::settings::HttpSettings;
use crate::runtime::{Runtime, Settings};
use crate::vault::{Key, KeyRing, Letter, Reader};

const SECRET: &str = "sesame-opens-42";

const NAMES_IT: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workflow:
  - step: start
    tool: { kind: http, url: 'http://localhost/', auth: api_main }
";

async fn open(store: Arc<dyn Store>, change: impl FnOnce(&mut Settings)) -> House {
    let key = Key::read(&Key::text_of_new().unwrap()).unwrap();
    let mut settings = Settings {
        keys: Some(Arc::new(KeyRing::new(key, Vec::new()))),
        ..Settings::default()
    };
    change(&mut settings);
    let http = HttpSettings {
        is_dev: false,
        ..super::internal::http()
    };
    let runtime = Runtime::open(store, Arc::new(SystemClock), settings)
        .await
        .unwrap();
    house_of(runtime, &http)
}

/// Those who deal with secrets of a tenant, a run that names one, and its definition.
struct Scene {
    house: House,
    admin: String,
    worker: String,
    user: String,
    catalog_id: String,
    execution_id: String,
}

impl Scene {
    async fn new(store: Arc<dyn Store>) -> Self {
        Self::with(store, |_| {}).await
    }

    async fn with(store: Arc<dyn Store>, change: impl FnOnce(&mut Settings)) -> Self {
        let house = open(store, change).await;
        let admin = token_of(&house.runtime, "acme", &[Scope::CredAdmin]).await;
        let worker = token_of(&house.runtime, "acme", &[Scope::Worker]).await;
        let everyday = [Scope::ExecRun, Scope::CatalogWrite, Scope::CredUse];
        let user = token_of(&house.runtime, "acme", &everyday).await;
        let body = json!({ "content": NAMES_IT });
        let made = house
            .call(&user, Method::POST, "/api/catalog/register", body)
            .await;
        let body = json!({ "path": "demo/names" });
        let begun = house.call(&user, Method::POST, "/api/execute", body).await;
        Self {
            catalog_id: made.text_at("/catalog_id"),
            execution_id: begun.text_at("/execution_id"),
            house,
            admin,
            worker,
            user,
        }
    }

    async fn put(&self) -> Reply {
        let body = json!({ "name": "api_main", "type": "bearer", "data": { "token": SECRET } });
        let path = "/api/credentials";
        self.house.call(&self.admin, Method::POST, path, body).await
    }

    async fn get(&self, token: &str, path: &str) -> Reply {
        self.house.call(token, Method::GET, path, json!({})).await
    }

    /// Takes the command of the run.
    async fn lease(&self) {
        let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let path = "/api/commands/lease";
        let leased = self.house.call(&self.worker, Method::POST, path, lease);
        let leased = leased.await;
        assert_eq!(leased.at("/commands").as_array().unwrap().len(), 1);
    }

    async fn register(&self, body: Value) {
        let path = "/api/worker/pool/register";
        let made = self.house.call(&self.worker, Method::POST, path, body);
        let made = made.await;
        assert!(is_ok(&made), "{}", made.text);
    }

    fn reading(&self) -> String {
        let id = &self.execution_id;
        format!("/api/credentials/api_main?include_data=true&execution_id={id}&worker_id=w1")
    }

    fn sealing(&self) -> String {
        let id = &self.execution_id;
        format!("/api/credentials/api_main/sealed?execution_id={id}&worker_id=w1")
    }

    /// What the platform is told, oldest first.
    async fn audit(&self, query: &str) -> Vec<Value> {
        let path = format!("secret-audit?{query}");
        let told = self.house.ask(Method::GET, &path, "").await;
        assert!(is_ok(&told), "{}", told.text);
        assert!(!told.text.contains(SECRET), "{}", told.text);
        let rows = told.at("/rows");
        rows.as_array().unwrap().iter().rev().cloned().collect()
    }

    /// The same in short.
    async fn acts(&self, query: &str) -> Vec<String> {
        let rows = self.audit(query).await;
        rows.iter().map(short).collect()
    }
}

fn short(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let has_run = if row["execution_id"].is_i64() {
        " for a run"
    } else {
        ""
    };
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
#[expect(clippy::too_many_lines, reason = "a story of one act after the other")]
async fn each_act_on_a_secret_leaves_one_entry() {
    on_every_store(async |shelter| {
        let scene = Scene::new(Arc::clone(&shelter.store)).await;
        let Scene {
            house,
            admin,
            worker,
            user,
            ..
        } = &scene;
        let reader = Reader::new();
        let key = json!({ "public_key": reader.public_key() });
        scene
            .register(json!({ "name": "w1", "runtime": key }))
            .await;
        scene.put().await;
        let post = async |token: &str, path: &str, body: Value| {
            house.call(token, Method::POST, path, body).await;
        };
        // Refused: by what it is, by its scope, and for want of a lease.
        post(
            admin,
            "/api/credentials",
            json!({ "name": "7", "type": "x", "data": 1 }),
        )
        .await;
        post(admin, "/api/credentials", json!({ "name": 7 })).await;
        post(worker, "/api/credentials", json!({})).await;
        scene.get(worker, &scene.reading()).await;
        scene.lease().await;
        scene.get(user, "/api/credentials/api_main").await;
        scene
            .get(user, "/api/credentials/api_main?include_data=true")
            .await;
        scene
            .get(admin, "/api/credentials/api_main?include_data=true")
            .await;
        scene
            .get(admin, "/api/credentials/none?include_data=true")
            .await;
        scene.get(worker, &scene.reading()).await;
        scene.get(worker, &scene.sealing()).await;
        scene.get(user, &scene.sealing()).await;
        let kept = format!("/api/keychain/{}/api", scene.catalog_id);
        let id = &scene.execution_id;
        post(admin, &kept, json!({ "data": { "token": SECRET } })).await;
        scene
            .get(worker, &format!("{kept}?execution_id={id}&worker_id=w1"))
            .await;
        scene.get(worker, &kept).await;
        house.call(admin, Method::DELETE, &kept, json!({})).await;
        post(admin, "/api/credentials/rotate", json!({})).await;
        house.told("wallet/rotate-kek", json!({})).await;
        let path = "/api/credentials/api_main";
        house.call(admin, Method::DELETE, path, json!({})).await;
        house.call(user, Method::DELETE, path, json!({})).await;
        // Who is nobody got nowhere near.
        house
            .call("noetl_no_body", Method::GET, path, json!({}))
            .await;
        let told = scene.acts("limit=1000").await;
        let expected = [
            "acme-token set api_main ok -",
            "acme-token set 7 validation -",
            "acme-token set - validation -",
            "acme-token set - forbidden -",
            "acme-token lend api_main forbidden w1 for a run",
            "acme-token look api_main ok -",
            "acme-token read api_main forbidden -",
            "acme-token read api_main ok -",
            "acme-token read none not_found -",
            "acme-token lend api_main ok w1 for a run",
            "acme-token seal api_main ok w1 for a run",
            "acme-token seal api_main forbidden -",
            "acme-token keychain.put api ok -",
            "acme-token keychain.get api ok w1 for a run",
            "acme-token keychain.get api forbidden -",
            "acme-token keychain.delete api ok -",
            "acme-token rotate - ok -",
            "platform rotate - ok -",
            "acme-token delete api_main ok -",
            "acme-token delete api_main forbidden -",
        ];
        assert_eq!(told, expected);

        // They are the entries of the one trail, beside those of other acts.
        let auditor = token_of(&house.runtime, "acme", &[Scope::Admin]).await;
        let trail = scene.get(&auditor, "/api/audit?limit=500").await;
        assert_eq!(trail.at("/intact"), true);
        let entries = trail.at("/entries");
        let entries = entries.as_array().unwrap().iter().rev();
        let of_secrets = entries.filter_map(|entry| entry["secret"]["operation"].as_str());
        let others = expected.iter().filter(|act| !act.starts_with("platform"));
        assert!(of_secrets.eq(others.map(|act| act.split(' ').nth(1).unwrap())));

        // Found by secret, by run and by time.
        let count = async |query: &str| scene.audit(query).await.len();
        assert_eq!(count("credential=none").await, 1);
        assert_eq!(count(&format!("execution_id={id}")).await, 4);
        assert_eq!(count(&format!("execution_id={id}&credential=api")).await, 1);
        assert_eq!(count("limit=3").await, 3);
        assert_eq!(count("to=2020-01-01T00:00:00Z").await, 0);
        let rows = scene.audit("").await;
        let middle = rows[5]["occurred_at"].as_str().unwrap();
        let until = count(&format!("to={middle}")).await;
        let since = count(&format!("from={middle}")).await;
        assert!(until >= 6 && since >= rows.len() - 5, "{until} {since}");
        let lent = &rows[9];
        assert_eq!(lent["execution_id"].as_i64().unwrap().to_string(), *id);
        assert_eq!(lent["tenant_id"], "acme");
        assert_eq!(lent["address"], "10.0.0.7");
        assert_eq!(lent["kek_version"], rows[0]["kek_version"]);
        assert!(lent["kek_version"].is_string() && lent["notes"]["token_id"].is_string());
    })
    .await;
}

#[tokio::test]
async fn a_long_audit_is_whole_and_has_bounds() {
    let scene = Scene::new(Arc::new(MemoryStore::new())).await;
    for _ in 0..600 {
        scene.get(&scene.admin, "/api/credentials/none").await;
    }
    assert_eq!(scene.audit("").await.len(), 100);
    assert_eq!(scene.audit("limit=501").await.len(), 501);
    let all = scene.audit("limit=10000").await;
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
        let refused = scene.house.ask(Method::GET, &path, "").await;
        refused.is_problem(code);
    }
    // It is of all tenants, so no admin of one reads it but who runs the installation.
    let path = "/api/internal/secret-audit";
    let theirs = token_of(&scene.house.runtime, "acme", &[Scope::Admin]).await;
    scene
        .get(&theirs, path)
        .await
        .is_problem(ErrorCode::Forbidden);
    let operator = token_of(&scene.house.runtime, "default", &[Scope::Admin]).await;
    assert!(is_ok(&scene.get(&operator, path).await));
}

/// A store whose trail can be broken.
fn breakable() -> (Arc<dyn Store>, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_broken);
    let plan = Box::new(move |call| {
        if call == Call::Audit && flag.load(Ordering::SeqCst) {
            Fault::Before
        } else {
            Fault::None
        }
    });
    let store = FaultyStore::new(MemoryStore::new(), plan);
    (Arc::new(store), is_broken)
}

#[tokio::test]
async fn no_secret_is_handed_out_without_a_trace() {
    let (store, is_broken) = breakable();
    let scene = Scene::new(store).await;
    let reader = Reader::new();
    let key = json!({ "public_key": reader.public_key() });
    scene
        .register(json!({ "name": "w1", "runtime": key }))
        .await;
    scene.put().await;
    scene.lease().await;
    let kept = format!("/api/keychain/{}/api", scene.catalog_id);
    let body = json!({ "data": { "token": SECRET } });
    let path = kept.as_str();
    scene
        .house
        .call(&scene.worker, Method::POST, path, body)
        .await;
    let lending = format!("{kept}?execution_id={}", scene.execution_id);
    let wishes = [
        (&scene.admin, "/api/credentials/api_main?include_data=true"),
        (&scene.worker, &scene.reading()),
        (&scene.worker, &scene.sealing()),
        (&scene.worker, &lending),
    ];
    let before = scene.audit("limit=1000").await.len();
    is_broken.store(true, Ordering::SeqCst);
    for (token, path) in wishes {
        let refused = scene.get(token, path).await;
        refused.is_problem(ErrorCode::StoreUnavailable);
        assert!(!refused.text.contains(SECRET) && !refused.text.contains("eph_pub"));
    }
    // What was not handed out is not counted as if it were.
    let counted = scene.house.runtime.metrics_text().await.unwrap();
    let read = |outcome: &str| format!("{{operation=\"read\",outcome=\"{outcome}\"}} 1\n");
    assert!(counted.contains(&read("failed")), "{counted}");
    assert!(!counted.contains(&read("ok")), "{counted}");
    // Whoever only looks, writes or deletes gets on with it.
    assert!(is_ok(
        &scene.get(&scene.user, "/api/credentials/api_main").await
    ));
    assert!(is_ok(&scene.put().await));
    is_broken.store(false, Ordering::SeqCst);
    for (token, path) in wishes {
        assert!(is_ok(&scene.get(token, path).await), "{path}");
    }
    // What was tried is told too, late and once.
    let after = scene.audit("limit=1000").await.len();
    assert_eq!(after - before, 2 * wishes.len() + 2);
}

#[tokio::test]
async fn an_operator_may_want_secrets_more_than_traces() {
    let (store, is_broken) = breakable();
    let scene = Scene::with(store, |settings| settings.secret_audit_required = false).await;
    scene.put().await;
    is_broken.store(true, Ordering::SeqCst);
    let path = "/api/credentials/api_main?include_data=true";
    let shown = scene.get(&scene.admin, path).await;
    assert_eq!(shown.text_at("/data/token"), SECRET);
    is_broken.store(false, Ordering::SeqCst);
    let looked = scene.get(&scene.user, "/api/credentials/api_main").await;
    assert!(is_ok(&looked));
    assert_eq!(scene.audit("").await.len(), 3);
}

/// A worker inside of the process comes through no door.
#[tokio::test]
async fn a_worker_inside_leaves_a_trace_too() {
    let (store, is_broken) = breakable();
    let house = open(store, |_| {}).await;
    let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let post = async |path: &str, body: Value| house.call(&admin, Method::POST, path, body).await;
    let body = json!({ "name": "api_main", "type": "bearer", "data": { "token": SECRET } });
    post("/api/credentials", body).await;
    post("/api/catalog/register", json!({ "content": NAMES_IT })).await;
    let begun = post("/api/execute", json!({ "path": "demo/names" })).await;
    let wish = || CredentialWish {
        name: "api_main".into(),
        execution_id: begun.text_at("/execution_id").parse().unwrap(),
        worker_id: WorkerId::new("w1").unwrap(),
    };
    let refused = WorkerApi::credential(&house.runtime, wish())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
    post("/api/commands/lease", lease).await;
    let lent = WorkerApi::credential(&house.runtime, wish()).await.unwrap();
    assert_eq!(
        lent.data.unwrap().get("token").unwrap().as_str(),
        Some(SECRET)
    );
    is_broken.store(true, Ordering::SeqCst);
    let refused = WorkerApi::credential(&house.runtime, wish())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::StoreUnavailable));
    is_broken.store(false, Ordering::SeqCst);
    let told = house.ask(Method::GET, "secret-audit?limit=2", "").await;
    let rows = told.at("/rows");
    let told: Vec<String> = rows.as_array().unwrap().iter().map(short).collect();
    let expected = [
        "worker lend api_main ok w1 for a run",
        "worker lend api_main forbidden w1 for a run",
    ];
    assert_eq!(told, expected);
}

/// An entry that somebody with the database takes out or changes is missed.
#[tokio::test]
async fn c17_a_deleted_entry_is_missed() {
    let database = Database::new().unwrap();
    let options = PostgresOptions::new(database.config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.unwrap();
    let scene = Scene::new(Arc::new(store)).await;
    scene.put().await;
    for _ in 0..3 {
        let path = "/api/credentials/api_main?include_data=true";
        scene.get(&scene.admin, path).await;
    }
    let auditor = token_of(&scene.house.runtime, "acme", &[Scope::Admin]).await;
    let is_intact = async || {
        let trail = scene.get(&auditor, "/api/audit?limit=500").await;
        trail.at("/intact").as_bool().unwrap()
    };
    assert!(is_intact().await);
    let another = "UPDATE noetl.audit SET credential = 'x' WHERE tenant_id = 'acme' AND seq = 3";
    database.run(another).unwrap();
    assert!(!is_intact().await);
    let back = "UPDATE noetl.audit SET credential = 'api_main' WHERE credential = 'x'";
    database.run(back).unwrap();
    assert!(is_intact().await);
    let gone = "DELETE FROM noetl.audit WHERE tenant_id = 'acme' AND seq = 2";
    database.run(gone).unwrap();
    assert!(!is_intact().await);
}

/// What a letter of a sealed credential is bound to.
fn bound(worker_id: &str, execution_id: &str, key: &str) -> Vec<u8> {
    [worker_id, execution_id, key].join("\0").into_bytes()
}

fn letter(sealed: &Reply) -> Letter {
    let alg = "x25519-hkdf-sha256-chacha20-poly1305";
    assert_eq!(sealed.text_at("/alg"), alg);
    assert_eq!(sealed.at("/v"), 1);
    assert!(!sealed.text.contains(SECRET));
    Letter {
        eph_pub: sealed.text_at("/eph_pub").into(),
        ciphertext: sealed.text_at("/ciphertext").into(),
    }
}

fn opened(reader: Reader, sealed: &Reply, bound: &[u8]) -> Option<Value> {
    let text = reader.open(&letter(sealed), bound)?;
    Some(serde_json::from_slice(&text).unwrap())
}

#[tokio::test]
async fn a_sealed_credential_opens_for_its_worker_alone() {
    on_every_store(async |shelter| {
        let scene = Scene::new(Arc::clone(&shelter.store)).await;
        scene.put().await;
        let sealing = scene.sealing();
        let ask = async |token: &str, path: &str| scene.get(token, path).await;
        // Nobody has leased the command yet.
        ask(&scene.worker, &sealing)
            .await
            .is_problem(ErrorCode::Forbidden);
        scene.lease().await;
        // Nor has the worker said what its key is.
        let none = ask(&scene.worker, &sealing).await;
        none.is_problem(ErrorCode::BadQuery);
        assert!(none.text.contains("public_key"), "{}", none.text);
        for key in ["", "AAAA", "no base64"] {
            let wrong = json!({ "public_key": key });
            scene
                .register(json!({ "name": "w1", "runtime": wrong }))
                .await;
            let none = ask(&scene.worker, &sealing).await;
            none.is_problem(ErrorCode::BadQuery);
        }
        for part in ["runtime", "capabilities"] {
            for _ in 0..2 {
                let (reader, other) = (Reader::new(), Reader::new());
                let key = json!({ "public_key": reader.public_key() });
                scene.register(json!({ "name": "w1", part: key })).await;
                let sealed = ask(&scene.worker, &sealing).await;
                assert!(is_ok(&sealed), "{}", sealed.text);
                let bound = bound("w1", &scene.execution_id, "api_main");
                assert_eq!(opened(other, &sealed, &bound), None);
                let found = opened(reader, &sealed, &bound).unwrap();
                assert_eq!(found["data"], json!({ "token": SECRET }));
                assert_eq!(found["name"], "api_main");
                assert_eq!(found["type"], "bearer");
            }
        }
        let other = sealing.replace("w1", "w2");
        ask(&scene.worker, &other)
            .await
            .is_problem(ErrorCode::Forbidden);
        let alone = "/api/credentials/api_main/sealed?worker_id=w1";
        for token in [&scene.worker, &scene.user] {
            ask(token, alone).await.is_problem(ErrorCode::Forbidden);
        }
        let unnamed = "/api/credentials/api_main/sealed";
        ask(&scene.worker, unnamed)
            .await
            .is_problem(ErrorCode::BadQuery);
        // An admin of secrets has one sealed for any worker, without a run.
        let reader = Reader::new();
        let key = json!({ "public_key": reader.public_key() });
        scene
            .register(json!({ "name": "w1", "runtime": key }))
            .await;
        let sealed = ask(&scene.admin, alone).await;
        let found = opened(reader, &sealed, &bound("w1", "", "api_main")).unwrap();
        assert_eq!(found["data"], json!({ "token": SECRET }));
        // Another tenant does not even learn that there is one, nor whose keys there are.
        let runtime = &scene.house.runtime;
        let spy = token_of(runtime, "spies", &[Scope::CredAdmin, Scope::Worker]).await;
        for path in [alone, &sealing] {
            ask(&spy, path).await.is_problem(ErrorCode::NotFound);
        }
    })
    .await;
}
