//! Tokens that are bound to paths, compared with unbound ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use noetl_api::execute::ExecuteRequest;
use noetl_api::tokens::CreateTokenRequest;
use noetl_types::{ErrorCode, FeedPosition, Scope, Text};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::{create_token, declared_routes, fill_path};
use super::{TestResponse, TestServer, is_ok};
use crate::access::AuthContext;
use crate::access::CallContext;
use crate::http::settings::HttpSettings;
use crate::services::queries::FeedFilter;
use crate::services::queries::FeedUpdate;

/// Two playbooks with one run each, and a token that is bound to one of them.
struct BoundTokenSetup {
    server: TestServer,
    /// Token without path binding.
    unbound_token: String,
    /// Token that is bound to `etl/`.
    bound_token: String,
    own_run: TestRun,
    other_run: TestRun,
}

struct TestRun {
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

/// A playbook with one step, which is an approval if the path ends with `/ask`.
fn playbook_document(path: &str) -> Value {
    let is_approval = path.ends_with("/ask");
    let kind = if is_approval { "approval, title: why" } else { "noop" };
    let content = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: one, path: {path} }}\n\
         workflow:\n  - {{step: ask, tool: {{kind: {kind}}}}}\n"
    );
    json!({ "content": content })
}

async fn register_and_start(server: &TestServer, token: &str, path: &str) -> TestRun {
    let post =
        async |route: &str, body| server.call_with_token(token, Method::POST, route, body).await;
    let registered = post("/api/catalog/register", playbook_document(path)).await;
    assert!(is_ok(&registered), "{}", registered.text);
    let started = post("/api/execute", json!({ "path": path })).await;
    TestRun {
        execution_id: started.text_at("/execution_id"),
        catalog_id: registered.text_at("/catalog_id"),
    }
}

impl BoundTokenSetup {
    async fn on_store(fixture: &StoreFixture) -> Self {
        let settings = HttpSettings { is_dev: false, ..HttpSettings::default() };
        let server = fixture.start_server(settings, |_| {}).await;
        let unbound_token = create_token(&server.services, "default", &SCOPES).await;
        let bound = CreateTokenRequest {
            name: "bound".into(),
            scopes: SCOPES.to_vec(),
            path_globs: Some(vec!["etl/*".into()]),
            ..CreateTokenRequest::default()
        };
        let bound = server
            .services
            .identities
            .create_token(CallContext::server(), bound, &"test".into())
            .await;
        let bound_token = bound.unwrap().token.to_string();
        let own_run = register_and_start(&server, &unbound_token, "etl/one").await;
        let other_run = register_and_start(&server, &unbound_token, "other/one").await;
        Self { server, unbound_token, bound_token, own_run, other_run }
    }

    async fn get(&self, token: &str, path: &str) -> TestResponse {
        self.server.call_with_token(token, Method::GET, path, json!({})).await
    }

    async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.server.call_with_token(&self.bound_token, Method::POST, path, body).await
    }
}

/// True if the reply mentions the run.
fn mentions(reply: &TestResponse, run: &TestRun) -> bool {
    reply.text.contains(&run.execution_id) || reply.text.contains(&run.catalog_id)
}

