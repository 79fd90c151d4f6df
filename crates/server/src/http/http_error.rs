//! Errors of requests, and their responses.

use std::fmt;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use noetl_api::Problem;
use noetl_api::problem::{PROBLEM_JSON, ProblemDetail};
use noetl_types::{ErrorCode, Text};

use crate::error::RuntimeError;

/// Error of a request.
///
/// As a response it has no body yet: [`write_problem_body`] adds the body, which contains the
/// request id.
#[derive(Debug, Clone)]
pub(super) struct HttpError(Box<Problem>);

/// Value of `Retry-After`, in seconds.
const RETRY_AFTER_SECS: HeaderValue = HeaderValue::from_static("1");

impl HttpError {
    pub(super) fn new(code: ErrorCode, detail: impl Into<Text>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// Creates an error at one location of the body, given as JSON pointer.
    pub(super) fn at_pointer(code: ErrorCode, pointer: &str, message: impl fmt::Display) -> Self {
        let message: Text = message.to_string().into();
        let detail = if pointer.is_empty() {
            message.clone()
        } else {
            format!("{pointer}: {message}").into()
        };
        let location =
            ProblemDetail { pointer: pointer.into(), message, ..ProblemDetail::default() };
        Self(Box::new(Problem::new(code, detail).with_errors(vec![location])))
    }

    /// Creates the error for a body that is not valid JSON, with the position of the syntax error.
    pub(super) fn bad_json(message: impl Into<Text>, line: usize, column: usize) -> Self {
        let message = message.into();
        let to_u32 = |number: usize| u32::try_from(number).ok();
        let location = ProblemDetail {
            line: to_u32(line),
            column: to_u32(column),
            message: message.clone(),
            ..ProblemDetail::default()
        };
        let detail = format!("{message} at line {line} column {column}");
        Self(Box::new(Problem::new(ErrorCode::BadJson, detail).with_errors(vec![location])))
    }

    /// Creates the error for a client that sends its body too slowly. The code `timeout` does not
    /// distinguish client and server, so the status does.
    pub(super) fn slow_client() -> Self {
        let mut problem =
            Problem::new(ErrorCode::Timeout, "the request body was not received in time");
        problem.status = StatusCode::REQUEST_TIMEOUT.as_u16();
        Self(Box::new(problem))
    }

    /// True if access was denied.
    pub(super) fn is_access_denied(&self) -> bool {
        matches!(self.0.status, 401 | 403)
    }

    /// Error code, as recorded in the audit log.
    pub(super) fn code(&self) -> Text {
        self.0.code.clone()
    }

    /// Creates the error for an unexpected failure. The details are only in the server's log.
    pub(super) fn internal_error() -> Self {
        Self::new(ErrorCode::Internal, "internal error; see the server log")
    }
}

impl From<RuntimeError> for HttpError {
    fn from(error: RuntimeError) -> Self {
        Self(Box::new(error.into_problem()))
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = problem_status(&self.0);
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the problem document of an error response.
pub(super) fn write_problem_body(response: &mut Response, request_id: &str) {
    let Some(HttpError(mut problem)) = response.extensions_mut().remove::<HttpError>() else {
        return;
    };
    problem.request_id = Some(request_id.into());
    // A problem contains only strings and numbers, so serialization cannot fail.
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    // The router has set the length of the empty body.
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if problem.known_code().is_some_and(ErrorCode::has_retry_after) {
        headers.insert(RETRY_AFTER, RETRY_AFTER_SECS);
    }
    if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
        let realm = HeaderValue::from_static("Bearer realm=\"noetl\"");
        headers.insert(WWW_AUTHENTICATE, realm);
    }
}

fn problem_status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
