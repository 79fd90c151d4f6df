//! Errors of API calls.

use noetl_types::{ErrorCode, Millis, Text};

use crate::problem::Problem;

/// Error of an API call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server rejected the request.
    #[error("{}", .problem.detail)]
    Refused {
        /// Problem document from the server.
        problem: Box<Problem>,
        /// Time to wait before a retry, if the server sent one.
        retry_after: Option<Millis>,
    },
    /// The server was not reached, or the response was incomplete. The request may have taken
    /// effect.
    #[error("the server cannot be reached: {0}")]
    Unreachable(Text),
    /// The response does not have the expected form.
    #[error("the server's response cannot be read: {0}")]
    Unreadable(Text),
}

impl ApiError {
    /// Creates a rejection with an error code.
    pub fn refused(code: ErrorCode, detail: impl Into<Text>) -> Self {
        Self::from(Problem::new(code, detail))
    }

    /// Returns the error code of a rejection.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { problem, .. } => problem.known_code(),
            Self::Unreachable(_) | Self::Unreadable(_) => None,
        }
    }

    /// Returns the delay before a retry that the server requests.
    pub fn retry_after(&self) -> Option<Millis> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable(_) | Self::Unreadable(_) => None,
        }
    }

    /// True if the same call can succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => {
                problem.known_code().is_some_and(ErrorCode::is_retryable)
                    || matches!(problem.status, 408 | 429 | 502 | 503 | 504)
            }
            Self::Unreachable(_) => true,
            Self::Unreadable(_) => false,
        }
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self::Refused { problem: Box::new(problem), retry_after: None }
    }
}
