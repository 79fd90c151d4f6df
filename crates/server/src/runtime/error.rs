//! Why the runtime did not do what it was asked.

use noetl_api::{ApiError, Problem};
use noetl_engine::Refused;
use noetl_store::{MachineRefused, StoreError};
use noetl_types::{ErrorCode, Text};

use super::ids::NoIds;

/// Why the runtime did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The request cannot be done, and why.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no machine id to make ids with.
    #[error(transparent)]
    Machine(#[from] MachineRefused),
}

impl RuntimeError {
    /// A refusal of a kind.
    pub(crate) fn refused(code: ErrorCode, detail: impl Into<Text>) -> Self {
        Problem::new(code, detail).into()
    }

    /// There is no such execution.
    pub(crate) fn no_execution() -> Self {
        Self::refused(ErrorCode::NotFound, "there is no such execution")
    }

    /// There is no such definition.
    pub(crate) fn no_definition() -> Self {
        Self::refused(ErrorCode::NotFound, "there is no such definition")
    }

    /// The kind of a refusal.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(problem) => problem.known_code(),
            Self::Store(_) | Self::Machine(_) => None,
        }
    }

    /// How the API tells it. What went wrong below is for the operator's log.
    pub fn into_problem(self) -> Problem {
        match self {
            Self::Refused(problem) => *problem,
            Self::Store(error) => {
                let causes = causes(&error);
                tracing::error!(error = %causes, "the store failed");
                if let Some(saturated) = error.saturated() {
                    return Problem::new(ErrorCode::PoolSaturated, saturated.to_string());
                }
                match error {
                    StoreError::Retry { .. } => Problem::new(
                        ErrorCode::StoreUnavailable,
                        "the store cannot do it now; try again later",
                    ),
                    StoreError::Fatal { .. } => Problem::new(
                        ErrorCode::Internal,
                        "the store refuses; see the server's log",
                    ),
                }
            }
            Self::Machine(refused) => Problem::new(ErrorCode::NotReady, refused.to_string()),
        }
    }
}

/// An error and all that led to it, in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl From<Problem> for RuntimeError {
    fn from(problem: Problem) -> Self {
        Self::Refused(Box::new(problem))
    }
}

impl From<Refused> for RuntimeError {
    fn from(refused: Refused) -> Self {
        if let Refused::Broken(error) = &refused {
            tracing::error!(%error, "a decision contradicts the log");
        }
        Self::refused(refused.code(), refused.to_string())
    }
}

impl From<NoIds> for RuntimeError {
    fn from(reason: NoIds) -> Self {
        Self::refused(ErrorCode::NotReady, reason.to_string())
    }
}

impl From<RuntimeError> for ApiError {
    fn from(error: RuntimeError) -> Self {
        Self::from(error.into_problem())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use noetl_store::Saturated;

    use super::*;

    #[test]
    fn who_waited_for_a_connection_in_vain_is_told_so() {
        let waited = Saturated(Duration::from_secs(30));
        let told = |error| RuntimeError::Store(error).into_problem().known_code();
        let code = told(StoreError::retry(waited));
        assert_eq!(code, Some(ErrorCode::PoolSaturated));
        assert!(code.is_some_and(ErrorCode::wants_retry_after));
        let unsure = told(StoreError::retry(waited).with_unknown_outcome());
        assert_eq!(unsure, Some(ErrorCode::StoreUnavailable));
        let other = told(StoreError::retry("the disk is full"));
        assert_eq!(other, Some(ErrorCode::StoreUnavailable));
    }
}
