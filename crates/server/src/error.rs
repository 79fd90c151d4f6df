//! Errors of the runtime.

use std::str::FromStr;

use noetl_api::{ApiError, Problem};
use noetl_engine::DecisionError;
use noetl_store::{MachineLeaseError, StoreError};
use noetl_types::{ErrorCode, Text};

use crate::services::ids::IdAllocationError;

/// Reason why the runtime did not perform an operation.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The request was rejected.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No machine id could be leased.
    #[error(transparent)]
    Machine(#[from] MachineLeaseError),
}

/// Result of a service call.
pub(crate) type Result<T, E = RuntimeError> = std::result::Result<T, E>;

impl RuntimeError {
    /// Builds a rejection with an error code.
    pub(crate) fn refused(code: ErrorCode, detail: impl Into<Text>) -> Self {
        Problem::new(code, detail).into()
    }

    pub(crate) fn invalid(detail: impl Into<Text>) -> Self {
        Self::refused(ErrorCode::Validation, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<Text>) -> Self {
        Self::refused(ErrorCode::Forbidden, detail)
    }

    pub(crate) fn not_found(detail: impl Into<Text>) -> Self {
        Self::refused(ErrorCode::NotFound, detail)
    }

    pub(crate) fn out_of_range(detail: impl Into<Text>) -> Self {
        Self::refused(ErrorCode::OutOfRange, detail)
    }

    pub(crate) fn too_large(detail: impl Into<Text>) -> Self {
        Self::refused(ErrorCode::TooLarge, detail)
    }

    pub(crate) fn internal(detail: impl Into<Text>) -> Self {
        Self::refused(ErrorCode::Internal, detail)
    }

    /// Builds the error for a cursor that does not belong to the list.
    pub(crate) fn invalid_cursor() -> Self {
        Self::refused(ErrorCode::BadQuery, "the cursor is not valid for this list")
    }

    /// Builds the error for an execution that retention has dropped.
    pub(crate) fn dropped_execution() -> Self {
        let text = "the execution was dropped by retention";
        Self::refused(ErrorCode::RetentionDropped, text)
    }

    /// Builds the error for an unknown execution.
    pub(crate) fn no_execution() -> Self {
        Self::not_found("there is no such execution")
    }

    /// Builds the error for an unknown command.
    pub(crate) fn no_command() -> Self {
        Self::not_found("there is no such command")
    }

    /// Builds the error for an unknown definition.
    pub(crate) fn no_definition() -> Self {
        Self::not_found("there is no such definition")
    }

    /// Error code of a rejection.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(problem) => problem.known_code(),
            Self::Store(_) | Self::Machine(_) => None,
        }
    }

    /// Converts to the API error. The details of a store failure are only logged, for the operator.
    pub fn into_problem(self) -> Problem {
        match self {
            Self::Refused(problem) => *problem,
            Self::Store(error) => {
                let causes = error_chain(&error);
                tracing::error!(error = %causes, "the store failed");
                if let Some(saturated) = error.as_saturated() {
                    return Problem::new(ErrorCode::PoolSaturated, saturated.to_string());
                }
                if error.is_disk_full() {
                    let text =
                        "the store is out of disk space; free some and send the request again";
                    return Problem::new(ErrorCode::DiskFull, text);
                }
                match error {
                    StoreError::Retry { .. } => Problem::new(
                        ErrorCode::StoreUnavailable,
                        "the store is unavailable; try again later",
                    ),
                    StoreError::Fatal { .. } => Problem::new(
                        ErrorCode::Internal,
                        "the store reported a permanent failure; see the server's log",
                    ),
                }
            }
            Self::Machine(refused) => Problem::new(ErrorCode::NotReady, refused.to_string()),
        }
    }
}

/// Parses a cursor that is a plain position in a list.
pub(crate) fn parse_cursor<T: FromStr>(cursor: Option<Text>) -> Result<Option<T>> {
    let position = cursor.map(|cursor| cursor.parse()).transpose();
    position.map_err(|_| RuntimeError::invalid_cursor())
}

/// Formats an error and its sources on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors already contain the text of their cause.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

impl From<Problem> for RuntimeError {
    fn from(problem: Problem) -> Self {
        Self::Refused(Box::new(problem))
    }
}

impl From<DecisionError> for RuntimeError {
    fn from(refused: DecisionError) -> Self {
        if let DecisionError::InvariantBroken(error) = &refused {
            tracing::error!(%error, "a decision of the engine contradicts the log");
        }
        Self::refused(refused.code(), refused.to_string())
    }
}

impl From<IdAllocationError> for RuntimeError {
    fn from(reason: IdAllocationError) -> Self {
        Self::refused(ErrorCode::NotReady, reason.to_string())
    }
}

impl From<RuntimeError> for ApiError {
    fn from(error: RuntimeError) -> Self {
        Self::from(error.into_problem())
    }
}

#[cfg(test)]
mod tests;
