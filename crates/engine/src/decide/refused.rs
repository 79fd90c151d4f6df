//! Why an input leads to no decision.

use std::sync::Arc;

use noetl_types::id::ClockError;
use noetl_types::{CommandId, ErrorCode, ExecutionStatus, StepName, Timestamp, WorkerId};

use crate::apply::ApplyError;
use crate::event::TimerId;
use crate::plan::Construct;

/// Why an input leads to no decision. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A run begins once.
    #[error("the run has begun already")]
    AlreadyStarted,
    /// Nothing can happen to a run that has not begun.
    #[error("the run has not begun")]
    NotStarted,
    /// The playbook uses what this engine does not run.
    #[error("{} is not supported{}", .construct.as_str(), in_step(.step.as_ref()))]
    NotSupported {
        /// What it uses.
        construct: Construct,
        /// Where.
        step: Option<StepName>,
    },
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
    /// A template reads data that has to be fetched; with it, the same input may be decided.
    #[error("data at {0} has to be fetched first")]
    NeedsPayload(Arc<str>),
    /// No id can be made now.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The decision contradicts the fold: a mistake of the engine, stopped before it is recorded.
    #[error("the decision contradicts the log: {0}")]
    Broken(#[from] ApplyError),
}

fn in_step(step: Option<&StepName>) -> String {
    step.map_or_else(String::new, |step| format!(" (step `{step}`)"))
}

impl Refused {
    /// The code that an API answers with.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyStarted => ErrorCode::IdConflict,
            Self::NotStarted | Self::UnknownCommand(_) | Self::UnknownTimer(_) => {
                ErrorCode::NotFound
            }
            Self::NotSupported { .. } => ErrorCode::NotSupported,
            Self::BadPayload(_) | Self::DeepPayload => ErrorCode::Validation,
            Self::AlreadyEnded(_) => ErrorCode::AlreadyTerminal,
            Self::Paused => ErrorCode::Paused,
            Self::NotPaused | Self::NotDue { .. } | Self::NotBefore { .. } => {
                ErrorCode::IllegalTransition
            }
            Self::ImpossibleAttempt { .. } => ErrorCode::StaleAttempt,
            Self::HeldByOther { .. } => ErrorCode::ActiveClaim,
            Self::NeedsPayload(_) | Self::Clock(_) => ErrorCode::NotReady,
            Self::Broken(_) => ErrorCode::Internal,
        }
    }
}
