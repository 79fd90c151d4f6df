//! What every request goes through, whatever its route: a name, an identity, and an answer, even
//! where a handler breaks.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;
use tower::Service as _;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::capability;
use super::door::{Doorman, Visit};
use super::failure::{self, Failure};
use super::peer::Peer;
use super::request_id::{RequestIds, X_REQUEST_ID};

const NO_SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// The router, and what stands before it.
pub(super) struct Front {
    router: Router,
    door: Doorman,
    request_ids: RequestIds,
}

impl Front {
    pub(super) fn new(router: Router, door: Doorman) -> Self {
        Self {
            router,
            door,
            request_ids: RequestIds::new(),
        }
    }

    /// Answers a request. Whatever is logged on the way says of which request it is, whose as soon as
    /// that is known, and by the gate of its route about which run.
    pub(super) async fn answer(&self, peer: &Peer, request: Request<Body>) -> Response {
        let request_id = self.request_ids.of(request.headers());
        let span = tracing::warn_span!(
            "request",
            request_id = request_id.to_str().unwrap_or_default(),
            tenant = Empty,
            actor = Empty,
            execution_id = Empty,
        );
        self.answered(peer, request, request_id, &span)
            .instrument(span.clone())
            .await
    }

    async fn answered(
        &self,
        peer: &Peer,
        mut request: Request<Body>,
        request_id: HeaderValue,
        span: &Span,
    ) -> Response {
        let page = self.door.page(&request);
        let capability = capability::take(&mut request);
        let head = (request.uri(), request.headers());
        let caller = self.door.caller(peer, head, capability).await;
        let visit = Visit::of(peer, request.method(), request.uri(), &caller);
        request.extensions_mut().insert(caller);
        let started = tracing::enabled!(tracing::Level::DEBUG).then(Instant::now);
        let name = request_id.to_str().unwrap_or_default();
        visit.tell(span);
        request.extensions_mut().insert(span.clone());
        let mut response = match page.preflight() {
            Some(response) => response,
            None => self.routed(request, name).await,
        };
        if let Some(started) = started {
            log(&visit, started, &response, name);
        }
        let noteworthy = self.door.noteworthy(&visit, &response);
        if let Some(noteworthy) = noteworthy
            && let Err(failure) = noteworthy.note().await
        {
            response = failure.into_response();
        }
        failure::told(&mut response, name);
        let headers = response.headers_mut();
        page.tell(headers);
        headers.insert(X_REQUEST_ID, request_id);
        headers.insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        response
    }

    /// Hands a request to its route. A handler that panics fails its own request only.
    async fn routed(&self, request: Request<Body>, request_id: &str) -> Response {
        let mut router = self.router.clone();
        let mut answer = pin!(router.call(request));
        let answered: Result<Result<Response, Infallible>, _> = poll_fn(|cx| {
            // What a panic leaves half done belongs to this request and is dropped with it.
            match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await;
        match answered {
            Ok(Ok(response)) => response,
            Err(_) => {
                tracing::error!(request_id, "a handler panicked");
                Failure::internal().into_response()
            }
        }
    }
}

/// Writes a line of the access log. It has no query, which may hold what no log should, and no body.
fn log(visit: &Visit, started: Instant, response: &Response, request_id: &str) {
    tracing::debug!(
        method = %visit.method(),
        path = visit.uri().path(),
        status = response.status().as_u16(),
        elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        request_id,
        "request"
    );
}
