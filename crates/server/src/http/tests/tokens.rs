//! Authentication, scopes and tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue};
use axum::http::{HeaderMap, Method};
use axum::routing::MethodFilter;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_api::tokens::CreateTokenRequest;
use noetl_store::{ApiToken, SqliteStore, Store};
use noetl_types::{
    ErrorCode, OrganizationId, PoolName, Scope, ScopeSet, TenantId, Timestamp, TokenId, sha256,
};
use serde_json::{Value, json};

use super::{
    TestResponse, TestServer, build_request, is_ok, start_secured_server, start_server_with,
};
use crate::access::AuthContext;
use crate::access::CallContext;
use crate::http::middleware::access::RouteAccess;
use crate::http::routes::{Route, all_routes};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;

pub(in crate::http) const METHODS: [(MethodFilter, Method); 5] = [
    (MethodFilter::GET, Method::GET),
    (MethodFilter::POST, Method::POST),
    (MethodFilter::PUT, Method::PUT),
    (MethodFilter::DELETE, Method::DELETE),
    (MethodFilter::PATCH, Method::PATCH),
];

/// Every declared route by method.
pub(super) fn declared_routes() -> Vec<(Method, Route)> {
    let mut routes = Vec::new();
    for declaration in all_routes() {
        for (filter, method) in METHODS {
            if declaration.methods.or(filter) == declaration.methods {
                routes.push((method, declaration.clone()));
            }
        }
    }
    assert!(routes.len() > 60, "{}", routes.len());
    routes
}

/// Fills in the parameters of a route path.
pub(super) fn fill_path(path: &str, fill: impl Fn(&str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap();
        filled.push_str(before);
        filled.push_str(&fill(name));
        rest = after;
    }
    filled + rest
}

