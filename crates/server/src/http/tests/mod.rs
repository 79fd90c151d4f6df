//! Requests to a complete server without a socket, on an in-memory store.

mod actors;
mod approvals;
mod backends;
mod batch_bounds;
mod batches;
mod bodies;
mod caller_limits;
mod catalog;
mod catalog_lists;
mod classic;
mod classic_results;
mod classic_routes;
mod command_tokens;
mod credentials;
mod execution_reads;
mod explain;
mod idempotency;
mod internal;
mod issued_secrets;
mod keychain;
mod listeners;
mod log_capture;
mod metrics;
pub(in crate::http) mod openapi;
mod platform_playbooks;
mod purge;
mod quota;
mod replay;
mod routes;
mod run_control;
mod secret_audit;
mod server_settings;
mod snapshots;
mod socket;
mod store_faults;
mod streams;
mod system;
mod task_output;
mod tenants;
mod tls;
mod token_paths;
mod tokens;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Method, StatusCode};
use futures_util::StreamExt as _;
use noetl_store::{SqliteStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::listener_kind::ListenerKind;
use super::middleware::RequestPipeline;
use super::middleware::authenticator::Authenticator;
use super::middleware::internal_token::InternalToken;
use super::routes::build_router;
use super::settings::HttpSettings;
use crate::clock::SystemClock;
use crate::services::ControlPlane;
use crate::settings::Settings;

/// Two sequential steps, both run by workers.
const TWO_STEPS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: two, path: demo/two }
workload: { greeting: hello }
workflow:
  - step: start
    tool: { kind: noop }
    set: { ctx.seen: 1 }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop }
";

struct TestServer {
    pipeline: RequestPipeline,
    services: ControlPlane,
    shutdown: CancellationToken,
}

#[derive(Debug)]
struct TestResponse {
    status: u16,
    headers: HeaderMap,
    text: String,
}

async fn start_server() -> TestServer {
    start_server_on(Arc::new(SqliteStore::in_memory().unwrap())).await
}

async fn start_server_on(store: Arc<dyn Store>) -> TestServer {
    start_server_with(store, &HttpSettings::default()).await
}

/// Starts a server that requires tokens.
async fn start_secured_server() -> TestServer {
    start_server_with(Arc::new(SqliteStore::in_memory().unwrap()), &secured_settings()).await
}

fn secured_settings() -> HttpSettings {
    HttpSettings {
        is_dev: false,
        internal_token: Some(InternalToken::new("internal-token-for-tests")),
        ..HttpSettings::default()
    }
}

async fn start_server_with(store: Arc<dyn Store>, settings: &HttpSettings) -> TestServer {
    server_from_services(open_services(store).await, settings)
}

fn server_from_services(services: ControlPlane, settings: &HttpSettings) -> TestServer {
    server_for_listener(ListenerKind::All, services, settings)
}

/// Server with the routes of one listener.
fn server_for_listener(
    kind: ListenerKind,
    services: ControlPlane,
    settings: &HttpSettings,
) -> TestServer {
    let shutdown = CancellationToken::new();
    let router = build_router(services.clone(), settings, kind, shutdown.clone());
    let authenticator = Authenticator::new(services.clone(), settings);
    TestServer { pipeline: RequestPipeline::new(router, authenticator), services, shutdown }
}

async fn open_services(store: Arc<dyn Store>) -> ControlPlane {
    ControlPlane::open(store, Arc::new(SystemClock), Settings::default()).await.unwrap()
}

fn local_peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4000))
}

/// A request from a client on this machine.
fn build_request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost:8082")
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap()
}

impl TestServer {
    async fn send(&self, request: Request<Body>) -> TestResponse {
        self.send_from(local_peer(), request).await
    }

