//! Frames.

use std::collections::BTreeMap;

use noetl_types::json::NoJson;
use noetl_types::replay::FrameEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::about::About;
use super::meta::Key;
use super::reference::summary_of;

pub(super) fn fold(
    frames: &mut BTreeMap<Text, FrameEntry>,
    about: &About<'_>,
    kind: Option<EventType>,
) -> Result<(), NoJson> {
    let Some(id) = about.frame_id.as_deref() else {
        return Ok(());
    };
    let entry = match frames.get_mut(id) {
        Some(entry) => entry,
        None => frames
            .entry(id.into())
            .or_insert_with_key(|id| new(id, about)),
    };
    entry.last_event_id = about.number;
    describe(entry, about);
    let said = about.status().clone();
    match kind {
        Some(EventType::FrameDispatched) => {
            entry.status = EventStatus::Claimed.into();
            entry.claimed_event_id = Some(about.number);
            let attempt = about.meta_number(Key::Attempt).unwrap_or(1);
            entry.attempts = entry.attempts.max(attempt);
        }
        Some(EventType::FrameStarted) => entry.status = EventStatus::Running.into(),
        Some(EventType::FrameAbandoned) => entry.status = said.or(EventStatus::Abandoned),
        Some(EventType::FrameCommitted) => {
            entry.status = said.or(EventStatus::Completed);
            entry.row_count = about.meta_number(Key::RowCount).unwrap_or(entry.row_count);
            end(entry, about)?;
        }
        Some(EventType::FrameFailed) => {
            entry.status = said.or(EventStatus::Failed);
            end(entry, about)?;
        }
        Some(_) | None => {
            if !said.is_none() {
                entry.status = said;
            }
        }
    }
    Ok(())
}

fn new(id: &Text, about: &About<'_>) -> FrameEntry {
    FrameEntry {
        attempts: 0,
        claimed_event_id: None,
        command_id: None,
        events_emitted: 0,
        frame_id: id.clone(),
        last_event_id: about.number,
        output_ref: None,
        output_ref_summary: None,
        parent_frame_id: None,
        row_count: 0,
        stage_id: None,
        status: EventStatus::Unknown.into(),
        terminal_event_id: None,
    }
}

/// What stays the same over the life of a frame: who tells it first is right.
fn describe(entry: &mut FrameEntry, about: &About<'_>) {
    if entry.stage_id.is_none() {
        entry.stage_id = about.stage_id.as_deref().map(Text::from);
    }
    if entry.command_id.is_none() {
        entry.command_id = about.command_id.as_deref().map(Text::from);
    }
    if entry.parent_frame_id.is_none() {
        entry.parent_frame_id = about.meta_text(Key::ParentFrameId);
    }
}

fn end(entry: &mut FrameEntry, about: &About<'_>) -> Result<(), NoJson> {
    entry.terminal_event_id = Some(about.number);
    if let Some(count) = about.meta_number(Key::EventsEmitted) {
        entry.events_emitted = count;
    }
    let output = about
        .reference()
        .or_else(|| about.meta(Key::OutputRef).filter(|value| !value.is_null()))
        .or(about.event.payload_ref);
    if let Some(output) = output {
        let output = output.to_json()?;
        entry.output_ref_summary = Some(summary_of(&output));
        entry.output_ref = Some(output);
    }
    Ok(())
}
