//! What events mean for the queue and the timers.
//!
//! The store decides nothing, so whoever appends says which commands are new or changed and which
//! timers are open. All of that is read off the events here, and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::event::{CommandIssued, CommandTimer, Event, EventKind, TimerId};
use noetl_engine::{Plan, State, Timer};
use noetl_store::{CommandChange, CommandEnd, NewCommand, StepInstance, TimerChange};
use noetl_types::limits::{MaxAttempts, Priority};
use noetl_types::{CommandId, Millis, PoolName, StepName, TaskError, Text, Timestamp};

/// Time that an attempt has beyond the timeouts of its tasks, so that these are reached first and
/// are the worker's to tell.
pub(super) const DEADLINE_SLACK: Millis = Millis::from_secs(5);

/// What a batch of events does to the queue; each command has at most one change.
#[derive(Default)]
pub(super) struct Changes {
    commands: BTreeMap<CommandId, CommandChange>,
    /// Commands that no worker ever gets: the server carries them out, so they have no place in the
    /// queue.
    of_server: BTreeSet<CommandId>,
}

/// What a new command takes from its execution.
pub(super) struct Queueing<'q> {
    pub(super) pool: &'q PoolName,
    pub(super) priority: Priority,
}

impl Changes {
    /// Whether the events change a command that has a change already, so that they need an append
    /// of their own.
    pub(super) fn collide_with(&self, events: &[Event]) -> bool {
        !self.commands.is_empty()
            && events
                .iter()
                .filter_map(command_of)
                .any(|command| self.commands.contains_key(&command))
    }

    /// Adds what one decision does, given the state before and after it. Its events may say several
    /// things of one command, of which the last one counts.
    pub(super) fn add(
        &mut self,
        events: &[Event],
        (before, after): (&State, &State),
        queueing: &Queueing<'_>,
    ) {
        let open = before
            .commands()
            .filter(|(_, command)| command.is_on_server);
        self.of_server.extend(open.map(|(id, _)| id));
        for event in events {
            self.add_event(event, after, queueing);
        }
    }

    fn add_event(&mut self, event: &Event, state: &State, queueing: &Queueing<'_>) {
        let at = event.time;
        match &event.kind {
            EventKind::CommandIssued(issued) if issued.parked.is_some() => {
                self.of_server.insert(CommandId::from(event.event_id));
            }
            EventKind::CommandIssued(issued) => {
                let command = new_command(event, issued, state, queueing);
                self.put(CommandChange::Issue(Box::new(command)));
            }
            EventKind::CommandStarted { at: command, .. } => {
                let command_id = command.command;
                self.put(CommandChange::Run { command_id, at });
            }
            EventKind::CommandCompleted(command) => {
                self.close(command.command, CommandEnd::Completed, at, None);
            }
            EventKind::CommandFailed(closed) => {
                let error = message(&closed.why);
                self.close(closed.at.command, CommandEnd::Failed, at, Some(error));
            }
            EventKind::CommandCancelled(closed) => {
                let why = Some(closed.why.clone());
                self.close(closed.at.command, CommandEnd::Cancelled, at, why);
            }
            EventKind::CommandExpired(expired) => self.put(CommandChange::Requeue {
                command_id: expired.at.command,
                not_before: expired.not_before,
            }),
            EventKind::PlaybookPaused(_) => self.hold(state, true),
            EventKind::PlaybookResumed(_) => self.hold(state, false),
            _ => {}
        }
    }

    fn put(&mut self, change: CommandChange) {
        self.commands.insert(change.command_id(), change);
    }

    fn close(
        &mut self,
        command_id: CommandId,
        end: CommandEnd,
        at: Timestamp,
        error: Option<Text>,
    ) {
        if self.of_server.contains(&command_id) {
            return;
        }
        if let Some(CommandChange::Issue(_)) = self.commands.get(&command_id) {
            // Nobody can have seen it: it never gets into the queue.
            self.commands.remove(&command_id);
            return;
        }
        self.put(CommandChange::Close {
            command_id,
            end,
            at,
            error,
        });
    }

    /// Open commands are held back from workers, or handed out again.
    fn hold(&mut self, state: &State, held: bool) {
        for (command_id, command) in state.commands() {
            if command.is_on_server {
                continue;
            }
            match self.commands.get_mut(&command_id) {
                Some(CommandChange::Issue(command)) => command.held = held,
                Some(_) => {}
                None => self.put(CommandChange::Hold { command_id, held }),
            }
        }
    }

