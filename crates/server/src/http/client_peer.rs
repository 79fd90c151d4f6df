//! The client of a connection.

use std::net::SocketAddr;

use super::access::CallerIdentity;

/// Client of a connection, as identified by the connection itself.
#[derive(Debug, Clone)]
pub(super) struct ClientPeer {
    pub(super) address: SocketAddr,
    /// Identity of the client certificate.
    pub(super) certificate_identity: Option<CallerIdentity>,
}

impl From<SocketAddr> for ClientPeer {
    fn from(address: SocketAddr) -> Self {
        Self { address, certificate_identity: None }
    }
}
