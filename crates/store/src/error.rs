//! Errors of a store, classified by how the caller can react.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// The underlying error, for the operator's log.
pub type ErrorCause = Arc<dyn Error + Send + Sync>;

/// A failure of the store itself, as opposed to a rejected request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A retry may succeed: a connection broke, a disk is full, or a lock was not acquired.
    #[error("the store is temporarily unavailable")]
    Retry {
        /// True if the call may have taken effect. For an append, a retry detects this: if the
        /// first attempt was applied, the retry conflicts on the version.
        outcome_unknown: bool,
        #[source]
        cause: ErrorCause,
    },
    /// A retry cannot succeed: invalid settings, a damaged file, or a statement that the database
    /// rejects.
    #[error("the store cannot execute the operation")]
    Fatal {
        #[source]
        cause: ErrorCause,
    },
}

/// No connection or queue capacity became free within the wait time. Nothing was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no connection to the store became free within {0:?}")]
pub struct StoreSaturated(pub Duration);

/// The disk of the store is full. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[error("the store is out of disk space")]
struct DiskFull(#[source] Box<dyn Error + Send + Sync>);

impl StoreError {
    /// Creates the error of a call that had no effect because the disk is full.
    pub fn disk_full(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::retry(DiskFull(cause.into()))
    }

    /// True if the disk is full and nothing can have taken effect.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Retry { outcome_unknown: false, cause } if cause.is::<DiskFull>())
    }

    /// Creates the retryable error of a file operation that had no effect.
    pub(crate) fn from_io(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::disk_full(error),
            _ => Self::retry(error),
        }
    }

    /// Returns the wait time if the error is a connection timeout and nothing can have taken
    /// effect.
    pub fn as_saturated(&self) -> Option<StoreSaturated> {
        match self {
            Self::Retry { outcome_unknown: false, cause } => {
                cause.downcast_ref::<StoreSaturated>().copied()
            }
            Self::Retry { .. } | Self::Fatal { .. } => None,
        }
    }

    /// Creates a retryable error of a call that had no effect.
    pub fn retry(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Retry { outcome_unknown: false, cause: Arc::from(cause.into()) }
    }

    /// Creates a retryable error of a call that may have taken effect.
    pub fn unknown_outcome(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Retry { outcome_unknown: true, cause: Arc::from(cause.into()) }
    }

    /// Creates an error that a retry cannot fix.
    pub fn fatal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Fatal { cause: Arc::from(cause.into()) }
    }

    /// Converts the error into one with unknown outcome: a failed commit, or a failed check of a
    /// commit.
    #[must_use]
    pub fn with_unknown_outcome(self) -> Self {
        match self {
            Self::Retry { cause, .. } | Self::Fatal { cause } => {
                Self::Retry { outcome_unknown: true, cause }
            }
        }
    }
}

/// Errors are equal if the caller can react in the same way. Their causes are ignored.
impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Retry { outcome_unknown, .. }, Self::Retry { outcome_unknown: other, .. }) => {
                outcome_unknown == other
            }
            (Self::Fatal { .. }, Self::Fatal { .. }) => true,
            (Self::Retry { .. }, Self::Fatal { .. }) | (Self::Fatal { .. }, Self::Retry { .. }) => {
                false
            }
        }
    }
}

impl Eq for StoreError {}
