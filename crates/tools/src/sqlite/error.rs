//! Conversion of SQLite errors to task errors.

use noetl_types::{Json, TaskError, TaskErrorKind};
use rusqlite::{Error, ErrorCode};

/// Error of a statement or a connection.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
pub(super) fn sqlite_error(error: Error) -> TaskError {
    let (failure, message) = match &error {
        Error::SqliteFailure(failure, message) => (failure, message.clone()),
        Error::SqlInputError { error, msg, .. } => (error, Some(msg.clone())),
        other => return TaskError::new(TaskErrorKind::DbError, other.to_string()),
    };
    let code = failure.extended_code;
    let message = message.unwrap_or_else(|| failure.to_string());
    TaskError {
        code: Some(Json::from(code)),
        ..TaskError::new(error_code_kind(failure.code), format!("{message} (SQLite code {code})"))
    }
}

fn error_code_kind(code: ErrorCode) -> TaskErrorKind {
    match code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => TaskErrorKind::DbTimeout,
        ErrorCode::ConstraintViolation => TaskErrorKind::DbConstraint,
        ErrorCode::CannotOpen => TaskErrorKind::DbConnection,
        ErrorCode::DiskFull => TaskErrorKind::StorageQuota,
        ErrorCode::TooBig => TaskErrorKind::Limit,
        ErrorCode::PermissionDenied => TaskErrorKind::StorageAccess,
        ErrorCode::AuthorizationForStatementDenied => TaskErrorKind::Auth,
        ErrorCode::OperationInterrupted => TaskErrorKind::Timeout,
        // The list of codes is open. All others are faults of the statement.
        _ => TaskErrorKind::DbError,
    }
}
