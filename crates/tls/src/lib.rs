//! TLS client configuration with the verification levels of PostgreSQL.
//!
//! Owns the meaning of `sslmode` values, the certificate verification for each, and the
//! certificate-related parts of PostgreSQL connection strings. The store and the tools both use it,
//! so that a value has the same meaning for the platform's database and for the database of a task.
//! Must not connect or read files.

mod connector;
mod dsn;
mod sslmode;
mod verify;

pub use connector::{EncryptedStream, HostTlsConnector, MakeTlsConnector};
pub use dsn::PostgresDsn;
pub use sslmode::TlsVerification;
pub use verify::client_config_for_host;

/// Error of the TLS configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// An unknown `sslmode`.
    #[error("'{0}' is not an sslmode; use disable, prefer, require, verify-ca or verify-full")]
    Mode(String),
    /// A host name that cannot be in a certificate.
    #[error("'{0}' is not a valid host name for TLS")]
    Host(String),
    /// CA certificates that cannot be used.
    #[error("the CA file (sslrootcert) contains no usable certificate: {0}")]
    Roots(String),
    /// A connection string that cannot be parsed.
    #[error("invalid connection string: {0}")]
    Address(String),
    /// TLS setup failed, for example because the system has no CA certificates.
    #[error("TLS cannot be set up: {0}")]
    SetUp(String),
}
