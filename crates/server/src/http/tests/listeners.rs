//! Which routes are at which door.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Method;
use noetl_store::MemoryStore;
use noetl_types::{ErrorCode, Scope};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::tokens::{routes, token_of, with_some_id, with_token};
use super::{House, is_ok, part_of, request, runtime_on};
use crate::http::internal::InternalToken;
use crate::http::part::Part;
use crate::http::settings::HttpSettings;
use crate::http::{Listeners, ServeError, serve};

const TOKEN: &str = "opens what is internal";

fn closed() -> HttpSettings {
    HttpSettings {
        is_dev: false,
        internal_token: Some(InternalToken::new(TOKEN)),
        ..HttpSettings::default()
    }
}

async fn part(part: Part) -> House {
    let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
    part_of(part, runtime, &closed())
}

fn is_internal(path: &str) -> bool {
    path.starts_with("/api/internal/")
}

fn stranger() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 7], 4000))
}

#[tokio::test]
async fn the_internal_api_is_not_there_where_it_has_a_door_of_its_own() {
    let public = part(Part::Public).await;
    let admin = token_of(&public.runtime, "default", &[Scope::Admin]).await;
    for (method, route) in routes() {
        let path = with_some_id(&route.path);
        let as_admin = public.call(&admin, method.clone(), &path, json!({})).await;
        if !is_internal(&path) {
            let is_lost = as_admin.text.contains("nothing at this address");
            assert!(!is_lost, "{method} {path}: {}", as_admin.text);
            continue;
        }
        as_admin.is_problem(ErrorCode::NotFound);
        let with_its_token = with_token(request(method.clone(), &path, "{}"), TOKEN);
        let reply = public.send(with_its_token).await;
        reply.is_problem(ErrorCode::NotFound);
        let alias = path.replace("/api/", "/noetl/");
        let reply = public.send(request(method, &alias, "{}")).await;
        reply.is_problem(ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn the_internal_door_has_nothing_else() {
    let internal = part(Part::Internal).await;
    let admin = token_of(&internal.runtime, "default", &[Scope::Admin]).await;
    for (method, route) in routes() {
        let path = with_some_id(&route.path);
        let nobody = internal.send(request(method.clone(), &path, "{}")).await;
        if is_internal(&path) {
            nobody.is_problem(ErrorCode::Forbidden);
        } else if matches!(&*path, "/livez" | "/readyz") {
            assert!(is_ok(&nobody), "{path}: {}", nobody.text);
        } else {
            nobody.is_problem(ErrorCode::Unauthenticated);
            let reply = internal.call(&admin, method, &path, json!({})).await;
            reply.is_problem(ErrorCode::NotFound);
        }
    }
    for path in ["/api/internal/cells", "/api/internal/stream/status"] {
        let asked = request(Method::GET, path, "");
        let reply = internal.send(with_token(asked, TOKEN)).await;
        assert!(is_ok(&reply), "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn metrics_need_no_token_at_their_own_door() {
    let metrics = part(Part::Metrics).await;
    for (method, route) in routes() {
        let path = with_some_id(&route.path);
        let asked = request(method.clone(), &path, "{}");
        let reply = metrics.send_from(stranger(), asked).await;
        if matches!(&*path, "/metrics" | "/livez" | "/readyz") {
            assert!(is_ok(&reply), "{path}: {}", reply.text);
        } else {
            reply.is_problem(ErrorCode::NotFound);
        }
    }
    let asked = request(Method::GET, "/metrics", "");
    let reply = metrics.send_from(stranger(), asked).await;
    assert!(reply.text.contains("noetl_build_info"), "{}", reply.text);
}

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_server_listens_at_all_its_doors() {
    let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
    let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listeners = Listeners {
        public: bind().await,
        internal: Some(bind().await),
        metrics: Some(bind().await),
    };
    let address = |listener: &TcpListener| listener.local_addr().unwrap();
    let public = address(&listeners.public);
    let internal = listeners.internal.as_ref().map(address).unwrap();
    let metrics = listeners.metrics.as_ref().map(address).unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(runtime, listeners, closed(), stop.clone()));
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
        assert_eq!(get(address, path).await, status, "{path}");
    }
    stop.cancel();
    server.await.unwrap().unwrap();
}

/// What other machines could read on the way is not said at any door.
#[tokio::test]
async fn no_door_is_open_to_others_without_encryption() {
    let open = async || Some(TcpListener::bind("0.0.0.0:0").await.unwrap());
    let here = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (internal, metrics) in [(open().await, None), (None, open().await)] {
        let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
        let listeners = Listeners {
            public: here().await,
            internal,
            metrics,
        };
        let refused = serve(runtime, listeners, closed(), CancellationToken::new()).await;
        assert!(
            matches!(refused, Err(ServeError::Plaintext(_))),
            "{refused:?}"
        );
    }
}
