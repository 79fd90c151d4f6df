//! Request bodies: limited in size and time, parsed as JSON.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use http_body_util::BodyExt as _;
use noetl_types::limits::MAX_JSON_DEPTH;
use noetl_types::{ByteSize, ErrorCode};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::time::Instant;

use super::http_error::HttpError;
use super::middleware::access::MaxBody;
use super::request_context::AppState;

/// Extractor of a JSON object.
///
/// A missing `Content-Type` is accepted, because classic clients send none. Other media types are
/// rejected.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

/// Extractor of a JSON object, or the default value if the body is empty.
#[derive(Debug)]
pub(super) struct JsonBodyOrDefault<T>(pub(super) T);

/// Extractor of a JSON array.
#[derive(Debug)]
pub(super) struct JsonListBody<T>(pub(super) Vec<T>);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonListBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, HttpError> {
        let body = read_json_bytes(request, app).await?;
        let list = serde_json::from_slice(&body);
        list.map(Self).map_err(|error| json_error::<Vec<T>>(&body, &error))
    }
}

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, HttpError> {
        let body = read_json_bytes(request, app).await?;
        parse_json_object(&body).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<AppState> for JsonBodyOrDefault<T> {
    type Rejection = HttpError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, HttpError> {
        let body = read_json_bytes(request, app).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        parse_json_object(&body).map(Self)
    }
}

async fn read_json_bytes(request: Request, app: &AppState) -> Result<Bytes, HttpError> {
    let (head, body) = request.into_parts();
    expect_json(&head.headers)?;
    read_whole_body(&head, body, app).await
}

/// Reads a body of any media type.
pub(super) async fn read_whole_body(
    head: &Parts,
    body: Body,
    app: &AppState,
) -> Result<Bytes, HttpError> {
    let max = head.extensions.get::<MaxBody>();
    let max = max.map_or(app.max_body, |max| max.0);
    if declared_length(&head.headers).is_some_and(|length| length > max.as_bytes()) {
        return Err(body_too_large(max));
    }
    read_body(body, max, app.body_timeout).await
}

fn expect_json(headers: &HeaderMap) -> Result<(), HttpError> {
    let unsupported = |text: String| Err(HttpError::new(ErrorCode::UnsupportedMedia, text));
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return unsupported("the request body must not have a Content-Encoding".to_owned());
    }
    let Some(media_type) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let media_type = media_type.to_str().unwrap_or_default();
    if is_json(media_type) {
        return Ok(());
    }
    unsupported(
        "the request body must be JSON in UTF-8: send the header Content-Type: application/json"
            .to_owned(),
    )
}

fn is_json(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_json = essence == "application/json"
        || essence.starts_with("application/") && essence.ends_with("+json");
    let is_utf8 = |parameter: &str| {
        let parameter = parameter.to_ascii_lowercase();
        let charset = parameter.strip_prefix("charset=");
        charset.is_none_or(|charset| matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
    };
    is_json && parts.all(is_utf8)
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn body_too_large(max: ByteSize) -> HttpError {
    HttpError::new(ErrorCode::TooLarge, format!("the request body is larger than {max}"))
}

/// Reads a body. The timeout grows by one second per received MiB, to distinguish a slow connection
/// from a client that only keeps the connection open.
async fn read_body(mut body: Body, max: ByteSize, timeout: Duration) -> Result<Bytes, HttpError> {
    const MIB: u64 = 1 << 20;
    let started = Instant::now();
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    loop {
        let received = first.len().max(whole.len());
        let grace = Duration::from_secs(received as u64 / MIB);
        let frame = tokio::time::timeout_at(started + timeout + grace, body.frame());
        let frame = match frame.await {
            Err(_) => return Err(HttpError::slow_client()),
            Ok(None) => break,
            Ok(Some(Err(_))) => {
                return Err(HttpError::new(ErrorCode::BadJson, "the request body is incomplete"));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if max.is_exceeded_by(received + data.len()) {
            return Err(body_too_large(max));
        }
        // Most bodies are received in one frame, which needs no copy.
        if received == 0 {
            first = data;
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(if whole.is_empty() { first } else { Bytes::from(whole) })
}

/// Parses a JSON object. On a type error, the body is parsed again to find the location.
fn parse_json_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpError> {
    let value = serde_json::from_slice(body).map_err(|error| json_error::<T>(body, &error))?;
    // serde would read an array as the fields of the struct in order, which is not intended.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(HttpError::at_pointer(
            ErrorCode::Validation,
            "",
            "the request body is not a JSON object",
        ));
    }
    Ok(value)
}

fn json_error<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> HttpError {
    if body.is_empty() {
        return HttpError::new(ErrorCode::BadJson, "the request body is empty");
    }
    if nesting_depth(body) > MAX_JSON_DEPTH {
        let text = format!("the request body is nested more than {MAX_JSON_DEPTH} levels deep");
        return HttpError::new(ErrorCode::BadJson, text);
    }
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            HttpError::bad_json(strip_position(&error.to_string()), line, column)
        }
        Category::Data => {
            let mut reader = serde_json::Deserializer::from_slice(body);
            let pointer = serde_path_to_error::deserialize::<_, T>(&mut reader)
                .err()
                .map(|error| to_json_pointer(error.path()))
                .unwrap_or_default();
            let message = strip_position(&error.to_string());
            HttpError::at_pointer(ErrorCode::Validation, &pointer, message)
        }
    }
}

/// Removes the position from the end of an error message.
fn strip_position(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(head, _)| head).to_owned()
}

/// Formats a path as JSON pointer.
fn to_json_pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}

/// Nesting depth of arrays and objects, counted by brackets.
fn nesting_depth(body: &[u8]) -> usize {
    let (mut depth, mut max_depth) = (0_usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                max_depth = max_depth.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    max_depth
}

#[cfg(test)]
mod tests;
