//! Commands.

use std::borrow::Cow;
use std::collections::BTreeMap;

use noetl_types::json::{JsonRef, NoJson};
use noetl_types::replay::CommandEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::about::About;
use super::meta::Key;

pub(super) fn fold(
    commands: &mut BTreeMap<Text, CommandEntry>,
    about: &About<'_>,
    kind: Option<EventType>,
) -> Result<(), NoJson> {
    let Some(id) = about.command_id.as_deref() else {
        return Ok(());
    };
    // Most events find their command: the key is copied for new ones alone.
    let entry = match commands.get_mut(id) {
        Some(entry) => entry,
        None => commands
            .entry(id.into())
            .or_insert_with_key(|id| new(id, about)),
    };
    entry.last_event_id = about.number;
    let is_ended = entry.terminal_event_id.is_some();
    if is_ended || kind == Some(EventType::CommandResultIgnored) {
        return Ok(());
    }
    describe(entry, about)?;
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
            let name = about.event.event_type.as_str();
            if name.starts_with("command.") && !said.is_none() {
                entry.status = said;
            }
        }
    }
    Ok(())
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

fn describe(entry: &mut CommandEntry, about: &About<'_>) -> Result<(), NoJson> {
    if entry.stage_id.is_none() {
        entry.stage_id = about.stage_id.as_deref().map(Text::from);
    }
    if entry.frame_id.is_none() {
        entry.frame_id = about.frame_id.as_deref().map(Text::from);
    }
    if entry.parent_command_id.is_none() {
        entry.parent_command_id = about.meta_text(Key::ParentCommandId);
    }
    // Of several workers the last one counts.
    if let Some(worker) = worker(about)?
        && entry.worker_id.as_deref() != Some(&*worker)
    {
        entry.worker_id = Some(Text::from(&*worker));
    }
    if let Some(locator) = about.meta_text(Key::WorkerLocator) {
        entry.worker_locator = Some(locator);
    }
    Ok(())
}

fn worker<'e>(about: &About<'e>) -> Result<Option<Cow<'e, str>>, NoJson> {
    let column = about.event.worker_id.filter(|worker| !worker.is_empty());
    if let Some(worker) = column {
        return Ok(Some(Cow::Borrowed(worker)));
    }
    if let Some(worker) = about.meta_word(Key::WorkerId) {
        return Ok(Some(worker));
    }
    Ok(about.outcome("worker_id")?.and_then(JsonRef::word))
}
