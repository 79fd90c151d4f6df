//! Bodies of requests: read up to a bound, within a time, as JSON.

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

use super::access::MaxBody;
use super::acting::App;
use super::failure::Failure;

/// A body that is JSON.
///
/// A request that does not say what its body is counts as JSON too, as classic clients have it; one
/// that says something else is refused.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

/// The same, where no body at all means all the defaults.
#[derive(Debug)]
pub(super) struct JsonBodyOrDefault<T>(pub(super) T);

/// A body that is a list.
#[derive(Debug)]
pub(super) struct JsonListBody<T>(pub(super) Vec<T>);

impl<T: DeserializeOwned> FromRequest<App> for JsonListBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let body = bytes_of(request, app).await?;
        let list = serde_json::from_slice(&body);
        list.map(Self)
            .map_err(|error| refusal::<Vec<T>>(&body, &error))
    }
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let body = bytes_of(request, app).await?;
        parse(&body).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for JsonBodyOrDefault<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let body = bytes_of(request, app).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        parse(&body).map(Self)
    }
}

async fn bytes_of(request: Request, app: &App) -> Result<Bytes, Failure> {
    let (head, body) = request.into_parts();
    expect_json(&head.headers)?;
    whole(&head, body, app).await
}

/// All of a body, whatever it is.
pub(super) async fn whole(head: &Parts, body: Body, app: &App) -> Result<Bytes, Failure> {
    let most = head.extensions.get::<MaxBody>();
    let most = most.map_or(app.max_body, |most| most.0);
    if told_length(&head.headers).is_some_and(|told| told > most.as_bytes()) {
        return Err(too_large(most));
    }
    read(body, most, app.body_timeout).await
}

fn expect_json(headers: &HeaderMap) -> Result<(), Failure> {
    let refused = |what: String| Err(Failure::new(ErrorCode::UnsupportedMedia, what));
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return refused("a body must come as it is, without content-encoding".to_owned());
    }
    let Some(told) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let told = told.to_str().unwrap_or_default();
    if is_json(told) {
        return Ok(());
    }
    refused(
        "a body must be application/json in UTF-8: send the header Content-Type: application/json"
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

fn told_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(most: ByteSize) -> Failure {
    Failure::new(
        ErrorCode::TooLarge,
        format!("the body has more than {most}"),
    )
}

/// Reads a body. Who sends much has a second more for each MiB that came, so that a slow line is
/// told from a client that only holds on.
async fn read(mut body: Body, most: ByteSize, timeout: Duration) -> Result<Bytes, Failure> {
    const MIB: u64 = 1 << 20;
    let started = Instant::now();
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    loop {
        let came = first.len().max(whole.len());
        let grace = Duration::from_secs(came as u64 / MIB);
        let frame = tokio::time::timeout_at(started + timeout + grace, body.frame());
        let frame = match frame.await {
            Err(_) => return Err(Failure::slow_client()),
            Ok(None) => break,
            Ok(Some(Err(_))) => {
                return Err(Failure::new(ErrorCode::BadJson, "the body was cut off"));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if most.is_exceeded_by(came + data.len()) {
            return Err(too_large(most));
        }
        // Most bodies come in one piece, which needs no copy.
        if came == 0 {
            first = data;
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(if whole.is_empty() {
        first
    } else {
        Bytes::from(whole)
    })
}

/// Reads JSON. Where it is not what it should be, it is read again to find the place.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let value = serde_json::from_slice(body).map_err(|error| refusal::<T>(body, &error))?;
    // A list would be taken for the fields of the body in their order, which nobody means.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Failure::at(
            ErrorCode::Validation,
            "",
            "the body is no object",
        ));
    }
    Ok(value)
}

fn refusal<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Failure {
    if body.is_empty() {
        return Failure::new(ErrorCode::BadJson, "the body is empty");
    }
    if depth(body) > MAX_JSON_DEPTH {
        let text = format!("the body is nested more than {MAX_JSON_DEPTH} levels deep");
        return Failure::new(ErrorCode::BadJson, text);
    }
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            Failure::bad_json(without_place(&error.to_string()), line, column)
        }
        Category::Data => {
            let mut reader = serde_json::Deserializer::from_slice(body);
            let pointer = serde_path_to_error::deserialize::<_, T>(&mut reader)
                .err()
                .map(|error| pointer(error.path()))
                .unwrap_or_default();
            let message = without_place(&error.to_string());
            Failure::at(ErrorCode::Validation, &pointer, message)
        }
    }
}

/// The message of an error without the place at its end.
fn without_place(message: &str) -> String {
    message
        .rsplit_once(" at line ")
        .map_or(message, |(head, _)| head)
        .to_owned()
}

/// A path as a JSON pointer.
fn pointer(path: &serde_path_to_error::Path) -> String {
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

/// How deep lists and maps lie in each other, as far as brackets tell.
fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for json in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"; x=1",
            "application/cloudevents+json",
        ] {
            assert!(is_json(json), "{json}");
        }
        for other in [
            "",
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
            "application/jsonl",
        ] {
            assert!(!is_json(other), "{other}");
        }
    }

    #[test]
    fn depth_is_that_of_brackets_outside_of_texts() {
        assert_eq!(depth(br#"{"a":[1,[2]],"b":"[[[[\"[[","c":{}}"#), 3);
        assert_eq!(depth(b"]]]]["), 1);
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_put_together_up_to_its_bound() {
        let most = ByteSize::from_bytes(6);
        let time = Duration::from_secs(1);
        assert_eq!(
            read(Body::from("abcdef"), most, time).await.unwrap(),
            "abcdef"
        );
        assert!(read(Body::from("abcdefg"), most, time).await.is_err());
        assert_eq!(read(Body::empty(), most, time).await.unwrap(), "");
    }
}
