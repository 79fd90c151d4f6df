//! Routes of each listener.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Method;
use noetl_store::SqliteStore;
use noetl_types::{ErrorCode, Scope};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::tokens::{create_token, declared_routes, path_with_sample_ids, with_token};
use super::{TestServer, build_request, is_ok, open_services, server_for_listener};
use crate::http::listener_kind::ListenerKind;
use crate::http::middleware::internal_token::InternalToken;
use crate::http::settings::HttpSettings;
use crate::http::{HttpListeners, ServeError, serve_http};

const INTERNAL_TOKEN: &str = "internal-token-for-tests";

fn secured_listener_settings() -> HttpSettings {
    HttpSettings {
        is_dev: false,
        internal_token: Some(InternalToken::new(INTERNAL_TOKEN)),
        ..HttpSettings::default()
    }
}

async fn start_listener(kind: ListenerKind) -> TestServer {
    let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
    server_for_listener(kind, services, &secured_listener_settings())
}

fn is_internal_path(path: &str) -> bool {
    path.starts_with("/api/internal/")
}

fn remote_peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 7], 4000))
}

#[tokio::test]
async fn public_listener_hides_internal_api() {
    let public = start_listener(ListenerKind::Public).await;
    let admin = create_token(&public.services, "default", &[Scope::Admin]).await;
    for (method, route) in declared_routes() {
        let path = path_with_sample_ids(route.path);
        let as_admin = public.call_with_token(&admin, method.clone(), &path, json!({})).await;
        if !is_internal_path(&path) {
            let is_unrouted = as_admin.text.contains("no such path");
            assert!(!is_unrouted, "{method} {path}: {}", as_admin.text);
            continue;
        }
        as_admin.assert_problem(ErrorCode::NotFound);
        let request = with_token(build_request(method.clone(), &path, "{}"), INTERNAL_TOKEN);
        let reply = public.send(request).await;
        reply.assert_problem(ErrorCode::NotFound);
        let alias = path.replace("/api/", "/noetl/");
        let reply = public.send(build_request(method, &alias, "{}")).await;
        reply.assert_problem(ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn internal_listener_serves_only_internal_api() {
    let internal = start_listener(ListenerKind::Internal).await;
    let admin = create_token(&internal.services, "default", &[Scope::Admin]).await;
    for (method, route) in declared_routes() {
        let path = path_with_sample_ids(route.path);
        let anonymous = internal.send(build_request(method.clone(), &path, "{}")).await;
        if is_internal_path(&path) {
            anonymous.assert_problem(ErrorCode::Forbidden);
        } else if matches!(&*path, "/livez" | "/readyz") {
            assert!(is_ok(&anonymous), "{path}: {}", anonymous.text);
        } else {
            anonymous.assert_problem(ErrorCode::Unauthenticated);
            let reply = internal.call_with_token(&admin, method, &path, json!({})).await;
            reply.assert_problem(ErrorCode::NotFound);
        }
    }
    for path in ["/api/internal/cells", "/api/internal/stream/status"] {
        let request = build_request(Method::GET, path, "");
        let reply = internal.send(with_token(request, INTERNAL_TOKEN)).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn metrics_listener_needs_no_token() {
    let metrics = start_listener(ListenerKind::Metrics).await;
    for (method, route) in declared_routes() {
        let path = path_with_sample_ids(route.path);
        let request = build_request(method.clone(), &path, "{}");
        let reply = metrics.send_from(remote_peer(), request).await;
        if matches!(&*path, "/metrics" | "/livez" | "/readyz") {
            assert!(is_ok(&reply), "{path}: {}", reply.text);
        } else {
            reply.assert_problem(ErrorCode::NotFound);
        }
    }
    let request = build_request(Method::GET, "/metrics", "");
    let reply = metrics.send_from(remote_peer(), request).await;
    assert!(reply.text.contains("noetl_build_info"), "{}", reply.text);
}

/// Sends a request and returns the status of the response.
async fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn serves_all_configured_listeners() {
    let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listeners = HttpListeners {
        public: bind().await,
        internal: Some(bind().await),
        metrics: Some(bind().await),
    };
    let address = |listener: &TcpListener| listener.local_addr().unwrap();
    let public = address(&listeners.public);
    let internal = listeners.internal.as_ref().map(address).unwrap();
    let metrics = listeners.metrics.as_ref().map(address).unwrap();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve_http(
        services,
        listeners,
        secured_listener_settings(),
        shutdown.clone(),
    ));
    for (address, path, status) in [
        (public, "/livez", "200"),
        (public, "/metrics", "401"),
        (public, "/api/internal/cells", "404"),
        (internal, "/livez", "200"),
        (internal, "/api/internal/cells", "403"),
        (internal, "/metrics", "401"),
        (metrics, "/metrics", "200"),
        (metrics, "/readyz", "200"),
        (metrics, "/api/executions", "404"),
    ] {
        assert_eq!(http_get(address, path).await, status, "{path}");
    }
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

/// Plaintext listeners are not reachable from other machines.
#[tokio::test]
async fn rejects_public_listeners_without_tls() {
    let bind_public = async || Some(TcpListener::bind("0.0.0.0:0").await.unwrap());
    let bind_local = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (internal, metrics) in [(bind_public().await, None), (None, bind_public().await)] {
        let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
        let listeners = HttpListeners { public: bind_local().await, internal, metrics };
        let result =
            serve_http(services, listeners, secured_listener_settings(), CancellationToken::new())
                .await;
        assert!(matches!(result, Err(ServeError::Plaintext(_))), "{result:?}");
    }
}
