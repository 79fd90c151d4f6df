//! The execution as a whole.

use noetl_types::json::NoJson;
use noetl_types::replay::{ExecutionEntry, PayloadRef};
use noetl_types::{EventStatus, EventType, StatusName};

use super::about::About;
use super::reference::payload_ref;

/// Folds an event into the execution; answers with what it refers to.
pub(super) fn fold(
    entry: &mut ExecutionEntry,
    about: &About<'_>,
    kind: Option<EventType>,
) -> Result<Option<PayloadRef>, NoJson> {
    if let Some(kind) = kind {
        let is_open = matches!(
            entry.status.known(),
            Some(EventStatus::Unknown | EventStatus::Running)
        );
        if let Some(end) = kind.ends_as() {
            // The first end is the end: what comes later tells of somebody who did not know of it.
            if is_open {
                entry.status = StatusName::Known(end.into());
            }
        } else if kind == EventType::StepEnter && is_open {
            entry.status = EventStatus::Running.into();
        }
        let tells_step = matches!(
            kind,
            EventType::StepEnter | EventType::StepExit | EventType::CommandCompleted
        );
        // Most of what happens, happens where something happened before.
        if tells_step
            && let Some(name) = about.node_name()
            && entry.last_node_name.as_deref() != Some(name)
        {
            entry.last_node_name = Some(name.into());
        }
    }
    let found = payload_ref(about)?;
    entry.payload_refs.extend(found.clone());
    Ok(found)
}