    async fn send_from(&self, peer: SocketAddr, request: Request<Body>) -> TestResponse {
        let is_endless = request.uri().path() == noetl_api::paths::EVENTS_STREAM;
        let response = self.pipeline.handle_request(&peer.into(), request).await;
        let (head, body) = response.into_parts();
        let bytes = if is_endless {
            // The stream of all events never ends, so only its first chunk is read.
            let first = body.into_data_stream().next().await;
            first.transpose().unwrap().unwrap_or_default()
        } else {
            to_bytes(body, 1 << 27).await.unwrap()
        };
        TestResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> TestResponse {
        self.send(build_request(Method::GET, path, Body::empty())).await
    }

    async fn post(&self, path: &str, body: Value) -> TestResponse {
        let body = serde_json::to_vec(&body).unwrap();
        self.send(build_request(Method::POST, path, body)).await
    }

    async fn put(&self, path: &str, body: Value) -> TestResponse {
        let body = serde_json::to_vec(&body).unwrap();
        self.send(build_request(Method::PUT, path, body)).await
    }

    async fn start_playbook(&self, content: &str, path: &str) -> String {
        let body = json!({ "content": content });
        let registered = self.post("/api/catalog/register", body).await;
        assert_eq!(registered.status, 200, "{}", registered.text);
        let started = self.post("/api/execute", json!({ "path": path })).await;
        assert_eq!(started.status, 200, "{}", started.text);
        started.text_at("/execution_id")
    }

    async fn start_two_steps(&self) -> String {
        let registered = self.post("/api/catalog/register", json!({ "content": TWO_STEPS })).await;
        assert_eq!(registered.status, 200, "{}", registered.text);
        let started = self.post("/api/execute", json!({ "path": "demo/two" })).await;
        assert_eq!(started.status, 200, "{}", started.text);
        started.text_at("/execution_id")
    }

    /// Leases the next command as worker `w1`.
    async fn lease_command(&self) -> Value {
        let request = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let leased = self.post("/api/commands/lease", request).await;
        assert_eq!(leased.status, 200, "{}", leased.text);
        leased.json_at("/commands/0")
    }

    /// Reports a command as completed.
    async fn complete_command(&self, command: &Value, result: Value) -> TestResponse {
        self.post("/api/commands/report", completed_report(command, &result)).await
    }

    /// Runs the two-step playbook to its end.
    async fn run_two_steps(&self) -> String {
        let execution_id = self.start_two_steps().await;
        self.complete_two_steps().await;
        execution_id
    }

    /// Completes both commands of the two-step playbook.
    async fn complete_two_steps(&self) {
        for _ in 0..2 {
            let command = self.lease_command().await;
            let reported = self.complete_command(&command, json!({ "ok": true })).await;
            assert_eq!(reported.text_at("/results/0/status"), "accepted");
        }
    }
}

/// Report of worker `w1` for a completed command.
fn completed_report(command: &Value, result: &Value) -> Value {
    let report = json!({
        "execution_id": command["execution_id"],
        "command_id": command["command_id"],
        "attempt": command["attempt"],
        "lease_token": command["lease_token"],
        "status": "completed",
        "result": result,
    });
    json!({ "worker_id": "w1", "reports": [report] })
}

impl TestResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn json_at(&self, pointer: &str) -> Value {
        let json = self.json();
        json.pointer(pointer).unwrap_or_else(|| panic!("{pointer} of {json}")).clone()
    }

    fn text_at(&self, pointer: &str) -> String {
        let found = self.json_at(pointer);
        found.as_str().unwrap_or_else(|| panic!("{pointer} is {found}")).to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Checks that the response is a complete problem document of this code.
    #[track_caller]
    fn assert_problem(&self, code: noetl_types::ErrorCode) -> &Self {
        self.assert_problem_status(code, code.http_status())
    }

    #[track_caller]
    fn assert_problem_status(&self, code: noetl_types::ErrorCode, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["code"], code.as_str(), "{problem}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["title"], code.title());
        assert_eq!(problem["type"], code.type_uri());
        assert_eq!(problem["error"], problem["detail"]);
        assert_eq!(problem["message"], problem["detail"]);
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{problem}");
        assert_eq!(self.header("retry-after").is_some(), code.has_retry_after(), "{problem}");
        self
    }
}

fn is_ok(reply: &TestResponse) -> bool {
    reply.status == StatusCode::OK.as_u16()
}
