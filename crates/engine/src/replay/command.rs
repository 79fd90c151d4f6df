//! Folds events into command entries.

use std::borrow::Cow;
use std::collections::BTreeMap;

use noetl_types::json::{InvalidJson, JsonRef};
use noetl_types::replay::CommandEntry;
use noetl_types::{EventStatus, EventType, Text};

use super::folded_event::FoldedEvent;
use super::meta::Key;

pub(super) fn fold_command(
    commands: &mut BTreeMap<Text, CommandEntry>,
    view: &FoldedEvent<'_>,
    kind: Option<EventType>,
) -> Result<(), InvalidJson> {
    let Some(id) = view.command_id.as_deref() else {
        return Ok(());
    };
    // Most events have an existing entry, so the key is copied only for new ones.
    let entry = match commands.get_mut(id) {
        Some(entry) => entry,
        None => commands.entry(id.into()).or_insert_with_key(|id| new_command_entry(id, view)),
    };
    entry.last_event_id = view.number;
    let is_ended = entry.terminal_event_id.is_some();
    if is_ended || kind == Some(EventType::CommandResultIgnored) {
        return Ok(());
    }
    fill_command(entry, view)?;
    let status = view.status().clone();
    match kind {
        Some(EventType::CommandIssued) => {
            entry.status = status.or(EventStatus::Pending);
            entry.issued_event_id = Some(view.number);
        }
        Some(EventType::CommandClaimed) => {
            entry.status = status.or(EventStatus::Claimed);
            entry.claimed_event_id = Some(view.number);
        }
        Some(EventType::CommandStarted) => {
            entry.status = status.or(EventStatus::Running);
            entry.started_event_id = Some(view.number);
        }
        // It waits for another worker, regardless of the status of the event.
        Some(EventType::CommandExpired) => entry.status = EventStatus::Pending.into(),
        Some(EventType::CommandCompleted) => end_command(entry, view, EventStatus::Completed),
        Some(EventType::CommandFailed) => end_command(entry, view, EventStatus::Failed),
        Some(EventType::CommandCancelled) => end_command(entry, view, EventStatus::Cancelled),
        Some(_) | None => {
            let name = view.event.event_type.as_str();
            if name.starts_with("command.") && !status.is_none() {
                entry.status = status;
            }
        }
    }
    Ok(())
}

fn new_command_entry(id: &Text, view: &FoldedEvent<'_>) -> CommandEntry {
    CommandEntry {
        claimed_event_id: None,
        command_id: id.clone(),
        frame_id: None,
        issued_event_id: None,
        last_event_id: view.number,
        parent_command_id: None,
        stage_id: None,
        started_event_id: None,
        status: EventStatus::Unknown.into(),
        terminal_event_id: None,
        worker_id: None,
        worker_locator: None,
    }
}

fn end_command(entry: &mut CommandEntry, view: &FoldedEvent<'_>, default: EventStatus) {
    entry.status = view.status().clone().or(default);
    entry.terminal_event_id = Some(view.number);
}

fn fill_command(entry: &mut CommandEntry, view: &FoldedEvent<'_>) -> Result<(), InvalidJson> {
    if entry.stage_id.is_none() {
        entry.stage_id = view.stage_id.as_deref().map(Text::from);
    }
    if entry.frame_id.is_none() {
        entry.frame_id = view.frame_id.as_deref().map(Text::from);
    }
    if entry.parent_command_id.is_none() {
        entry.parent_command_id = view.meta_text(Key::ParentCommandId);
    }
    // The last of several workers is stored.
    if let Some(worker) = find_worker(view)?
        && entry.worker_id.as_deref() != Some(&*worker)
    {
        entry.worker_id = Some(Text::from(&*worker));
    }
    if let Some(locator) = view.meta_text(Key::WorkerLocator) {
        entry.worker_locator = Some(locator);
    }
    Ok(())
}

fn find_worker<'e>(view: &FoldedEvent<'e>) -> Result<Option<Cow<'e, str>>, InvalidJson> {
    let column = view.event.worker_id.filter(|worker| !worker.is_empty());
    if let Some(worker) = column {
        return Ok(Some(Cow::Borrowed(worker)));
    }
    if let Some(worker) = view.meta_name_or_id(Key::WorkerId) {
        return Ok(Some(worker));
    }
    Ok(view.outcome("worker_id")?.and_then(JsonRef::as_name_or_id))
}
