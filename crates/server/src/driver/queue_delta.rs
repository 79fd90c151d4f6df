//! Derives the changes of the command queue and the timers from events.
//!
//! The store makes no decisions, so an append states which commands are new or changed and which
//! timers are open. All of that is derived from the events here, and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::event::{CommandIssued, CommandTimer, Event, EventKind, TimerId};
use noetl_engine::{ExecutionState, PendingTimer, Plan};
use noetl_store::{CommandChange, CommandEnd, NewCommand, StepInstance, TimerChange};
use noetl_types::limits::{MaxAttempts, Priority};
use noetl_types::{CommandId, Millis, PoolName, StepName, TaskError, Text, Timestamp};

/// Time that an attempt has beyond the timeouts of its tasks, so that the worker reaches and
/// reports those first.
pub(super) const DEADLINE_SLACK: Millis = Millis::from_secs(5);

/// Changes that a batch of events makes to the command queue. Each command has at most one change.
#[derive(Default)]
pub(super) struct QueueDelta {
    commands: BTreeMap<CommandId, CommandChange>,
    /// Commands that the server performs itself, which are never queued.
    server_side: BTreeSet<CommandId>,
}

/// Queue settings that a new command inherits from its execution.
pub(super) struct QueueDefaults<'q> {
    pub(super) pool: &'q PoolName,
    pub(super) priority: Priority,
}

impl QueueDelta {
    /// True if the events change a command that already has a change, so that they need a separate
    /// append.
    pub(super) fn has_conflict(&self, events: &[Event]) -> bool {
        !self.commands.is_empty()
            && events
                .iter()
                .filter_map(changed_command)
                .any(|command| self.commands.contains_key(&command))
    }

    /// Adds the changes of one decision, given the state before and after it. If its events change
    /// a command several times, the last change counts.
    pub(super) fn add_decision(
        &mut self,
        events: &[Event],
        before: &ExecutionState,
        after: &ExecutionState,
        defaults: &QueueDefaults<'_>,
    ) {
        let open = before.commands().filter(|(_, command)| command.is_on_server);
        self.server_side.extend(open.map(|(id, _)| id));
        for event in events {
            self.add_event(event, after, defaults);
        }
    }

    fn add_event(&mut self, event: &Event, state: &ExecutionState, defaults: &QueueDefaults<'_>) {
        let at = event.time;
        match &event.kind {
            EventKind::CommandIssued(issued) if issued.suspension.is_some() => {
                self.server_side.insert(CommandId::from(event.event_id));
            }
            EventKind::CommandIssued(issued) => {
                let command = build_new_command(event, issued, state, defaults);
                self.put_change(CommandChange::Issue(Box::new(command)));
            }
            EventKind::CommandStarted { at: command, .. } => {
                let command_id = command.command;
                self.put_change(CommandChange::Run { command_id, at });
            }
            EventKind::CommandCompleted(command) => {
                self.close_command(command.command, CommandEnd::Completed, at, None);
            }
            EventKind::CommandFailed(closed) => {
                let error = error_message(&closed.reason);
                self.close_command(closed.at.command, CommandEnd::Failed, at, Some(error));
            }
            EventKind::CommandCancelled(closed) => {
                let reason = Some(closed.reason.clone());
                self.close_command(closed.at.command, CommandEnd::Cancelled, at, reason);
            }
            EventKind::CommandExpired(expired) => self.put_change(CommandChange::Requeue {
                command_id: expired.at.command,
                not_before: expired.not_before,
            }),
            EventKind::PlaybookPaused(_) => self.set_held(state, true),
            EventKind::PlaybookResumed(_) => self.set_held(state, false),
            _ => {}
        }
    }

    fn put_change(&mut self, change: CommandChange) {
        self.commands.insert(change.command_id(), change);
    }

    fn close_command(
        &mut self,
        command_id: CommandId,
        end: CommandEnd,
        at: Timestamp,
        error: Option<Text>,
    ) {
        if self.server_side.contains(&command_id) {
            return;
        }
        if let Some(CommandChange::Issue(_)) = self.commands.get(&command_id) {
            // No worker can have seen it: it is never queued.
            self.commands.remove(&command_id);
            return;
        }
        self.put_change(CommandChange::Close { command_id, end, at, error });
    }

    /// Holds open commands back from workers, or releases them.
    fn set_held(&mut self, state: &ExecutionState, held: bool) {
        for (command_id, command) in state.commands() {
            if command.is_on_server {
                continue;
            }
            match self.commands.get_mut(&command_id) {
                Some(CommandChange::Issue(command)) => command.held = held,
                Some(_) => {}
                None => self.put_change(CommandChange::Hold { command_id, held }),
            }
        }
    }

    /// New commands.
    pub(super) fn new_commands(&mut self) -> impl Iterator<Item = &mut NewCommand> {
        self.commands.values_mut().filter_map(|change| match change {
            CommandChange::Issue(command) => Some(&mut **command),
            CommandChange::Run { .. }
            | CommandChange::Close { .. }
            | CommandChange::Requeue { .. }
            | CommandChange::Hold { .. } => None,
        })
    }

    pub(super) fn into_vec(self) -> Vec<CommandChange> {
        self.commands.into_values().collect()
    }
}

