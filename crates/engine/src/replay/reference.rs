//! References of events to external data.

use noetl_types::json::{InvalidJson, JsonRef};
use noetl_types::replay::{PayloadRef, ReferenceSummary};
use noetl_types::{Json, Text};

use super::folded_event::FoldedEvent;

/// Returns the payload reference of an event.
pub(super) fn payload_ref(view: &FoldedEvent<'_>) -> Result<Option<PayloadRef>, InvalidJson> {
    let Some(reference) = view.reference() else {
        return Ok(None);
    };
    let reference = reference.to_json()?;
    Ok(Some(PayloadRef {
        event_id: view.number.0.to_string().into(),
        summary: summarize_reference(&reference),
        reference,
    }))
}

/// Summarizes a reference.
pub fn summarize_reference(reference: &Json) -> ReferenceSummary {
    let rows = reference.get("rows_ref");
    let sources = [
        Some(reference),
        rows.and_then(|rows| rows.get("meta")),
        rows.and_then(|rows| rows.get("ipc")),
    ];
    let find = |key: &str| {
        let mut found = sources.iter().flatten().filter_map(|source| source.get(key));
        found.find(|value| !value.is_null())
    };
    let text = |key: &str| find(key).and_then(text_from_json);
    let text_at =
        |source: Option<&Json>, key: &str| -> Option<Text> { text_from_json(source?.get(key)?) };
    ReferenceSummary {
        media_type: text("media_type"),
        r#ref: text_at(Some(reference), "ref")
            .or_else(|| text_at(rows, "ref"))
            .or_else(|| text_at(Some(reference), "uri")),
        row_count: find("row_count").and_then(|value| JsonRef::Tree(value).as_count()),
        schema_digest: text("schema_digest"),
        sha256: text("sha256").or_else(|| text("digest")),
    }
}

fn text_from_json(value: &Json) -> Option<Text> {
    JsonRef::Tree(value).as_name_or_id().map(|name| Text::from(&*name))
}
