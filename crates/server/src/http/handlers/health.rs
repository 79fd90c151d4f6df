//! Whether the server lives and can work.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use noetl_api::health::{Alive, Health};

use crate::http::access::Caller;
use crate::http::answer::{Answer, of_type};
use crate::http::failure::Failure;
use crate::http::routes::App;
use crate::metrics::CONTENT_TYPE;

/// The process answers, so it lives. Touches nothing.
pub(in crate::http) async fn alive() -> Answer<Alive> {
    Answer(Alive { status: Health::Ok })
}

/// Whether requests can be served. What is wrong is told to who shows an identity.
pub(in crate::http) async fn ready(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let ready = app.runtime.ready().await;
    let ready = if caller.is_ok() {
        ready
    } else {
        ready.without_reasons()
    };
    let is_failed = ready.status == Health::Failed;
    let mut response = Answer(ready).into_response();
    if is_failed {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// What the server counts, and what the store holds.
pub(in crate::http) async fn metrics(State(app): State<App>) -> Result<Response, Failure> {
    let text = app.runtime.metrics_text().await?;
    Ok(of_type(HeaderValue::from_static(CONTENT_TYPE), text))
}
