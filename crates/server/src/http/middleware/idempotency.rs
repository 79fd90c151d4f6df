//! Idempotency keys for all routes that change something.
//!
//! Runs after authorization and before the handler, so an unauthorized caller cannot read the
//! stored response of another request.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use noetl_api::paths;
use noetl_store::{AnsweredRequest, RequestOutcome, ReserveOutcome};
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ErrorCode, EventId, Json, Text, sha256};
use serde::Serialize;

use super::access::Caller;
use crate::access::CallContext;
use crate::http::body::read_whole_body;
use crate::http::http_error::HttpError;
use crate::http::json_response::{APPLICATION_JSON, JsonResponse, typed_response};
use crate::http::params::IDEMPOTENCY_KEY;
use crate::http::request_context::AppState;
use crate::services::idempotent_requests::{ActiveRequest, RequestAdmission};
use crate::services::{ControlPlane, Infrastructure};

/// Marks a stored response of an earlier request.
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Routes that store the key with the data they write, so the response need not be stored.
const SELF_KEYED_ROUTES: [&str; 2] = [paths::EXECUTE, paths::RESULT_PUT];

/// Maximum size of a stored response. A repeated request with a larger response is executed again,
/// under the same work id.
const MAX_STORED_BYTES: u64 = 1 << 20;

/// Response fields, by route, that contain a secret and are never stored.
const UNSTORED_SECRETS: [(&str, &str); 1] = [(paths::TOKENS, "token")];

/// Id of the effects of a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct RequestWorkId(pub(in crate::http) EventId);

/// Runs a handler, unless a request with the same idempotency key is running or has finished.
pub(in crate::http) async fn run_idempotent(
    route: &'static str,
    request: Request,
    next: Next,
) -> Response {
    let has_key = request.headers().contains_key(IDEMPOTENCY_KEY);
    if !has_key || request.method().is_safe() || SELF_KEYED_ROUTES.contains(&route) {
        return next.run(request).await;
    }
    let Some(app) = request.extensions().get::<AppState>().cloned() else {
        return next.run(request).await;
    };
    match admit_request(route, &app, request).await {
        Ok(IdempotencyDecision::Execute(keyed)) => keyed.execute_to_end(next).await,
        Ok(IdempotencyDecision::Replay(response)) => response,
        Err(error) => error.into_response(),
    }
}

/// Response of a route that handles its idempotency key itself.
#[derive(Debug)]
pub(in crate::http) struct IdempotentResponse<T> {
    pub(in crate::http) response: JsonResponse<T>,
    /// True if this is the response of an earlier request.
    pub(in crate::http) is_replay: bool,
}

impl<T: Serialize> IntoResponse for IdempotentResponse<T> {
    fn into_response(self) -> Response {
        let response = self.response.into_response();
        if self.is_replay { mark_replayed(response) } else { response }
    }
}

/// Marks a response as that of an earlier request.
fn mark_replayed(mut response: Response) -> Response {
    let value = HeaderValue::from_static("true");
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, value);
    response
}

/// Decision about a request with an idempotency key.
enum IdempotencyDecision {
    Execute(Box<KeyedRequest>),
    Replay(Response),
}

/// A request with an idempotency key, to be executed now.
struct KeyedRequest {
    route: &'static str,
    services: Arc<ControlPlane>,
    work: ActiveRequest,
    request: Request,
}

async fn admit_request(
    route: &'static str,
    app: &AppState,
    request: Request,
) -> Result<IdempotencyDecision, HttpError> {
    let (mut head, body) = request.into_parts();
    let body = read_whole_body(&head, body, app).await?;
    let key = head.headers.get(IDEMPOTENCY_KEY);
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    // The token of the internal API belongs to no identity.
    let ctx = match head.extensions.get::<Caller>() {
        Some(Ok(identity)) => CallContext::from(identity.auth_context().clone()),
        Some(Err(_)) | None => CallContext::default(),
    };
    let operation = Text::from(format!("{} {route}", head.method));
    let digest = request_digest(&head, &body);
    let requests = &app.services().idempotent_requests;
    let work = match requests.admit_request(&ctx, operation, key, digest).await? {
        RequestAdmission::New(work) => work,
        RequestAdmission::Known(outcome) => {
            return replay_response(outcome).map(IdempotencyDecision::Replay);
        }
    };
    head.extensions.insert(RequestWorkId(work.work_id));
    Ok(IdempotencyDecision::Execute(Box::new(KeyedRequest {
        route,
        services: Arc::clone(app.services()),
        work,
        request: Request::from_parts(head, Body::from(body)),
    })))
}

