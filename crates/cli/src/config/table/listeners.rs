//! Settings of listeners, TLS, authentication and request limits.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use noetl_server::http::{AllowedOrigins, CertificateIdentities};

use super::{LISTENING_ROLES, Setting, parsers};

pub(crate) static HOST: Setting<IpAddr> =
    Setting::new("NOETL_HOST", "127.0.0.1", parsers::parse_ip_address, "Address to listen on")
        .with_flag("host", "ADDRESS", LISTENING_ROLES);

pub(crate) static PORT: Setting<u16> = Setting::new(
    "NOETL_PORT",
    "8082",
    parsers::parse_port,
    "Port to listen on; 0 selects a free port",
)
.with_flag("port", "PORT", LISTENING_ROLES);

pub(crate) static INTERNAL_BIND: Setting<SocketAddr> = Setting::optional(
    "NOETL_INTERNAL_BIND",
    "the main listener",
    parsers::parse_socket_address,
    "Address and port of a separate listener for /api/internal; port 0 selects a free port",
);

pub(crate) static METRICS_BIND: Setting<SocketAddr> = Setting::optional(
    "NOETL_METRICS_BIND",
    "none; /metrics requires a token",
    parsers::parse_socket_address,
    "Address and port of a listener for /metrics without a token; port 0 selects a free port",
);

pub(crate) static PUBLIC_URL: Setting<String> = Setting::optional(
    "NOETL_PUBLIC_SERVER_URL",
    "http://localhost:PORT",
    parsers::parse_http_url,
    "Public address of the server",
)
.with_flag("public-url", "URL", LISTENING_ROLES);

pub(crate) static DEV: Setting<bool> = Setting::optional(
    "NOETL_DEV",
    "true in noetl dev, false in noetl server",
    parsers::parse_bool,
    "Allow local clients without a token",
);

pub(crate) static BOOTSTRAP_TOKEN: Setting<String> = Setting::optional(
    "NOETL_BOOTSTRAP_TOKEN",
    "generated and printed once",
    parsers::parse_text,
    "First token of a server without tokens, with full access: noetl_<prefix>_<64 hex digits>",
)
.mark_secret();

pub(crate) static TLS_CERT: Setting<PathBuf> = Setting::optional(
    "NOETL_TLS_CERT",
    "no encryption; only local clients are accepted",
    parsers::parse_path,
    "PEM file with the server's certificates",
)
.with_flag("tls-cert", "FILE", LISTENING_ROLES);

pub(crate) static TLS_KEY: Setting<PathBuf> = Setting::optional(
    "NOETL_TLS_KEY",
    "none",
    parsers::parse_path,
    "PEM file with the key of the certificate",
)
.with_flag("tls-key", "FILE", LISTENING_ROLES);

pub(crate) static TLS_CLIENT_CA: Setting<PathBuf> = Setting::optional(
    "NOETL_TLS_CLIENT_CA",
    "client certificates are not required",
    parsers::parse_path,
    "PEM file with the authority that must have signed client certificates",
);

pub(crate) static MTLS_IDENTITIES: Setting<CertificateIdentities> = Setting::optional(
    "NOETL_MTLS_IDENTITIES",
    "client certificates grant no access",
    parsers::parse_mtls_identities,
    "Identities of client certificates: NAME=SCOPE+pool:POOL+tenant:TENANT, separated by ; where a \
     name is dns:HOST or a URI",
);

pub(crate) static UNSAFE_PLAINTEXT: Setting<bool> = Setting::new(
    "NOETL_UNSAFE_PLAINTEXT",
    "false",
    parsers::parse_bool,
    "Accept unencrypted connections from other machines; reported by /readyz",
);

pub(crate) static CORS_ORIGINS: Setting<AllowedOrigins> = Setting::optional(
    "NOETL_CORS_ORIGINS",
    "none; pages of other origins cannot read responses",
    parsers::parse_origins,
    "Origins allowed to call the server, such as https://app.example.com, separated by commas",
);

pub(crate) static RATE_PER_TOKEN: Setting<u32> = Setting::optional(
    "NOETL_RATE_PER_TOKEN",
    "5000, and 0 on an embedded database",
    parsers::parse_number::<0, 1_000_000>,
    "Maximum requests per second per token; 0 means unlimited",
);

pub(crate) static HEAD_TIMEOUT_SECS: Setting<u32> = Setting::new(
    "NOETL_HTTP_HEAD_SECS",
    "10",
    parsers::parse_number::<1, 300>,
    "Maximum seconds to receive the head of a request, and between two requests",
);

pub(crate) static BODY_TIMEOUT_SECS: Setting<u32> = Setting::new(
    "NOETL_HTTP_BODY_SECS",
    "30",
    parsers::parse_number::<1, 600>,
    "Maximum seconds to receive a request body, plus one second per MiB",
);

pub(crate) static MAX_CONNECTIONS: Setting<u32> = Setting::new(
    "NOETL_HTTP_MAX_CONNECTIONS",
    "10240",
    parsers::parse_number::<1, 1_000_000>,
    "Maximum concurrent connections; further ones are rejected and can retry",
);

pub(crate) static RATE_PER_TENANT: Setting<u32> = Setting::optional(
    "NOETL_RATE_PER_TENANT",
    "5000, and 0 on an embedded database",
    parsers::parse_number::<0, 1_000_000>,
    "Maximum requests per second per tenant; 0 means unlimited",
);

pub(crate) static INTERNAL_TOKEN: Setting<String> = Setting::optional(
    "NOETL_INTERNAL_API_TOKEN",
    "none; the internal API is disabled",
    parsers::parse_text,
    "Token of the internal API for publishing, projecting and purging; used by workers of pool system",
)
.mark_secret();