/// The queue rows of an execution as its log implies them.
pub(super) struct FoldedQueue {
    delta: QueueDelta,
    rows: BTreeMap<CommandId, FoldedCommand>,
}

/// A command as the log implies it.
pub(super) enum FoldedCommand {
    Open(Box<NewCommand>),
    Ended { step: StepName, end: CommandEnd, at: Timestamp, error: Option<Text> },
}

impl FoldedQueue {
    pub(super) fn new() -> Self {
        Self { delta: QueueDelta::default(), rows: BTreeMap::new() }
    }

    /// Adds the next event, given the state after it.
    pub(super) fn add_event(
        &mut self,
        event: &Event,
        state: &ExecutionState,
        defaults: &QueueDefaults<'_>,
    ) {
        self.delta.add_event(event, state, defaults);
        for (command_id, change) in std::mem::take(&mut self.delta.commands) {
            let row = self.rows.remove(&command_id);
            let row = match (change, row) {
                (CommandChange::Issue(command), _) => Some(FoldedCommand::Open(command)),
                (CommandChange::Close { end, at, error, .. }, Some(FoldedCommand::Open(open))) => {
                    let step = open.instance.step_name;
                    Some(FoldedCommand::Ended { step, end, at, error })
                }
                (CommandChange::Hold { held, .. }, Some(FoldedCommand::Open(mut open))) => {
                    open.held = held;
                    Some(FoldedCommand::Open(open))
                }
                (_, row) => row,
            };
            self.rows.extend(row.map(|row| (command_id, row)));
        }
    }

    pub(super) fn rows(&self) -> &BTreeMap<CommandId, FoldedCommand> {
        &self.rows
    }
}

/// Returns the command that an event changes in the queue.
fn changed_command(event: &Event) -> Option<CommandId> {
    match &event.kind {
        EventKind::CommandIssued(_) => Some(CommandId::from(event.event_id)),
        EventKind::CommandStarted { at, .. } | EventKind::CommandCompleted(at) => Some(at.command),
        EventKind::CommandFailed(closed) => Some(closed.at.command),
        EventKind::CommandCancelled(closed) => Some(closed.at.command),
        EventKind::CommandExpired(expired) => Some(expired.at.command),
        _ => None,
    }
}

fn build_new_command(
    event: &Event,
    issued: &CommandIssued,
    state: &ExecutionState,
    defaults: &QueueDefaults<'_>,
) -> NewCommand {
    let priority = issued.priority.map(|priority| Priority::clamped(priority.into()));
    NewCommand {
        command_id: CommandId::from(event.event_id),
        instance: StepInstance {
            step_name: issued.step.clone(),
            step_pass: issued.run,
            iter_index: issued.index.map(u64::from),
            frame_no: None,
            segment: issued.segment.unwrap_or_default(),
            server_retry: 0,
        },
        tool_kind: issued.tool.as_str().into(),
        pool: defaults.pool.clone(),
        priority: priority.unwrap_or(defaults.priority),
        max_attempts: MaxAttempts::clamped(issued.max_attempts.into()),
        deadline: Some(issued.deadline.saturating_add(DEADLINE_SLACK)),
        not_before: issued.not_before,
        held: state.is_paused(),
        eager_lease: None,
    }
}

fn error_message(error: &TaskError) -> Text {
    error.message.clone()
}

/// Returns the open timers of a state, by id.
pub(super) fn open_timers(state: &ExecutionState, plan: &Plan) -> BTreeMap<Text, Timestamp> {
    let to_entry = |timer: PendingTimer| (format_timer_id(&timer.id), timer.fire_at);
    state.pending_timers(plan).map(to_entry).collect()
}

/// Computes the changes between the timers of two states.
pub(super) fn diff_timers(
    before: &BTreeMap<Text, Timestamp>,
    after: &BTreeMap<Text, Timestamp>,
) -> Vec<TimerChange> {
    let removed = before.keys().filter(|id| !after.contains_key(*id));
    let removed = removed.map(|id| TimerChange::Disarm { timer_id: id.clone() });
    let armed = after.iter().filter(|(id, time)| before.get(*id) != Some(*time));
    let armed = armed.map(|(id, time)| TimerChange::Arm { timer_id: id.clone(), fire_at: *time });
    removed.chain(armed).collect()
}

/// Formats a timer id for the store.
fn format_timer_id(id: &TimerId) -> Text {
    match id {
        TimerId::Start => "start".into(),
        TimerId::Execution => "execution".into(),
        TimerId::Step { step, run } => format!("step:{run}:{step}").into(),
        TimerId::Command { command, timer } => format!("{}:{command}", timer.as_str()).into(),
    }
}

/// Parses a timer id that [`format_timer_id`] wrote.
pub(crate) fn parse_timer_id(text: &str) -> Option<TimerId> {
    match text {
        "start" => return Some(TimerId::Start),
        "execution" => return Some(TimerId::Execution),
        _ => {}
    }
    let (kind, rest) = text.split_once(':')?;
    if let Some(timer) = CommandTimer::parse(kind) {
        let command = rest.parse().ok()?;
        return Some(TimerId::Command { command, timer });
    }
    let (run, step) = text.strip_prefix("step:")?.split_once(':')?;
    Some(TimerId::Step { step: StepName::new(step).ok()?, run: run.parse().ok()? })
}

#[cfg(test)]
mod tests;
