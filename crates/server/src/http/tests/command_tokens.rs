//! A command token allows a worker to work on one command and on nothing else.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue};
use axum::http::{Method, Request};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use noetl_api::secret_audit::SecretAuditQuery;
use noetl_store::SqliteStore;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, Millis, Scope, SecretOperation, TenantId, Timestamp,
};
use serde_json::{Value, json};

use super::log_capture::LogCapture;
use super::tokens::{create_token, declared_routes, path_with_sample_ids, with_token};
use super::{TestResponse, TestServer, build_request, is_ok, server_from_services, start_server};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::{EncryptionKey, KeyRing};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::services::command_token::CommandToken;
use crate::settings::Settings;

/// Two concurrent commands that name credentials in every possible way.
const CREDENTIALS_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workload: { account: by_template }
keychain:
  - { name: api, kind: bearer, auth: by_entry }
  - { name: unread, kind: bearer, auth: of_unread }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: item, spec: { mode: parallel } }
    tool:
      kind: http
      url: 'http://localhost/{{ item }}'
      auth: '{{ workload.account }}'
      headers: { authorization: 'Bearer {{ keychain.api.token }}' }
";

/// Credentials in both sides of a transfer.
const TRANSFER_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: names, path: demo/names }
workload: { account: by_template }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: item, spec: { mode: parallel } }
    tool:
      kind: transfer
      source: { type: http, url: 'http://localhost/', auth: by_entry }
      target: { type: postgres, table: 't{{ item }}', auth: '{{ workload.account }}' }
";

const SECRET: &str = "sesame-opens-42";

fn new_key_ring() -> Arc<KeyRing> {
    let key = EncryptionKey::from_base64(&EncryptionKey::generate_base64().unwrap()).unwrap();
    Arc::new(KeyRing::new(key, Vec::new()))
}

/// Starts a server that requires tokens and issues command tokens.
async fn start_secured_server(keys: Option<Arc<KeyRing>>, store: Arc<SqliteStore>) -> TestServer {
    let settings = Settings { keys, notify_with_command_token: true, ..Settings::default() };
    let services = ControlPlane::open(store, Arc::new(SystemClock), settings).await;
    let http = HttpSettings { is_dev: false, ..HttpSettings::default() };
    server_from_services(services.unwrap(), &http)
}

/// A run with two pending commands, and a user token.
struct CommandTokenSetup {
    server: TestServer,
    user: String,
    run: ExecutionId,
    commands: Vec<CommandId>,
}

impl CommandTokenSetup {
    async fn new() -> Self {
        Self::with_playbook(CREDENTIALS_PLAYBOOK).await
    }

    async fn with_playbook(playbook: &str) -> Self {
        let server =
            start_secured_server(Some(new_key_ring()), Arc::new(SqliteStore::in_memory().unwrap()))
                .await;
        let scopes = [
            Scope::ExecRun,
            Scope::ExecRead,
            Scope::CatalogWrite,
            Scope::CredAdmin,
            Scope::Worker,
            Scope::Admin,
        ];
        let user = create_token(&server.services, "default", &scopes).await;
        let mut setup =
            Self { server, user, run: ExecutionId::new(1).unwrap(), commands: Vec::new() };
        let body = json!({ "content": playbook });
        setup.call_as_user(Method::POST, "/api/catalog/register", body).await;
        for name in ["by_template", "by_entry", "of_unread", "other"] {
            let secret = json!({ "name": name, "type": "bearer", "data": { "token": SECRET } });
            setup.call_as_user(Method::POST, "/api/credentials", secret).await;
        }
        setup.run = setup.start_run().await;
        let path = format!("/api/commands?execution_id={}", setup.run);
        let list = setup.call_as_user(Method::GET, &path, json!({})).await;
        let ids = list.json_at("/commands");
        let ids = ids.as_array().unwrap().iter();
        let ids = ids.map(|command| command["command_id"].as_str().unwrap().parse());
        setup.commands = ids.collect::<Result<_, _>>().unwrap();
        assert_eq!(setup.commands.len(), 2);
        setup
    }

    async fn start_run(&self) -> ExecutionId {
        let body = json!({ "path": "demo/names" });
        let started = self.call_as_user(Method::POST, "/api/execute", body).await;
        started.text_at("/execution_id").parse().unwrap()
    }

