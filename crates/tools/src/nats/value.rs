//! Conversion between JSON values and message payloads.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};

use crate::lenient::lenient_json;

/// Encodes a value: a text as is, any other value as JSON.
pub(super) fn encode_payload(value: &Json) -> Bytes {
    match value {
        Json::Str(text) => Bytes::copy_from_slice(text.as_bytes()),
        other => Bytes::from(to_canonical(other)),
    }
}

/// Decodes bytes: as JSON if they are JSON, else as text, else as base64.
pub(super) fn decode_payload(bytes: &[u8]) -> Json {
    if let Ok(value) = lenient_json(bytes) {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text.replace('\0', "\u{FFFD}")),
        Err(_) => Json::object([
            ("base64", Json::from(STANDARD.encode(bytes))),
            ("bytes", Json::from(u64::try_from(bytes.len()).unwrap_or(u64::MAX))),
        ]),
    }
}

/// Converts headers to JSON. If a name has several values, the last one is used.
pub(super) fn headers_to_json(headers: Option<&HeaderMap>) -> Json {
    let headers = headers.into_iter().flat_map(HeaderMap::iter);
    let fields = headers.filter_map(|(name, values)| {
        let last = values.last()?.as_str().replace('\0', "\u{FFFD}");
        Some((name.to_string(), Json::from(last)))
    });
    Json::object(fields)
}

/// Rejects payloads that are larger than a tool accepts.
pub(super) fn check_payload_size(bytes: usize, max_size: ByteSize) -> Result<(), TaskError> {
    if u64::try_from(bytes).unwrap_or(u64::MAX) <= max_size.as_bytes() {
        return Ok(());
    }
    let message = format!("the payload has {bytes} bytes; a task accepts at most {max_size}");
    Err(TaskError::new(TaskErrorKind::Limit, message))
}
