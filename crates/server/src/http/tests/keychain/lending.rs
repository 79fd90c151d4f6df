//! A worker has to do with what is kept for a definition while it works on a run of it.

use std::sync::Arc;

use axum::http::Method;
use noetl_api::tokens::NewToken;
use noetl_types::{ErrorCode, PoolName, Scope};
use serde_json::{Value, json};

use super::super::backends::{Shelter, on_every_store};
use super::super::tokens::token_of;
use super::super::{House, Reply, TWO_STEPS, completed, is_ok};
use super::{SECRET, new_ring, open};

/// Keeps something, calls another playbook, which does one thing.
const ABOVE: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: above, path: demo/above }
workflow:
  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: call }] } }
  - { step: call, tool: { kind: playbook, path: demo/below, return_result: true } }
";
const BELOW: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: below, path: demo/below }
workflow:
  - { step: start, tool: { kind: noop } }
";

/// A server that wants to see tokens, and those of who has to do with secrets.
struct Bank {
    house: House,
    worker: String,
    admin: String,
    user: String,
}

impl Bank {
    async fn on(shelter: &Shelter) -> Self {
        let store = Arc::clone(&shelter.store);
        let house = open(store, new_ring(), Arc::default(), false).await;
        let everyday = [Scope::ExecRun, Scope::CatalogWrite, Scope::CredUse];
        Self {
            worker: token_of(&house.runtime, "default", &[Scope::Worker]).await,
            admin: token_of(&house.runtime, "default", &[Scope::CredAdmin]).await,
            user: token_of(&house.runtime, "default", &everyday).await,
            house,
        }
    }

    async fn call(&self, token: &str, method: Method, path: &str, body: Value) -> Reply {
        self.house.call(token, method, path, body).await
    }

    async fn registered(&self, content: &str) -> String {
        let body = json!({ "content": content });
        let path = "/api/catalog/register";
        let made = self.call(&self.user, Method::POST, path, body).await;
        made.text_at("/catalog_id")
    }

    async fn started(&self, path: &str) -> String {
        let body = json!({ "path": path });
        let begun = self.call(&self.user, Method::POST, "/api/execute", body);
        begun.await.text_at("/execution_id")
    }

    /// Takes the next command as the worker `w1`.
    async fn leased(&self) -> Value {
        let lease = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let path = "/api/commands/lease";
        let leased = self.call(&self.worker, Method::POST, path, lease).await;
        leased.at("/commands/0")
    }

    async fn finish(&self, command: &Value) {
        let body = completed(command, &json!(1));
        let path = "/api/commands/report";
        let reported = self.call(&self.worker, Method::POST, path, body).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
    }

    async fn put(&self, token: &str, path: &str, body: Value) -> Reply {
        self.call(token, Method::POST, path, body).await
    }

    async fn ask(&self, token: &str, path: &str) -> Reply {
        self.call(token, Method::GET, path, json!({})).await
    }

    async fn forget(&self, token: &str, path: &str) -> Reply {
        self.call(token, Method::DELETE, path, json!({})).await
    }
}