    /// Calls with the token of a user with all scopes.
    async fn call_as_user(&self, method: Method, path: &str, body: Value) -> TestResponse {
        let reply = self.server.call_with_token(&self.user, method, path, body).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
        reply
    }

    /// Command token of a command, as in its notification.
    fn command_token(&self, index: usize) -> CommandToken {
        let now = SystemClock.now();
        CommandToken {
            tenant_id: TenantId::default(),
            execution_id: self.run,
            command_id: self.commands[index],
            claim_by: now.saturating_add(Millis::from_secs(120)),
            expires_at: now.saturating_add(Millis::from_secs(300)),
        }
    }

    /// Calls as a remote worker that has only the command token of the first command.
    async fn call_with_command_token(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> TestResponse {
        let token = self.server.services.identities.sign_command_token(&self.command_token(0));
        self.server.call_with_token_path(&token, method, path, body).await
    }

    async fn claim_first(&self) -> TestResponse {
        let path = format!("/api/commands/{}/claim", self.commands[0]);
        let claimed =
            self.call_with_command_token(Method::POST, &path, json!({ "worker_id": "w1" }));
        claimed.await
    }
}

/// An event of worker `w1` for a command.
fn build_event(run: ExecutionId, command: CommandId, event_type: &str) -> Value {
    let label = format!("{run}:start:{command}");
    json!({ "execution_id": run, "step": "start", "name": event_type, "worker_id": "w1",
        "payload": { "command_id": label, "result": { "n": 1 } }, "meta": { "attempts": 1 } })
}

/// Builds the event of a completed command whose result is stored under a reference.
fn build_event_with_reference(run: ExecutionId, command: CommandId, reference: &str) -> Value {
    let mut event = build_event(run, command, "call.done");
    event["result_kind"] = json!("ref");
    event["result_uri"] = json!(reference);
    event
}

fn request_with_command_token(
    token: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Request<Body> {
    let path = format!("/w/{token}{path}");
    let mut request = build_request(method, &path, serde_json::to_vec(body).unwrap());
    let host = HeaderValue::from_static("noetl.example");
    request.headers_mut().insert(HOST, host);
    request
}

impl TestServer {
    async fn call_with_token_path(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> TestResponse {
        let request = request_with_command_token(token, method, path, &body);
        self.send_from(([10, 0, 0, 7], 4000).into(), request).await
    }
}

#[tokio::test]
async fn command_token_allows_work_on_its_command() {
    let setup = CommandTokenSetup::new().await;
    let (run, command) = (setup.run, setup.commands[0]);
    let get =
        async |path: String| setup.call_with_command_token(Method::GET, &path, json!({})).await;
    let details = get(format!("/api/commands/{command}")).await;
    assert!(is_ok(&details), "{}", details.text);
    let secret = format!("/api/credentials/by_template?include_data=true&execution_id={run}");
    // The command has no holder yet.
    get(secret.clone()).await.assert_problem(ErrorCode::Forbidden);
    let claimed = setup.claim_first().await;
    assert_eq!(claimed.text_at("/status"), "ok", "{}", claimed.text);

    let started = build_event(run, command, "command.started");
    let started = setup.call_with_command_token(Method::POST, "/api/events", started).await;
    assert_eq!(started.text_at("/status"), "ok", "{}", started.text);
    let vars = format!("/api/vars/{run}");
    let set = setup.call_with_command_token(Method::POST, &vars, json!({ "seen": 7 })).await;
    assert!(is_ok(&set), "{}", set.text);
    assert_eq!(get(format!("{vars}/seen")).await.json_at("/var_value"), 7);
    let body = json!({ "name": "start", "data": { "rows": [1] } });
    let path = format!("/api/result/{run}");
    let stored = setup.call_with_command_token(Method::PUT, &path, body).await.text_at("/ref");
    let resolved = get(format!("/api/result/resolve?ref={stored}")).await;
    assert_eq!(resolved.json(), json!({ "rows": [1] }));

    assert_eq!(get(secret).await.text_at("/data/token"), SECRET);
    let by_entry = "/api/credentials/by_entry?include_data=true".to_owned();
    assert_eq!(get(by_entry).await.text_at("/data/token"), SECRET);
    let metadata = get("/api/credentials/by_entry".to_owned()).await;
    assert_eq!(metadata.text_at("/name"), "by_entry");
    assert!(!metadata.text.contains(SECRET));
    for unnamed in ["other", "of_unread", "nobody"] {
        for query in ["", "?include_data=true"] {
            let refused = get(format!("/api/credentials/{unnamed}{query}")).await;
            refused.assert_problem(ErrorCode::Forbidden);
        }
    }

    let done = json!({ "execution_id": run, "worker_id": "w1",
        "events": [build_event(run, command, "call.done")] });
    let done = setup.call_with_command_token(Method::POST, "/api/events/batch", done).await;
    assert_eq!(done.text_at("/status"), "ok", "{}", done.text);
    let log = format!("/api/executions/{run}/events?limit=100");
    let log = setup.call_as_user(Method::GET, &log, json!({})).await;
    assert!(log.text.contains("command.completed"), "{}", log.text);
    // The command is done, so its credentials are no longer available.
    let later = get("/api/credentials/by_entry?include_data=true".to_owned()).await;
    later.assert_problem(ErrorCode::Forbidden);
}

#[tokio::test]
async fn command_token_reads_credentials_of_transfer_sides() {
    let setup = CommandTokenSetup::with_playbook(TRANSFER_PLAYBOOK).await;
    setup.claim_first().await;
    let read_credential = async |name: &str| {
        let path = format!("/api/credentials/{name}?include_data=true");
        setup.call_with_command_token(Method::GET, &path, json!({})).await
    };
    for name in ["by_entry", "by_template"] {
        assert_eq!(read_credential(name).await.text_at("/data/token"), SECRET, "{name}");
    }
    read_credential("other").await.assert_problem(ErrorCode::Forbidden);
}

/// Workers of earlier releases put their token into the server address. They need nothing else.
#[tokio::test]
async fn classic_worker_registers_with_token_in_url() {
    let setup = CommandTokenSetup::new().await;
    let token = create_token(&setup.server.services, "default", &[Scope::Worker]).await;
    let pair = BASE64_STANDARD.encode(format!("worker:{token}"));
    let basic = HeaderValue::try_from(format!("Basic {pair}")).unwrap();
    let post = async |path: &str, body: Value| {
        let mut request = build_request(Method::POST, path, body.to_string());
        request.headers_mut().insert(AUTHORIZATION, basic.clone());
        setup.server.send_from(([10, 0, 0, 7], 4000).into(), request).await
    };
    let worker = json!({ "name": "w1", "component_type": "worker_pool", "runtime": "rust",
        "status": "ready", "hostname": "h", "labels": { "pool_name": "shared" } });
    let registered = post("/api/worker/pool/register", worker).await;
    assert!(is_ok(&registered), "{}", registered.text);
    let claimed = setup.claim_first().await;
    assert!(is_ok(&claimed), "{}", claimed.text);
    // A heartbeat with the token renews the claim that was made without it, and reports cancelled
    // commands.
    let cancel = format!("/api/executions/{}/cancel", setup.run);
    setup.call_as_user(Method::POST, &cancel, json!({})).await;
    let heartbeat = post("/api/worker/pool/heartbeat", json!({ "name": "w1" })).await;
    let cancelled = heartbeat.json_at("/cancel");
    assert_eq!(cancelled, json!([setup.commands[0].to_string()]), "{}", heartbeat.text);
}

#[tokio::test]
async fn rejects_forged_altered_or_expired_command_token() {
    let setup = CommandTokenSetup::new().await;
    let good = setup.server.services.identities.sign_command_token(&setup.command_token(0));
    let path = format!("/api/commands/{}", setup.commands[0]);
    let get_command = async |token: &str| {
        let reply = setup.server.call_with_token_path(token, Method::GET, &path, json!({})).await;
        assert!(!reply.text.contains(token) || token.is_empty(), "{}", reply.text);
        reply
    };
    assert!(is_ok(&get_command(&good).await));
    let middle = good.len() / 2;
    let other = if &good[middle..=middle] == "A" { "B" } else { "A" };
    let altered = format!("{}{other}{}", &good[..middle], &good[middle + 1..]);
    let truncated = &good[..good.len() - 1];
    for wrong in ["", "x", "%20", &altered, truncated, &format!("{good}A")] {
        get_command(wrong).await.assert_problem(ErrorCode::Unauthenticated);
    }
    let elsewhere =
        start_secured_server(Some(new_key_ring()), Arc::new(SqliteStore::in_memory().unwrap()))
            .await;
    let foreign = elsewhere.services.identities.sign_command_token(&setup.command_token(0));
    get_command(&foreign).await.assert_problem(ErrorCode::Unauthenticated);

    let long_ago = Timestamp::from_unix_ms(1_700_000_000_000).unwrap();
    let expired = CommandToken { expires_at: long_ago, ..setup.command_token(0) };
    let expired = setup.server.services.identities.sign_command_token(&expired);
    get_command(&expired).await.assert_problem(ErrorCode::TokenExpired);
    // After the claim deadline the command must not be started.
    let late = CommandToken { claim_by: long_ago, ..setup.command_token(0) };
    let late = setup.server.services.identities.sign_command_token(&late);
    assert!(is_ok(&get_command(&late).await));
    let claim = format!("{path}/claim");
    let body = json!({ "worker_id": "w1" });
    let claim = setup.server.call_with_token_path(&late, Method::POST, &claim, body).await;
    claim.assert_problem(ErrorCode::TokenExpired);
}

#[tokio::test]
async fn command_token_is_bound_to_command_run_and_tenant() {
    let setup = CommandTokenSetup::new().await;
    assert!(is_ok(&setup.claim_first().await));
    let (run, second) = (setup.run, setup.commands[1]);
    let other = setup.start_run().await;
    let result = json!({ "name": "start", "data": 1 });
    let other_result = format!("/api/result/{other}");
    let other_result = setup.call_as_user(Method::PUT, &other_result, result.clone()).await;
    let other_result = other_result.text_at("/ref");
    let worker = json!({ "worker_id": "w1" });
    let by_reference = build_event_with_reference(run, setup.commands[0], &other_result);
    for (method, path, body) in [
        (Method::GET, format!("/api/commands/{second}"), json!({})),
        (Method::POST, format!("/api/commands/{second}/claim"), worker),
        (Method::POST, "/api/events".to_owned(), build_event(run, second, "call.done")),
        (Method::POST, "/api/events".to_owned(), build_event(other, second, "call.done")),
        (Method::POST, "/api/events".to_owned(), by_reference),
        (Method::GET, format!("/api/vars/{other}"), json!({})),
        (Method::GET, format!("/api/vars/{other}/x"), json!({})),
        (Method::POST, format!("/api/vars/{other}"), json!({ "x": 1 })),
        (Method::DELETE, format!("/api/vars/{other}"), json!({})),
        (Method::PUT, format!("/api/result/{other}"), result),
        (Method::GET, format!("/api/result/resolve?ref={other_result}"), json!({})),
        (
            Method::GET,
            format!("/api/credentials/by_entry?include_data=true&execution_id={other}"),
            json!({}),
        ),
    ] {
        let reply = setup.call_with_command_token(method.clone(), &path, body).await;
        assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text);
    }
    // The same ids are unknown to another tenant.
    let foreign =
        CommandToken { tenant_id: TenantId::new("acme").unwrap(), ..setup.command_token(0) };
    let foreign = setup.server.services.identities.sign_command_token(&foreign);
    let path = format!("/api/commands/{}", setup.commands[0]);
    let reply = setup.server.call_with_token_path(&foreign, Method::GET, &path, json!({})).await;
    reply.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn command_token_is_rejected_on_other_routes() {
    let setup = CommandTokenSetup::new().await;
    let mut accepted = 0;
    for (method, route) in declared_routes() {
        let path = path_with_sample_ids(route.path);
        let reply = setup.call_with_command_token(method.clone(), &path, json!({})).await;
        if !path.starts_with("/api/") {
            reply.assert_problem(ErrorCode::NotFound);
        } else if route.accepts_command_token {
            accepted += 1;
            assert_ne!(reply.status, 401, "{method} {path}");
        } else {
            reply.assert_problem(ErrorCode::Forbidden);
        }
    }
    assert_eq!(accepted, 12);
    // An additional bearer token grants nothing more.
    let token = setup.server.services.identities.sign_command_token(&setup.command_token(0));
    let both = request_with_command_token(&token, Method::GET, "/api/executions", &json!({}));
    let reply = setup.server.send(with_token(both, &setup.user)).await;
    reply.assert_problem(ErrorCode::Forbidden);
    let wrong = request_with_command_token("wrong", Method::GET, "/api/executions", &json!({}));
    let reply = setup.server.send(with_token(wrong, &setup.user)).await;
    reply.assert_problem(ErrorCode::Unauthenticated);
}

/// A credential read with a command token is audited like one with a bearer token.
#[tokio::test]
async fn credential_read_by_command_token_is_audited() {
    let setup = CommandTokenSetup::new().await;
    assert!(is_ok(&setup.claim_first().await));
    let newest_operation_after = async |path: &str| {
        setup.call_with_command_token(Method::GET, path, json!({})).await;
        let query =
            SecretAuditQuery { execution_id: Some(setup.run), ..SecretAuditQuery::default() };
        let rows = setup.server.services.audit.list_secret_audit(query).await.unwrap().rows;
        let newest = rows.first().expect("no audit rows of the run");
        (newest.operation, newest.worker_id.clone())
    };
    let worker = Some("w1".parse().unwrap());
    let path = "/api/credentials/by_entry";
    let inspected = newest_operation_after(path).await;
    assert_eq!(inspected, (SecretOperation::Inspect, worker.clone()));
    let issued = newest_operation_after(&format!("{path}?include_data=true")).await;
    assert_eq!(issued, (SecretOperation::Issue, worker));
}

#[tokio::test]
async fn command_tokens_are_rejected_when_disabled() {
    let setup = CommandTokenSetup::new().await;
    let token = setup.server.services.identities.sign_command_token(&setup.command_token(0));
    // It is rejected even from a local developer, who needs no token.
    let server = start_server().await;
    let reply =
        server.send(build_request(Method::GET, &format!("/w/{token}/api/executions"), "")).await;
    reply.assert_problem(ErrorCode::Unauthenticated);
}

/// Without encryption keys, servers on one store still accept each other's command tokens.
#[tokio::test]
async fn servers_without_keys_share_signing_secret() {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let (first, second) =
        (start_secured_server(None, store.clone()).await, start_secured_server(None, store).await);
    let setup = CommandTokenSetup::new().await;
    let token = first.services.identities.sign_command_token(&setup.command_token(0));
    assert!(second.services.identities.verify_command_token(&token).is_ok());
    let elsewhere = start_secured_server(None, Arc::new(SqliteStore::in_memory().unwrap())).await;
    assert!(elsewhere.services.identities.verify_command_token(&token).is_err());
}

#[tokio::test]
async fn command_token_is_never_logged() {
    let setup = CommandTokenSetup::new().await;
    assert!(is_ok(&setup.claim_first().await));
    let logs = LogCapture::default();
    let capture = logs.start_capture();
    let token = setup.server.services.identities.sign_command_token(&setup.command_token(0));
    let mut replies = Vec::new();
    for path in [
        "/api/credentials/by_entry?include_data=true",
        "/api/executions",
        "/api/nowhere",
        "/elsewhere",
        "",
    ] {
        let reply = setup.server.call_with_token_path(&token, Method::GET, path, json!({})).await;
        replies.push(format!("{:?}{}", reply.headers, reply.text));
    }
    drop(capture);
    replies.push(logs.text());
    assert!(replies[5].contains(r#""path":"/api/executions""#), "{replies:?}");
    let audit = setup.call_as_user(Method::GET, "/api/audit", json!({})).await;
    assert!(audit.text.contains("/api/credentials/by_entry"), "{}", audit.text);
    let actor = format!("command:{}", setup.commands[0]);
    assert!(audit.text.contains(&actor), "{}", audit.text);
    replies.push(audit.text);
    replies.push(setup.call_as_user(Method::GET, "/metrics", json!({})).await.text);
    for text in replies {
        assert!(!text.contains(&token), "{text}");
    }
}
