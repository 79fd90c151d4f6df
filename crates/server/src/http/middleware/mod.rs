//! Processing common to all requests: request id, authentication, CORS, audit, and a response even
//! if the handler panics.

pub(in crate::http) mod access;
pub(in crate::http) mod authenticator;
pub(in crate::http) mod command_token_path;
pub(in crate::http) mod cors;
pub(in crate::http) mod idempotency;
pub(in crate::http) mod identity;
pub(in crate::http) mod internal_token;
pub(in crate::http) mod rate_limit;
pub(in crate::http) mod request_id;

use std::any::Any;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;
use tower::Service as _;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::http::http_error::{self, HttpError};
use authenticator::ClientPeer;
use authenticator::{Authenticator, RequestInfo};
use identity::{RejectedToken, has_token};
use request_id::{RequestIdGenerator, X_REQUEST_ID};

const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// The router with the processing common to all requests.
pub(in crate::http) struct RequestPipeline {
    router: Router,
    authenticator: Authenticator,
    id_generator: RequestIdGenerator,
}

impl RequestPipeline {
    pub(in crate::http) fn new(router: Router, authenticator: Authenticator) -> Self {
        let router = router.layer(CatchPanicLayer::custom(handle_panic));
        Self { router, authenticator, id_generator: RequestIdGenerator::new() }
    }

    /// Handles a request inside a span, so that every log line has its request id. The tenant and
    /// the actor are added after authentication, the execution id by [`authorize_route`].
    ///
    /// [`authorize_route`]: access::authorize_route
    pub(in crate::http) async fn handle_request(
        &self,
        peer: &ClientPeer,
        request: Request<Body>,
    ) -> Response {
        let request_id = self.id_generator.id_for_request(request.headers());
        let span = tracing::warn_span!(
            "request",
            request_id = request_id.to_str().unwrap_or_default(),
            tenant = Empty,
            actor = Empty,
            execution_id = Empty,
        );
        self.handle_in_span(peer, request, request_id, &span).instrument(span.clone()).await
    }

    async fn handle_in_span(
        &self,
        peer: &ClientPeer,
        mut request: Request<Body>,
        request_id: HeaderValue,
        span: &Span,
    ) -> Response {
        let cors = self.authenticator.cors_request(&request);
        let command_token = command_token_path::take_command_token(&mut request);
        let has_credential = command_token.is_some() || has_token(request.headers());
        let caller = self
            .authenticator
            .authenticate_request(peer, request.uri(), request.headers(), command_token)
            .await;
        let info = RequestInfo::from_parts(peer, request.method(), request.uri(), &caller);
        let is_guess = has_credential && caller.as_ref().is_err_and(HttpError::is_access_denied);
        request.extensions_mut().insert(caller);
        let started = tracing::enabled!(tracing::Level::DEBUG).then(Instant::now);
        let id_text = request_id.to_str().unwrap_or_default();
        info.record_in_span(span);
        request.extensions_mut().insert(span.clone());
        let mut response = match cors.preflight_response() {
            Some(response) => response,
            None => self.call_router(request).await,
        };
        if is_guess || response.extensions().get::<RejectedToken>().is_some() {
            response = self.authenticator.limit_guesses(peer, response);
        }
        if let Some(started) = started {
            log_request(&info, started, &response, id_text);
        }
        let audit = self.authenticator.audit_request(&info, &response);
        if let Some(audit) = audit
            && let Err(error) = audit.record_request().await
        {
            response = error.into_response();
        }
        http_error::write_problem_body(&mut response, id_text);
        let headers = response.headers_mut();
        cors.add_headers(headers);
        headers.insert(X_REQUEST_ID, request_id);
        headers.insert(CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn call_router(&self, request: Request<Body>) -> Response {
        let Ok(response) = self.router.clone().call(request).await;
        response
    }
}

/// Fails the request whose handler panicked. State that the panic leaves inconsistent belongs to
/// this request and is dropped with it.
fn handle_panic(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("handler panicked");
    HttpError::internal_error().into_response()
}

/// Writes a line of the access log, without query and body, which may contain secrets.
fn log_request(info: &RequestInfo, started: Instant, response: &Response, request_id: &str) {
    tracing::debug!(
        method = %info.method(),
        path = info.uri().path(),
        status = response.status().as_u16(),
        elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        request_id,
        "request"
    );
}
