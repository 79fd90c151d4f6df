//! Requests against a whole server on a store in memory.

mod actors;
mod approvals;
mod backends;
mod batch_bounds;
mod batches;
mod bodies;
mod capability;
mod catalog;
mod catalog_lists;
mod choices;
mod classic;
mod credentials;
mod explain;
mod faults;
mod internal;
mod keychain;
mod known;
mod lent;
mod listeners;
mod metrics;
mod once;
mod paper;
mod paths;
mod platform;
mod purge;
mod quota;
mod reading;
mod replay;
mod routes;
mod secret_audit;
mod snapshots;
mod socket;
mod steering;
mod streams;
mod system;
mod tenants;
mod tls;
mod tokens;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Method, StatusCode};
use futures_util::StreamExt as _;
use noetl_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(super) use tokens::METHODS;

use super::door::Doorman;
use super::front::Front;
use super::internal::InternalToken;
use super::part::Part;
use super::routes::router;
use super::settings::HttpSettings;
use crate::clock::SystemClock;
use crate::runtime::{Runtime, Settings};

/// A playbook of two steps, one after the other; workers run both.
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

/// A server without a socket.
struct House {
    front: Front,
    runtime: Runtime,
    shutdown: CancellationToken,
}

/// What came back.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: HeaderMap,
    text: String,
}

async fn house() -> House {
    house_on(Arc::new(MemoryStore::new())).await
}

async fn house_on(store: Arc<dyn Store>) -> House {
    house_with(store, &HttpSettings::default()).await
}

/// A house that wants to see tokens.
async fn closed_house() -> House {
    house_with(Arc::new(MemoryStore::new()), &closed_settings()).await
}

fn closed_settings() -> HttpSettings {
    HttpSettings {
        is_dev: false,
        internal_token: Some(InternalToken::new("opens what is internal")),
        ..HttpSettings::default()
    }
}

async fn house_with(store: Arc<dyn Store>, settings: &HttpSettings) -> House {
    house_of(runtime_on(store).await, settings)
}

fn house_of(runtime: Runtime, settings: &HttpSettings) -> House {
    part_of(Part::All, runtime, settings)
}

/// What one listener has of it.
fn part_of(part: Part, runtime: Runtime, settings: &HttpSettings) -> House {
    let shutdown = CancellationToken::new();
    let router = router(runtime.clone(), settings, part, shutdown.clone());
    let door = Doorman::new(runtime.clone(), settings);
    House {
        front: Front::new(router, door),
        runtime,
        shutdown,
    }
}

async fn runtime_on(store: Arc<dyn Store>) -> Runtime {
    Runtime::open(store, Arc::new(SystemClock), Settings::default())
        .await
        .unwrap()
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4000))
}

/// A request as a client on this machine makes it.
fn request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost:8082")
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap()
}

impl House {
    async fn send(&self, request: Request<Body>) -> Reply {
        self.send_from(peer(), request).await
    }

    async fn send_from(&self, peer: SocketAddr, request: Request<Body>) -> Reply {
        let is_endless = request.uri().path() == noetl_api::paths::EVENTS_STREAM;
        let response = self.front.answer(&peer.into(), request).await;
        let (head, body) = response.into_parts();
        let bytes = if is_endless {
            // Whoever follows everything is never told that it is over.
            let first = body.into_data_stream().next().await;
            first.transpose().unwrap().unwrap_or_default()
        } else {
            to_bytes(body, 1 << 27).await.unwrap()
        };
        Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(request(Method::GET, path, Body::empty())).await
    }

    async fn post(&self, path: &str, body: Value) -> Reply {
        let body = serde_json::to_vec(&body).unwrap();
        self.send(request(Method::POST, path, body)).await
    }

    async fn put(&self, path: &str, body: Value) -> Reply {
        let body = serde_json::to_vec(&body).unwrap();
        self.send(request(Method::PUT, path, body)).await
    }

    /// Registers a playbook and starts it.
    async fn started_with(&self, content: &str, path: &str) -> String {
        let body = json!({ "content": content });
        let registered = self.post("/api/catalog/register", body).await;
        assert_eq!(registered.status, 200, "{}", registered.text);
        let started = self.post("/api/execute", json!({ "path": path })).await;
        assert_eq!(started.status, 200, "{}", started.text);
        started.text_at("/execution_id")
    }

    /// Registers the playbook of two steps and starts it.
    async fn started(&self) -> String {
        let registered = self
            .post("/api/catalog/register", json!({ "content": TWO_STEPS }))
            .await;
        assert_eq!(registered.status, 200, "{}", registered.text);
        let started = self
            .post("/api/execute", json!({ "path": "demo/two" }))
            .await;
        assert_eq!(started.status, 200, "{}", started.text);
        started.text_at("/execution_id")
    }

    /// Takes the next command as a worker.
    async fn leased(&self) -> Value {
        let wanted = json!({ "worker_id": "w1", "pool": "shared", "wait_ms": 10_000 });
        let leased = self.post("/api/commands/lease", wanted).await;
        assert_eq!(leased.status, 200, "{}", leased.text);
        leased.at("/commands/0")
    }

    /// Says that a command went well.
    async fn finish(&self, command: &Value, result: Value) -> Reply {
        self.post("/api/commands/report", completed(command, &result))
            .await
    }

    /// Runs the playbook of two steps to its end.
    async fn finished(&self) -> String {
        let execution_id = self.started().await;
        self.work().await;
        execution_id
    }

    /// Does the work of the playbook of two steps.
    async fn work(&self) {
        for _ in 0..2 {
            let command = self.leased().await;
            let reported = self.finish(&command, json!({ "ok": true })).await;
            assert_eq!(reported.text_at("/results/0/status"), "accepted");
        }
    }
}

/// What the worker `w1` says of a command that went well.
fn completed(command: &Value, result: &Value) -> Value {
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

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn at(&self, pointer: &str) -> Value {
        let json = self.json();
        json.pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer} of {json}"))
            .clone()
    }

    fn text_at(&self, pointer: &str) -> String {
        let found = self.at(pointer);
        found
            .as_str()
            .unwrap_or_else(|| panic!("{pointer} is {found}"))
            .to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Checks that it is a problem of this kind, whole in all its parts.
    #[track_caller]
    fn is_problem(&self, code: noetl_types::ErrorCode) -> &Self {
        self.is_problem_with(code, code.status())
    }

    #[track_caller]
    fn is_problem_with(&self, code: noetl_types::ErrorCode, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{}",
            self.text
        );
        let problem = self.json();
        assert_eq!(problem["code"], code.as_str(), "{problem}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["title"], code.title());
        assert_eq!(problem["type"], code.type_uri());
        assert_eq!(problem["error"], problem["detail"]);
        assert_eq!(
            problem["request_id"].as_str(),
            self.header("x-request-id"),
            "{problem}"
        );
        assert_eq!(
            self.header("retry-after").is_some(),
            code.wants_retry_after(),
            "{problem}"
        );
        self
    }
}

fn is_ok(reply: &Reply) -> bool {
    reply.status == StatusCode::OK.as_u16()
}
