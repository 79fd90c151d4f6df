//! Conversion of TLS errors to task errors.

use noetl_tls::TlsError;
use noetl_types::{TaskError, TaskErrorKind};

/// Error of a task whose TLS settings cannot be used.
pub(crate) fn tls_error(error: &TlsError) -> TaskError {
    let kind = match error {
        TlsError::Mode(_) | TlsError::Host(_) => TaskErrorKind::Schema,
        TlsError::Roots(_) | TlsError::Address(_) => TaskErrorKind::Parse,
        TlsError::SetUp(_) => TaskErrorKind::Unknown,
    };
    TaskError::new(kind, error.to_string())
}
