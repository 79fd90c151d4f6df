//! Commands.

use std::collections::BTreeMap;

use noetl_types::replay::CommandEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::about::{About, text_of};

pub(super) fn fold(
    commands: &mut BTreeMap<Text, CommandEntry>,
    about: &About<'_>,
    kind: Option<EventType>,
) {
    let Some(id) = &about.command_id else {
        return;
    };
    // Most events find their command: the key is copied for new ones alone.
    if !commands.contains_key(id.as_str()) {
        commands.insert(id.clone(), new(id, about));
    }
    let Some(entry) = commands.get_mut(id.as_str()) else {
        return;
    };
    entry.last_event_id = about.number;
    let is_ended = entry.terminal_event_id.is_some();
    if is_ended || kind == Some(EventType::CommandResultIgnored) {
        return;
    }
    describe(entry, about);
    let said = about.status().clone();
    match kind {
        Some(EventType::CommandIssued) => {
            entry.status = said.or(EventStatus::Pending);
            entry.issued_event_id = Some(about.number);
        }
        Some(EventType::CommandClaimed) => {
            entry.status = said.or(EventStatus::Claimed);
            entry.claimed_event_id = Some(about.number);
        }
        Some(EventType::CommandStarted) => {
            entry.status = said.or(EventStatus::Running);
            entry.started_event_id = Some(about.number);
        }
        // It waits for another worker, whatever the event says about the attempt.
        Some(EventType::CommandExpired) => entry.status = EventStatus::Pending.into(),
        Some(EventType::CommandCompleted) => end(entry, about, EventStatus::Completed),
        Some(EventType::CommandFailed) => end(entry, about, EventStatus::Failed),
        Some(EventType::CommandCancelled) => end(entry, about, EventStatus::Cancelled),
        Some(_) | None => {
            let name = about.record.event.event_type.as_str();
            if name.starts_with("command.") && !said.is_none() {
                entry.status = said;
            }
        }
    }
}

fn new(id: &Text, about: &About<'_>) -> CommandEntry {
    CommandEntry {
        claimed_event_id: None,
        command_id: id.clone(),
        frame_id: None,
        issued_event_id: None,
        last_event_id: about.number,
        parent_command_id: None,
        stage_id: None,
        started_event_id: None,
        status: EventStatus::Unknown.into(),
        terminal_event_id: None,
        worker_id: None,
        worker_locator: None,
    }
}

fn end(entry: &mut CommandEntry, about: &About<'_>, usual: EventStatus) {
    entry.status = about.status().clone().or(usual);
    entry.terminal_event_id = Some(about.number);
}

fn describe(entry: &mut CommandEntry, about: &About<'_>) {
    if entry.stage_id.is_none() {
        entry.stage_id.clone_from(&about.stage_id);
    }
    if entry.frame_id.is_none() {
        entry.frame_id.clone_from(&about.frame_id);
    }
    if entry.parent_command_id.is_none() {
        entry.parent_command_id = about.meta_text("parent_command_id");
    }
    // Of several workers the last one counts.
    if let Some(worker) = worker(about)
        && entry.worker_id.as_ref() != Some(&worker)
    {
        entry.worker_id = Some(worker);
    }
    if let Some(locator) = about.meta_text("worker_locator") {
        entry.worker_locator = Some(locator);
    }
}

fn worker(about: &About<'_>) -> Option<Text> {
    let column = about.record.event.worker_id.as_ref();
    column
        .filter(|worker| !worker.is_empty())
        .cloned()
        .or_else(|| about.meta_text("worker_id"))
        .or_else(|| about.outcome("worker_id").and_then(text_of))
}
