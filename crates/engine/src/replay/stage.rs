//! Stages.

use std::collections::BTreeMap;

use noetl_types::replay::StageEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::about::About;
use super::meta::Key;

pub(super) fn fold(
    stages: &mut BTreeMap<Text, StageEntry>,
    about: &About<'_>,
    kind: Option<EventType>,
) {
    let Some(id) = about.stage_id.as_deref() else {
        return;
    };
    let entry = match stages.get_mut(id) {
        Some(entry) => entry,
        None => stages
            .entry(id.into())
            .or_insert_with_key(|id| new(id, about)),
    };
    entry.last_event_id = about.number;
    match kind {
        Some(EventType::StageOpened) => {
            entry.status = EventStatus::Open.into();
            entry.opened_event_id = Some(about.number);
            describe(entry, about);
        }
        Some(EventType::StageClosed) => {
            entry.status = about.status().clone().or(EventStatus::Closed);
            entry.closed_event_id = Some(about.number);
            describe(entry, about);
            let count = |key: Key| about.meta_number(key).unwrap_or(0);
            entry.events_emitted = count(Key::EventsEmitted);
            entry.failed_count = count(Key::FailedCount);
            entry.frame_count = count(Key::FrameCount);
            entry.row_count = count(Key::RowCount);
        }
        Some(_) | None => {
            if !about.status().is_none() {
                entry.status = about.status().clone();
            }
        }
    }
}

fn new(id: &Text, about: &About<'_>) -> StageEntry {
    StageEntry {
        closed_event_id: None,
        events_emitted: 0,
        failed_count: 0,
        frame_count: 0,
        kind: None,
        last_event_id: about.number,
        loop_event_id: None,
        opened_event_id: None,
        parent_stage_id: None,
        row_count: 0,
        stage_id: id.clone(),
        status: EventStatus::Unknown.into(),
        step_name: None,
    }
}

/// What stays the same over the life of a stage: who tells it first is right.
fn describe(entry: &mut StageEntry, about: &About<'_>) {
    if entry.kind.is_none() {
        entry.kind = about
            .meta_text(Key::Kind)
            .or_else(|| about.meta_text(Key::StageKind));
    }
    if entry.step_name.is_none() {
        entry.step_name = about.step_name();
    }
    if entry.parent_stage_id.is_none() {
        entry.parent_stage_id = about.meta_text(Key::ParentStageId);
    }
    if entry.loop_event_id.is_none() {
        entry.loop_event_id = about.meta_event(Key::LoopEventId);
    }
}
