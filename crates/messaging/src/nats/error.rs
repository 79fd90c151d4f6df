//! Errors of a NATS connection.

use std::error::Error;

use noetl_types::Text;

/// A NATS request failed or was rejected. It may be retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NATS: {0}")]
pub struct NatsError(Text);

impl NatsError {
    /// Creates an error from an error and all its sources, in one line.
    pub(super) fn from_error(error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let cause_text = error.to_string();
            // Some errors repeat their cause.
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            cause = error.source();
        }
        Self(text.into())
    }

    pub(super) fn from_text(text: impl Into<Text>) -> Self {
        Self(text.into())
    }
}
