//! TLS of clients that trust as much as they are told to.
//!
//! Owns what the words of `sslmode` mean, how certificates are verified for each, and connection
//! strings of PostgreSQL as far as they are about certificates. The store and the tools use the
//! same, so that a word means the same for the platform's database and for that of a task. Must
//! not: connect, or read files.

mod connector;
mod dsn;
mod trust;
mod verify;

pub use connector::{Connector, Encrypted, Tls};
pub use dsn::Dsn;
pub use trust::Trust;
pub use verify::named;

/// Why there is no TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A word that is no mode.
    #[error("'{0}' is not an sslmode; use disable, prefer, require, verify-ca or verify-full")]
    Mode(String),
    /// A host that no certificate can be for.
    #[error("'{0}' cannot be the host of a certificate")]
    Host(String),
    /// A text without a usable certificate.
    #[error("the file of authorities (sslrootcert) holds no certificate that can be used: {0}")]
    Roots(String),
    /// A connection string that cannot be read.
    #[error("the connection string cannot be read: {0}")]
    Address(String),
    /// The machine has no authorities that can be used, or the like.
    #[error("TLS cannot be set up: {0}")]
    SetUp(String),
}
