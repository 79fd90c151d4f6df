//! A token that is bound to paths, beside one that is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use noetl_api::execute::ExecuteRequest;
use noetl_api::tokens::NewToken;
use noetl_types::{ErrorCode, FeedPosition, Scope, Text};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::{filled, routes, token_of};
use super::{House, Reply, is_ok};
use crate::http::settings::HttpSettings;
use crate::read::{FeedWish, Told};
use crate::runtime::Behalf;

/// Two playbooks, each with a run, and a token that has one of them.
struct Place {
    house: House,
    /// Has everything.
    free: String,
    /// Has what lies under `etl/`.
    bound: String,
    own: Run,
    other: Run,
}

struct Run {
    execution_id: String,
    catalog_id: String,
}

const SCOPES: [Scope; 7] = [
    Scope::ExecRead,
    Scope::ExecRun,
    Scope::ExecApprove,
    Scope::CatalogRead,
    Scope::CatalogWrite,
    Scope::Worker,
    Scope::Admin,
];

/// A playbook of one step: one for people where its path says so.
fn document(path: &str) -> Value {
    let is_for_people = path.ends_with("/ask");
    let kind = if is_for_people {
        "approval, title: why"
    } else {
        "noop"
    };
    let content = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: one, path: {path} }}\n\
         workflow:\n  - {{step: ask, tool: {{kind: {kind}}}}}\n"
    );
    json!({ "content": content })
}

/// Registers a playbook and starts it.
async fn begun(house: &House, token: &str, path: &str) -> Run {
    let post = async |to: &str, body| house.call(token, Method::POST, to, body).await;
    let registered = post("/api/catalog/register", document(path)).await;
    assert!(is_ok(&registered), "{}", registered.text);
    let started = post("/api/execute", json!({ "path": path })).await;
    Run {
        execution_id: started.text_at("/execution_id"),
        catalog_id: registered.text_at("/catalog_id"),
    }
}

impl Place {
    async fn on(shelter: &Shelter) -> Self {
        let settings = HttpSettings {
            is_dev: false,
            ..HttpSettings::default()
        };
        let house = shelter.house(settings, |_| {}).await;
        let free = token_of(&house.runtime, "default", &SCOPES).await;
        let bound = NewToken {
            name: "bound".into(),
            scopes: SCOPES.to_vec(),
            path_globs: Some(vec!["etl/*".into()]),
            ..NewToken::default()
        };
        let bound = house.runtime.create_token(bound, &"test".into()).await;
        let bound = bound.unwrap().token.to_string();
        let own = begun(&house, &free, "etl/one").await;
        let other = begun(&house, &free, "other/one").await;
        Self {
            house,
            free,
            bound,
            own,
            other,
        }
    }

    async fn get(&self, token: &str, path: &str) -> Reply {
        self.house.call(token, Method::GET, path, json!({})).await
    }

    async fn post(&self, path: &str, body: Value) -> Reply {
        self.house.call(&self.bound, Method::POST, path, body).await
    }
}

/// Whether and how a reply speaks of something.
fn mentions(reply: &Reply, run: &Run) -> bool {
    reply.text.contains(&run.execution_id) || reply.text.contains(&run.catalog_id)
}