pub(super) fn path_with_sample_ids(path: &str) -> String {
    fill_path(path, |name| match name {
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

/// Creates a token of a tenant.
pub(super) async fn create_token(
    services: &ControlPlane,
    tenant: &str,
    scopes: &[Scope],
) -> String {
    let auth_context =
        AuthContext { tenant_id: TenantId::new(tenant).unwrap(), ..AuthContext::default() };
    let request = CreateTokenRequest {
        name: format!("{tenant}-token").into(),
        scopes: scopes.to_vec(),
        tenant_id: Some(auth_context.tenant_id.clone()),
        ..CreateTokenRequest::default()
    };
    let created = services
        .identities
        .create_token(CallContext::server(), request, &"test".into())
        .await
        .unwrap();
    created.token.to_string()
}

impl TestServer {
    pub(super) async fn call_with_token(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> TestResponse {
        let body = serde_json::to_vec(&body).unwrap();
        let mut request = with_token(build_request(method, path, body), token);
        // A token is valid from any address.
        let host = HeaderValue::from_static("noetl.example");
        request.headers_mut().insert(HOST, host);
        self.send_from(([10, 0, 0, 7], 4000).into(), request).await
    }
}

#[tokio::test]
async fn rejects_requests_without_token() {
    let server = start_secured_server().await;
    for (method, route) in declared_routes() {
        let path = path_with_sample_ids(route.path);
        let reply = server.send(build_request(method.clone(), &path, "{}")).await;
        match route.access {
            RouteAccess::Open => assert!(is_ok(&reply), "{method} {path}: {}", reply.text),
            RouteAccess::Identity | RouteAccess::BodyToken | RouteAccess::AnyOf(_) => {
                reply.assert_problem(ErrorCode::Unauthenticated);
            }
            RouteAccess::Internal(_) => {
                reply.assert_problem(ErrorCode::Forbidden);
            }
        }
    }
    let unknown = server.get("/api/nowhere").await;
    unknown.assert_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn scope_grants_only_its_routes() {
    let server = start_secured_server().await;
    for scope in Scope::ALL {
        let token = create_token(&server.services, "default", &[*scope]).await;
        let granted = ScopeSet::NONE.with_scope(*scope);
        for (method, route) in declared_routes() {
            let path = path_with_sample_ids(route.path);
            let reply = server.call_with_token(&token, method.clone(), &path, json!({})).await;
            let is_allowed = match route.access {
                RouteAccess::Open | RouteAccess::Identity | RouteAccess::BodyToken => true,
                RouteAccess::AnyOf(scopes) => scopes.iter().any(|scope| granted.allows(*scope)),
                // The tenant is that of the operator.
                RouteAccess::Internal(required) => {
                    granted.allows(required) || *scope == Scope::Admin
                }
            };
            assert_ne!(reply.status, 401, "{scope} {method} {path}");
            let is_refused = reply.status == 403 && reply.text.contains("this requires the ");
            assert_eq!(is_refused, !is_allowed, "{scope} {method} {path}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn accepts_token_as_bearer_or_password() {
    let server = start_secured_server().await;
    let token = create_token(&server.services, "acme", &[Scope::ExecRead, Scope::Worker]).await;
    let me = server.call_with_token(&token, Method::GET, "/api/whoami", json!({})).await;
    assert!(is_ok(&me), "{}", me.text);
    assert_eq!(me.text_at("/actor"), "acme-token");
    assert_eq!(me.text_at("/tenant_id"), "acme");
    assert_eq!(me.json_at("/scopes"), json!(["exec:read", "worker"]));

    let mut basic = build_request(Method::GET, "/api/whoami", "");
    let pair = BASE64_STANDARD.encode(format!("anybody:{token}"));
    let value = HeaderValue::try_from(format!("Basic {pair}")).unwrap();
    basic.headers_mut().insert(AUTHORIZATION, value);
    assert!(is_ok(&server.send(basic).await));

    let wrong_secret = format!("{}0", &token[..token.len() - 1]);
    let other = if token.ends_with('0') { "1" } else { "0" };
    let wrong_secret = wrong_secret[..wrong_secret.len() - 1].to_owned() + other;
    for wrong in [&*wrong_secret, "noetl_000000000000_secret", "nonsense", "", &format!("{token}0")]
    {
        let reply = server.call_with_token(wrong, Method::GET, "/api/whoami", json!({})).await;
        reply.assert_problem(ErrorCode::Unauthenticated);
        assert!(!reply.text.contains(wrong) || wrong.is_empty(), "{}", reply.text);
    }
}

#[tokio::test]
async fn rejects_wrong_token_from_local_peer() {
    let server = super::start_server().await;
    let wrong = with_token(build_request(Method::GET, "/api/executions", ""), "noetl_a_b");
    server.send(wrong).await.assert_problem(ErrorCode::Unauthenticated);
    assert!(is_ok(&server.get("/api/executions").await));
}

#[tokio::test]
async fn rejects_revoked_and_expired_tokens() {
    let server = start_secured_server().await;
    let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
    let body = json!({ "name": "ci", "scopes": ["exec:read"], "ttl_days": 1 });
    let created = server.call_with_token(&admin, Method::POST, "/api/tokens", body).await;
    assert!(is_ok(&created), "{}", created.text);
    let (token, id) = (created.text_at("/token"), created.text_at("/id"));
    assert!(created.json_at("/expires_at").is_string());
    let list_executions = || async {
        server.call_with_token(&token, Method::GET, "/api/executions", json!({})).await
    };
    assert!(is_ok(&list_executions().await));

    let listed = server.call_with_token(&admin, Method::GET, "/api/tokens", json!({})).await;
    assert_eq!(listed.json_at("/tokens").as_array().unwrap().len(), 2);
    assert_eq!(listed.text_at("/tokens/1/name"), "ci");
    let secret = token.rsplit('_').next().unwrap();
    assert!(!listed.text.contains(secret) && !listed.text.contains("sha256"));

    let path = format!("/api/tokens/{id}");
    let revoked = server.call_with_token(&admin, Method::DELETE, &path, json!({})).await;
    assert!(revoked.json_at("/revoked_at").is_string(), "{}", revoked.text);
    list_executions().await.assert_problem(ErrorCode::Unauthenticated);

    let old = ApiToken {
        seal: None,
        token_id: TokenId::new(77).unwrap(),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        prefix: "old".into(),
        sha256: sha256("secret"),
        name: "old".into(),
        scopes: ScopeSet::NONE.with_scope(Scope::ExecRead),
        pools: None,
        path_globs: None,
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "test".into(),
        expires_at: Some(Timestamp::UNIX_EPOCH),
        last_used_at: None,
        revoked_at: None,
    };
    assert!(server.services.infra.store().put_token(old).await.unwrap());
    let expired =
        server.call_with_token("noetl_old_secret", Method::GET, "/api/executions", json!({}));
    expired.await.assert_problem(ErrorCode::TokenExpired);
}

#[tokio::test]
async fn token_revoked_by_other_server_ends_soon() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let settings = HttpSettings { is_dev: false, ..HttpSettings::default() };
    let first = start_server_with(Arc::clone(&store), &settings).await;
    let second = start_server_with(store, &settings).await;
    let token = create_token(&first.services, "default", &[Scope::ExecRead]).await;
    let list_executions =
        || async { first.call_with_token(&token, Method::GET, "/api/executions", json!({})).await };
    assert!(is_ok(&list_executions().await));
    let id = first
        .services
        .identities
        .list_tokens(CallContext::server(), noetl_types::limits::PageLimit::MAX, None)
        .await;
    let id = id.unwrap().tokens[0].id;
    second.services.identities.revoke_token(CallContext::server(), id).await.unwrap();
    // The token cache is at most two seconds old. The rest allows for a busy machine.
    let wait = tokio::time::timeout(std::time::Duration::from_mins(1), async {
        while is_ok(&list_executions().await) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    wait.await.unwrap();
    list_executions().await.assert_problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn token_creation_is_validated() {
    let server = start_secured_server().await;
    let operator = create_token(&server.services, "default", &[Scope::Admin]).await;
    let admin = create_token(&server.services, "acme", &[Scope::Admin]).await;
    let create = |token: String, body: Value| {
        let server = &server;
        async move { server.call_with_token(&token, Method::POST, "/api/tokens", body).await }
    };
    for (body, code) in [
        (json!({}), ErrorCode::Validation),
        (json!({ "name": "x", "scopes": [] }), ErrorCode::Validation),
        (json!({ "name": "x", "scopes": ["root"] }), ErrorCode::Validation),
        (json!({ "name": " ", "scopes": ["worker"] }), ErrorCode::Validation),
        (json!({ "name": "x", "scopes": ["worker"], "pools": [] }), ErrorCode::Validation),
        (json!({ "name": "x", "scopes": ["worker"], "ttl_days": 0 }), ErrorCode::OutOfRange),
        (
            json!({ "name": "x", "scopes": ["worker"], "path_globs": ["a b"] }),
            ErrorCode::Validation,
        ),
        (json!({ "name": "x", "scopes": ["worker"], "wings": 2 }), ErrorCode::Validation),
        (json!({ "name": "x", "scopes": ["internal:outbox"] }), ErrorCode::Forbidden),
        (json!({ "name": "x", "scopes": ["worker"], "tenant_id": "default" }), ErrorCode::NotFound),
    ] {
        create(admin.clone(), body).await.assert_problem(code);
    }
    let other = json!({ "name": "x", "scopes": ["admin"], "tenant_id": "umbrella" });
    let created = create(operator, other).await;
    assert_eq!(created.text_at("/tenant_id"), "umbrella");
}

#[tokio::test]
async fn bootstrap_token_is_created_once() {
    let server = start_secured_server().await;
    let created = server.services.identities.bootstrap_admin_token(None).await.unwrap().unwrap();
    assert_eq!(server.services.identities.bootstrap_admin_token(None).await.unwrap(), None);
    let me = server.call_with_token(&created, Method::GET, "/api/whoami", json!({})).await;
    assert_eq!(me.json_at("/scopes"), json!(["admin"]));

    let other = start_secured_server().await;
    let chosen_token = format!("noetl_first_{}", "5".repeat(64));
    assert!(other.services.identities.bootstrap_admin_token(Some("noetl_a_short")).await.is_err());
    assert_eq!(
        other.services.identities.bootstrap_admin_token(Some(&chosen_token)).await.unwrap(),
        None
    );
    let me = other.call_with_token(&chosen_token, Method::GET, "/api/whoami", json!({})).await;
    assert!(is_ok(&me), "{}", me.text);
}

#[tokio::test]
async fn worker_token_is_bound_to_pools() {
    let server = start_secured_server().await;
    let user = [Scope::ExecRead, Scope::ExecRun, Scope::CatalogWrite];
    let user = create_token(&server.services, "acme", &user).await;
    let bound = CreateTokenRequest {
        name: "gpu-worker".into(),
        scopes: vec![Scope::Worker],
        pools: Some(vec![PoolName::new("gpu").unwrap()]),
        tenant_id: Some(TenantId::new("acme").unwrap()),
        ..CreateTokenRequest::default()
    };
    let bound =
        server.services.identities.create_token(CallContext::server(), bound, &"test".into()).await;
    let bound = bound.unwrap().token.to_string();
    let unbound = create_token(&server.services, "acme", &[Scope::Worker]).await;

    let content = json!({ "content": super::TWO_STEPS });
    let registered =
        server.call_with_token(&user, Method::POST, "/api/catalog/register", content).await;
    assert!(is_ok(&registered), "{}", registered.text);
    let request = json!({ "path": "demo/two" });
    let started = server.call_with_token(&user, Method::POST, "/api/execute", request).await;
    let execution_id = started.text_at("/execution_id");

    let lease = |pool: &str| json!({ "worker_id": "w1", "pool": pool, "wait_ms": 0 });
    let post = |token: &str, path: &'static str, body: Value| {
        let (server, token) = (&server, token.to_owned());
        async move { server.call_with_token(&token, Method::POST, path, body).await }
    };
    let refused = post(&bound, "/api/commands/lease", lease("shared")).await;
    refused.assert_problem(ErrorCode::Forbidden);
    let own = post(&bound, "/api/commands/lease", lease("gpu")).await;
    assert_eq!(own.json_at("/commands"), json!([]));
    let name = json!({ "name": "w1", "labels": { "pool_name": "shared" } });
    let refused = post(&bound, "/api/worker/pool/register", name).await;
    refused.assert_problem(ErrorCode::Forbidden);

    // A worker may read what its commands name and start what its runs request, and nothing else.
    let catalog_id = registered.text_at("/catalog_id");
    let resource = "/api/catalog/resource";
    let by_id = json!({ "catalog_id": catalog_id });
    assert!(is_ok(&post(&unbound, resource, by_id).await));
    let by_path = post(&unbound, resource, json!({ "path": "demo/two" })).await;
    by_path.assert_problem(ErrorCode::Forbidden);
    let without_parent = post(&unbound, "/api/execute", json!({ "path": "demo/two" })).await;
    without_parent.assert_problem(ErrorCode::Forbidden);
    let child = json!({ "path": "demo/two", "parent_execution_id": execution_id });
    assert!(is_ok(&post(&unbound, "/api/execute", child.clone()).await));
    let child = post(&bound, "/api/execute", child).await;
    child.assert_problem(ErrorCode::Forbidden);

    // Even with the lease token, a worker may report only for its own pool.
    let leased = post(&unbound, "/api/commands/lease", lease("shared")).await;
    let command = leased.json_at("/commands/0");
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
    let refused = server.call_with_token(&bound, Method::POST, &vars, json!({ "x": 1 })).await;
    refused.assert_problem(ErrorCode::Forbidden);
    let accepted = post(&unbound, "/api/commands/report", body).await;
    assert_eq!(accepted.text_at("/results/0/status"), "accepted");
}

#[tokio::test]
async fn rate_limit_asks_to_retry() {
    let settings = HttpSettings {
        is_dev: false,
        // So slow that the bucket does not refill during the test.
        rate_per_token: 1,
        ..HttpSettings::default()
    };
    let server = start_server_with(Arc::new(SqliteStore::in_memory().unwrap()), &settings).await;
    let one = create_token(&server.services, "default", &[Scope::ExecRead]).await;
    let mut last = 200;
    for _ in 0..1_000 {
        let reply = server.call_with_token(&one, Method::GET, "/api/whoami", json!({})).await;
        last = reply.status;
        if last != 200 {
            reply.assert_problem(ErrorCode::RateLimited);
            assert_eq!(reply.header("retry-after"), Some("1"));
            break;
        }
    }
    assert_eq!(last, 429);
    let other = create_token(&server.services, "default", &[Scope::ExecRead]).await;
    assert!(is_ok(&server.call_with_token(&other, Method::GET, "/api/whoami", json!({})).await));
}

/// Asserts that 50 unauthenticated requests are in the audit log of the operator's tenant.
async fn assert_anonymous_requests_audited(server: &TestServer, operator: &str) {
    let audit =
        server.call_with_token(operator, Method::GET, "/api/audit?limit=1", json!({})).await;
    assert_eq!(audit.text_at("/entries/0/actor"), "anonymous");
    assert_eq!(audit.json_at("/entries/0/detail/count"), 50);
    let next = audit.text_at("/next_cursor");
    let path = format!("/api/audit?limit=1&cursor={next}");
    let first = server.call_with_token(operator, Method::GET, &path, json!({})).await;
    assert_eq!(
        (first.json_at("/intact"), first.json_at("/entries/0/seq")),
        (json!(true), json!(1))
    );
    assert!(first.json().get("next_cursor").is_none());
}

#[tokio::test]
async fn operations_are_audited() {
    let server = start_secured_server().await;
    let operator = create_token(&server.services, "default", &[Scope::Admin]).await;
    let admin = create_token(&server.services, "acme", &[Scope::Admin]).await;
    let body = json!({ "name": "ci", "scopes": ["exec:read"] });
    let created = server.call_with_token(&admin, Method::POST, "/api/tokens", body).await;
    let cancel = "/api/executions/7000000000000000000/cancel";
    server.call_with_token(&admin, Method::POST, cancel, json!({})).await;
    let reader = created.text_at("/token");
    for _ in 0..50 {
        let refused = server.call_with_token(&reader, Method::GET, "/api/tokens", json!({})).await;
        refused.assert_problem(ErrorCode::Forbidden);
    }
    for _ in 0..50 {
        server.get("/api/executions?secret=x").await;
    }
    server.services.close(std::time::Duration::from_mins(1)).await;

    let audit = server.call_with_token(&admin, Method::GET, "/api/audit", json!({})).await;
    assert!(is_ok(&audit), "{}", audit.text);
    assert_eq!(audit.json_at("/intact"), true);
    let entries = audit.json_at("/entries");
    let recorded: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            (text("actor"), text("action"), text("outcome"))
        })
        .collect();
    let expected = [
        ("acme-token", "POST /api/tokens", "ok"),
        ("acme-token", "POST /api/executions/{execution_id}/cancel", "not_found"),
        ("ci", "access", "forbidden"),
        ("ci", "access", "forbidden"),
    ]
    .map(|(actor, action, outcome)| (actor.to_owned(), action.to_owned(), outcome.to_owned()));
    assert_eq!(recorded, expected);
    assert_eq!(audit.json_at("/entries/0/detail/count"), 50);
    assert_eq!(audit.text_at("/entries/2/target"), cancel);
    assert_eq!(audit.text_at("/entries/2/address"), "10.0.0.7");
    assert!(!audit.text.contains("secret"));

    assert_anonymous_requests_audited(&server, &operator).await;
}

#[test]
fn request_without_headers_has_no_token() {
    assert!(crate::http::middleware::identity::request_token(&HeaderMap::new()).unwrap().is_none());
}

#[tokio::test]
async fn token_is_bound_to_paths() {
    let server = start_secured_server().await;
    let admin = create_token(&server.services, "default", &[Scope::Admin]).await;
    let playbook_body = |path: &str| {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: one, path: {path} }}\n\
             workflow:\n  - {{step: a, tool: {{kind: noop}}}}\n"
        );
        json!({ "content": content })
    };
    let post = async |token: &str, path: &str, body: Value| {
        server.call_with_token(token, Method::POST, path, body).await
    };
    for path in ["etl/one", "other/one"] {
        let registered = post(&admin, "/api/catalog/register", playbook_body(path)).await;
        assert!(is_ok(&registered), "{}", registered.text);
    }
    let request = json!({
        "name": "bound", "scopes": ["exec:run", "catalog:write"], "path_globs": ["etl/*"],
    });
    let created = post(&admin, "/api/tokens", request).await;
    assert!(is_ok(&created), "{}", created.text);
    let bound = created.text_at("/token");
    let run = post(&bound, "/api/execute", json!({ "path": "etl/one" })).await;
    assert!(is_ok(&run), "{}", run.text);
    let foreign = post(&admin, "/api/execute", json!({ "path": "other/one" })).await;
    let foreign_run = format!("/api/executions/{}/rerun", foreign.text_at("/execution_id"));
    for (path, body) in [
        ("/api/execute", json!({ "path": "other/one" })),
        ("/api/execute", json!({ "catalog_id": foreign.json_at("/catalog_id") })),
        (&foreign_run, json!({})),
    ] {
        post(&bound, path, body).await.assert_problem(ErrorCode::NotFound);
    }
    let elsewhere = playbook_body("other/one");
    let elsewhere = post(&bound, "/api/catalog/register", elsewhere).await;
    elsewhere.assert_problem(ErrorCode::Forbidden);
    let batch = json!({ "executions": [{ "path": "other/one" }, { "path": "etl/one" }] });
    let batch = post(&bound, "/api/execute/batch", batch).await;
    assert_eq!((batch.json_at("/started"), batch.json_at("/failed")), (json!(1), json!(1)));
    let archived = server.call_with_token(
        &bound,
        Method::DELETE,
        "/api/catalog/playbooks/other/one",
        json!({}),
    );
    archived.await.assert_problem(ErrorCode::NotFound);
}
