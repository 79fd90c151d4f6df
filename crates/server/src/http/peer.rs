//! The other end of a connection.

use std::net::SocketAddr;

use super::access::Identity;

/// Who is at the other end of a connection, as far as the connection itself tells.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Where it is.
    pub(super) address: SocketAddr,
    /// Whom its certificate stands for.
    pub(super) certified: Option<Identity>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            certified: None,
        }
    }
}