    /// The commands that are new.
    pub(super) fn issued(&mut self) -> impl Iterator<Item = &mut NewCommand> {
        self.commands
            .values_mut()
            .filter_map(|change| match change {
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

/// The command that an event changes in the queue.
fn command_of(event: &Event) -> Option<CommandId> {
    match &event.kind {
        EventKind::CommandIssued(_) => Some(CommandId::from(event.event_id)),
        EventKind::CommandStarted { at, .. } | EventKind::CommandCompleted(at) => Some(at.command),
        EventKind::CommandFailed(closed) => Some(closed.at.command),
        EventKind::CommandCancelled(closed) => Some(closed.at.command),
        EventKind::CommandExpired(expired) => Some(expired.at.command),
        _ => None,
    }
}

fn new_command(
    event: &Event,
    issued: &CommandIssued,
    state: &State,
    queueing: &Queueing<'_>,
) -> NewCommand {
    let priority = issued
        .priority
        .map(|priority| Priority::clamped(priority.into()));
    NewCommand {
        command_id: CommandId::from(event.event_id),
        instance: StepInstance {
            step_name: issued.step.clone(),
            run: issued.run,
            iter_index: issued.index.map(u64::from),
            frame_no: None,
            segment: issued.segment.unwrap_or_default(),
            server_retry: 0,
        },
        tool_kind: issued.tool.as_str().into(),
        pool: queueing.pool.clone(),
        priority: priority.unwrap_or(queueing.priority),
        max_attempts: MaxAttempts::clamped(issued.max_attempts.into()),
        deadline: Some(issued.deadline.saturating_add(DEADLINE_SLACK)),
        not_before: issued.not_before,
        held: state.is_paused(),
        born_claimed: None,
    }
}

fn message(error: &TaskError) -> Text {
    error.message.clone()
}

/// The timers of a state, by their ids.
pub(super) fn timers(state: &State, plan: &Plan) -> BTreeMap<Text, Timestamp> {
    let named = |timer: Timer| (timer_text(&timer.id), timer.fire_at);
    state.timers(plan).map(named).collect()
}

/// What leads from the timers of one state to those of a later one.
pub(super) fn timer_changes(
    before: &BTreeMap<Text, Timestamp>,
    after: &BTreeMap<Text, Timestamp>,
) -> Vec<TimerChange> {
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    let gone = gone.map(|id| TimerChange::Disarm {
        timer_id: id.clone(),
    });
    let new = after
        .iter()
        .filter(|(id, time)| before.get(*id) != Some(*time));
    let new = new.map(|(id, time)| TimerChange::Arm {
        timer_id: id.clone(),
        fire_at: *time,
    });
    gone.chain(new).collect()
}

/// A timer as the store names it.
fn timer_text(id: &TimerId) -> Text {
    match id {
        TimerId::Start => "start".into(),
        TimerId::Execution => "execution".into(),
        TimerId::Step { step, run } => format!("step:{run}:{step}").into(),
        TimerId::Command { command, timer } => format!("{}:{command}", timer.as_str()).into(),
    }
}

/// The timer of a name that [`timer_text`] made.
pub(crate) fn timer_of(text: &str) -> Option<TimerId> {
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
    Some(TimerId::Step {
        step: StepName::new(step).ok()?,
        run: run.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_reads_back() {
        let step = TimerId::Step {
            step: StepName::new("load").unwrap(),
            run: 12,
        };
        let command = CommandId::new(77).unwrap();
        let of_command = |timer| TimerId::Command { command, timer };
        let of_commands = CommandTimer::ALL.map(of_command);
        for id in [TimerId::Start, TimerId::Execution, step]
            .into_iter()
            .chain(of_commands)
        {
            assert_eq!(timer_of(&timer_text(&id)), Some(id));
        }
        assert_eq!(timer_of("sleep:x"), None);
        assert_eq!(timer_of("step:x:load"), None);
    }

    #[test]
    fn timers_open_move_and_close() {
        let time = |second: i64| Timestamp::from_unix_ms(second * 1000).unwrap();
        let before = BTreeMap::from([("a".into(), time(1)), ("b".into(), time(2))]);
        let after = BTreeMap::from([("b".into(), time(3)), ("c".into(), time(4))]);
        let changes = timer_changes(&before, &after);
        let arm = |id: &str, fire_at| TimerChange::Arm {
            timer_id: id.into(),
            fire_at,
        };
        let disarm = TimerChange::Disarm {
            timer_id: "a".into(),
        };
        assert_eq!(changes, [disarm, arm("b", time(3)), arm("c", time(4))]);
        assert_eq!(timer_changes(&after, &after), []);
    }
}
