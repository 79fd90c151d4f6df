//! What is known of tasks that wait without a worker, and of signals that nobody waited for.

use std::collections::BTreeSet;

use noetl_playbook::graph::StepIndex;
use noetl_playbook::shift::Onward;
use noetl_types::{CommandId, ExecutionId, Json, JsonMap, Seq, SignalId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::layered::{Layered, settled};
use super::{Command, CommandPhase, State};
use crate::event::{
    APPROVAL, Approval, Awaited, ChildCall, CommandTimer, Park, SignalReceived, Wait,
};
use crate::payload::Data;

/// Signals that a run keeps for waits to come. With one more the oldest is forgotten, so that a run
/// stays small whoever sends to it.
pub const MAX_KEPT_SIGNALS: usize = 1000;
/// Broadcasts that a run remembers to have taken. Their ids tell their age, and none is delivered
/// that is older than so many others.
const MAX_BROADCASTS: usize = 10_000;

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// For what.
    pub park: Park,
    /// Since when, in this attempt.
    pub since: Timestamp,
    /// The attempt of the task, from 1.
    pub attempt: u32,
    /// The timer that is open.
    pub timer: Option<OpenTimer>,
    /// The signals that it has taken, in order.
    pub signals: Vec<TakenSignal>,
    /// What earlier attempts wrote, by the keys of `set`.
    pub set: JsonMap,
}

/// A timer of a command that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTimer {
    /// Which one.
    pub timer: CommandTimer,
    /// When it is due.
    pub fire_at: Timestamp,
}

/// A signal that a task has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenSignal {
    /// Which of the awaited ones it is.
    pub slot: u32,
    /// The signal.
    pub signal: KeptSignal,
}

/// A signal that came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSignal {
    /// Its name.
    pub name: Text,
    /// Its key.
    pub key: Option<Text>,
    /// What it says.
    pub payload: Json,
    /// Who sent it.
    pub actor: Option<Text>,
    /// When it came.
    pub received_at: Timestamp,
}

settled!(KeptSignal);

/// What a run knows of signals, besides those that open tasks have taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Mailbox {
    /// Signals that no wait has taken yet, by the event that kept them.
    pub(crate) kept: Layered<Seq, KeptSignal>,
    /// Broadcasts that a wait has taken.
    pub(crate) broadcasts: BTreeSet<SignalId>,
}

impl Mailbox {
    pub(crate) fn keep(&mut self, seq: Seq, signal: KeptSignal) {
        self.kept.insert(seq, signal);
        while self.kept.len() > MAX_KEPT_SIGNALS {
            let Some(oldest) = self.kept.iter().next().map(|(seq, _)| *seq) else {
                break;
            };
            self.kept.remove(&oldest);
        }
    }

    pub(crate) fn note_broadcast(&mut self, broadcast: SignalId) {
        self.broadcasts.insert(broadcast);
        while self.broadcasts.len() > MAX_BROADCASTS {
            self.broadcasts.pop_first();
        }
    }

    /// Whether a broadcast was taken already, or is too old to tell.
    pub(crate) fn knows(&self, broadcast: SignalId) -> bool {
        let is_full = self.broadcasts.len() >= MAX_BROADCASTS;
        let is_too_old = is_full && self.broadcasts.first() > Some(&broadcast);
        is_too_old || self.broadcasts.contains(&broadcast)
    }
}

impl KeptSignal {
    pub(crate) fn of(signal: &SignalReceived, at: Timestamp) -> Self {
        let lookback = signal.taken.as_ref().and_then(|taken| taken.lookback);
        Self {
            name: signal.name.clone(),
            key: signal.key.clone(),
            payload: signal.payload.clone(),
            actor: signal.actor.clone(),
            received_at: lookback.unwrap_or(at),
        }
    }
}

impl Parked {
    /// A task that begins to wait.
    pub(crate) fn new(park: Park, since: Timestamp) -> Self {
        Self {
            park,
            since,
            attempt: 1,
            timer: None,
            signals: Vec::new(),
            set: JsonMap::new(),
        }
    }

    /// The awaited signal that one of this name and key would be, if any.
    pub(crate) fn slot_for(&self, name: &str, key: Option<&Text>) -> Option<u32> {
        let Park::Wait(wait) = &self.park else {
            return None;
        };
        if self.is_between_attempts() {
            return None;
        }
        let fits = |awaited: &Awaited| {
            awaited.name == *name && (awaited.key.is_none() || awaited.key.as_ref() == key)
        };
        let slots = (0..).zip(&wait.signals);
        let mut open = slots.filter(|(slot, _)| !self.has_taken(*slot));
        open.find_map(|(slot, awaited)| fits(awaited).then_some(slot))
    }

    fn has_taken(&self, slot: u32) -> bool {
        self.signals.iter().any(|taken| taken.slot == slot)
    }

