//! TLS client configuration with the verification levels of PostgreSQL.
//!
//! Owns the meaning of `sslmode` values, the certificate verification for each, and the
//! certificate-related parts of PostgreSQL connection strings. The store and the tools both use it,
//! so that a value has the same meaning for the platform's database and for the database of a task.
//! Must not connect or read files.

mod connector;
mod dsn;
mod verify;

pub use connector::{EncryptedStream, HostTlsConnector, MakeTlsConnector};
pub use dsn::PostgresDsn;
pub use verify::{TlsVerification, client_config_for_host};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("'{0}' is not an sslmode; use disable, prefer, require, verify-ca or verify-full")]
    Mode(String),
    #[error("'{0}' is not a valid host name for TLS")]
    Host(String),
    #[error("the CA file (sslrootcert) contains no usable certificate: {0}")]
    Roots(String),
    #[error("invalid connection string: {0}")]
    Address(String),
    /// TLS setup failed, for example because the system has no CA certificates.
    #[error("TLS cannot be set up: {0}")]
    SetUp(String),
}
