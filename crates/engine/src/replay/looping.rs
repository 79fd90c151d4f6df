//! Folds events into loop entries.

use std::collections::BTreeMap;

use noetl_types::replay::LoopEntry;
use noetl_types::{EventType, Text};

use super::folded_event::FoldedEvent;
use super::meta::Key;

pub(super) fn fold_loop(
    loops: &mut BTreeMap<Text, LoopEntry>,
    view: &FoldedEvent<'_>,
    kind: Option<EventType>,
) {
    let keys = [Key::LoopId, Key::LoopEventId, Key::LoopEpochId];
    let Some(id) = keys.into_iter().find_map(|key| view.meta_name_or_id(key)) else {
        return;
    };
    let entry = match loops.get_mut(&*id) {
        Some(entry) => entry,
        None => loops.entry((&*id).into()).or_insert_with_key(|id| LoopEntry {
            completed: false,
            done: 0,
            failed: 0,
            last_event_id: view.number,
            loop_id: id.clone(),
            step_name: None,
            total: None,
        }),
    };
    entry.last_event_id = view.number;
    if entry.step_name.is_none() {
        entry.step_name = view.step_name();
    }
    let total = view.meta_number(Key::CollectionSize);
    if let Some(total) = total.or_else(|| view.meta_number(Key::Total)) {
        entry.total = Some(total);
    }
    match kind {
        Some(EventType::CommandCompleted | EventType::LoopShardDone) => {
            entry.done = entry.done.saturating_add(1);
        }
        Some(EventType::CommandFailed | EventType::LoopShardFailed) => {
            entry.failed = entry.failed.saturating_add(1);
        }
        Some(EventType::LoopDone | EventType::LoopFaninCompleted) => entry.completed = true,
        Some(_) | None => {}
    }
}
