//! Settings of the HTTP server.

use std::sync::Arc;

use noetl_types::{ByteSize, Millis};

use super::middleware::cors::AllowedOrigins;
use super::middleware::internal_token::InternalToken;
use super::mtls::CertificateIdentities;
use super::tls::ListenerTls;

/// Settings of the HTTP server.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent setting")]
pub struct HttpSettings {
    /// Maximum concurrent connections. Further ones get 503 with `Retry-After`.
    pub max_connections: usize,
    /// Timeout for the head of a request, and for idle connections.
    pub head_timeout: Millis,
    /// Timeout for a body. It grows by one second per received MiB.
    pub body_timeout: Millis,
    /// Timeout for a client that does not read its response.
    pub write_timeout: Millis,
    /// Time that active requests have to finish when the server stops.
    pub drain_timeout: Millis,
    /// Default maximum size of a body. Some routes allow more.
    pub max_body: ByteSize,
    /// Accepts local programs without a token. Requires a loopback listener.
    pub is_dev: bool,
    /// TLS certificate and key. Without TLS, the listener must be a loopback address.
    pub tls: Option<ListenerTls>,
    /// Identities of client certificates.
    pub certificate_identities: CertificateIdentities,
    /// Allows unencrypted connections from other machines.
    pub unsafe_plaintext: bool,
    /// True if the store may lose committed data. Only reported.
    pub unsafe_durability: bool,
    /// True if command tokens may be sent to a NATS server without authentication.
    pub unsafe_nats: bool,
    /// Maximum requests per second and token; 0 for no limit.
    pub rate_per_token: u32,
    /// Maximum requests per second and tenant; 0 for no limit.
    pub rate_per_tenant: u32,
    /// Maximum requests of one token at a time, including long polls and live streams.
    pub max_requests_per_token: usize,
    /// Maximum requests of one tenant at a time, including long polls and live streams.
    pub max_requests_per_tenant: usize,
    /// Failed authentications per minute and address after which further ones are reported as too
    /// many requests; 0 for no limit.
    pub auth_failures_per_minute: u32,
    /// Token of the internal API. If absent, the internal API is disabled.
    pub internal_token: Option<InternalToken>,
    /// Origins whose pages may call the API.
    pub allowed_origins: AllowedOrigins,
    /// True if the operator enabled the SQL console.
    pub sql_console: bool,
    /// JSON Schema of the server settings.
    pub config_schema: Option<Arc<str>>,
}

impl HttpSettings {
    /// Names of the enabled settings that reduce safety.
    pub fn unsafe_settings(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.unsafe_plaintext {
            names.push("NOETL_UNSAFE_PLAINTEXT");
        }
        if self.unsafe_durability {
            names.push("NOETL_UNSAFE_DURABILITY");
        }
        if self.unsafe_nats {
            names.push("NOETL_UNSAFE_NATS");
        }
        if self.internal_token.is_some_and(InternalToken::is_short) {
            names.push("NOETL_INTERNAL_API_TOKEN is shorter than 16 characters");
        }
        names
    }
}

/// Settings of a development server.
impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            max_connections: 10_240,
            head_timeout: Millis::from_secs(10),
            body_timeout: Millis::from_secs(30),
            write_timeout: Millis::from_secs(30),
            drain_timeout: Millis::from_secs(10),
            max_body: ByteSize::from_mib(1),
            is_dev: true,
            tls: None,
            certificate_identities: CertificateIdentities::default(),
            unsafe_plaintext: false,
            unsafe_durability: false,
            unsafe_nats: false,
            rate_per_token: 0,
            rate_per_tenant: 0,
            max_requests_per_token: 2_560,
            max_requests_per_tenant: 5_120,
            auth_failures_per_minute: 0,
            internal_token: None,
            allowed_origins: AllowedOrigins::default(),
            sql_console: false,
            config_schema: None,
        }
    }
}
