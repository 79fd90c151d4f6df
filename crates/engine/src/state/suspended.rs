//! State of suspended tasks and of buffered signals.

use std::collections::BTreeSet;

use noetl_playbook::bounds::size_within;
use noetl_playbook::command_machine::Continuation;
use noetl_playbook::graph::StepIndex;
use noetl_types::{CommandId, ExecutionId, Json, JsonMap, Seq, SignalId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::layered::{LayeredMap, settled};
use super::{Command, CommandPhase, ExecutionState};
use crate::event::{
    APPROVAL_SIGNAL, ApprovalSpec, AwaitedSignal, ChildCall, CommandTimer, SignalReceived,
    SignalWait, SuspensionKind,
};
use crate::payload::EventData;

/// Maximum number of buffered signals. Further ones are rejected. If the log of an earlier release
/// has more, the oldest are dropped.
pub const MAX_BUFFERED_SIGNALS: usize = 1000;
/// Maximum size of the payloads of buffered signals.
pub const MAX_BUFFERED_SIGNAL_BYTES: usize = 4 << 20;
/// Maximum number of delivered broadcasts that are remembered. Their ids are ordered by time. A
/// broadcast that is older than all remembered ones is not delivered.
const MAX_REMEMBERED_BROADCASTS: usize = 10_000;

/// A suspended task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedTask {
    /// The condition that it waits for.
    #[serde(rename = "park")]
    pub kind: SuspensionKind,
    /// Start of the wait in this attempt.
    pub since: Timestamp,
    /// The attempt of the task, from 1.
    pub attempt: u32,
    /// Open timer.
    pub timer: Option<OpenCommandTimer>,
    /// Signals that were delivered to it, in order.
    pub signals: Vec<DeliveredSignal>,
    /// Writes of earlier attempts, by the keys of `set`.
    pub set: JsonMap,
}

/// An open timer of a suspended command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCommandTimer {
    /// Kind of the timer.
    pub timer: CommandTimer,
    /// Time at which it fires.
    pub fire_at: Timestamp,
}

/// A signal that was delivered to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredSignal {
    /// Index among the awaited signals.
    #[serde(rename = "slot")]
    pub awaited_index: u32,
    /// The signal.
    pub signal: BufferedSignal,
}

/// A received signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferedSignal {
    /// Name of the signal.
    pub name: Text,
    /// Key of the signal.
    pub key: Option<Text>,
    /// Payload of the signal.
    pub payload: Json,
    /// The sender.
    pub actor: Option<Text>,
    /// Time of receipt.
    pub received_at: Timestamp,
}

settled!(BufferedSignal);

/// Signals of an execution that are not delivered to open tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SignalBuffer {
    /// Undelivered signals, by the seq of the event that buffered them.
    pub(crate) kept: LayeredMap<Seq, BufferedSignal>,
    /// Broadcasts that were delivered.
    pub(crate) broadcasts: BTreeSet<SignalId>,
}

impl SignalBuffer {
    /// Returns true if no further signal may be buffered.
    pub(crate) fn is_full(&self) -> bool {
        let subtract = |rest: usize, (_, signal): (&Seq, &BufferedSignal)| {
            rest.checked_sub(size_within(&signal.payload, rest)?)
        };
        let free_bytes = self.kept.iter().try_fold(MAX_BUFFERED_SIGNAL_BYTES, subtract);
        self.kept.len() >= MAX_BUFFERED_SIGNALS || free_bytes.is_none_or(|bytes| bytes == 0)
    }

    pub(crate) fn buffer_signal(&mut self, seq: Seq, signal: BufferedSignal) {
        self.kept.insert(seq, signal);
        while self.kept.len() > MAX_BUFFERED_SIGNALS {
            let Some(oldest) = self.kept.iter().next().map(|(seq, _)| *seq) else {
                break;
            };
            self.kept.remove(&oldest);
        }
    }

    pub(crate) fn remember_broadcast(&mut self, broadcast: SignalId) {
        self.broadcasts.insert(broadcast);
        while self.broadcasts.len() > MAX_REMEMBERED_BROADCASTS {
            self.broadcasts.pop_first();
        }
    }

    /// Returns true if a broadcast was already delivered, or is too old to decide.
    pub(crate) fn has_seen_broadcast(&self, broadcast: SignalId) -> bool {
        let is_full = self.broadcasts.len() >= MAX_REMEMBERED_BROADCASTS;
        let is_too_old = is_full && self.broadcasts.first() > Some(&broadcast);
        is_too_old || self.broadcasts.contains(&broadcast)
    }
}

impl BufferedSignal {
    pub(crate) fn from_event(signal: &SignalReceived, at: Timestamp) -> Self {
        let lookback = signal.delivery.as_ref().and_then(|delivery| delivery.received_at);
        Self {
            name: signal.name.clone(),
            key: signal.key.clone(),
            payload: signal.payload.clone(),
            actor: signal.actor.clone(),
            received_at: lookback.unwrap_or(at),
        }
    }
}

impl SuspendedTask {
    /// Creates a task that begins to wait.
    pub(crate) fn new(kind: SuspensionKind, since: Timestamp) -> Self {
        Self { kind, since, attempt: 1, timer: None, signals: Vec::new(), set: JsonMap::new() }
    }

    /// Returns the index of the open awaited signal that matches a name and a key.
    pub(crate) fn find_awaited_index(&self, name: &str, key: Option<&Text>) -> Option<u32> {
        let SuspensionKind::Wait(wait) = &self.kind else {
            return None;
        };
        if self.is_awaiting_retry() {
            return None;
        }
        let is_match = |awaited: &AwaitedSignal| {
            awaited.name == *name && (awaited.key.is_none() || awaited.key.as_ref() == key)
        };
        let indexed = (0..).zip(&wait.signals);
        let mut open = indexed.filter(|(index, _)| !self.has_received(*index));
        open.find_map(|(index, awaited)| is_match(awaited).then_some(index))
    }

