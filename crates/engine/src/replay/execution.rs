//! Folds events into the entry of the execution as a whole.

use noetl_types::json::InvalidJson;
use noetl_types::replay::{ExecutionEntry, PayloadRef};
use noetl_types::{EventStatus, EventType, StatusName};

use super::folded_event::FoldedEvent;
use super::reference::payload_ref;

/// Folds an event into the execution. Returns the payload reference of the event.
pub(super) fn fold_execution(
    entry: &mut ExecutionEntry,
    view: &FoldedEvent<'_>,
    kind: Option<EventType>,
) -> Result<Option<PayloadRef>, InvalidJson> {
    if let Some(kind) = kind {
        let is_open = matches!(
            entry.status.known_status(),
            Some(EventStatus::Unknown | EventStatus::Running)
        );
        if let Some(end) = kind.terminal_status() {
            // The first end is final. Later ones come from components that had not seen it.
            if is_open {
                entry.status = StatusName::Known(end.into());
            }
        } else if kind == EventType::StepEnter && is_open {
            entry.status = EventStatus::Running.into();
        }
        let names_step = matches!(
            kind,
            EventType::StepEnter | EventType::StepExit | EventType::CommandCompleted
        );
        // Most events have the same step as the one before.
        if names_step
            && let Some(name) = view.node_name()
            && entry.last_node_name.as_deref() != Some(name)
        {
            entry.last_node_name = Some(name.into());
        }
    }
    let found = payload_ref(view)?;
    entry.payload_refs.extend(found.clone());
    Ok(found)
}
