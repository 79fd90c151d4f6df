//! What goes wrong between here and a server.

use std::error::Error;

use noetl_types::Text;

/// A server cannot be asked, or says no. It may be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NATS: {0}")]
pub struct NatsError(Text);

impl NatsError {
    /// An error with all its causes in one line.
    pub(super) fn of(error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            // Some errors repeat their cause.
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        Self(text.into())
    }

    pub(super) fn told(text: impl Into<Text>) -> Self {
        Self(text.into())
    }
}
