//! An event in a few words, and its line.

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, Json, Millis};

use crate::output::{Cell, Column, Table, Times};
use crate::render::palette;

/// Letters of a note.
const MAX_NOTE: usize = 200;

/// Events in a table.
pub(super) fn table(events: &[EventView], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("SEQ").right(),
        Column::new("TIME"),
        Column::new("EVENT"),
        Column::new("STEP").gives_way(),
        Column::new("STATUS").wide(),
        Column::new("NOTE").gives_way(),
    ]);
    for event in events {
        table.row([
            event.seq.to_string().into(),
            times.tell(event.created_at).into(),
            Cell::styled(event.event_type.as_str(), style(event)),
            event.node_name.as_deref().unwrap_or("-").into(),
            event.status.as_str().into(),
            note(event).into(),
        ]);
    }
    table
}

/// The colour of an event.
pub(super) fn style(event: &EventView) -> anstyle::Style {
    match EventStatus::parse(&event.status) {
        Ok(EventStatus::Failed) => palette::BAD,
        Ok(EventStatus::Completed) => palette::GOOD,
        Ok(EventStatus::Cancelled | EventStatus::Expired | EventStatus::Paused) => palette::DOUBT,
        Ok(_) | Err(_) => anstyle::Style::new(),
    }
}

/// What is special about an event, in a few words.
pub(super) fn note(event: &EventView) -> String {
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
        parts.push(format!("again in {}", Millis::from_ms(ms).human()));
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
    crate::render::words::shorten(&parts.join(", "), MAX_NOTE, "…")
}
