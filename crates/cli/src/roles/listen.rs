//! The listener of a server.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::error::StartError;
use crate::config::table::{DEV, HOST, PORT};
use crate::config::{Config, ConfigError};
use crate::error::Error;

/// Listens where the configuration says, if that is safe.
pub(crate) async fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), Error> {
    let wanted = address(config)?;
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortTaken { address: wanted },
        _ => StartError::Listen {
            address: wanted,
            source,
        },
    };
    let listener = TcpListener::bind(wanted).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The only callers that are known are those on the same machine, so others must not get near.
fn address(config: &Config) -> Result<SocketAddr, ConfigError> {
    let address = SocketAddr::new(config.value(&HOST)?, config.value(&PORT)?);
    if !address.ip().is_loopback() {
        return Err(ConfigError::Unsafe(format!(
            "{} can be reached from other machines, and callers cannot be told apart yet",
            address.ip()
        )));
    }
    if config.get(&DEV)? == Some(false) {
        return Err(ConfigError::Unsafe(
            "NOETL_DEV is false, so nobody could be let in: there are no tokens yet".to_owned(),
        ));
    }
    Ok(address)
}
