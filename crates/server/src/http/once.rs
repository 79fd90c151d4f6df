//! Requests that change something have their effect once under a key, on every route alike.
//!
//! It stands between the gate and the handler: whoever may not come in hears nothing of what others
//! were answered.

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use noetl_api::paths;
use noetl_store::{Answered, RequestEnd, Taken};
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ErrorCode, EventId, Json, Text, sha256};
use serde::Serialize;

use super::access::Caller;
use super::acting::App;
use super::answer::{Answer, JSON, of_type};
use super::body::whole;
use super::failure::Failure;
use super::params::IDEMPOTENCY_KEY;
use crate::runtime::{Admitted, AtWork, Behalf, Runtime};

/// Marks an answer that was given before.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Routes whose key is part of what they write, so that no answer has to be kept beside it.
const BY_THEMSELVES: [&str; 2] = [paths::EXECUTE, paths::RESULT_PUT];

/// The largest answer that is kept. A request with a larger one is worked on again, under the same
/// id.
const MAX_KEPT: u64 = 1 << 20;

/// What is shown once: in the answer to a route, the text at this key.
const SHOWN_ONCE: [(&str, &str); 1] = [(paths::TOKENS, "token")];

/// The id that what follows from a request is known by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work(pub(super) EventId);

/// Runs a handler, unless its request is or was worked on under its key.
pub(super) async fn run(route: &'static str, request: Request, next: Next) -> Response {
    let has_key = request.headers().contains_key(IDEMPOTENCY_KEY);
    if !has_key || request.method().is_safe() || BY_THEMSELVES.contains(&route) {
        return next.run(request).await;
    }
    let Some(app) = request.extensions().get::<App>().cloned() else {
        return next.run(request).await;
    };
    match admitted(route, &app, request).await {
        Ok(Turn::Yours(yours)) => yours.worked(next).await,
        Ok(Turn::Known(response)) => response,
        Err(failure) => failure.into_response(),
    }
}

/// An answer of a route that looks after its key by itself.
#[derive(Debug)]
pub(super) struct Once<T> {
    pub(super) answer: Answer<T>,
    /// Whether it was given before.
    pub(super) is_replay: bool,
}

impl<T: Serialize> IntoResponse for Once<T> {
    fn into_response(self) -> Response {
        let response = self.answer.into_response();
        if self.is_replay {
            replayed(response)
        } else {
            response
        }
    }
}

/// Marks an answer as one that was given before.
fn replayed(mut response: Response) -> Response {
    let is_so = HeaderValue::from_static("true");
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, is_so);
    response
}

/// Whose turn it is to answer.
enum Turn {
    Yours(Box<Yours>),
    Known(Response),
}

/// A request that is to be worked on.
struct Yours {
    route: &'static str,
    runtime: Runtime,
    work: AtWork,
    request: Request,
}

async fn admitted(route: &'static str, app: &App, request: Request) -> Result<Turn, Failure> {
    let (mut head, body) = request.into_parts();
    let body = whole(&head, body, app).await?;
    let key = head.headers.get(IDEMPOTENCY_KEY);
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    // The internal API may be opened by a token that is nobody's.
    let behalf = match head.extensions.get::<Caller>() {
        Some(Ok(identity)) => identity.behalf().clone(),
        Some(Err(_)) | None => Behalf::default(),
    };
    let runtime = app.of_nobody().on_behalf_of(behalf);
    let name = Text::from(format!("{} {route}", head.method));
    let work = match runtime.admit(name, key, digest(&head, &body)).await? {
        Admitted::New(work) => work,
        Admitted::Known(known) => return known_before(known).map(Turn::Known),
    };
    head.extensions.insert(Work(work.work_id));
    Ok(Turn::Yours(Box::new(Yours {
        route,
        runtime,
        work,
        request: Request::from_parts(head, Body::from(body)),
    })))
}

fn known_before(known: Taken) -> Result<Response, Failure> {
    match known {
        Taken::Answered(answered) => Ok(replayed(answer_of(&answered))),
        Taken::UnderWay | Taken::Yours(_) => Err(Failure::new(
            ErrorCode::InFlight,
            "a request with this Idempotency-Key is still running",
        )),
        Taken::Mismatch => Err(Failure::new(
            ErrorCode::IdempotencyMismatch,
            "the idempotency key was used with another request",
        )),
    }
}

fn answer_of(answered: &Answered) -> Response {
    let body = answered.answer.as_str().unwrap_or_default().to_owned();
    let mut response = of_type(JSON, body);
    *response.status_mut() = StatusCode::from_u16(answered.status).unwrap_or_default();
    response
}

/// What a request asks for: of whom, and what. The same value may be written in many ways.
fn digest(head: &Parts, body: &Bytes) -> Digest {
    let path = head.uri.path();
    let path = path.strip_prefix("/noetl/").or(path.strip_prefix("/api/"));
    let asked = format!(
        "{} {}?{}\n",
        head.method,
        path.unwrap_or_default(),
        head.uri.query().unwrap_or_default()
    );
    let mut asked = asked.into_bytes();
    match serde_json::from_slice::<Json>(body) {
        Ok(value) => asked.extend_from_slice(&to_canonical(&value)),
        Err(_) => asked.extend_from_slice(body),
    }
    sha256(asked)
}

impl Yours {
    /// Works on it to its end, whether its sender waits for the answer or not.
    async fn worked(self, next: Next) -> Response {
        let Self {
            route,
            runtime,
            work,
            request,
        } = self;
        let (settling, given_up) = (runtime.clone(), work.clone());
        let working = runtime.carried_through(async move {
            let response = next.run(request).await;
            let (response, end) = kept(route, response, &settling).await;
            settling.settle(work, end).await;
            response
        });
        if let Ok(response) = working.await {
            return response;
        }
        tracing::error!(route, "a handler broke under an idempotency key");
        let end = unknown(&runtime);
        runtime.settle(given_up, end).await;
        Failure::internal().into_response()
    }
}

fn unknown(runtime: &Runtime) -> RequestEnd {
    RequestEnd::Unknown { now: runtime.now() }
}

/// What is kept of an answer. A refusal has changed nothing; of any other failure nobody knows.
async fn kept(
    route: &'static str,
    response: Response,
    runtime: &Runtime,
) -> (Response, RequestEnd) {
    let status = response.status();
    if status.is_client_error() {
        return (response, RequestEnd::Refused);
    }
    let size = response.body().size_hint().exact();
    if !status.is_success() || size.is_none_or(|size| size > MAX_KEPT) {
        return (response, unknown(runtime));
    }
    let (head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return (Failure::internal().into_response(), unknown(runtime));
    };
    let end = match std::str::from_utf8(&body) {
        Ok(text) => RequestEnd::Answered {
            status: status.as_u16(),
            answer: without_secret(route, text),
        },
        Err(_) => unknown(runtime),
    };
    (Response::from_parts(head, Body::from(body)), end)
}

/// An answer without what is shown once: whoever lost it makes another.
fn without_secret(route: &str, text: &str) -> Text {
    let secret = SHOWN_ONCE.iter().find(|(of, _)| *of == route);
    let Some((_, key)) = secret else {
        return text.into();
    };
    let value = serde_json::from_str::<Json>(text).unwrap_or_default();
    let mut map = value.as_map().cloned().unwrap_or_default();
    map.insert((*key).into(), Json::from("[REDACTED]"));
    serde_json::to_string(&Json::from(map))
        .unwrap_or_default()
        .into()
}