#[tokio::test]
async fn runs_of_other_paths_are_as_good_as_none() {
    let place = Place::on(&Shelter::memory()).await;
    let nobody = "7000000000000000000";
    for (method, route) in routes() {
        if !route.path.contains("{execution_id}") {
            continue;
        }
        let at = |id: &str| {
            filled(&route.path, |name| match name {
                "execution_id" => id.to_owned(),
                "seq" => "1".to_owned(),
                _ => "one".to_owned(),
            })
        };
        for body in [
            json!({}),
            json!({ "name": "x", "data": 1 }),
            json!({ "status": "FAILED" }),
            json!({ "step": "ask", "decision": "approve" }),
        ] {
            let ask = async |id: &str| {
                let (method, body) = (method.clone(), body.clone());
                let house = &place.house;
                house.call(&place.bound, method, &at(id), body).await
            };
            let (foreign, unknown) = (ask(&place.other.execution_id).await, ask(nobody).await);
            let path = &route.path;
            assert_eq!(foreign.status, unknown.status, "{method} {path} {body}");
            assert!(!is_ok(&foreign), "{method} {path} {body}");
        }
    }
    let status = format!("/api/executions/{}/status", place.other.execution_id);
    let status = place.get(&place.free, &status).await;
    assert_eq!(status.text_at("/status"), "RUNNING", "{}", status.text);
    let own = format!("/api/executions/{}", place.own.execution_id);
    assert!(is_ok(&place.get(&place.bound, &own).await));
    let cancelled = place.post(&format!("{own}/cancel"), json!({})).await;
    assert!(is_ok(&cancelled), "{}", cancelled.text);
}

#[tokio::test]
async fn lists_leave_other_paths_out() {
    on_every_store(async |shelter: &Shelter| {
        let place = Place::on(shelter).await;
        let ask = begun(&place.house, &place.free, "etl/ask").await;
        let other_ask = begun(&place.house, &place.free, "other/ask").await;
        for (path, own, other) in [
            ("/api/executions", &place.own, &place.other),
            ("/api/commands", &place.own, &place.other),
            ("/api/approvals", &ask, &other_ask),
            ("/api/stream/feed?after=0.0", &ask, &other_ask),
        ] {
            let mut all = place.get(&place.free, path).await;
            // The feed ends where the oldest open transaction of the whole cluster began.
            for _ in 0..2000 {
                if mentions(&all, own) && mentions(&all, other) {
                    break;
                }
                all = place.get(&place.free, path).await;
            }
            assert!(mentions(&all, own), "{path}: {}", all.text);
            assert!(mentions(&all, other), "{path}: {}", all.text);
            let few = place.get(&place.bound, path).await;
            assert!(mentions(&few, own), "{path}: {}", few.text);
            assert!(!mentions(&few, other), "{path}: {}", few.text);
        }
    })
    .await;
}

#[tokio::test]
async fn the_stream_of_events_leaves_other_paths_out() {
    let place = Place::on(&Shelter::memory()).await;
    let told = async |path_globs: Option<Arc<[Text]>>| {
        let behalf = Behalf {
            path_globs,
            ..Behalf::default()
        };
        let wish = FeedWish {
            tenant_id: behalf.tenant_id.clone(),
            event_type: None,
            execution_id: None,
            path: None,
        };
        let runtime = place.house.runtime.on_behalf_of(behalf);
        let begin = Some((None, FeedPosition::default()));
        let mut follower = runtime.follow_all(wish, begin).await.unwrap();
        let told = follower.next(Duration::ZERO).await.unwrap();
        let runs = told.into_iter().filter_map(|told| match told {
            Told::Event(_, event) => Some(event.execution_id.to_string()),
            Told::Gap { .. } => None,
        });
        runs.collect::<BTreeSet<String>>()
    };
    let (own, other) = (&place.own.execution_id, &place.other.execution_id);
    assert_eq!(told(None).await, [own.clone(), other.clone()].into());
    assert_eq!(
        told(Some(["etl/*".into()].into())).await,
        [own.clone()].into()
    );
}

