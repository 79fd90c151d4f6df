//! Values on their way to a server and back.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};

use crate::lenient::lenient_json;

/// The bytes of a value: a text as it is, everything else as JSON.
pub(super) fn bytes(value: &Json) -> Bytes {
    match value {
        Json::Str(text) => Bytes::copy_from_slice(text.as_bytes()),
        other => Bytes::from(to_canonical(other)),
    }
}

/// The value of bytes: JSON where they are JSON, else the text, else base64.
pub(super) fn value(bytes: &[u8]) -> Json {
    if let Ok(value) = lenient_json(bytes) {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text.replace('\0', "\u{FFFD}")),
        Err(_) => Json::object([
            ("base64", Json::from(STANDARD.encode(bytes))),
            (
                "bytes",
                Json::from(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            ),
        ]),
    }
}

/// Headers by their names; of several values of one name the last one counts.
pub(super) fn headers(headers: Option<&HeaderMap>) -> Json {
    let named = headers.into_iter().flat_map(HeaderMap::iter);
    let entries = named.filter_map(|(name, values)| {
        let last = values.last()?.as_str().replace('\0', "\u{FFFD}");
        Some((name.to_string(), Json::from(last)))
    });
    Json::object(entries)
}

/// Refuses what is larger than a tool takes in.
pub(super) fn check_size(bytes: usize, most: ByteSize) -> Result<(), TaskError> {
    if u64::try_from(bytes).unwrap_or(u64::MAX) <= most.as_bytes() {
        return Ok(());
    }
    let message = format!("{bytes} bytes are more than the {most} that a task takes in");
    Err(TaskError::new(TaskErrorKind::Limit, message))
}
