//! Folds events into stage entries.

use std::collections::BTreeMap;

use noetl_types::replay::StageEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::folded_event::FoldedEvent;
use super::meta::Key;

pub(super) fn fold_stage(
    stages: &mut BTreeMap<Text, StageEntry>,
    view: &FoldedEvent<'_>,
    kind: Option<EventType>,
) {
    let Some(id) = view.stage_id.as_deref() else {
        return;
    };
    let entry = match stages.get_mut(id) {
        Some(entry) => entry,
        None => stages.entry(id.into()).or_insert_with_key(|id| new_stage_entry(id, view)),
    };
    entry.last_event_id = view.number;
    match kind {
        Some(EventType::StageOpened) => {
            entry.status = EventStatus::Open.into();
            entry.opened_event_id = Some(view.number);
            fill_stage(entry, view);
        }
        Some(EventType::StageClosed) => {
            entry.status = view.status().clone().or(EventStatus::Closed);
            entry.closed_event_id = Some(view.number);
            fill_stage(entry, view);
            let count = |key: Key| view.meta_number(key).unwrap_or(0);
            entry.events_emitted = count(Key::EventsEmitted);
            entry.failed_count = count(Key::FailedCount);
            entry.frame_count = count(Key::FrameCount);
            entry.row_count = count(Key::RowCount);
        }
        Some(_) | None => {
            if !view.status().is_none() {
                entry.status = view.status().clone();
            }
        }
    }
}

fn new_stage_entry(id: &Text, view: &FoldedEvent<'_>) -> StageEntry {
    StageEntry {
        closed_event_id: None,
        events_emitted: 0,
        failed_count: 0,
        frame_count: 0,
        kind: None,
        last_event_id: view.number,
        loop_event_id: None,
        opened_event_id: None,
        parent_stage_id: None,
        row_count: 0,
        stage_id: id.clone(),
        status: EventStatus::Unknown.into(),
        step_name: None,
    }
}

/// Fills the constant fields of a stage. The first value is kept.
fn fill_stage(entry: &mut StageEntry, view: &FoldedEvent<'_>) {
    if entry.kind.is_none() {
        entry.kind = view.meta_text(Key::Kind).or_else(|| view.meta_text(Key::StageKind));
    }
    if entry.step_name.is_none() {
        entry.step_name = view.step_name();
    }
    if entry.parent_stage_id.is_none() {
        entry.parent_stage_id = view.meta_text(Key::ParentStageId);
    }
    if entry.loop_event_id.is_none() {
        entry.loop_event_id = view.meta_event(Key::LoopEventId);
    }
}
