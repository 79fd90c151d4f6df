//! A listener for Prometheus alone, of a process that is no server.

use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Response, StatusCode, header};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use noetl_api::paths;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::metrics::CONTENT_TYPE;

/// Connections at once: a few scrapers, and who looks beside them.
const MAX_CONNECTIONS: usize = 64;
/// Bytes of the head of a request; there is no body that anybody reads.
const MAX_HEAD: usize = 16 << 10;
/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may last, whatever goes on with it.
const LONGEST: Duration = Duration::from_mins(5);
/// How long to wait when no connection can be taken, such as when no file can be opened.
const BREATH: Duration = Duration::from_millis(50);

/// Makes what a scrape gets.
pub type Scraped = Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>;

/// Answers `GET /metrics` and `GET /livez` until `shutdown`, then leaves: nothing there is worth waiting
/// for.
pub async fn serve_scrapes(listener: TcpListener, scraped: Scraped, shutdown: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let taking = async {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (scraped, shutdown) = (Arc::clone(&scraped), shutdown.clone());
                    tokio::spawn(async move {
                        let talk = tokio::time::timeout(LONGEST, talk(stream, scraped));
                        let _ = shutdown.run_until_cancelled(talk).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    };
    let _ = shutdown.run_until_cancelled(taking).await;
}

async fn talk(stream: TcpStream, scraped: Scraped) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &*scraped);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = pin!(connection).await {
        tracing::debug!(%error, "a connection broke");
    }
}

fn answer(
    method: &Method,
    path: &str,
    scraped: &dyn Fn() -> Result<String, fmt::Error>,
) -> Response<Body> {
    let (status, kind, text) = match (path, method) {
        (paths::METRICS, &Method::GET | &Method::HEAD) => match scraped() {
            Ok(text) => (StatusCode::OK, CONTENT_TYPE, text),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, String::new()),
        },
        (paths::LIVEZ, &Method::GET | &Method::HEAD) => {
            (StatusCode::OK, JSON, "{\"status\":\"ok\"}".to_owned())
        }
        (paths::METRICS | paths::LIVEZ, _) => (StatusCode::METHOD_NOT_ALLOWED, TEXT, String::new()),
        (_, _) => (
            StatusCode::NOT_FOUND,
            TEXT,
            "here are /metrics and /livez\n".to_owned(),
        ),
    };
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &Method, path: &str) -> (u16, String) {
        let scraped = || Ok("noetl_build_info 1\n".to_owned());
        let answer = answer(method, path, &scraped);
        let kind = answer.headers()[header::CONTENT_TYPE].to_str().unwrap();
        (answer.status().as_u16(), kind.to_owned())
    }

    #[test]
    fn only_metrics_and_life_are_told() {
        assert_eq!(
            asked(&Method::GET, "/metrics"),
            (200, CONTENT_TYPE.to_owned())
        );
        assert_eq!(asked(&Method::GET, "/livez").0, 200);
        assert_eq!(asked(&Method::POST, "/metrics").0, 405);
        assert_eq!(asked(&Method::GET, "/api/executions").0, 404);
    }
}
