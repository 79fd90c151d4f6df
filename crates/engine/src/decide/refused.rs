//! Why an input leads to no decision.

use std::sync::Arc;

use noetl_types::id::ClockError;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, ExecutionStatus, StepName, Text, Timestamp, WorkerId,
};

use crate::apply::ApplyError;
use crate::cache::CacheKey;
use crate::event::TimerId;
use crate::slot::SlotGrant;

/// Why an input leads to no decision. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A run begins once.
    #[error("the run has begun already")]
    AlreadyStarted,
    /// Nothing can happen to a run that has not begun.
    #[error("the run has not begun")]
    NotStarted,
    /// The payload of a start is a map.
    #[error("a payload is a map, not a {0}")]
    BadPayload(&'static str),
    /// The payload of a start is nested too deeply to be recorded.
    #[error("the payload is nested too deeply")]
    DeepPayload,
    /// Terminal is final.
    #[error("the run has ended as {0}")]
    AlreadyEnded(ExecutionStatus),
    /// Nothing is claimed or fired while a run is paused.
    #[error("the run is paused")]
    Paused,
    /// Only a paused run can be resumed.
    #[error("the run is not paused")]
    NotPaused,
    /// Only a task that tells its end by itself can be left alone.
    #[error("command {0} has nothing that tells its end by itself")]
    NotParking(CommandId),
    /// No such command is open.
    #[error("no command {0} is open")]
    UnknownCommand(CommandId),
    /// An attempt that has not been granted.
    #[error("command {command} is at attempt {current}, not {found}")]
    ImpossibleAttempt {
        /// The command.
        command: CommandId,
        /// The attempt that it is at.
        current: u32,
        /// The attempt that was named.
        found: u32,
    },
    /// Another worker has the command.
    #[error("command {command} is held by {holder}")]
    HeldByOther {
        /// The command.
        command: CommandId,
        /// Who has it.
        holder: WorkerId,
    },
    /// A command that was given back may not be claimed yet.
    #[error("command {command} is not available before {not_before}")]
    NotBefore {
        /// The command.
        command: CommandId,
        /// When it may be claimed.
        not_before: Timestamp,
    },
    /// No such timeout is open.
    #[error("no such timer is open")]
    UnknownTimer(TimerId),
    /// The timeout has not passed.
    #[error("the timer is not due before {fire_at}")]
    NotDue {
        /// When it is due.
        fire_at: Timestamp,
    },
    /// The names of the engine's own signals are not for others.
    #[error("the signal name `{0}` is reserved")]
    ReservedSignal(Text),
    /// What a signal or a decision says is not what was asked for.
    #[error("the {what} is not what was asked for: {why}")]
    BadMessage {
        /// Payload or values.
        what: &'static str,
        /// Why.
        why: Text,
    },
    /// What a signal says is too large to be recorded.
    #[error("the payload is larger than {limit} bytes; store it and send where it is")]
    LargeMessage {
        /// How large it may be.
        limit: usize,
    },
    /// Nobody waits for the broadcast here.
    #[error("no task of the run waits for the broadcast")]
    NotAwaited,
    /// The playbook has no such step.
    #[error("the playbook has no step `{0}`")]
    UnknownStep(StepName),
    /// No approval is open there: it is decided, or not asked for yet.
    #[error("step `{0}` does not wait for a decision")]
    NothingToDecide(StepName),
    /// Everybody decides once.
    #[error("`{0}` has decided already")]
    DecidedAlready(Text),
    /// Not among those who may decide.
    #[error("`{0}` is not among the approvers")]
    NotAnApprover(Text),
    /// The run is not waited for.
    #[error("no task waits for run {0}")]
    UnknownChild(ExecutionId),
    /// A template reads data that has to be fetched; with it, the same input may be decided.
    #[error("data at {0} has to be fetched first")]
    NeedsPayload(Arc<str>),
    /// A step asks for an earlier result; once somebody has looked for it, the same input may be
    /// decided.
    #[error("an earlier result has to be looked for first")]
    NeedsCache(CacheKey),
    /// Nothing waits for the slot: it is free again.
    #[error("nothing waits for the slot `{}`", .0.key)]
    NoSlotWanted(SlotGrant),
    /// No id can be made now.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The decision contradicts the fold: a mistake of the engine, stopped before it is recorded.
    #[error("the decision contradicts the log: {0}")]
    Broken(#[from] ApplyError),
}

impl Refused {
    /// The code that an API answers with.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyStarted => ErrorCode::IdConflict,
            Self::NotStarted
            | Self::UnknownCommand(_)
            | Self::UnknownTimer(_)
            | Self::NoSlotWanted(_)
            | Self::UnknownStep(_)
            | Self::UnknownChild(_)
            | Self::NotAwaited => ErrorCode::NotFound,
            Self::ReservedSignal(_) | Self::BadMessage { .. } | Self::NotParking(_) => {
                ErrorCode::Validation
            }
            Self::LargeMessage { .. } => ErrorCode::TooLarge,
            Self::NothingToDecide(_) | Self::DecidedAlready(_) => ErrorCode::AlreadyDecided,
            Self::NotAnApprover(_) => ErrorCode::Forbidden,
            Self::BadPayload(_) | Self::DeepPayload => ErrorCode::Validation,
            Self::AlreadyEnded(_) => ErrorCode::AlreadyTerminal,
            Self::Paused => ErrorCode::Paused,
            Self::NotPaused | Self::NotDue { .. } | Self::NotBefore { .. } => {
                ErrorCode::IllegalTransition
            }
            Self::ImpossibleAttempt { .. } => ErrorCode::StaleAttempt,
            Self::HeldByOther { .. } => ErrorCode::ActiveClaim,
            Self::NeedsPayload(_) | Self::NeedsCache(_) | Self::Clock(_) => ErrorCode::NotReady,
            Self::Broken(_) => ErrorCode::Internal,
        }
    }
}
