//! What happens in a run, as types.
//!
//! Owns the events that the fold understands and their place in a stored record. Knows nothing of
//! what an event does to a run.

mod codec;
mod command;
mod cursor;
mod park;
mod playbook;
mod step;

#[cfg(test)]
pub(crate) mod tests;

pub use codec::{DecodeError, ExecutionHeader, decode, encode};
pub(crate) use codec::{errors_json, stats_json};
pub use command::{
    CallDone, CallError, CallOutcome, CommandAt, CommandClaimed, CommandClosed, CommandExpired,
    CommandIssued, ExpiryReason, IssuedContext, LoopRef, ResultIgnored, Retried, TakenOver,
};
pub use cursor::{CursorEntered, CursorTerms, FrameAsk};
pub use park::{
    APPROVAL, Approval, Awaited, Broken, CHILD_ENDED, Callback, ChildCall, ChildOf, CommandTimer,
    CommandTimerFired, Overdue, Park, SignalReceived, Sleep, Taken, TimerStarted, Unanswered, Wait,
    WaitMode,
};
pub use playbook::{Failed, Started, Steering, Timeout, TimerId};
pub use step::{
    CtxSource, CtxUpdated, IterationError, LoopDone, LoopEntered, LoopStats, SkipReason, StepEnd,
    StepEntered, StepExited, StepSkipped,
};

use noetl_types::{EventId, EventName, EventType, Json, Seq, TaskError, Text, Timestamp};

use crate::payload::Data;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in the run.
    pub seq: Seq,
    /// Its id.
    pub event_id: EventId,
    /// When it happened.
    pub time: Timestamp,
    /// The event that led to it, where that is not the one before.
    pub cause: Option<EventId>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The run began; pins its definition and holds its input.
    PlaybookStarted(Box<Started>),
    /// Nothing is entered, issued or fired until it is resumed.
    PlaybookPaused(Steering),
    /// It goes on.
    PlaybookResumed(Steering),
    /// It ended well.
    PlaybookCompleted {
        /// What came out.
        result: Option<Data>,
    },
    /// It ended with a failure.
    PlaybookFailed(Box<Failed>),
    /// Somebody ended it.
    PlaybookCancelled(Steering),
    /// A run of a step began.
    StepEntered(Box<StepEntered>),
    /// A run of a step ended.
    StepExited(Box<StepExited>),
    /// A step was passed over.
    StepSkipped(StepSkipped),
    /// Work for a worker, or a task that waits without one.
    CommandIssued(Box<CommandIssued>),
    /// A worker took it.
    CommandClaimed(Box<CommandClaimed>),
    /// The worker began.
    CommandStarted {
        /// Which command.
        at: CommandAt,
        /// The attempt.
        attempt: u32,
    },
    /// The worker told how far it is.
    CommandHeartbeat {
        /// Which command.
        at: CommandAt,
        /// How far it is.
        progress: Json,
    },
    /// The tasks of a command went well.
    CallDone(Box<CallDone>),
    /// A step took an earlier result over; no command was issued.
    TakenOver(Box<TakenOver>),
    /// A task of a command failed: for good, or to be tried again.
    CallError(Box<CallError>),
    /// The command is done.
    CommandCompleted(CommandAt),
    /// The command failed.
    CommandFailed(Box<CommandClosed<TaskError>>),
    /// The command is no longer wanted.
    CommandCancelled(Box<CommandClosed<Text>>),
    /// The lease of an attempt ran out.
    CommandExpired(Box<CommandExpired>),
    /// A result that came too late; changes nothing.
    ResultIgnored(Box<ResultIgnored>),
    /// Every iteration of a loop is done.
    LoopDone(Box<LoopDone>),
    /// The time of a step or of the run is up.
    TimerFired {
        /// Which one.
        timer: Timeout,
        /// When it was due.
        fire_at: Timestamp,
    },
    /// A task waits, for so long at most.
    TimerStarted(Box<TimerStarted>),
    /// A task has waited for so long.
    CommandTimerFired(Box<CommandTimerFired>),
    /// A signal came: for a task that waits, or to be kept for one that will.
    SignalReceived(Box<SignalReceived>),
    /// Variables were written.
    CtxUpdated(Box<CtxUpdated>),
    /// An event that shapes nothing here; it only takes its place in the order.
    Other(EventName),
}

impl EventKind {
    /// The name under which it is stored.
    pub fn name(&self) -> EventName {
        match self {
            Self::PlaybookStarted(_) => EventType::PlaybookStarted.into(),
            Self::PlaybookPaused(_) => EventType::PlaybookPaused.into(),
            Self::PlaybookResumed(_) => EventType::PlaybookResumed.into(),
            Self::PlaybookCompleted { .. } => EventType::PlaybookCompleted.into(),
            Self::PlaybookFailed(_) => EventType::PlaybookFailed.into(),
            Self::PlaybookCancelled(_) => EventType::PlaybookCancelled.into(),
            Self::StepEntered(_) => EventType::StepEnter.into(),
            Self::StepExited(_) => EventType::StepExit.into(),
            Self::StepSkipped(_) => EventType::StepSkipped.into(),
            Self::CommandIssued(_) => EventType::CommandIssued.into(),
            Self::CommandClaimed(_) => EventType::CommandClaimed.into(),
            Self::CommandStarted { .. } => EventType::CommandStarted.into(),
            Self::CommandHeartbeat { .. } => EventType::CommandHeartbeat.into(),
            Self::CallDone(_) | Self::TakenOver(_) => EventType::CallDone.into(),
            Self::CallError(_) => EventType::CallError.into(),
            Self::CommandCompleted(_) => EventType::CommandCompleted.into(),
            Self::CommandFailed(_) => EventType::CommandFailed.into(),
            Self::CommandCancelled(_) => EventType::CommandCancelled.into(),
            Self::CommandExpired(_) => EventType::CommandExpired.into(),
            Self::ResultIgnored(_) => EventType::CommandResultIgnored.into(),
            Self::LoopDone(_) => EventType::LoopDone.into(),
            Self::TimerFired { .. } | Self::CommandTimerFired(_) => EventType::TimerFired.into(),
            Self::TimerStarted(_) => EventType::TimerStarted.into(),
            Self::SignalReceived(_) => EventType::SignalReceived.into(),
            Self::CtxUpdated(_) => EventType::CtxUpdated.into(),
            Self::Other(name) => name.clone(),
        }
    }
}