#[tokio::test]
async fn runs_of_other_paths_are_not_found() {
    let setup = BoundTokenSetup::on_store(&StoreFixture::in_memory()).await;
    let unknown_id = "7000000000000000000";
    for (method, route) in declared_routes() {
        if !route.path.contains("{execution_id}") {
            continue;
        }
        let path_for = |id: &str| {
            fill_path(route.path, |name| match name {
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
            let call = async |id: &str| {
                let (method, body) = (method.clone(), body.clone());
                let server = &setup.server;
                server.call_with_token(&setup.bound_token, method, &path_for(id), body).await
            };
            let (foreign, unknown) =
                (call(&setup.other_run.execution_id).await, call(unknown_id).await);
            let path = &route.path;
            assert_eq!(foreign.status, unknown.status, "{method} {path} {body}");
            assert!(!is_ok(&foreign), "{method} {path} {body}");
        }
    }
    let status = format!("/api/executions/{}/status", setup.other_run.execution_id);
    let status = setup.get(&setup.unbound_token, &status).await;
    assert_eq!(status.text_at("/status"), "RUNNING", "{}", status.text);
    let own = format!("/api/executions/{}", setup.own_run.execution_id);
    assert!(is_ok(&setup.get(&setup.bound_token, &own).await));
    let cancelled = setup.post(&format!("{own}/cancel"), json!({})).await;
    assert!(is_ok(&cancelled), "{}", cancelled.text);
}

#[tokio::test]
async fn lists_omit_other_paths() {
    on_every_store(async |fixture: &StoreFixture| {
        let setup = BoundTokenSetup::on_store(fixture).await;
        let ask = register_and_start(&setup.server, &setup.unbound_token, "etl/ask").await;
        let other_ask = register_and_start(&setup.server, &setup.unbound_token, "other/ask").await;
        for (path, own, other) in [
            ("/api/executions", &setup.own_run, &setup.other_run),
            ("/api/commands", &setup.own_run, &setup.other_run),
            ("/api/approvals", &ask, &other_ask),
            ("/api/stream/feed?after=0.0", &ask, &other_ask),
        ] {
            let mut all = setup.get(&setup.unbound_token, path).await;
            // The feed ends at the oldest open transaction of the whole database cluster.
            for _ in 0..2000 {
                if mentions(&all, own) && mentions(&all, other) {
                    break;
                }
                all = setup.get(&setup.unbound_token, path).await;
            }
            assert!(mentions(&all, own), "{path}: {}", all.text);
            assert!(mentions(&all, other), "{path}: {}", all.text);
            let visible = setup.get(&setup.bound_token, path).await;
            assert!(mentions(&visible, own), "{path}: {}", visible.text);
            assert!(!mentions(&visible, other), "{path}: {}", visible.text);
        }
    })
    .await;
}

#[tokio::test]
async fn event_stream_omits_other_paths() {
    let setup = BoundTokenSetup::on_store(&StoreFixture::in_memory()).await;
    let streamed_runs = async |path_globs: Option<Arc<[Text]>>| {
        let ctx = CallContext::from(AuthContext { path_globs, ..AuthContext::default() });
        let request = FeedFilter {
            tenant_id: ctx.tenant().clone(),
            event_type: None,
            execution_id: None,
            path: None,
        };
        let start = Some((None, FeedPosition::default()));
        let queries = &setup.server.services.queries;
        let mut follower = queries.follow_feed(&ctx, request, start).await.unwrap();
        let entries = follower.next(Duration::ZERO).await.unwrap();
        let runs = entries.into_iter().filter_map(|entry| match entry {
            FeedUpdate::Event(_, event) => Some(event.execution_id.to_string()),
            FeedUpdate::Gap { .. } => None,
        });
        runs.collect::<BTreeSet<String>>()
    };
    let (own, other) = (&setup.own_run.execution_id, &setup.other_run.execution_id);
    assert_eq!(streamed_runs(None).await, [own.clone(), other.clone()].into());
    assert_eq!(streamed_runs(Some(["etl/*".into()].into())).await, [own.clone()].into());
}

#[tokio::test]
async fn definitions_of_other_paths_are_not_found() {
    on_every_store(async |fixture: &StoreFixture| {
        let setup = BoundTokenSetup::on_store(fixture).await;
        let paths = setup.get(&setup.bound_token, "/api/catalog/list/playbook").await;
        assert_eq!(paths.json(), json!(["etl/one"]));
        for list in [
            json!({}),
            json!({ "limit": 1 }),
            json!({ "latest_only": false }),
            json!({ "latest_only": false, "limit": 1 }),
        ] {
            let listed = setup.post("/api/catalog/list", list).await;
            assert_eq!(listed.json_at("/entries").as_array().unwrap().len(), 1);
            assert_eq!(listed.text_at("/entries/0/path"), "etl/one");
            assert_eq!(listed.json().get("next_cursor"), None);
        }
        let cursor = json!({ "latest_only": false, "cursor": "9:other/one" });
        let cursor = setup.post("/api/catalog/list", cursor).await;
        cursor.assert_problem(ErrorCode::BadQuery);
        let id = &setup.other_run.catalog_id;
        for request in [json!({ "path": "other/one" }), json!({ "catalog_id": id })] {
            for path in ["/api/catalog/resource", "/api/execute"] {
                let none = setup.post(path, request.clone()).await;
                none.assert_problem(ErrorCode::NotFound);
            }
        }
        for path in [
            "/api/catalog/other/one/versions".to_owned(),
            "/api/catalog/other/one/ui_schema".to_owned(),
            format!("/api/catalog/playbook/content?playbook_id={id}"),
            format!("/api/keychain/catalog/{id}"),
            format!("/api/keychain/{id}/api"),
        ] {
            let none = setup.get(&setup.bound_token, &path).await;
            none.assert_problem(ErrorCode::NotFound);
            assert!(is_ok(&setup.get(&setup.unbound_token, &path).await), "{path}");
        }
        let own = setup.get(&setup.bound_token, "/api/catalog/etl/one/versions").await;
        assert!(is_ok(&own), "{}", own.text);
    })
    .await;
}

/// Operations that would affect other paths are rejected.
#[tokio::test]
async fn rejects_operations_beyond_paths() {
    let setup = BoundTokenSetup::on_store(&StoreFixture::in_memory()).await;
    for (path, body) in [
        ("/api/signals", json!({ "name": "go" })),
        ("/api/tokens", json!({ "name": "x", "scopes": ["admin"] })),
        ("/api/catalog/register", playbook_document("other/two")),
        ("/api/commands/lease", json!({ "worker_id": "w", "pool": "shared" })),
        ("/api/worker/pool/register", json!({ "name": "w" })),
        ("/api/worker/pool/heartbeat", json!({ "name": "w" })),
        ("/api/worker/pool/drain", json!({ "name": "w" })),
        ("/api/worker/pool/deregister", json!({ "name": "w" })),
        (
            "/api/commands/report",
            json!({ "worker_id": "w", "reports": [], "lease": { "pool": "shared", "max": 1 } }),
        ),
    ] {
        setup.post(path, body).await.assert_problem(ErrorCode::Forbidden);
    }
    let cleaned = json!({ "older_than_minutes": 0, "dry_run": true });
    let cleaned = setup.post("/api/executions/cleanup", cleaned).await;
    assert!(!mentions(&cleaned, &setup.other_run), "{}", cleaned.text);
}

/// Pages are full even if many runs of other paths lie in between.
#[tokio::test]
async fn pages_continue_past_other_runs() {
    let setup = BoundTokenSetup::on_store(&StoreFixture::in_memory()).await;
    let start = async |path: &str| {
        let request =
            ExecuteRequest { path: Some(path.parse().unwrap()), ..ExecuteRequest::default() };
        setup.server.services.executions.start(CallContext::server(), request).await.unwrap();
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
            let page = setup.get(&setup.bound_token, &path).await;
            assert!(!mentions(&page, &setup.other_run), "{}", page.text);
            let json = page.json();
            let rows = json.get("commands").unwrap_or(&json);
            sizes.push(rows.as_array().unwrap().len());
            let cursor = json.get("next_cursor").and_then(Value::as_str);
            let Some(next) = cursor.or(page.header("x-next-cursor")) else {
                break;
            };
            path = format!("{list}?limit=2&cursor={next}");
        }
        assert_eq!(sizes.iter().sum::<usize>(), 3, "{list} {sizes:?}");
        assert_eq!(sizes[0], 2, "{list} {sizes:?}");
    }
}
