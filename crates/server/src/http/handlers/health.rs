//! Whether the server lives and can work.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use noetl_api::health::{Alive, Health};

use crate::http::access::Caller;
use crate::http::acting::App;
use crate::http::answer::{Answer, of_type};
use crate::http::failure::Failure;
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
    let ready = app.of_nobody().ready().await;
    let ready = ready.with_overrides(app.unsafe_settings());
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

/// What the server counts, and what the store holds. Where nobody has to be known, the operator asks.
pub(in crate::http) async fn metrics(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Failure> {
    let behalf = caller.map(|caller| caller.behalf().clone());
    let runtime = app.of_nobody().on_behalf_of(behalf.unwrap_or_default());
    let text = runtime.metrics_text().await?;
    Ok(of_type(HeaderValue::from_static(CONTENT_TYPE), text))
}
