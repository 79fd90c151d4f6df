//! Verification levels of TLS connections.

use tokio_postgres::config::{Host, SslMode};

use crate::TlsError;

/// Verification level of a connection, with the `sslmode` values of PostgreSQL clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVerification {
    /// No encryption.
    Disable,
    /// Encrypted if the server supports it; the certificate is not verified.
    Prefer,
    /// Encrypted; the certificate is not verified.
    Require,
    /// The certificate must be signed by a trusted CA.
    VerifyCa,
    /// The certificate must be signed by a trusted CA and match the host name.
    VerifyFull,
}

impl TlsVerification {
    /// Parses an `sslmode` value.
    pub fn parse_sslmode(mode: &str) -> Result<Self, TlsError> {
        match mode {
            "disable" => Ok(Self::Disable),
            "allow" | "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            other => Err(TlsError::Mode(other.to_owned())),
        }
    }

    /// Returns the `sslmode` for the driver.
    pub fn to_ssl_mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }

    /// Returns the default level: a local server may be unencrypted, any other server must have a
    /// valid certificate.
    pub fn default_for_hosts(hosts: &[Host]) -> Self {
        let is_local = |host: &Host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        if hosts.iter().all(is_local) { Self::Prefer } else { Self::VerifyFull }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_servers_need_no_certificate() {
        let default_level = |address: &str| {
            let config: tokio_postgres::Config = address.parse().unwrap();
            TlsVerification::default_for_hosts(config.get_hosts())
        };
        for local in ["host=/run/pg", "host=localhost", "host=127.0.0.1,::1", "user=u"] {
            assert_eq!(default_level(local), TlsVerification::Prefer, "{local}");
        }
        for remote in ["host=db", "host=10.0.0.7", "host=localhost,db"] {
            assert_eq!(default_level(remote), TlsVerification::VerifyFull, "{remote}");
        }
    }
}
