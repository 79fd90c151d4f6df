//! Errors of decisions.

use std::sync::Arc;

use noetl_types::id::ClockError;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, ExecutionStatus, StepName, Text, Timestamp, WorkerId,
};

use crate::apply::ApplyError;
use crate::cache::CacheKey;
use crate::event::TimerId;
use crate::slot::SlotGrant;

/// Reason why an input was rejected. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// An execution starts only once.
    #[error("the execution has already started")]
    AlreadyStarted,
    /// The execution has not started.
    #[error("the execution has not started")]
    NotStarted,
    /// The payload of a start must be a map.
    #[error("the payload must be a map, not a {0}")]
    InvalidPayload(&'static str),
    /// The payload is nested too deeply to be recorded.
    #[error("the payload is nested too deeply")]
    PayloadTooDeep,
    /// The execution has ended.
    #[error("the execution has already ended with status {0}")]
    AlreadyEnded(ExecutionStatus),
    /// Nothing is claimed or fired while the execution is paused.
    #[error("the execution is paused")]
    Paused,
    /// Only a paused execution can be resumed.
    #[error("the execution is not paused")]
    NotPaused,
    /// Only a task that reports its end by a callback can be suspended by a worker.
    #[error("the task of command {0} does not end with a callback")]
    NotSuspendable(CommandId),
    /// The command is not open.
    #[error("no command {0} is open")]
    UnknownCommand(CommandId),
    /// The attempt has not been granted.
    #[error("command {command} is at attempt {current}, not {found}")]
    UngrantedAttempt {
        /// The command.
        command: CommandId,
        /// Current attempt.
        current: u32,
        /// Attempt in the input.
        found: u32,
    },
    /// Another worker holds the command.
    #[error("command {command} is held by {holder}")]
    HeldByOther {
        /// The command.
        command: CommandId,
        /// The worker that holds it.
        holder: WorkerId,
    },
    /// The command may not be claimed yet.
    #[error("command {command} is not available before {not_before}")]
    NotBefore {
        /// The command.
        command: CommandId,
        /// Earliest time of a claim.
        not_before: Timestamp,
    },
    /// The timer is not open.
    #[error("no such timer is open")]
    UnknownTimer(TimerId),
    /// The timer is not due yet.
    #[error("the timer is not due before {fire_at}")]
    NotDue {
        /// Time at which it is due.
        fire_at: Timestamp,
    },
    /// The signal name is reserved for the engine.
    #[error("the signal name `{0}` is reserved")]
    ReservedSignal(Text),
    /// The payload of a signal or the values of a decision do not match the schema.
    #[error("the {what} does not match its schema: {why}")]
    SchemaMismatch {
        /// The rejected part: payload or form.
        what: &'static str,
        /// The violation.
        why: Text,
    },
    /// The payload of a signal is too large to be recorded.
    #[error("the payload is larger than {limit} bytes; store the data and send a reference")]
    SignalTooLarge {
        /// Size limit in bytes.
        limit: usize,
    },
    /// The execution keeps too many signals that no task has received.
    #[error(
        "the execution keeps {limit} signals, or {limit_bytes} bytes of them, that no task has \
         received; send further ones when a task waits for them"
    )]
    TooManySignals {
        /// Maximum number of kept signals.
        limit: usize,
        /// Maximum size of their payloads.
        limit_bytes: usize,
    },
    /// No task waits for the broadcast.
    #[error("no task of the execution waits for the broadcast")]
    NotAwaited,
    /// The playbook has no such step.
    #[error("the playbook has no step `{0}`")]
    UnknownStep(StepName),
    /// The step has no open approval: it is decided, or not requested yet.
    #[error("step `{0}` has no open approval")]
    NoOpenApproval(StepName),
    /// A person may decide only once.
    #[error("`{0}` has already decided")]
    AlreadyDecided(Text),
    /// The person is not an approver.
    #[error("`{0}` is not among the approvers")]
    NotAnApprover(Text),
    /// No task waits for the child execution.
    #[error("no task waits for execution {0}")]
    UnknownChild(ExecutionId),
    /// A template reads data that must be fetched. The same input can be decided with the data.
    #[error("data at {0} must be fetched first")]
    NeedsPayload(Arc<str>),
    /// A step needs a cache lookup. The same input can be decided with its result.
    #[error("the step cache must be queried first")]
    NeedsCache(CacheKey),
    /// Nothing waits for the slot, so it must be released.
    #[error("nothing waits for the slot `{}`", .0.key)]
    SlotNotRequested(SlotGrant),
    /// No id can be generated now.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The decision contradicts the fold: a bug in the engine, detected before anything is
    /// recorded.
    #[error("the decision contradicts the log: {0}")]
    InvariantBroken(#[from] ApplyError),
}

impl DecisionError {
    /// Error code for API responses.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyStarted => ErrorCode::IdConflict,
            Self::NotStarted
            | Self::UnknownCommand(_)
            | Self::UnknownTimer(_)
            | Self::SlotNotRequested(_)
            | Self::UnknownStep(_)
            | Self::UnknownChild(_)
            | Self::NotAwaited => ErrorCode::NotFound,
            Self::ReservedSignal(_) | Self::SchemaMismatch { .. } | Self::NotSuspendable(_) => {
                ErrorCode::Validation
            }
            Self::SignalTooLarge { .. } => ErrorCode::TooLarge,
            Self::TooManySignals { .. } => ErrorCode::QuotaExceeded,
            Self::NoOpenApproval(_) | Self::AlreadyDecided(_) => ErrorCode::AlreadyDecided,
            Self::NotAnApprover(_) => ErrorCode::Forbidden,
            Self::InvalidPayload(_) | Self::PayloadTooDeep => ErrorCode::Validation,
            Self::AlreadyEnded(_) => ErrorCode::AlreadyTerminal,
            Self::Paused => ErrorCode::Paused,
            Self::NotPaused | Self::NotDue { .. } | Self::NotBefore { .. } => {
                ErrorCode::IllegalTransition
            }
            Self::UngrantedAttempt { .. } => ErrorCode::StaleAttempt,
            Self::HeldByOther { .. } => ErrorCode::ActiveClaim,
            Self::NeedsPayload(_) | Self::NeedsCache(_) | Self::Clock(_) => ErrorCode::NotReady,
            Self::InvariantBroken(_) => ErrorCode::Internal,
        }
    }
}