#[track_caller]
fn is_forbidden(reply: &Reply) {
    reply.is_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn only_who_holds_a_command_of_the_definition_is_lent() {
    on_every_store(async |shelter| {
        let bank = Bank::on(shelter).await;
        let Bank {
            worker,
            admin,
            user,
            ..
        } = &bank;
        let catalog_id = bank.registered(TWO_STEPS).await;
        let other = TWO_STEPS.replace("demo/two", "demo/other");
        let other_id = bank.registered(&other).await;
        let id = bank.started("demo/two").await;
        let [path, elsewhere] =
            &[&catalog_id, &other_id].map(|id| format!("/api/keychain/{id}/api"));
        let put = json!({ "data": { "token": SECRET } });
        for path in [path, elsewhere] {
            is_forbidden(&bank.put(user, path, put.clone()).await);
            assert!(is_ok(&bank.put(admin, path, put.clone()).await));
        }
        let (wish, away) = (
            format!("{path}?execution_id={id}"),
            format!("{elsewhere}?execution_id={id}"),
        );
        // Nobody has leased the command yet.
        is_forbidden(&bank.ask(worker, &wish).await);
        bank.leased().await;
        for wish in [&wish, &format!("{wish}&worker_id=w1")] {
            assert_eq!(bank.ask(worker, wish).await.text_at("/data/token"), SECRET);
        }
        for not_lent in [path, &away, &format!("{wish}&worker_id=w2")] {
            is_forbidden(&bank.ask(worker, not_lent).await);
        }
        assert_eq!(bank.ask(admin, path).await.text_at("/data/token"), SECRET);
        // Whoever may use secrets learns that there is one.
        let seen = bank.ask(user, path).await;
        assert_eq!(seen.text_at("/status"), "found");
        assert!(!seen.text.contains(SECRET), "{}", seen.text);
        // To another tenant there is not even the definition.
        let all = [Scope::CredAdmin, Scope::Worker, Scope::CredUse];
        let spy = token_of(&bank.house.runtime, "spies", &all).await;
        let list = format!("/api/keychain/catalog/{catalog_id}");
        for (method, path) in [
            (Method::GET, path),
            (Method::GET, &wish),
            (Method::GET, &list),
            (Method::POST, path),
            (Method::DELETE, path),
        ] {
            let lost = bank.call(&spy, method, path, put.clone()).await;
            lost.is_problem(ErrorCode::NotFound);
        }
        assert_eq!(bank.ask(admin, path).await.text_at("/data/token"), SECRET);
        trail_tells_it(&bank.house).await;
    })
    .await;
}

/// Every look at a secret is in the trail, and the secret is not.
async fn trail_tells_it(house: &House) {
    let auditor = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let trail = house
        .call(&auditor, Method::GET, "/api/audit?limit=500", json!({}))
        .await;
    let looks = trail.at("/entries");
    let looks = looks.as_array().unwrap().iter();
    let looks = looks.filter(|entry| entry["act"] == "GET /api/keychain/{catalog_id}/{name}");
    let outcomes: Vec<_> = looks.map(|entry| entry["outcome"].clone()).collect();
    assert!(outcomes.contains(&json!("ok")), "{}", trail.text);
    assert!(!trail.text.contains(SECRET));
}

/// A worker of one pool plants nothing for the runs of another, and takes nothing from them.
#[tokio::test]
async fn only_who_holds_a_command_of_the_definition_changes_anything() {
    on_every_store(async |shelter| {
        let bank = Bank::on(shelter).await;
        let (worker, admin) = (&bank.worker, &bank.admin);
        let catalog_id = bank.registered(TWO_STEPS).await;
        let other = TWO_STEPS.replace("demo/two", "demo/other");
        let other_id = bank.registered(&other).await;
        let id = bank.started("demo/two").await;
        let path = format!("/api/keychain/{catalog_id}/api");
        let elsewhere = format!("/api/keychain/{other_id}/api");
        let theirs = json!({ "data": { "token": SECRET } });
        for path in [&path, &elsewhere] {
            assert!(is_ok(&bank.put(admin, path, theirs.clone()).await));
        }
        let planted = json!({ "data": { "token": "planted" }, "execution_id": id });
        let refuses = async |token: &str, path: &str, put: &Value, query: &str| {
            is_forbidden(&bank.put(token, path, put.clone()).await);
            is_forbidden(&bank.forget(token, &format!("{path}?{query}")).await);
        };
        let run = format!("execution_id={id}");
        // Nobody has leased the command yet.
        refuses(worker, &path, &planted, &run).await;
        bank.leased().await;
        // It has to be named, and to be a run of the very definition.
        let nameless = json!({ "data": { "token": "planted" } });
        refuses(worker, &path, &nameless, "").await;
        refuses(worker, &elsewhere, &planted, &run).await;
        let mut by_another = planted.clone();
        by_another["worker_id"] = json!("w2");
        refuses(worker, &path, &by_another, &format!("{run}&worker_id=w2")).await;
        let bound = NewToken {
            name: "untrusted".into(),
            scopes: vec![Scope::Worker],
            pools: Some(vec![PoolName::new("untrusted").unwrap()]),
            ..NewToken::default()
        };
        let made = bank.house.runtime.create_token(bound, &"test".into()).await;
        let bound = made.unwrap().token.to_string();
        refuses(&bound, &path, &planted, &run).await;
        for path in [&path, &elsewhere] {
            let kept = bank.ask(admin, path).await;
            assert_eq!(kept.text_at("/data/token"), SECRET);
        }
        // Whoever works on the run may.
        let mut fresh = planted.clone();
        (fresh["data"]["token"], fresh["worker_id"]) = (json!("fresh"), json!("w1"));
        assert!(is_ok(&bank.put(worker, &path, fresh).await));
        let kept = bank.ask(admin, &path).await;
        assert_eq!(kept.text_at("/data/token"), "fresh");
        let gone = bank.forget(worker, &format!("{path}?{run}")).await;
        assert_eq!(gone.text_at("/status"), "deleted");
        let gone = bank.forget(admin, &elsewhere).await;
        assert_eq!(gone.text_at("/status"), "deleted");
    })
    .await;
}

#[tokio::test]
async fn a_run_finds_what_is_nearest_to_it() {
    on_every_store(async |shelter| {
        let bank = Bank::on(shelter).await;
        let (worker, admin) = (&bank.worker, &bank.admin);
        let path = format!("/api/keychain/{}/api", bank.registered(TWO_STEPS).await);
        let id = bank.started("demo/two").await;
        bank.leased().await;
        for scope in ["shared", "local"] {
            let wish = format!("{path}?scope_type={scope}&execution_id={id}");
            let none = bank.ask(worker, &wish).await;
            assert_eq!(none.text_at("/status"), "not_found");
            let keep = async |token: &str, data: &str, run: Option<&str>, seconds: u64| {
                let put = json!({ "data": data, "scope_type": scope, "execution_id": run,
                                  "expires_in": seconds });
                let kept = bank.put(token, &path, put).await;
                assert!(is_ok(&kept), "{}", kept.text);
                kept.text_at("/cache_key")
            };
            let for_all = keep(admin, "for all", None, 60).await;
            let found = bank.ask(worker, &wish).await;
            assert_eq!(found.text_at("/data"), "for all");
            assert_eq!(found.text_at("/cache_key"), for_all);
            let own = keep(worker, "for the run", Some(&id), 60).await;
            let found = bank.ask(worker, &wish).await;
            assert_eq!(found.text_at("/data"), "for the run");
            assert_eq!(found.text_at("/cache_key"), own);
            // What is over stands in nobody's way, and says so where nothing else is there.
            keep(worker, "over", Some(&id), 0).await;
            assert_eq!(bank.ask(worker, &wish).await.text_at("/data"), "for all");
            // A worker forgets what is for its run, never what is for all.
            for status in ["deleted", "not_found"] {
                let gone = bank.forget(worker, &wish).await;
                assert_eq!(gone.text_at("/status"), status);
            }
            keep(worker, "over", Some(&id), 0).await;
            let whole = format!("{path}?scope_type={scope}");
            assert!(is_ok(&bank.forget(admin, &whole).await));
            let over = bank.ask(worker, &wish).await;
            assert_eq!(over.text_at("/status"), "expired");
        }
    })
    .await;
}

#[tokio::test]
async fn a_child_reads_what_its_root_shares() {
    on_every_store(async |shelter| {
        let bank = Bank::on(shelter).await;
        let worker = &bank.worker;
        let above = bank.registered(ABOVE).await;
        bank.registered(BELOW).await;
        let other = bank.registered(TWO_STEPS).await;
        let root = bank.started("demo/above").await;
        let first = bank.leased().await;
        let path = format!("/api/keychain/{above}/api");
        for scope in ["global", "shared", "local"] {
            let put = json!({ "data": SECRET, "scope_type": scope, "execution_id": root });
            assert!(is_ok(&bank.put(worker, &path, put.clone()).await));
        }
        bank.finish(&first).await;
        let child = bank.leased().await;
        let child = child["execution_id"].as_str().unwrap();
        assert_ne!(child, root);
        let wish = |path: &str, scope: &str| {
            format!("{path}?scope_type={scope}&execution_id={child}&worker_id=w1")
        };
        let found = bank.ask(worker, &wish(&path, "shared")).await;
        assert_eq!(found.text_at("/data"), SECRET);
        let place = format!("api:{above}:shared:{root}");
        assert_eq!(found.text_at("/cache_key"), place);
        // Nothing else of another definition is lent to it, and it changes nothing there.
        for scope in ["global", "local"] {
            is_forbidden(&bank.ask(worker, &wish(&path, scope)).await);
        }
        let foreign = format!("/api/keychain/{other}/api");
        is_forbidden(&bank.ask(worker, &wish(&foreign, "shared")).await);
        let put = json!({ "data": "planted", "scope_type": "shared", "execution_id": child });
        is_forbidden(&bank.put(worker, &path, put).await);
        is_forbidden(&bank.forget(worker, &wish(&path, "shared")).await);
    })
    .await;
}
