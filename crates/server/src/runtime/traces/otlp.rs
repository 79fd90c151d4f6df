//! Spans as OTLP has them, in JSON.

use noetl_types::Json;
use serde_json::{Value, json};

use super::spans::Span;

/// Nanoseconds of a microsecond.
const NANOS: i128 = 1000;
/// Of the words of OTLP: something that happens inside.
const INTERNAL: u8 = 1;
/// Of the words of OTLP: how a span ended.
const WELL: u8 = 1;
const FAILED: u8 = 2;

/// A message with spans.
pub(super) fn body(server_name: &str, spans: &[Span]) -> Vec<u8> {
    let message = json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                attribute("service.name", &Json::from("noetl")),
                attribute("service.instance.id", &Json::from(server_name)),
            ] },
            "scopeSpans": [{
                "scope": { "name": "noetl", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans.iter().map(told).collect::<Vec<_>>(),
            }],
        }],
    });
    message.to_string().into_bytes()
}

fn told(span: &Span) -> Value {
    let nanos = |micros: i64| (i128::from(micros) * NANOS).to_string();
    let status = match &span.failure {
        None => json!({ "code": WELL }),
        Some(kind) => json!({ "code": FAILED, "message": kind }),
    };
    let mut told = json!({
        "traceId": span.context.trace_id(),
        "spanId": span.context.span_id(),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.began.as_micros()),
        "endTimeUnixNano": nanos(span.ended.as_micros()),
        "attributes": span.facts.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = &span.parent {
        told["parentSpanId"] = json!(parent);
    }
    if let Some(link) = &span.link {
        told["links"] = json!([{ "traceId": link.trace_id(), "spanId": link.span_id() }]);
    }
    told
}

fn attribute(key: &str, value: &Json) -> Value {
    let value = match value.as_i64() {
        // Whole numbers are texts in this form of OTLP.
        Some(number) => json!({ "intValue": number.to_string() }),
        None => json!({ "stringValue": value.as_str().unwrap_or_default() }),
    };
    json!({ "key": key, "value": value })
}
