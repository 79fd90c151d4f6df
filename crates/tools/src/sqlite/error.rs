//! Conversion of SQLite errors to task errors.

use noetl_types::{Json, TaskError, TaskErrorKind};
use rusqlite::{Error, ErrorCode};

use crate::sql::SqlError;

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        let (failure, message) = match &error {
            Error::SqliteFailure(failure, message) => (failure, message.clone()),
            Error::SqlInputError { error, msg, .. } => (error, Some(msg.clone())),
            other => return Self(TaskError::new(TaskErrorKind::DbError, other.to_string())),
        };
        let code = failure.extended_code;
        let message = message.unwrap_or_else(|| failure.to_string());
        let message = format!("{message} (SQLite code {code})");
        Self(TaskError {
            code: Some(Json::from(code)),
            ..TaskError::new(error_code_kind(failure.code), message)
        })
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
