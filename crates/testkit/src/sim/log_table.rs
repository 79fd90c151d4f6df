//! Log of an execution as a readable, comparable table.

use std::fmt::Write as _;

use noetl_engine::event::EventKind;
use noetl_engine::{Event, ExecutionHeader, encode_event};
use noetl_types::record::NewEvent;
use noetl_types::{Json, JsonMap};

/// Keys with ids, times, and values of other columns.
const OMITTED_KEYS: [&str; 20] = [
    "command_id", "loop_id", "idempotency_key", "emitted_at", "definition_sha256", "lease_until",
    "catalog_id", "execution_id", "path", "version", "step", "tool_kind", "deadline_ms",
    "call_index", "max_attempts", "not_before", "fire_at", "child_execution_id", "kept_seq",
    "signal_id",
];

/// Formats one row per event: seq, event, node, status, content. The content shows the parts of the
/// record: C `context`, R `result.context`, `ref` for data in the result store, M `meta`.
pub(super) fn format_log_table(events: &[Event], header: &ExecutionHeader) -> String {
    let mut text = String::new();
    for event in events {
        let record = encode_event(event, header);
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
            format_content(event, &record)
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

fn format_content(event: &Event, record: &NewEvent) -> String {
    let result = record.result.as_ref();
    let mut parts = Vec::new();
    for (mark, part) in [
        ("C", record.context.as_ref()),
        ("R", result.and_then(|result| result.get("context"))),
        ("M", record.meta.as_ref()),
    ] {
        let fields = part.and_then(Json::as_map).map(without_omitted_keys).unwrap_or_default();
        if !fields.is_empty() {
            parts.push(format!("{mark} {}", Json::from(fields)));
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

fn without_omitted_keys(map: &JsonMap) -> JsonMap {
    map.iter()
        .filter(|(key, value)| !OMITTED_KEYS.contains(&&***key) && **value != Json::Null)
        .map(|(key, value)| (key.clone(), compact_error(key, value)))
        .collect()
}

/// Removes the null fields of an error.
fn compact_error(key: &str, value: &Json) -> Json {
    let without_nulls = |map: &JsonMap| {
        let fields = map.iter().filter(|(_, field)| !field.is_null());
        Json::object(fields.map(|(name, field)| (name.clone(), field.clone())))
    };
    match (key, value) {
        ("error", Json::Map(map)) => without_nulls(map),
        _ => value.clone(),
    }
}
