//! Conversion of server and connection errors to task errors.

use std::error::Error as _;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, ErrorPosition};

use super::target::ServerEndpoint;
use crate::sql::SqlError;
use crate::tls::tls_error;

/// Error of a statement.
impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        if let Some(db_error) = error.as_db_error() {
            return Self(server_error(db_error));
        }
        let cause = error.source();
        let io_error = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
        Self(if io_error.is_some() || error.is_closed() {
            let reason = cause.map_or_else(|| "it is closed".to_owned(), ToString::to_string);
            let message = format!("the connection to the server was lost: {reason}");
            TaskError::new(TaskErrorKind::DbConnection, message)
        } else {
            TaskError::new(TaskErrorKind::DbError, with_cause(&error))
        })
    }
}

/// True if no connection could be made, so that another address may work.
pub(super) fn is_unreachable(error: &Error) -> bool {
    // The driver does not tell by any other means.
    error.to_string() == "error connecting to server"
}

/// Error of a failed connection attempt.
pub(super) fn login_error(server: &ServerEndpoint, error: &Error) -> TaskError {
    if let Some(db_error) = error.as_db_error() {
        return server_error(db_error);
    }
    let message = match error.source() {
        Some(cause) if let Some(error) = cause.downcast_ref() => return tls_error(error),
        Some(cause) if is_unreachable(error) => {
            format!("the server at {server} cannot be reached: {cause}")
        }
        _ => format!("the connection to the server at {server} failed: {}", with_cause(error)),
    };
    TaskError::new(TaskErrorKind::DbConnection, message)
}

fn with_cause(error: &Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn sqlstate_kind(code: &str) -> TaskErrorKind {
    match (code.get(..2), code) {
        // The server is shutting down, starting or full, which is equivalent to a missing one.
        (Some("08"), _) | (_, "57P01" | "57P02" | "57P03" | "53300") => TaskErrorKind::DbConnection,
        (Some("23"), _) => TaskErrorKind::DbConstraint,
        (_, "40001" | "40P01") => TaskErrorKind::DbDeadlock,
        (_, "57014" | "55P03") => TaskErrorKind::DbTimeout,
        // The credential is wrong, so a retry would fail again.
        (Some("28"), _) => TaskErrorKind::Auth,
        (_, _) => TaskErrorKind::DbError,
    }
}

fn server_error(db_error: &DbError) -> TaskError {
    let code = db_error.code().code();
    let mut message = format!("{}: {} (SQLSTATE {code})", db_error.severity(), db_error.message());
    let mut details = JsonMap::from([
        ("severity".into(), Json::from(db_error.severity())),
        ("message".into(), Json::from(db_error.message())),
    ]);
    for (label, name, text) in
        [("Detail", "detail", db_error.detail()), ("Hint", "hint", db_error.hint())]
    {
        if let Some(text) = text {
            message.push_str(&format!("\n{label}: {text}"));
            details.insert(name.into(), Json::from(text));
        }
    }
    for (name, text) in [
        ("schema", db_error.schema()),
        ("table", db_error.table()),
        ("column", db_error.column()),
        ("constraint", db_error.constraint()),
        ("where", db_error.where_()),
    ] {
        if let Some(text) = text {
            details.insert(name.into(), Json::from(text));
        }
    }
    if let Some(ErrorPosition::Original(position)) = db_error.position() {
        details.insert("position".into(), Json::from(*position));
    }
    TaskError {
        code: Some(Json::from(code)),
        details: Some(details.into()),
        ..TaskError::new(sqlstate_kind(code), message)
    }
}

#[cfg(test)]
mod tests;
