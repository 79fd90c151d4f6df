//! Event types of an execution.
//!
//! Owns the events that the fold understands and their form in a stored record. It contains
//! nothing about the effect of an event on the state.

mod codec;
mod command;
mod cursor;
mod playbook;
mod step;
mod suspension;

#[cfg(test)]
pub(crate) mod tests;

pub use codec::{DecodeError, ExecutionHeader, decode_record, encode_event};
pub(crate) use codec::{errors_json, stats_json};
pub use command::{
    CachedResultUsed, CallDone, CallError, CallOutcome, CommandClaimed, CommandClosed,
    CommandExpired, CommandIssued, CommandRef, ExpiryReason, IssuedContext, LoopRef, ResultIgnored,
    ScheduledRetry,
};
pub use cursor::{CursorEntered, CursorSettings, FrameRequest};
pub use playbook::{ControlInfo, ExecutionTimer, PlaybookFailed, PlaybookStarted, TimerId};
pub use step::{
    CtxSource, CtxUpdated, IterationError, LoopDone, LoopEntered, LoopStats, SkipReason, StepEnd,
    StepEntered, StepExited, StepSkipped,
};
pub use suspension::{
    APPROVAL_SIGNAL, ApprovalSpec, ApprovalTimeoutAction, AwaitedSignal, CHILD_ENDED_SIGNAL,
    ChildCall, ChildTarget, ChildTimeoutAction, CommandTimer, CommandTimerFired, InvalidTaskConfig,
    PendingCallback, SignalDelivery, SignalReceived, SignalWait, SleepSpec, SuspensionKind,
    TimerStarted, WaitMode,
};

use noetl_types::{EventId, EventName, EventType, Json, Seq, TaskError, Text, Timestamp};

use crate::payload::EventData;

/// One event of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Position in the log of the execution.
    pub seq: Seq,
    /// Id of the event.
    pub event_id: EventId,
    /// Time of the event.
    pub time: Timestamp,
    /// Id of the event that caused it, if that is not the previous one.
    pub cause: Option<EventId>,
    /// Type and payload.
    pub kind: EventKind,
}

/// Type and payload of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The execution started. Pins its definition and contains its input.
    PlaybookStarted(Box<PlaybookStarted>),
    /// The execution was paused: nothing is entered, issued or fired until it is resumed.
    PlaybookPaused(ControlInfo),
    /// The execution was resumed.
    PlaybookResumed(ControlInfo),
    /// The execution was cancelled: everything stops, and its final step runs.
    PlaybookCancelRequested(ControlInfo),
    /// The execution completed.
    PlaybookCompleted {
        /// Result of the execution.
        result: Option<EventData>,
    },
    /// The execution failed.
    PlaybookFailed(Box<PlaybookFailed>),
    /// The execution was cancelled.
    PlaybookCancelled(ControlInfo),
    /// A pass of a step began.
    StepEntered(Box<StepEntered>),
    /// A pass of a step ended.
    StepExited(Box<StepExited>),
    /// A step was skipped.
    StepSkipped(StepSkipped),
    /// A command was issued: work for a worker, or a task that the server suspends.
    CommandIssued(Box<CommandIssued>),
    /// A worker claimed the command.
    CommandClaimed(Box<CommandClaimed>),
    /// The worker started the command.
    CommandStarted {
        /// The command.
        at: CommandRef,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// The worker reported progress.
    CommandHeartbeat {
        /// The command.
        at: CommandRef,
        /// Progress as reported.
        progress: Json,
    },
    /// The tasks of a command succeeded.
    CallDone(Box<CallDone>),
    /// A step reused a cached result. No command was issued.
    CachedResultUsed(Box<CachedResultUsed>),
    /// A task of a command failed, finally or with a retry to follow.
    CallError(Box<CallError>),
    /// The command completed.
    CommandCompleted(CommandRef),
    /// The command failed.
    CommandFailed(Box<CommandClosed<TaskError>>),
    /// The command was cancelled.
    CommandCancelled(Box<CommandClosed<Text>>),
    /// The lease of an attempt expired.
    CommandExpired(Box<CommandExpired>),
    /// A stale result was ignored. Has no effect on the state.
    ResultIgnored(Box<ResultIgnored>),
    /// Every iteration of a loop has ended.
    LoopDone(Box<LoopDone>),
    /// A timer of a step or of the execution fired.
    TimerFired {
        /// The timer.
        timer: ExecutionTimer,
        /// Time at which it was due.
        fire_at: Timestamp,
    },
    /// A timer of a suspended task started.
    TimerStarted(Box<TimerStarted>),
    /// A timer of a suspended task fired.
    CommandTimerFired(Box<CommandTimerFired>),
    /// A signal was received and delivered to a waiting task, or buffered for a later one.
    SignalReceived(Box<SignalReceived>),
    /// Variables were written.
    CtxUpdated(Box<CtxUpdated>),
    /// An event without effect on the state. It only advances the seq.
    Other(EventName),
}

impl EventKind {
    /// Name of the event as stored.
    pub fn name(&self) -> EventName {
        match self {
            Self::PlaybookStarted(_) => EventType::PlaybookStarted.into(),
            Self::PlaybookPaused(_) => EventType::PlaybookPaused.into(),
            Self::PlaybookResumed(_) => EventType::PlaybookResumed.into(),
            Self::PlaybookCancelRequested(_) => EventType::PlaybookCancelRequested.into(),
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
            Self::CallDone(_) | Self::CachedResultUsed(_) => EventType::CallDone.into(),
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
