//! What an operator may choose about the listener.

use std::sync::Arc;

use noetl_types::{ByteSize, Millis};

use super::certified::CertifiedNames;
use super::cors::Origins;
use super::internal::InternalToken;
use super::tls::Tls;

/// How requests are taken.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that an operator sets"
)]
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
    /// Whether programs of this machine are let in without a token. The listener must then be one that
    /// only this machine reaches.
    pub is_dev: bool,
    /// What encrypts connections; without it a listener must be one that only this machine reaches.
    pub tls: Option<Tls>,
    /// Whom certificates of clients stand for.
    pub certified: CertifiedNames,
    /// Lets other machines in without encryption all the same.
    pub unsafe_plaintext: bool,
    /// Whether the store is one that may lose what it has committed. It only shows.
    pub unsafe_durability: bool,
    /// Requests in a second for each token; 0 means any number.
    pub rate_per_token: u32,
    /// Requests in a second for each tenant; 0 means any number.
    pub rate_per_tenant: u32,
    /// What opens the internal API; without one it is closed.
    pub internal_token: Option<InternalToken>,
    /// Origins whose pages may call this server and read its answers.
    pub origins: Origins,
    /// Whether an operator has opened the SQL console.
    pub sql_console: bool,
    /// The JSON Schema of the settings that a server is started with.
    pub config_schema: Option<Arc<str>>,
}

impl HttpSettings {
    /// The settings that make a server less safe than it should be.
    pub fn unsafe_settings(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        if self.unsafe_plaintext {
            found.push("NOETL_UNSAFE_PLAINTEXT");
        }
        if self.unsafe_durability {
            found.push("NOETL_UNSAFE_DURABILITY");
        }
        if self.internal_token.is_some_and(InternalToken::is_short) {
            found.push("NOETL_INTERNAL_API_TOKEN is shorter than 16 characters");
        }
        found
    }
}

/// As a server has them that somebody develops with.
impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_connections: 10_240,
            head_timeout: Millis::from_secs(10),
            body_timeout: Millis::from_secs(30),
            write_timeout: Millis::from_secs(30),
            drain: Millis::from_secs(10),
            max_body: ByteSize::from_mib(1),
            is_dev: true,
            tls: None,
            certified: CertifiedNames::default(),
            unsafe_plaintext: false,
            unsafe_durability: false,
            rate_per_token: 0,
            rate_per_tenant: 0,
            internal_token: None,
            origins: Origins::default(),
            sql_console: false,
            config_schema: None,
        }
    }
}
