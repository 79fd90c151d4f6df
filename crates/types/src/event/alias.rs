//! The table of event type aliases. An alias is replaced with the canonical name when an event
//! enters.

use super::kind::EventType;
use super::name::{EventName, EventNameError};
use crate::text::Text;

/// Sender of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSender {
    /// The server, or a log that a server wrote.
    Server,
    /// A worker.
    Worker,
}

/// Canonical name of an event that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalizedEventName {
    /// Name under which the event is stored.
    pub name: EventName,
    /// Name as it was sent, if it differs.
    pub original: Option<Text>,
}

/// Returns the canonical name of an event that was sent, or an error if the log does not accept the
/// name.
pub fn normalize_event_name(
    sent: &str,
    sender: EventSender,
) -> Result<NormalizedEventName, EventNameError> {
    let name = match resolve_event_type(sent) {
        // Only the server decides when a step is over. A step exit from a worker means that its
        // call is done.
        Some(EventType::StepExit) if sender == EventSender::Worker => EventType::CallDone.into(),
        Some(kind) => kind.into(),
        None => EventName::parse(sent)?,
    };
    let original = (name.as_str() != sent).then(|| Text::from(sent));
    Ok(NormalizedEventName { name, original })
}

/// Returns the type for a canonical name or an alias.
pub(super) fn resolve_event_type(name: &str) -> Option<EventType> {
    EventType::parse(name).ok().or_else(|| find_alias(name))
}

fn find_alias(name: &str) -> Option<EventType> {
    ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, kind)| *kind)
}

const ALIASES: &[(&str, EventType)] = &[
    ("playbook_started", EventType::PlaybookStarted),
    ("playbook.initialized", EventType::PlaybookStarted),
    ("workflow.initialized", EventType::PlaybookStarted),
    ("execution.started", EventType::PlaybookStarted),
    ("step_enter", EventType::StepEnter),
    ("step_started", EventType::StepEnter),
    ("step.started", EventType::StepEnter),
    ("step_exit", EventType::StepExit),
    ("step_completed", EventType::StepExit),
    ("step.completed", EventType::StepExit),
    ("command_issued", EventType::CommandIssued),
    ("command_claimed", EventType::CommandClaimed),
    ("command_started", EventType::CommandStarted),
    ("command_completed", EventType::CommandCompleted),
    ("command_failed", EventType::CommandFailed),
    ("playbook_completed", EventType::PlaybookCompleted),
    ("playbook_failed", EventType::PlaybookFailed),
    ("playbook_cancelled", EventType::PlaybookCancelled),
    ("execution.cancelled", EventType::PlaybookCancelled),
];

#[cfg(test)]
mod tests;
