//! Failures of a store, by what the caller may do about them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// What went wrong below, kept for the operator's log.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A failure of the store itself, as opposed to an answer that the caller did not hope for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The same call may work later: a connection broke, a disk is full, a lock was not had.
    #[error("the store cannot do it now")]
    Retry {
        /// Whether the call may have taken effect all the same. An append finds out by its
        /// version: one that did conflicts when it is repeated.
        outcome_unknown: bool,
        /// What went wrong.
        #[source]
        cause: Cause,
    },
    /// No repetition helps: wrong settings, a damaged file, a statement that the store refuses.
    #[error("the store refuses")]
    Fatal {
        /// What went wrong.
        #[source]
        cause: Cause,
    },
}

/// Nothing was begun: all connections or places in the queue were taken for as long as one may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no connection to the store became free within {0:?}")]
pub struct Saturated(pub Duration);

impl StoreError {
    /// How long it was waited for a connection in vain, where that is what went wrong and nothing
    /// before it may have taken effect.
    pub fn saturated(&self) -> Option<Saturated> {
        match self {
            Self::Retry {
                outcome_unknown: false,
                cause,
            } => cause.downcast_ref::<Saturated>().copied(),
            Self::Retry { .. } | Self::Fatal { .. } => None,
        }
    }

    /// A failure that left nothing behind.
    pub fn retry(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Retry {
            outcome_unknown: false,
            cause: Arc::from(cause.into()),
        }
    }

    /// A failure that may have taken effect.
    pub fn unknown(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Retry {
            outcome_unknown: true,
            cause: Arc::from(cause.into()),
        }
    }

    /// A failure that no repetition mends.
    pub fn fatal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Fatal {
            cause: Arc::from(cause.into()),
        }
    }

    /// The same failure, of something whose outcome nobody knows: a commit, or a look at whether
    /// one went through.
    #[must_use]
    pub fn with_unknown_outcome(self) -> Self {
        match self {
            Self::Retry { cause, .. } | Self::Fatal { cause } => Self::Retry {
                outcome_unknown: true,
                cause,
            },
        }
    }
}

/// Failures are equal when the caller may do the same about them; their causes are for people.
impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Retry {
                    outcome_unknown, ..
                },
                Self::Retry {
                    outcome_unknown: other,
                    ..
                },
            ) => outcome_unknown == other,
            (Self::Fatal { .. }, Self::Fatal { .. }) => true,
            (Self::Retry { .. }, Self::Fatal { .. }) | (Self::Fatal { .. }, Self::Retry { .. }) => {
                false
            }
        }
    }
}

impl Eq for StoreError {}
