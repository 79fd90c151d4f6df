//! Data that events refer to, and what their references tell about it.

use noetl_types::json::{JsonRef, NoJson};
use noetl_types::replay::{PayloadRef, ReferenceSummary};
use noetl_types::{Json, Text};

use super::about::About;

/// What an event refers to.
pub(super) fn payload_ref(about: &About<'_>) -> Result<Option<PayloadRef>, NoJson> {
    let Some(reference) = about.reference() else {
        return Ok(None);
    };
    let reference = reference.to_json()?;
    Ok(Some(PayloadRef {
        event_id: about.number.0.to_string().into(),
        summary: summary_of(&reference),
        reference,
    }))
}

/// What a reference tells about its data.
pub fn summary_of(reference: &Json) -> ReferenceSummary {
    let rows = reference.get("rows_ref");
    let places = [
        Some(reference),
        rows.and_then(|rows| rows.get("meta")),
        rows.and_then(|rows| rows.get("ipc")),
    ];
    let find = |key: &str| {
        let mut found = places.iter().flatten().filter_map(|place| place.get(key));
        found.find(|value| !value.is_null())
    };
    let text = |key: &str| find(key).and_then(text_of);
    let own = |place: Option<&Json>, key: &str| -> Option<Text> { text_of(place?.get(key)?) };
    ReferenceSummary {
        media_type: text("media_type"),
        r#ref: own(Some(reference), "ref")
            .or_else(|| own(rows, "ref"))
            .or_else(|| own(Some(reference), "uri")),
        row_count: find("row_count").and_then(|it| JsonRef::Tree(it).number()),
        schema_digest: text("schema_digest"),
        sha256: text("sha256").or_else(|| text("digest")),
    }
}

fn text_of(value: &Json) -> Option<Text> {
    JsonRef::Tree(value).word().map(|word| Text::from(&*word))
}