#[tokio::test]
async fn definitions_of_other_paths_are_as_good_as_none() {
    on_every_store(async |shelter: &Shelter| {
        let place = Place::on(shelter).await;
        let paths = place.get(&place.bound, "/api/catalog/list/playbook").await;
        assert_eq!(paths.json(), json!(["etl/one"]));
        for list in [
            json!({}),
            json!({ "limit": 1 }),
            json!({ "latest_only": false }),
            json!({ "latest_only": false, "limit": 1 }),
        ] {
            let listed = place.post("/api/catalog/list", list).await;
            assert_eq!(listed.at("/entries").as_array().unwrap().len(), 1);
            assert_eq!(listed.text_at("/entries/0/path"), "etl/one");
            assert_eq!(listed.json().get("next_cursor"), None);
        }
        let cursor = json!({ "latest_only": false, "cursor": "9:other/one" });
        let cursor = place.post("/api/catalog/list", cursor).await;
        cursor.is_problem(ErrorCode::BadQuery);
        let id = &place.other.catalog_id;
        for wish in [json!({ "path": "other/one" }), json!({ "catalog_id": id })] {
            for path in ["/api/catalog/resource", "/api/execute"] {
                let none = place.post(path, wish.clone()).await;
                none.is_problem(ErrorCode::NotFound);
            }
        }
        for path in [
            "/api/catalog/other/one/versions".to_owned(),
            "/api/catalog/other/one/ui_schema".to_owned(),
            format!("/api/catalog/playbook/content?playbook_id={id}"),
            format!("/api/keychain/catalog/{id}"),
            format!("/api/keychain/{id}/api"),
        ] {
            let none = place.get(&place.bound, &path).await;
            none.is_problem(ErrorCode::NotFound);
            assert!(is_ok(&place.get(&place.free, &path).await), "{path}");
        }
        let own = place
            .get(&place.bound, "/api/catalog/etl/one/versions")
            .await;
        assert!(is_ok(&own), "{}", own.text);
    })
    .await;
}

/// What would reach beyond the paths is not done at all.
#[tokio::test]
async fn nothing_reaches_beyond_the_paths() {
    let place = Place::on(&Shelter::memory()).await;
    for (path, body) in [
        ("/api/signals", json!({ "name": "go" })),
        ("/api/tokens", json!({ "name": "x", "scopes": ["admin"] })),
        ("/api/catalog/register", document("other/two")),
        (
            "/api/commands/lease",
            json!({ "worker_id": "w", "pool": "shared" }),
        ),
        (
            "/api/commands/report",
            json!({ "worker_id": "w", "reports": [], "lease": { "pool": "shared", "max": 1 } }),
        ),
    ] {
        place
            .post(path, body)
            .await
            .is_problem(ErrorCode::Forbidden);
    }
    let cleaned = json!({ "older_than_minutes": 0, "dry_run": true });
    let cleaned = place.post("/api/executions/cleanup", cleaned).await;
    assert!(!mentions(&cleaned, &place.other), "{}", cleaned.text);
}

/// However many runs of others stand between them, a page is as long as its cursor says.
#[tokio::test]
async fn pages_go_on_behind_the_runs_of_others() {
    let place = Place::on(&Shelter::memory()).await;
    let start = async |path: &str| {
        let wish = ExecuteRequest {
            path: Some(path.parse().unwrap()),
            ..ExecuteRequest::default()
        };
        place.house.runtime.execute(wish).await.unwrap();
    };
    for _ in 0..2 {
        start("etl/one").await;
        for _ in 0..600 {
            start("other/one").await;
        }
    }
    for list in ["/api/executions", "/api/commands"] {
        let mut path = format!("{list}?limit=2");
        let mut sizes = Vec::new();
        loop {
            let page = place.get(&place.bound, &path).await;
            assert!(!mentions(&page, &place.other), "{}", page.text);
            let json = page.json();
            let lines = json.get("commands").unwrap_or(&json);
            sizes.push(lines.as_array().unwrap().len());
            let told = json.get("next_cursor").and_then(Value::as_str);
            let Some(next) = told.or(page.header("x-next-cursor")) else {
                break;
            };
            path = format!("{list}?limit=2&cursor={next}");
        }
        assert_eq!(sizes.iter().sum::<usize>(), 3, "{list} {sizes:?}");
        assert_eq!(sizes[0], 2, "{list} {sizes:?}");
    }
}
