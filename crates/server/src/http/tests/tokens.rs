//! Who may come in, and what they may do there.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue};
use axum::http::{HeaderMap, Method};
use axum::routing::MethodFilter;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_api::tokens::NewToken;
use noetl_store::{ApiToken, MemoryStore, Store};
use noetl_types::{
    ErrorCode, OrganizationId, PoolName, Scope, Scopes, TenantId, Timestamp, TokenId, sha256,
};
use serde_json::{Value, json};

use super::{House, Reply, closed_house, house_with, is_ok, request};
use crate::http::access::Access;
use crate::http::routes::{Declared, table};
use crate::http::settings::HttpSettings;
use crate::runtime::{Behalf, Runtime};

pub(in crate::http) const METHODS: [(MethodFilter, Method); 5] = [
    (MethodFilter::GET, Method::GET),
    (MethodFilter::POST, Method::POST),
    (MethodFilter::PUT, Method::PUT),
    (MethodFilter::DELETE, Method::DELETE),
    (MethodFilter::PATCH, Method::PATCH),
];

/// Every route by method, with something in place of its parameters.
pub(super) fn routes() -> Vec<(Method, Declared)> {
    let mut routes = Vec::new();
    for declared in table() {
        for (filter, method) in METHODS {
            if declared.methods.or(filter) == declared.methods {
                routes.push((method, declared.clone()));
            }
        }
    }
    assert!(routes.len() > 60, "{}", routes.len());
    routes
}

/// The path of a route with each of its parameters filled in.
pub(super) fn filled(path: &str, fill: impl Fn(&str) -> String) -> String {
    let mut whole = String::new();
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').unwrap();
        whole.push_str(before);
        whole.push_str(&fill(name));
        rest = behind;
    }
    whole + rest
}

pub(super) fn with_some_id(path: &str) -> String {
    filled(path, |name| match name {
        "kind" | "name" => "playbook".to_owned(),
        "*path" => "demo/two/versions".to_owned(),
        "*playbook_id" | "*what" => "demo/two".to_owned(),
        _ => "7000000000000000000".to_owned(),
    })
}

pub(super) fn with_token(mut request: Request<Body>, token: &str) -> Request<Body> {
    let value = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
    request.headers_mut().insert(AUTHORIZATION, value);
    request
}

/// A token of a tenant.
pub(super) async fn token_of(runtime: &Runtime, tenant: &str, scopes: &[Scope]) -> String {
    let behalf = Behalf {
        tenant_id: TenantId::new(tenant).unwrap(),
        ..Behalf::default()
    };
    let wanted = NewToken {
        name: format!("{tenant}-token").into(),
        scopes: scopes.to_vec(),
        tenant_id: Some(behalf.tenant_id.clone()),
        ..NewToken::default()
    };
    let made = runtime.create_token(wanted, &"test".into()).await.unwrap();
    made.token.to_string()
}

impl House {
    pub(super) async fn call(&self, token: &str, method: Method, path: &str, body: Value) -> Reply {
        let body = serde_json::to_vec(&body).unwrap();
        let mut request = with_token(request(method, path, body), token);
        // A token is as good from anywhere.
        let host = HeaderValue::from_static("noetl.example");
        request.headers_mut().insert(HOST, host);
        self.send_from(([10, 0, 0, 7], 4000).into(), request).await
    }
}

