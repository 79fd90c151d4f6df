//! Folds events into the entries of the execution, its stages, frames, commands and loops.

use std::borrow::Cow;
use std::collections::BTreeMap;

use noetl_types::json::{InvalidJson, JsonRef};
use noetl_types::replay::{
    CommandEntry, ExecutionEntry, FrameEntry, LoopEntry, PayloadRef, StageEntry,
};
use noetl_types::{EventStatus, EventType, StatusName, Text};

use super::folded_event::{FoldedEvent, Key};
use super::reference::{payload_ref, summarize_reference};

/// Sets a constant field of an entry. The first value is kept.
fn fill<T>(field: &mut Option<T>, find: impl FnOnce() -> Option<T>) {
    if field.is_none() {
        *field = find();
    }
}

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

fn fill_stage(entry: &mut StageEntry, view: &FoldedEvent<'_>) {
    fill(&mut entry.kind, || view.meta_text(Key::Kind).or_else(|| view.meta_text(Key::StageKind)));
    fill(&mut entry.step_name, || view.step_name());
    fill(&mut entry.parent_stage_id, || view.meta_text(Key::ParentStageId));
    fill(&mut entry.loop_event_id, || view.meta_event(Key::LoopEventId));
}

pub(super) fn fold_frame(
    frames: &mut BTreeMap<Text, FrameEntry>,
    view: &FoldedEvent<'_>,
    kind: Option<EventType>,
) -> Result<(), InvalidJson> {
    let Some(id) = view.frame_id.as_deref() else {
        return Ok(());
    };
    let entry = match frames.get_mut(id) {
        Some(entry) => entry,
        None => frames.entry(id.into()).or_insert_with_key(|id| new_frame_entry(id, view)),
    };
    entry.last_event_id = view.number;
    fill_frame(entry, view);
    let status = view.status().clone();
    match kind {
        Some(EventType::FrameDispatched) => {
            entry.status = EventStatus::Claimed.into();
            entry.claimed_event_id = Some(view.number);
            let attempt = view.meta_number(Key::Attempt).unwrap_or(1);
            entry.attempts = entry.attempts.max(attempt);
        }
        Some(EventType::FrameStarted) => entry.status = EventStatus::Running.into(),
        Some(EventType::FrameAbandoned) => entry.status = status.or(EventStatus::Abandoned),
        Some(EventType::FrameCommitted) => {
            entry.status = status.or(EventStatus::Completed);
            entry.row_count = view.meta_number(Key::RowCount).unwrap_or(entry.row_count);
            end_frame(entry, view)?;
        }
        Some(EventType::FrameFailed) => {
            entry.status = status.or(EventStatus::Failed);
            end_frame(entry, view)?;
        }
        Some(_) | None => {
            if !status.is_none() {
                entry.status = status;
            }
        }
    }
    Ok(())
}

fn new_frame_entry(id: &Text, view: &FoldedEvent<'_>) -> FrameEntry {
    FrameEntry {
        attempts: 0,
        claimed_event_id: None,
        command_id: None,
        events_emitted: 0,
        frame_id: id.clone(),
        last_event_id: view.number,
        output_ref: None,
        output_ref_summary: None,
        parent_frame_id: None,
        row_count: 0,
        stage_id: None,
        status: EventStatus::Unknown.into(),
        terminal_event_id: None,
    }
}

fn fill_frame(entry: &mut FrameEntry, view: &FoldedEvent<'_>) {
    fill(&mut entry.stage_id, || view.stage_id.as_deref().map(Text::from));
    fill(&mut entry.command_id, || view.command_id.as_deref().map(Text::from));
    fill(&mut entry.parent_frame_id, || view.meta_text(Key::ParentFrameId));
}

fn end_frame(entry: &mut FrameEntry, view: &FoldedEvent<'_>) -> Result<(), InvalidJson> {
    entry.terminal_event_id = Some(view.number);
    if let Some(count) = view.meta_number(Key::EventsEmitted) {
        entry.events_emitted = count;
    }
    let output = view
        .reference()
        .or_else(|| view.meta(Key::OutputRef).filter(|value| !value.is_null()))
        .or(view.event.payload_ref);
    if let Some(output) = output {
        let output = output.to_json()?;
        entry.output_ref_summary = Some(summarize_reference(&output));
        entry.output_ref = Some(output);
    }
    Ok(())
}

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
    fill(&mut entry.stage_id, || view.stage_id.as_deref().map(Text::from));
    fill(&mut entry.frame_id, || view.frame_id.as_deref().map(Text::from));
    fill(&mut entry.parent_command_id, || view.meta_text(Key::ParentCommandId));
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
    fill(&mut entry.step_name, || view.step_name());
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