    /// Whether it pauses before its next attempt, so that it waits for nothing else.
    pub fn is_between_attempts(&self) -> bool {
        self.timer
            .is_some_and(|open| open.timer == CommandTimer::Retry)
    }

    /// Whether a failure of the run elsewhere ends the wait: children and containers finish.
    pub(crate) fn ends_with_failure(&self) -> bool {
        match self.park {
            Park::Sleep(_) | Park::Wait(_) | Park::Approval(_) | Park::Broken(_) => true,
            Park::Child(_) | Park::Callback(_) => self.is_between_attempts(),
        }
    }

    /// The run that it waits for.
    pub fn awaited_child(&self) -> Option<&ChildCall> {
        match &self.park {
            Park::Child(call) if call.waits && !self.is_between_attempts() => Some(call),
            Park::Child(_)
            | Park::Sleep(_)
            | Park::Wait(_)
            | Park::Approval(_)
            | Park::Callback(_)
            | Park::Broken(_) => None,
        }
    }
}

/// What the commands of a split pipeline have come to, between two of them or while one is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayState {
    /// Which command of the pipeline was closed last, from 0.
    pub segment: u32,
    /// Where it goes on.
    pub onward: Onward,
    /// The data of the tasks so far, by label.
    pub results: Data,
    /// When the next command may begin.
    pub not_before: Option<Timestamp>,
    /// Whether the next command is still to be issued.
    pub is_pending: bool,
}

settled!(RelayState);

/// A wait that is open, for those who look for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWait<'s> {
    /// The command.
    pub command: CommandId,
    /// Its step.
    pub step: StepIndex,
    /// The iteration, in a loop.
    pub index: Option<u32>,
    /// Until when it waits.
    pub until: Option<Timestamp>,
    /// For what.
    pub kind: WaitKind<'s>,
}

/// What an open wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind<'s> {
    /// Signals.
    Signal(&'s Parked, &'s Wait),
    /// A person.
    Approval(&'s Parked, &'s Approval),
}

impl<'s> OpenWait<'s> {
    /// The names that it waits for, each with its key where it has one. What it has taken already
    /// is not among them.
    pub fn names(&self) -> Vec<(&'s str, Option<&'s str>)> {
        match self.kind {
            WaitKind::Approval(..) => vec![(APPROVAL, None)],
            WaitKind::Signal(parked, wait) => (0..)
                .zip(&wait.signals)
                .filter(|(slot, _)| !parked.has_taken(*slot))
                .map(|(_, awaited)| (awaited.name.as_str(), awaited.key.as_deref()))
                .collect(),
        }
    }
}

impl State {
    /// The tasks that wait for signals or for a person, by their commands. One that pauses between
    /// two attempts waits for neither.
    pub fn waits(&self) -> impl Iterator<Item = OpenWait<'_>> {
        self.parked().filter_map(|(command, at, parked)| {
            let kind = match &parked.park {
                _ if parked.is_between_attempts() => return None,
                Park::Wait(wait) => WaitKind::Signal(parked, wait),
                Park::Approval(approval) => WaitKind::Approval(parked, approval),
                Park::Sleep(_) | Park::Child(_) | Park::Callback(_) | Park::Broken(_) => {
                    return None;
                }
            };
            Some(OpenWait {
                command,
                step: at.step,
                index: at.index,
                until: parked.timer.map(|open| open.fire_at),
                kind,
            })
        })
    }

    /// The runs that are waited for, by the commands that wait.
    pub fn children(&self) -> impl Iterator<Item = (CommandId, &ChildCall)> {
        self.parked()
            .filter_map(|(command, _, parked)| Some((command, parked.awaited_child()?)))
    }

    /// The command that waits for a run.
    pub fn waits_for_child(&self, child: ExecutionId) -> Option<CommandId> {
        let mut children = self.children();
        children.find_map(|(command, call)| (call.child == child).then_some(command))
    }

    /// The tasks that wait, by their commands.
    pub fn parked(&self) -> impl Iterator<Item = (CommandId, &Command, &Parked)> {
        self.commands()
            .filter_map(|(id, command)| Some((id, command, command.parked()?)))
    }

    /// Signals that came and that nobody has waited for yet, oldest first.
    pub fn kept_signals(&self) -> impl Iterator<Item = (Seq, &KeptSignal)> {
        let kept = self.mailbox.kept.iter();
        kept.map(|(seq, signal)| (*seq, signal))
    }
}

impl Command {
    /// The wait of a task that parks.
    pub fn parked(&self) -> Option<&Parked> {
        match &self.phase {
            CommandPhase::Parked(parked) => Some(parked),
            CommandPhase::Pending { .. }
            | CommandPhase::Leased { .. }
            | CommandPhase::Spent
            | CommandPhase::Called(_) => None,
        }
    }
}
