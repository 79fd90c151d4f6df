//! Why a call of the API did not give what it should.

use noetl_types::{ErrorCode, Millis, Text};

use crate::problem::Problem;

/// Why a call did not give what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server refused.
    #[error("{}", .problem.detail)]
    Refused {
        /// In its own words.
        problem: Box<Problem>,
        /// How long it asks to wait.
        retry_after: Option<Millis>,
    },
    /// The server was not reached, or the answer was cut off: the call may have taken effect.
    #[error("the server cannot be reached: {0}")]
    Unreachable(Text),
    /// The answer is not what was agreed.
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(Text),
}

impl ApiError {
    /// A refusal of a kind.
    pub fn refused(code: ErrorCode, detail: impl Into<Text>) -> Self {
        Self::from(Problem::new(code, detail))
    }

    /// The kind of a refusal.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { problem, .. } => problem.known_code(),
            Self::Unreachable(_) | Self::Unreadable(_) => None,
        }
    }

    /// Whether the same call, made again later, can go well.
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
        Self::Refused {
            problem: Box::new(problem),
            retry_after: None,
        }
    }
}