#[tokio::test]
async fn nobody_gets_in_without_a_token() {
    let house = closed_house().await;
    for (method, route) in routes() {
        let path = with_some_id(&route.path);
        let reply = house.send(request(method.clone(), &path, "{}")).await;
        match route.access {
            Access::Open => assert!(is_ok(&reply), "{method} {path}: {}", reply.text),
            Access::Identity | Access::AnyOf(_) => {
                reply.is_problem(ErrorCode::Unauthenticated);
            }
            Access::Internal(_) => {
                reply.is_problem(ErrorCode::Forbidden);
            }
        }
    }
    let nowhere = house.get("/api/nowhere").await;
    nowhere.is_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn each_scope_opens_its_routes_and_no_others() {
    let house = closed_house().await;
    for scope in Scope::ALL {
        let token = token_of(&house.runtime, "default", &[*scope]).await;
        let held = Scopes::NONE.with(*scope);
        for (method, route) in routes() {
            let path = with_some_id(&route.path);
            let reply = house.call(&token, method.clone(), &path, json!({})).await;
            let is_allowed = match route.access {
                Access::Open | Access::Identity => true,
                Access::AnyOf(scopes) => scopes.iter().any(|scope| held.allow(*scope)),
                Access::Internal(scope) => held.allow(scope),
            };
            assert_ne!(reply.status, 401, "{scope} {method} {path}");
            let is_refused = reply.status == 403 && reply.text.contains("this needs the ");
            assert_eq!(
                is_refused, !is_allowed,
                "{scope} {method} {path}: {}",
                reply.text
            );
        }
    }
}

#[tokio::test]
async fn a_token_is_shown_as_bearer_or_as_a_password() {
    let house = closed_house().await;
    let token = token_of(&house.runtime, "acme", &[Scope::ExecRead, Scope::Worker]).await;
    let me = house
        .call(&token, Method::GET, "/api/whoami", json!({}))
        .await;
    assert!(is_ok(&me), "{}", me.text);
    assert_eq!(me.text_at("/actor"), "acme-token");
    assert_eq!(me.text_at("/tenant_id"), "acme");
    assert_eq!(me.at("/scopes"), json!(["exec:read", "worker"]));

    let mut basic = request(Method::GET, "/api/whoami", "");
    let pair = BASE64_STANDARD.encode(format!("anybody:{token}"));
    let value = HeaderValue::try_from(format!("Basic {pair}")).unwrap();
    basic.headers_mut().insert(AUTHORIZATION, value);
    assert!(is_ok(&house.send(basic).await));

    let wrong_secret = format!("{}0", &token[..token.len() - 1]);
    let other = if token.ends_with('0') { "1" } else { "0" };
    let wrong_secret = wrong_secret[..wrong_secret.len() - 1].to_owned() + other;
    for wrong in [
        &*wrong_secret,
        "noetl_000000000000_secret",
        "nonsense",
        "",
        &format!("{token}0"),
    ] {
        let reply = house
            .call(wrong, Method::GET, "/api/whoami", json!({}))
            .await;
        reply.is_problem(ErrorCode::Unauthenticated);
        assert!(
            !reply.text.contains(wrong) || wrong.is_empty(),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn a_wrong_token_is_refused_even_at_the_same_machine() {
    let house = super::house().await;
    let wrong = with_token(request(Method::GET, "/api/executions", ""), "noetl_a_b");
    house
        .send(wrong)
        .await
        .is_problem(ErrorCode::Unauthenticated);
    assert!(is_ok(&house.get("/api/executions").await));
}

#[tokio::test]
async fn a_token_ends_when_it_is_revoked_or_expires() {
    let house = closed_house().await;
    let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let body = json!({ "name": "ci", "scopes": ["exec:read"], "ttl_days": 1 });
    let made = house.call(&admin, Method::POST, "/api/tokens", body).await;
    assert!(is_ok(&made), "{}", made.text);
    let (token, id) = (made.text_at("/token"), made.text_at("/id"));
    assert!(made.at("/expires_at").is_string());
    let look = || async {
        house
            .call(&token, Method::GET, "/api/executions", json!({}))
            .await
    };
    assert!(is_ok(&look().await));

    let listed = house
        .call(&admin, Method::GET, "/api/tokens", json!({}))
        .await;
    assert_eq!(listed.at("/tokens").as_array().unwrap().len(), 2);
    assert_eq!(listed.text_at("/tokens/1/name"), "ci");
    let secret = token.rsplit('_').next().unwrap();
    assert!(!listed.text.contains(secret) && !listed.text.contains("sha256"));

    let path = format!("/api/tokens/{id}");
    let revoked = house.call(&admin, Method::DELETE, &path, json!({})).await;
    assert!(revoked.at("/revoked_at").is_string(), "{}", revoked.text);
    look().await.is_problem(ErrorCode::Unauthenticated);

    let old = ApiToken {
        token_id: TokenId::new(77).unwrap(),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        prefix: "old".into(),
        sha256: sha256("secret"),
        name: "old".into(),
        scopes: Scopes::NONE.with(Scope::ExecRead),
        pools: None,
        path_globs: None,
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "test".into(),
        expires_at: Some(Timestamp::UNIX_EPOCH),
        last_used_at: None,
        revoked_at: None,
    };
    assert!(house.runtime.store().put_token(old).await.unwrap());
    let expired = house.call(
        "noetl_old_secret",
        Method::GET,
        "/api/executions",
        json!({}),
    );
    expired.await.is_problem(ErrorCode::TokenExpired);
}

#[tokio::test]
async fn a_token_that_another_server_revokes_ends_soon() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let settings = HttpSettings {
        is_dev: false,
        ..HttpSettings::default()
    };
    let here = house_with(Arc::clone(&store), &settings).await;
    let there = house_with(store, &settings).await;
    let token = token_of(&here.runtime, "default", &[Scope::ExecRead]).await;
    let look = || async {
        here.call(&token, Method::GET, "/api/executions", json!({}))
            .await
    };
    assert!(is_ok(&look().await));
    let id = here
        .runtime
        .tokens(noetl_types::limits::PageLimit::MAX, None)
        .await;
    let id = id.unwrap().tokens[0].id;
    there.runtime.revoke_token(id).await.unwrap();
    // What is known here is two seconds old at most; the rest is patience with a busy machine.
    let patience = tokio::time::timeout(std::time::Duration::from_mins(1), async {
        while is_ok(&look().await) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    patience.await.unwrap();
    look().await.is_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn tokens_are_made_within_bounds() {
    let house = closed_house().await;
    let operator = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let admin = token_of(&house.runtime, "acme", &[Scope::Admin]).await;
    let make = |token: String, body: Value| {
        let house = &house;
        async move { house.call(&token, Method::POST, "/api/tokens", body).await }
    };
    for (body, code) in [
        (json!({}), ErrorCode::Validation),
        (json!({ "name": "x", "scopes": [] }), ErrorCode::Validation),
        (
            json!({ "name": "x", "scopes": ["root"] }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": " ", "scopes": ["worker"] }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": "x", "scopes": ["worker"], "pools": [] }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": "x", "scopes": ["worker"], "ttl_days": 0 }),
            ErrorCode::OutOfRange,
        ),
        (
            json!({ "name": "x", "scopes": ["worker"], "path_globs": ["a b"] }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": "x", "scopes": ["worker"], "wings": 2 }),
            ErrorCode::Validation,
        ),
        (
            json!({ "name": "x", "scopes": ["internal:outbox"] }),
            ErrorCode::Forbidden,
        ),
        (
            json!({ "name": "x", "scopes": ["worker"], "tenant_id": "default" }),
            ErrorCode::NotFound,
        ),
    ] {
        make(admin.clone(), body).await.is_problem(code);
    }
    let other = json!({ "name": "x", "scopes": ["admin"], "tenant_id": "umbrella" });
    let made = make(operator, other).await;
    assert_eq!(made.text_at("/tenant_id"), "umbrella");
}

#[tokio::test]
async fn there_is_one_first_token() {
    let house = closed_house().await;
    let shown = house.runtime.bootstrap(None).await.unwrap().unwrap();
    assert_eq!(house.runtime.bootstrap(None).await.unwrap(), None);
    let me = house
        .call(&shown, Method::GET, "/api/whoami", json!({}))
        .await;
    assert_eq!(me.at("/scopes"), json!(["admin"]));

    let other = closed_house().await;
    let given = format!("noetl_first_{}", "5".repeat(64));
    assert!(
        other
            .runtime
            .bootstrap(Some("noetl_a_short"))
            .await
            .is_err()
    );
    assert_eq!(other.runtime.bootstrap(Some(&given)).await.unwrap(), None);
    let me = other
        .call(&given, Method::GET, "/api/whoami", json!({}))
        .await;
    assert!(is_ok(&me), "{}", me.text);
}

#[tokio::test]
async fn a_worker_has_its_pools_and_no_others() {
    let house = closed_house().await;
    let user = [Scope::ExecRead, Scope::ExecRun, Scope::CatalogWrite];
    let user = token_of(&house.runtime, "acme", &user).await;
    let bound = NewToken {
        name: "gpu-worker".into(),
        scopes: vec![Scope::Worker],
        pools: Some(vec![PoolName::new("gpu").unwrap()]),
        tenant_id: Some(TenantId::new("acme").unwrap()),
        ..NewToken::default()
    };
    let bound = house.runtime.create_token(bound, &"test".into()).await;
    let bound = bound.unwrap().token.to_string();
    let free = token_of(&house.runtime, "acme", &[Scope::Worker]).await;

    let content = json!({ "content": super::TWO_STEPS });
    let registered = house
        .call(&user, Method::POST, "/api/catalog/register", content)
        .await;
    assert!(is_ok(&registered), "{}", registered.text);
    let wanted = json!({ "path": "demo/two" });
    let started = house
        .call(&user, Method::POST, "/api/execute", wanted)
        .await;
    let execution_id = started.text_at("/execution_id");

    let lease = |pool: &str| json!({ "worker_id": "w1", "pool": pool, "wait_ms": 0 });
    let post = |token: &str, path: &'static str, body: Value| {
        let (house, token) = (&house, token.to_owned());
        async move { house.call(&token, Method::POST, path, body).await }
    };
    let refused = post(&bound, "/api/commands/lease", lease("shared")).await;
    refused.is_problem(ErrorCode::Forbidden);
    let own = post(&bound, "/api/commands/lease", lease("gpu")).await;
    assert_eq!(own.at("/commands"), json!([]));
    let name = json!({ "name": "w1", "labels": { "pool_name": "shared" } });
    let refused = post(&bound, "/api/worker/pool/register", name).await;
    refused.is_problem(ErrorCode::Forbidden);

    // A worker reads what its commands name and starts what its runs ask for, and nothing else.
    let catalog_id = registered.text_at("/catalog_id");
    let resource = "/api/catalog/resource";
    let by_id = json!({ "catalog_id": catalog_id });
    assert!(is_ok(&post(&free, resource, by_id).await));
    let by_path = post(&free, resource, json!({ "path": "demo/two" })).await;
    by_path.is_problem(ErrorCode::Forbidden);
    let alone = post(&free, "/api/execute", json!({ "path": "demo/two" })).await;
    alone.is_problem(ErrorCode::Forbidden);
    let child = json!({ "path": "demo/two", "parent_execution_id": execution_id });
    assert!(is_ok(&post(&free, "/api/execute", child.clone()).await));
    let child = post(&bound, "/api/execute", child).await;
    child.is_problem(ErrorCode::Forbidden);

    // Even who knows the token of the lease reports for its own pool only.
    let leased = post(&free, "/api/commands/lease", lease("shared")).await;
    let command = leased.at("/commands/0");
    let report = json!({
        "execution_id": command["execution_id"], "command_id": command["command_id"],
        "attempt": command["attempt"], "lease_token": command["lease_token"],
        "status": "completed", "result": {},
    });
    let body = json!({ "worker_id": "w1", "reports": [report] });
    let refused = post(&bound, "/api/commands/report", body.clone()).await;
    assert_eq!(refused.text_at("/results/0/status"), "rejected");
    assert_eq!(refused.text_at("/results/0/code"), "forbidden");
    let vars = format!("/api/vars/{execution_id}");
    let refused = house
        .call(&bound, Method::POST, &vars, json!({ "x": 1 }))
        .await;
    refused.is_problem(ErrorCode::Forbidden);
    let accepted = post(&free, "/api/commands/report", body).await;
    assert_eq!(accepted.text_at("/results/0/status"), "accepted");
}

#[tokio::test]
async fn who_asks_too_often_is_told_to_wait() {
    let settings = HttpSettings {
        is_dev: false,
        // So slow that no machine is slow enough to see it fill.
        rate_per_token: 1,
        ..HttpSettings::default()
    };
    let house = house_with(Arc::new(MemoryStore::new()), &settings).await;
    let one = token_of(&house.runtime, "default", &[Scope::ExecRead]).await;
    let mut last = 200;
    for _ in 0..1_000 {
        let reply = house
            .call(&one, Method::GET, "/api/whoami", json!({}))
            .await;
        last = reply.status;
        if last != 200 {
            reply.is_problem(ErrorCode::RateLimited);
            assert_eq!(reply.header("retry-after"), Some("1"));
            break;
        }
    }
    assert_eq!(last, 429);
    let other = token_of(&house.runtime, "default", &[Scope::ExecRead]).await;
    assert!(is_ok(
        &house
            .call(&other, Method::GET, "/api/whoami", json!({}))
            .await
    ));
}

#[tokio::test]
async fn acts_leave_a_trail() {
    let house = closed_house().await;
    let operator = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let admin = token_of(&house.runtime, "acme", &[Scope::Admin]).await;
    let body = json!({ "name": "ci", "scopes": ["exec:read"] });
    let made = house.call(&admin, Method::POST, "/api/tokens", body).await;
    let cancel = "/api/executions/7000000000000000000/cancel";
    house.call(&admin, Method::POST, cancel, json!({})).await;
    let reader = made.text_at("/token");
    for _ in 0..50 {
        let refused = house
            .call(&reader, Method::GET, "/api/tokens", json!({}))
            .await;
        refused.is_problem(ErrorCode::Forbidden);
    }
    for _ in 0..50 {
        house.get("/api/executions?secret=x").await;
    }
    house.runtime.close(std::time::Duration::from_mins(1)).await;

    let trail = house
        .call(&admin, Method::GET, "/api/audit", json!({}))
        .await;
    assert!(is_ok(&trail), "{}", trail.text);
    assert_eq!(trail.at("/intact"), true);
    let entries = trail.at("/entries");
    let told: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            (text("actor"), text("act"), text("outcome"))
        })
        .collect();
    let expected = [
        ("acme-token", "POST /api/tokens", "ok"),
        (
            "acme-token",
            "POST /api/executions/{execution_id}/cancel",
            "not_found",
        ),
        ("ci", "access", "forbidden"),
        ("ci", "access", "forbidden"),
    ]
    .map(|(actor, act, outcome)| (actor.to_owned(), act.to_owned(), outcome.to_owned()));
    assert_eq!(told, expected);
    assert_eq!(trail.at("/entries/0/detail/count"), 50);
    assert_eq!(trail.text_at("/entries/2/target"), cancel);
    assert_eq!(trail.text_at("/entries/2/address"), "10.0.0.7");
    assert!(!trail.text.contains("secret"));

    // Who is nobody is in the trail of whoever runs the installation.
    let trail = house
        .call(&operator, Method::GET, "/api/audit?limit=1", json!({}))
        .await;
    assert_eq!(trail.text_at("/entries/0/actor"), "nobody");
    assert_eq!(trail.at("/entries/0/detail/count"), 50);
    let next = trail.text_at("/next_cursor");
    let path = format!("/api/audit?limit=1&cursor={next}");
    let first = house.call(&operator, Method::GET, &path, json!({})).await;
    assert_eq!(
        (first.at("/intact"), first.at("/entries/0/seq")),
        (json!(true), json!(1))
    );
    assert!(first.json().get("next_cursor").is_none());
}

#[test]
fn a_request_without_headers_shows_no_token() {
    assert!(
        crate::http::identity::token(&HeaderMap::new())
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_token_may_be_bound_to_paths() {
    let house = closed_house().await;
    let admin = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let registering = |path: &str| {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: one, path: {path} }}\n\
             workflow:\n  - {{step: a, tool: {{kind: noop}}}}\n"
        );
        json!({ "content": content })
    };
    let post = async |token: &str, path: &str, body: Value| {
        house.call(token, Method::POST, path, body).await
    };
    for path in ["etl/one", "other/one"] {
        let registered = post(&admin, "/api/catalog/register", registering(path)).await;
        assert!(is_ok(&registered), "{}", registered.text);
    }
    let wanted = json!({
        "name": "bound", "scopes": ["exec:run", "catalog:write"], "path_globs": ["etl/*"],
    });
    let made = post(&admin, "/api/tokens", wanted).await;
    assert!(is_ok(&made), "{}", made.text);
    let bound = made.text_at("/token");
    let run = post(&bound, "/api/execute", json!({ "path": "etl/one" })).await;
    assert!(is_ok(&run), "{}", run.text);
    let foreign = post(&admin, "/api/execute", json!({ "path": "other/one" })).await;
    let foreign_run = format!("/api/executions/{}/rerun", foreign.text_at("/execution_id"));
    for (path, body) in [
        ("/api/execute", json!({ "path": "other/one" })),
        (
            "/api/execute",
            json!({ "catalog_id": foreign.at("/catalog_id") }),
        ),
        (&foreign_run, json!({})),
    ] {
        post(&bound, path, body)
            .await
            .is_problem(ErrorCode::NotFound);
    }
    let elsewhere = registering("other/one");
    let elsewhere = post(&bound, "/api/catalog/register", elsewhere).await;
    elsewhere.is_problem(ErrorCode::Forbidden);
    let batch = json!({ "executions": [{ "path": "other/one" }, { "path": "etl/one" }] });
    let batch = post(&bound, "/api/execute/batch", batch).await;
    assert_eq!(
        (batch.at("/started"), batch.at("/failed")),
        (json!(1), json!(1))
    );
    let archived = house.call(
        &bound,
        Method::DELETE,
        "/api/catalog/playbooks/other/one",
        json!({}),
    );
    archived.await.is_problem(ErrorCode::NotFound);
}
