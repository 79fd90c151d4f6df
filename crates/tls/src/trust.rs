//! How much of the other side is verified.

use tokio_postgres::config::{Host, SslMode};

use crate::TlsError;

/// How much of the other side is verified; the words are those of PostgreSQL's own clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Nothing is encrypted.
    Plain,
    /// It is encrypted if the server can, and the server may be anyone.
    Prefer,
    /// It is encrypted, and the server may be anyone.
    Require,
    /// An authority signed the certificate.
    Authority,
    /// An authority signed the certificate for this very host.
    Full,
}

impl Trust {
    /// Reads a word of `sslmode`.
    pub fn read(mode: &str) -> Result<Self, TlsError> {
        match mode {
            "disable" => Ok(Self::Plain),
            "allow" | "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::Authority),
            "verify-full" => Ok(Self::Full),
            other => Err(TlsError::Mode(other.to_owned())),
        }
    }

    /// What the driver has to know of it.
    pub fn mode(self) -> SslMode {
        match self {
            Self::Plain => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::Authority | Self::Full => SslMode::Require,
        }
    }

    /// What is right where nobody says: a server on this machine may do without, any other has to
    /// prove who it is.
    pub fn usual(hosts: &[Host]) -> Self {
        let is_here = |host: &Host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        if hosts.iter().all(is_here) {
            Self::Prefer
        } else {
            Self::Full
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_of_this_machine_need_no_certificate() {
        let usual = |address: &str| {
            let config: tokio_postgres::Config = address.parse().unwrap();
            Trust::usual(config.get_hosts())
        };
        for here in [
            "host=/run/pg",
            "host=localhost",
            "host=127.0.0.1,::1",
            "user=u",
        ] {
            assert_eq!(usual(here), Trust::Prefer, "{here}");
        }
        for there in ["host=db", "host=10.0.0.7", "host=localhost,db"] {
            assert_eq!(usual(there), Trust::Full, "{there}");
        }
    }
}
