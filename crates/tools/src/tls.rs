//! What is told of TLS that cannot be had.

use noetl_tls::TlsError;
use noetl_types::{TaskError, TaskErrorKind};

/// The error of a task that wants TLS in a way that there is none.
pub(crate) fn tls_fault(error: &TlsError) -> TaskError {
    let kind = match error {
        TlsError::Mode(_) | TlsError::Host(_) => TaskErrorKind::Schema,
        TlsError::Roots(_) | TlsError::Address(_) => TaskErrorKind::Parse,
        TlsError::SetUp(_) => TaskErrorKind::Unknown,
    };
    TaskError::new(kind, error.to_string())
}
