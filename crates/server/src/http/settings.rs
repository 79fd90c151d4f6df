//! What an operator may choose about the listener.

use noetl_types::{ByteSize, Millis};

use super::internal::InternalToken;

/// How requests are taken.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Connections at once; those beyond are told to come back.
    pub max_connections: usize,
    /// How long a client may take over the head of a request, and stay silent between two.
    pub head_timeout: Millis,
    /// How long a client may take over a body; a large one has a second more for each MiB.
    pub body_timeout: Millis,
    /// How long a client may leave an answer lying before it takes more of it.
    pub write_timeout: Millis,
    /// How long requests that are under way may take to end when the server stops.
    pub drain: Millis,
    /// The largest body of most routes.
    pub max_body: ByteSize,
    /// What opens the internal API; without one it is closed.
    pub internal_token: Option<InternalToken>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_connections: 10_240,
            head_timeout: Millis::from_secs(10),
            body_timeout: Millis::from_secs(30),
            write_timeout: Millis::from_secs(30),
            drain: Millis::from_secs(10),
            max_body: ByteSize::from_mib(1),
            internal_token: None,
        }
    }
}
