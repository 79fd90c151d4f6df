//! What a server's errors become.

use std::error::Error;

use async_nats::jetstream;
use noetl_types::{TaskError, TaskErrorKind};

/// The error of something that did not work out, with its causes.
pub(crate) fn failed(what: &str, error: &dyn Error) -> TaskError {
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
    let kind = if text.contains("timed out") {
        TaskErrorKind::Timeout
    } else if text.contains("uthorization") || text.contains("ermissions") {
        TaskErrorKind::Auth
    } else {
        TaskErrorKind::Connection
    };
    TaskError::new(kind, format!("{what}: {text}"))
}

/// The error of what is not there.
pub(super) fn not_found(what: &str, name: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::NotFound,
        format!("there is no {what} '{name}'"),
    )
}

/// The error of a name that a server does not take.
pub(super) fn illegal(key: &str, name: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Schema,
        format!("'{name}' cannot be the name of a {key}"),
    )
}

/// Whether a server says that something is not there.
pub(super) fn is_missing(error: &jetstream::Error) -> bool {
    use jetstream::ErrorCode as Code;
    [
        Code::STREAM_NOT_FOUND,
        Code::CONSUMER_NOT_FOUND,
        Code::NO_MESSAGE_FOUND,
    ]
    .contains(&error.error_code())
}