    fn has_received(&self, index: u32) -> bool {
        self.signals.iter().any(|delivered| delivered.awaited_index == index)
    }

    /// Returns true if it waits only for its next attempt.
    pub fn is_awaiting_retry(&self) -> bool {
        self.timer.is_some_and(|open| open.timer == CommandTimer::Retry)
    }

    /// Returns true if an uncaught failure of the execution ends the wait. Children and containers
    /// are allowed to finish.
    pub(crate) fn is_ended_by_failure(&self) -> bool {
        match self.kind {
            SuspensionKind::Sleep(_)
            | SuspensionKind::Wait(_)
            | SuspensionKind::Approval(_)
            | SuspensionKind::Broken(_) => true,
            SuspensionKind::Child(_) | SuspensionKind::Callback(_) => self.is_awaiting_retry(),
        }
    }

    /// Child execution that it waits for.
    pub fn awaited_child(&self) -> Option<&ChildCall> {
        match &self.kind {
            SuspensionKind::Child(call) if call.waits && !self.is_awaiting_retry() => Some(call),
            SuspensionKind::Child(_)
            | SuspensionKind::Sleep(_)
            | SuspensionKind::Wait(_)
            | SuspensionKind::Approval(_)
            | SuspensionKind::Callback(_)
            | SuspensionKind::Broken(_) => None,
        }
    }
}

/// State of a split pipeline, between two of its commands or while one is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPipelineState {
    /// Index of the command that was closed last, from 0.
    pub segment: u32,
    /// Continuation of the pipeline.
    pub onward: Continuation,
    /// Data of the tasks so far, by label.
    pub results: EventData,
    /// Earliest time of the next command.
    pub not_before: Option<Timestamp>,
    /// True if the next command has not been issued yet.
    pub is_pending: bool,
}

settled!(SplitPipelineState);

/// An open wait for signals or for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenWait<'s> {
    /// The command.
    pub command: CommandId,
    /// Its step.
    pub step: StepIndex,
    /// Index of the iteration, in a loop.
    pub index: Option<u32>,
    /// End of the wait.
    pub until: Option<Timestamp>,
    /// The condition that it waits for.
    pub kind: WaitKind<'s>,
}

/// Condition of an open wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind<'s> {
    /// Signals.
    Signal(&'s SuspendedTask, &'s SignalWait),
    /// The decision of a person.
    Approval(&'s SuspendedTask, &'s ApprovalSpec),
}

impl<'s> OpenWait<'s> {
    /// Returns the names that it still waits for, each with its key if it has one. Signals that
    /// were already delivered are excluded.
    pub fn awaited_names(&self) -> Vec<(&'s str, Option<&'s str>)> {
        match self.kind {
            WaitKind::Approval(..) => vec![(APPROVAL_SIGNAL, None)],
            WaitKind::Signal(suspended, wait) => (0..)
                .zip(&wait.signals)
                .filter(|(index, _)| !suspended.has_received(*index))
                .map(|(_, awaited)| (awaited.name.as_str(), awaited.key.as_deref()))
                .collect(),
        }
    }
}

impl ExecutionState {
    /// Iterates over the tasks that wait for signals or for a person, by command. Tasks that wait
    /// for their next attempt are excluded.
    pub fn open_waits(&self) -> impl Iterator<Item = OpenWait<'_>> {
        self.suspended_tasks().filter_map(|(id, command, suspended)| {
            let kind = match &suspended.kind {
                _ if suspended.is_awaiting_retry() => return None,
                SuspensionKind::Wait(wait) => WaitKind::Signal(suspended, wait),
                SuspensionKind::Approval(approval) => WaitKind::Approval(suspended, approval),
                SuspensionKind::Sleep(_)
                | SuspensionKind::Child(_)
                | SuspensionKind::Callback(_)
                | SuspensionKind::Broken(_) => {
                    return None;
                }
            };
            Some(OpenWait {
                command: id,
                step: command.step,
                index: command.index,
                until: suspended.timer.map(|open| open.fire_at),
                kind,
            })
        })
    }

    /// Iterates over the awaited child executions, by the waiting command.
    pub fn awaited_children(&self) -> impl Iterator<Item = (CommandId, &ChildCall)> {
        self.suspended_tasks()
            .filter_map(|(command, _, suspended)| Some((command, suspended.awaited_child()?)))
    }

    /// Finds the command that waits for a child execution.
    pub fn find_command_awaiting(&self, child: ExecutionId) -> Option<CommandId> {
        let mut children = self.awaited_children();
        children.find_map(|(command, call)| (call.child == child).then_some(command))
    }

    /// Iterates over the suspended tasks, by command.
    pub fn suspended_tasks(&self) -> impl Iterator<Item = (CommandId, &Command, &SuspendedTask)> {
        self.commands().filter_map(|(id, command)| Some((id, command, command.suspended_task()?)))
    }

    /// Iterates over the buffered signals, oldest first.
    pub fn buffered_signals(&self) -> impl Iterator<Item = (Seq, &BufferedSignal)> {
        let signals = self.signal_buffer.kept.iter();
        signals.map(|(seq, signal)| (*seq, signal))
    }
}

impl Command {
    /// Suspended task of the command, if any.
    pub fn suspended_task(&self) -> Option<&SuspendedTask> {
        match &self.phase {
            CommandPhase::Suspended(suspended) => Some(suspended),
            CommandPhase::Pending { .. }
            | CommandPhase::Leased { .. }
            | CommandPhase::Spent
            | CommandPhase::Called(_) => None,
        }
    }
}
