//! Table rows, styles and notes of events.

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, Json, Millis};

use crate::output::{TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::truncate_to_width;

/// Maximum characters of a note.
const MAX_NOTE_CHARS: usize = 200;

pub(super) fn event_table(events: &[EventView], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("SEQ").align_right(),
        TableColumn::new("TIME"),
        TableColumn::new("EVENT"),
        TableColumn::new("STEP").shrinkable(),
        TableColumn::new("STATUS").wide_only(),
        TableColumn::new("NOTE").shrinkable(),
    ]);
    for event in events {
        table.add_row([
            event.seq.to_string().into(),
            times.format_time(event.created_at).into(),
            TableCell::styled(event.event_type.as_str(), event_style(event)),
            event.node_name.as_deref().unwrap_or("-").into(),
            event.status.as_str().into(),
            event_note(event).into(),
        ]);
    }
    table
}

pub(super) fn event_style(event: &EventView) -> anstyle::Style {
    match EventStatus::parse(&event.status) {
        Ok(EventStatus::Failed) => palette::FAILURE,
        Ok(EventStatus::Completed) => palette::SUCCESS,
        Ok(EventStatus::Cancelled | EventStatus::Expired | EventStatus::Paused) => palette::CAUTION,
        Ok(_) | Err(_) => anstyle::Style::new(),
    }
}

/// Summary of the notable metadata of an event.
pub(super) fn event_note(event: &EventView) -> String {
    let meta = |key: &str| event.meta.as_ref()?.get(key);
    let number = |key: &str| meta(key).and_then(Json::as_u64);
    let text = |key: &str| meta(key).and_then(Json::as_str);
    let mut parts: Vec<String> = Vec::new();
    if let Some(run) = number("run").filter(|run| *run > 1) {
        parts.push(format!("run {run}"));
    }
    if let Some(index) = number("iter_index").or_else(|| number("index")) {
        parts.push(format!("item {index}"));
    }
    if let Some(items) = number("collection_size") {
        parts.push(format!("{items} items"));
    }
    if let Some(attempt) = number("attempt").filter(|attempt| *attempt > 1) {
        parts.push(format!("attempt {attempt}"));
    }
    if let Some(tool) = text("tool_kind") {
        parts.push(tool.to_owned());
    }
    if let Some(worker) = &event.worker_id {
        parts.push(format!("worker {worker}"));
    }
    if let Some(ms) = number("retry_in_ms") {
        parts.push(format!("retry in {}", Millis::from_ms(ms).to_human()));
    }
    if let Some(reason) = text("reason") {
        parts.push(reason.to_owned());
    }
    if let Some(actor) = text("actor") {
        parts.push(format!("by {actor}"));
    }
    if let Some(error) = &event.error {
        parts.push(error.lines().next().unwrap_or_default().to_owned());
    }
    truncate_to_width(&parts.join(", "), MAX_NOTE_CHARS, "…")
}
