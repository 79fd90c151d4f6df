//! A request that failed, on its way to the client.

use std::fmt;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use noetl_api::Problem;
use noetl_api::problem::{Detail, PROBLEM_JSON};
use noetl_types::{ErrorCode, Text};

use crate::runtime::RuntimeError;

/// Why a request failed.
///
/// As an answer it has no body yet: [`told`] writes it, once the id of the request is at hand.
#[derive(Debug, Clone)]
pub(super) struct Failure(Box<Problem>);

/// Seconds after which a request that came at a bad time may be made again.
const COME_BACK: HeaderValue = HeaderValue::from_static("1");

impl Failure {
    pub(super) fn new(code: ErrorCode, detail: impl Into<Text>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// A failure that lies at one place of the body.
    pub(super) fn at(code: ErrorCode, pointer: &str, message: impl fmt::Display) -> Self {
        let message: Text = message.to_string().into();
        let detail = if pointer.is_empty() {
            message.clone()
        } else {
            format!("{pointer}: {message}").into()
        };
        let place = Detail {
            pointer: pointer.into(),
            message,
            ..Detail::default()
        };
        Self(Box::new(
            Problem::new(code, detail).with_errors(vec![place]),
        ))
    }

    /// A body that is no JSON, and where it stops being so.
    pub(super) fn bad_json(message: impl Into<Text>, line: usize, column: usize) -> Self {
        let message = message.into();
        let number = |number: usize| u32::try_from(number).ok();
        let place = Detail {
            line: number(line),
            column: number(column),
            message: message.clone(),
            ..Detail::default()
        };
        let detail = format!("{message} at line {line} column {column}");
        Self(Box::new(
            Problem::new(ErrorCode::BadJson, detail).with_errors(vec![place]),
        ))
    }

    /// A client that took too long. The codes know only of servers that did, so the status says
    /// which of the two it was.
    pub(super) fn slow_client() -> Self {
        let mut problem = Problem::new(ErrorCode::Timeout, "the body did not come in time");
        problem.status = StatusCode::REQUEST_TIMEOUT.as_u16();
        Self(Box::new(problem))
    }

    /// Whether it says that somebody may not come in.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.0.status, 401 | 403)
    }

    /// The code, as trails tell it.
    pub(super) fn code(&self) -> Text {
        self.0.code.clone()
    }

    /// A handler broke. What happened is for the operator's log.
    pub(super) fn internal() -> Self {
        Self::new(
            ErrorCode::Internal,
            "something broke here; see the server's log",
        )
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self(Box::new(error.into_problem()))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status(&self.0);
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of an answer that is a failure.
pub(super) fn told(response: &mut Response, request_id: &str) {
    let Some(Failure(mut problem)) = response.extensions_mut().remove::<Failure>() else {
        return;
    };
    problem.request_id = Some(request_id.into());
    // A problem holds nothing but texts and numbers, so it can always be written.
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    // The router has noted the length of the body that was not there yet.
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if problem
        .known_code()
        .is_some_and(ErrorCode::wants_retry_after)
    {
        headers.insert(RETRY_AFTER, COME_BACK);
    }
    if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
        let realm = HeaderValue::from_static("Bearer realm=\"noetl\"");
        headers.insert(WWW_AUTHENTICATE, realm);
    }
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