fn replay_response(outcome: ReserveOutcome) -> Result<Response, HttpError> {
    match outcome {
        ReserveOutcome::Answered(answered) => Ok(mark_replayed(stored_response(&answered))),
        ReserveOutcome::InProgress | ReserveOutcome::Reserved(_) => Err(HttpError::new(
            ErrorCode::InFlight,
            "a request with this Idempotency-Key is still running",
        )),
        ReserveOutcome::Mismatch => Err(HttpError::new(
            ErrorCode::IdempotencyMismatch,
            "the Idempotency-Key was already used for a different request",
        )),
    }
}

fn stored_response(answered: &AnsweredRequest) -> Response {
    let body = answered.answer.as_str().unwrap_or_default().to_owned();
    let mut response = typed_response(APPLICATION_JSON, body);
    *response.status_mut() = StatusCode::from_u16(answered.status).unwrap_or_default();
    response
}

/// Digest of a request. JSON bodies are canonicalized, so formatting does not matter.
fn request_digest(head: &Parts, body: &Bytes) -> Digest {
    let path = head.uri.path();
    let path = path.strip_prefix("/noetl/").or(path.strip_prefix("/api/"));
    let content = format!(
        "{} {}?{}\n",
        head.method,
        path.unwrap_or_default(),
        head.uri.query().unwrap_or_default()
    );
    let mut content = content.into_bytes();
    match serde_json::from_slice::<Json>(body) {
        Ok(value) => content.extend_from_slice(&to_canonical(&value)),
        Err(_) => content.extend_from_slice(body),
    }
    sha256(content)
}

impl KeyedRequest {
    /// Runs the handler to completion, even if the client disconnects.
    async fn execute_to_end(self, next: Next) -> Response {
        let Self { route, services, work, request } = self;
        let (task_services, failed_work) = (Arc::clone(&services), work.clone());
        let task = services.infra.tasks.spawn(async move {
            let requests = &task_services.idempotent_requests;
            let response = tokio::select! {
                response = next.run(request) => response,
                never = requests.renew_reservation(&work) => match never {},
            };
            let (response, outcome) = stored_outcome(route, response, &task_services.infra).await;
            requests.complete_request(work, outcome).await;
            response
        });
        if let Ok(response) = task.await {
            return response;
        }
        tracing::error!(
            route,
            "handler panicked while processing a request with an idempotency key"
        );
        let outcome = unknown_outcome(&services.infra);
        services.idempotent_requests.complete_request(failed_work, outcome).await;
        HttpError::internal_error().into_response()
    }
}

fn unknown_outcome(infra: &Infrastructure) -> RequestOutcome {
    RequestOutcome::Unknown { retry_at: infra.now() }
}

/// Decides how to store the outcome of a request. A client error has changed nothing. The effect of
/// any other failure is unknown.
async fn stored_outcome(
    route: &'static str,
    response: Response,
    infra: &Infrastructure,
) -> (Response, RequestOutcome) {
    let status = response.status();
    if status.is_client_error() {
        return (response, RequestOutcome::Refused);
    }
    let size = response.body().size_hint().exact();
    if !status.is_success() || size.is_none_or(|size| size > MAX_STORED_BYTES) {
        return (response, unknown_outcome(infra));
    }
    let (head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return (HttpError::internal_error().into_response(), unknown_outcome(infra));
    };
    let outcome = match std::str::from_utf8(&body) {
        Ok(text) => RequestOutcome::Answered {
            status: status.as_u16(),
            answer: redact_response(route, text),
        },
        Err(_) => unknown_outcome(infra),
    };
    (Response::from_parts(head, Body::from(body)), outcome)
}

/// Removes the secret from a response to be stored. A client that lost it must create a new one.
fn redact_response(route: &str, text: &str) -> Text {
    let secret = UNSTORED_SECRETS.iter().find(|(secret_route, _)| *secret_route == route);
    let Some((_, key)) = secret else {
        return text.into();
    };
    let value = serde_json::from_str::<Json>(text).unwrap_or_default();
    let mut map = value.as_map().cloned().unwrap_or_default();
    map.insert((*key).into(), Json::from("[REDACTED]"));
    serde_json::to_string(&Json::from(map)).unwrap_or_default().into()
}
