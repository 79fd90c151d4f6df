//! The log of a run as a table that people can read and compare.

use std::fmt::Write as _;

use noetl_engine::event::EventKind;
use noetl_engine::{Event, ExecutionHeader, encode};
use noetl_types::record::NewEvent;
use noetl_types::{Json, JsonMap};

/// Keys that only tell ids, times and what stands in other columns.
const NOISE: [&str; 20] = [
    "command_id",
    "loop_id",
    "idempotency_key",
    "emitted_at",
    "definition_sha256",
    "lease_until",
    "catalog_id",
    "execution_id",
    "path",
    "version",
    "step",
    "tool_kind",
    "deadline_ms",
    "call_index",
    "max_attempts",
    "not_before",
    "fire_at",
    "child_execution_id",
    "kept_seq",
    "signal_id",
];

/// One row for each event: seq, event, node, status, content. The content is told by the parts of
/// the record: C `context`, R `result.context`, `ref` for data in the result store, M `meta`.
pub(super) fn table(events: &[Event], header: &ExecutionHeader) -> String {
    let mut text = String::new();
    for event in events {
        let record = encode(event, header);
        let node = match record.node_type.as_deref() {
            Some("execution") => "-",
            _ => record.node_name.as_deref().unwrap_or("-"),
        };
        let row = format!(
            "{:>3}  {:<22} {:<10} {:<10} {}",
            event.seq.get(),
            record.event_type.as_str(),
            node,
            record.status.as_str(),
            content(event, &record)
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

fn content(event: &Event, record: &NewEvent) -> String {
    let result = record.result.as_ref();
    let mut parts = Vec::new();
    for (mark, part) in [
        ("C", record.context.as_ref()),
        ("R", result.and_then(|result| result.get("context"))),
        ("M", record.meta.as_ref()),
    ] {
        let told = part
            .and_then(Json::as_map)
            .map(without_noise)
            .unwrap_or_default();
        if !told.is_empty() {
            parts.push(format!("{mark} {}", Json::from(told)));
        }
    }
    if result.is_some_and(|result| result.get("reference").is_some()) {
        parts.push("ref".to_owned());
    }
    if let EventKind::CommandIssued(issued) = &event.kind {
        parts.push(issued.tool.to_string());
    }
    parts.join("  ")
}

fn without_noise(map: &JsonMap) -> JsonMap {
    map.iter()
        .filter(|(key, value)| !NOISE.contains(&&***key) && **value != Json::Null)
        .map(|(key, value)| (key.clone(), short_error(key, value)))
        .collect()
}

/// An error without the fields that it does not have.
fn short_error(key: &str, value: &Json) -> Json {
    let told = |map: &JsonMap| {
        let fields = map.iter().filter(|(_, field)| !field.is_null());
        Json::object(fields.map(|(name, field)| (name.clone(), field.clone())))
    };
    match (key, value) {
        ("error", Json::Map(map)) => told(map),
        _ => value.clone(),
    }
}
