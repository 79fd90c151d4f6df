//! Conversion of NATS errors to task errors.

use std::error::Error;

use async_nats::jetstream;
use noetl_types::{TaskError, TaskErrorKind};

use crate::config::schema_error;

/// Error of a failed operation, with its causes.
pub(crate) fn nats_error(summary: &str, error: &dyn Error) -> TaskError {
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
    let kind = if text.contains("timed out") {
        TaskErrorKind::Timeout
    } else if text.contains("uthorization") || text.contains("ermissions") {
        TaskErrorKind::Auth
    } else {
        TaskErrorKind::Connection
    };
    TaskError::new(kind, format!("{summary}: {text}"))
}

/// Converts the errors of NATS operations.
pub(super) trait NatsResult<T> {
    /// Converts an error to a task error that begins with a summary.
    fn or_fail(self, summary: &str) -> Result<T, TaskError>;
}

impl<T, E: Error> NatsResult<T> for Result<T, E> {
    fn or_fail(self, summary: &str) -> Result<T, TaskError> {
        self.map_err(|error| nats_error(summary, &error))
    }
}

/// Error for a missing item.
pub(super) fn not_found(kind: &str, name: &str) -> TaskError {
    TaskError::new(TaskErrorKind::NotFound, format!("there is no {kind} '{name}'"))
}

/// Error for a name that the server does not accept.
pub(super) fn invalid_name(key: &str, name: &str) -> TaskError {
    schema_error(format!("'{name}' is not a valid {key} name"))
}

/// True if the server reports that an item does not exist.
pub(super) fn is_not_found(error: &jetstream::Error) -> bool {
    use jetstream::ErrorCode as Code;
    [Code::STREAM_NOT_FOUND, Code::CONSUMER_NOT_FOUND, Code::NO_MESSAGE_FOUND]
        .contains(&error.error_code())
}
