//! Encodes spans as OTLP JSON.

use noetl_types::Json;
use serde_json::{Value, json};

use crate::services::traces::spans::Span;

const NANOS_PER_MICRO: i128 = 1000;
/// OTLP span kind `INTERNAL`.
const SPAN_KIND_INTERNAL: u8 = 1;
/// OTLP status codes.
const STATUS_OK: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// Builds an export request with spans.
pub(crate) fn export_request_body(server_name: &str, spans: &[Span]) -> Vec<u8> {
    let message = json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                attribute_to_json("service.name", &Json::from("noetl")),
                attribute_to_json("service.instance.id", &Json::from(server_name)),
            ] },
            "scopeSpans": [{
                "scope": { "name": "noetl", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans.iter().map(span_to_json).collect::<Vec<_>>(),
            }],
        }],
    });
    message.to_string().into_bytes()
}

fn span_to_json(span: &Span) -> Value {
    let nanos = |micros: i64| (i128::from(micros) * NANOS_PER_MICRO).to_string();
    let status = match &span.failure {
        None => json!({ "code": STATUS_OK }),
        Some(kind) => json!({ "code": STATUS_ERROR, "message": kind }),
    };
    let mut encoded = json!({
        "traceId": span.context.trace_id(),
        "spanId": span.context.span_id(),
        "name": span.name,
        "kind": SPAN_KIND_INTERNAL,
        "startTimeUnixNano": nanos(span.began.as_micros()),
        "endTimeUnixNano": nanos(span.ended.as_micros()),
        "attributes": span.attributes.iter().map(|(key, value)| attribute_to_json(key, value)).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = &span.parent {
        encoded["parentSpanId"] = json!(parent);
    }
    if let Some(link) = &span.link {
        encoded["links"] = json!([{ "traceId": link.trace_id(), "spanId": link.span_id() }]);
    }
    encoded
}

fn attribute_to_json(key: &str, value: &Json) -> Value {
    let value = match value.as_i64() {
        // OTLP JSON encodes integers as strings.
        Some(number) => json!({ "intValue": number.to_string() }),
        None => json!({ "stringValue": value.as_str().unwrap_or_default() }),
    };
    json!({ "key": key, "value": value })
}
