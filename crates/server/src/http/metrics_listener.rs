//! Metrics listener of a process that is not a server.

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

/// Maximum concurrent connections: a few scrapers and some manual requests.
const MAX_CONNECTIONS: usize = 64;
/// Maximum size of the head of a request. Bodies are not read.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of a connection.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);
/// Delay after a failed accept, for example when the process has no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Renders the metrics as text.
pub type MetricsRenderer = Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>;

/// Serves `GET /metrics` and `GET /livez` until `shutdown`. Active requests are not drained,
/// because a scrape can be repeated.
pub async fn serve_metrics(
    listener: TcpListener,
    renderer: MetricsRenderer,
    shutdown: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let accept_loop = async {
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (renderer, shutdown) = (Arc::clone(&renderer), shutdown.clone());
                    tokio::spawn(async move {
                        let serve = tokio::time::timeout(
                            MAX_CONNECTION_AGE,
                            serve_scraper(stream, renderer),
                        );
                        let _ = shutdown.run_until_cancelled(serve).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    };
    let _ = shutdown.run_until_cancelled(accept_loop).await;
}

async fn serve_scraper(stream: TcpStream, renderer: MetricsRenderer) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer_scrape(request.method(), request.uri().path(), &*renderer);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = pin!(connection).await {
        tracing::debug!(%error, "connection failed");
    }
}

fn answer_scrape(
    method: &Method,
    path: &str,
    render: &dyn Fn() -> Result<String, fmt::Error>,
) -> Response<Body> {
    let (status, media_type, text) = match (path, method) {
        (paths::METRICS, &Method::GET | &Method::HEAD) => match render() {
            Ok(text) => (StatusCode::OK, CONTENT_TYPE, text),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT_PLAIN, String::new()),
        },
        (paths::LIVEZ, &Method::GET | &Method::HEAD) => {
            (StatusCode::OK, APPLICATION_JSON, "{\"status\":\"ok\"}".to_owned())
        }
        (paths::METRICS | paths::LIVEZ, _) => {
            (StatusCode::METHOD_NOT_ALLOWED, TEXT_PLAIN, String::new())
        }
        (_, _) => (
            StatusCode::NOT_FOUND,
            TEXT_PLAIN,
            "not found; this listener serves /metrics and /livez\n".to_owned(),
        ),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let media_type = header::HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

const TEXT_PLAIN: &str = "text/plain; charset=utf-8";
const APPLICATION_JSON: &str = "application/json";

#[cfg(test)]
mod tests;
