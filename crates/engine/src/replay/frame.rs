//! Folds events into frame entries.

use std::collections::BTreeMap;

use noetl_types::json::InvalidJson;
use noetl_types::replay::FrameEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::folded_event::FoldedEvent;
use super::meta::Key;
use super::reference::summarize_reference;

pub(super) fn fold_frame(
    frames: &mut BTreeMap<Text, FrameEntry>,
    view: &FoldedEvent<'_>,
    kind: Option<EventType>,
) -> Result<(), InvalidJson> {
    let Some(id) = view.frame_id.as_deref() else {
        return Ok(());
    };
    let entry = match frames.get_mut(id) {
        Some(entry) => entry,
        None => frames.entry(id.into()).or_insert_with_key(|id| new_frame_entry(id, view)),
    };
    entry.last_event_id = view.number;
    fill_frame(entry, view);
    let status = view.status().clone();
    match kind {
        Some(EventType::FrameDispatched) => {
            entry.status = EventStatus::Claimed.into();
            entry.claimed_event_id = Some(view.number);
            let attempt = view.meta_number(Key::Attempt).unwrap_or(1);
            entry.attempts = entry.attempts.max(attempt);
        }
        Some(EventType::FrameStarted) => entry.status = EventStatus::Running.into(),
        Some(EventType::FrameAbandoned) => entry.status = status.or(EventStatus::Abandoned),
        Some(EventType::FrameCommitted) => {
            entry.status = status.or(EventStatus::Completed);
            entry.row_count = view.meta_number(Key::RowCount).unwrap_or(entry.row_count);
            end_frame(entry, view)?;
        }
        Some(EventType::FrameFailed) => {
            entry.status = status.or(EventStatus::Failed);
            end_frame(entry, view)?;
        }
        Some(_) | None => {
            if !status.is_none() {
                entry.status = status;
            }
        }
    }
    Ok(())
}

fn new_frame_entry(id: &Text, view: &FoldedEvent<'_>) -> FrameEntry {
    FrameEntry {
        attempts: 0,
        claimed_event_id: None,
        command_id: None,
        events_emitted: 0,
        frame_id: id.clone(),
        last_event_id: view.number,
        output_ref: None,
        output_ref_summary: None,
        parent_frame_id: None,
        row_count: 0,
        stage_id: None,
        status: EventStatus::Unknown.into(),
        terminal_event_id: None,
    }
}

/// Fills the constant fields of a frame. The first value is kept.
fn fill_frame(entry: &mut FrameEntry, view: &FoldedEvent<'_>) {
    if entry.stage_id.is_none() {
        entry.stage_id = view.stage_id.as_deref().map(Text::from);
    }
    if entry.command_id.is_none() {
        entry.command_id = view.command_id.as_deref().map(Text::from);
    }
    if entry.parent_frame_id.is_none() {
        entry.parent_frame_id = view.meta_text(Key::ParentFrameId);
    }
}

fn end_frame(entry: &mut FrameEntry, view: &FoldedEvent<'_>) -> Result<(), InvalidJson> {
    entry.terminal_event_id = Some(view.number);
    if let Some(count) = view.meta_number(Key::EventsEmitted) {
        entry.events_emitted = count;
    }
    let output = view
        .reference()
        .or_else(|| view.meta(Key::OutputRef).filter(|value| !value.is_null()))
        .or(view.event.payload_ref);
    if let Some(output) = output {
        let output = output.to_json()?;
        entry.output_ref_summary = Some(summarize_reference(&output));
        entry.output_ref = Some(output);
    }
    Ok(())
}
