//! Where a server listens, and whom it lets in.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use noetl_server::http::{CertifiedNames, Origins};

use super::{LISTENING, Setting, read};

pub(crate) static HOST: Setting<IpAddr> = Setting::new(
    "NOETL_HOST",
    "127.0.0.1",
    read::address,
    "Address to listen on",
)
.flag("host", "ADDRESS", LISTENING);

pub(crate) static PORT: Setting<u16> = Setting::new(
    "NOETL_PORT",
    "8082",
    read::port,
    "Port to listen on; 0 takes a free one",
)
.flag("port", "PORT", LISTENING);

pub(crate) static INTERNAL_BIND: Setting<SocketAddr> = Setting::absent(
    "NOETL_INTERNAL_BIND",
    "where everything else is",
    read::socket,
    "Address and port of a listener of its own for /api/internal; port 0 takes a free one",
);

pub(crate) static METRICS_BIND: Setting<SocketAddr> = Setting::absent(
    "NOETL_METRICS_BIND",
    "none: /metrics needs a token",
    read::socket,
    "Address and port of a listener for /metrics without a token; port 0 takes a free one",
);

pub(crate) static PUBLIC_URL: Setting<String> = Setting::absent(
    "NOETL_PUBLIC_SERVER_URL",
    "http://localhost:PORT",
    read::url,
    "Address under which others reach the server",
)
.flag("public-url", "URL", LISTENING);

pub(crate) static DEV: Setting<bool> = Setting::absent(
    "NOETL_DEV",
    "true in noetl dev, false in noetl server",
    read::flag,
    "Whether programs of this machine are let in without a token",
);

pub(crate) static BOOTSTRAP_TOKEN: Setting<String> = Setting::absent(
    "NOETL_BOOTSTRAP_TOKEN",
    "made and printed once",
    read::text,
    "First token of a server without any, which may do everything: noetl_<prefix>_<64 hex digits>",
)
.secret();

pub(crate) static TLS_CERT: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CERT",
    "no encryption, so only this machine is let in",
    read::path,
    "File with the certificates of the server in PEM",
)
.flag("tls-cert", "FILE", LISTENING);

pub(crate) static TLS_KEY: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_KEY",
    "none",
    read::path,
    "File with the key of the certificate in PEM",
)
.flag("tls-key", "FILE", LISTENING);

pub(crate) static TLS_CLIENT_CA: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CLIENT_CA",
    "clients need no certificate",
    read::path,
    "File with the authority, in PEM, that must have signed the certificates of clients",
);

pub(crate) static MTLS_IDENTITIES: Setting<CertifiedNames> = Setting::absent(
    "NOETL_MTLS_IDENTITIES",
    "certificates stand for nobody",
    read::certified,
    "Whom certificates of clients stand for: NAME=SCOPE+pool:POOL+tenant:TENANT, separated by ; where a \
     name is dns:HOST or a URI",
);

pub(crate) static UNSAFE_PLAINTEXT: Setting<bool> = Setting::new(
    "NOETL_UNSAFE_PLAINTEXT",
    "false",
    read::flag,
    "Lets other machines in without encryption; shows in /readyz",
);

pub(crate) static CORS_ORIGINS: Setting<Origins> = Setting::absent(
    "NOETL_CORS_ORIGINS",
    "none: no page of another origin reads answers",
    read::origins,
    "Origins whose pages may call the server, such as https://app.example.com, separated by commas",
);

pub(crate) static RATE_PER_TOKEN: Setting<u32> = Setting::absent(
    "NOETL_RATE_PER_TOKEN",
    "5000, and 0 on an embedded database",
    read::number::<0, 1_000_000>,
    "Requests in a second for each token; 0 is any number",
);

pub(crate) static HEAD_TIMEOUT: Setting<u32> = Setting::new(
    "NOETL_HTTP_HEAD_SECS",
    "10",
    read::number::<1, 300>,
    "Seconds that a client may take over the head of a request, or be silent between two",
);

pub(crate) static BODY_TIMEOUT: Setting<u32> = Setting::new(
    "NOETL_HTTP_BODY_SECS",
    "30",
    read::number::<1, 600>,
    "Seconds that a client may take over a body, and one more for each MiB of it",
);

pub(crate) static MAX_CONNECTIONS: Setting<u32> = Setting::new(
    "NOETL_HTTP_MAX_CONNECTIONS",
    "10240",
    read::number::<1, 1_000_000>,
    "Connections at once; those beyond are told to come back",
);

pub(crate) static RATE_PER_TENANT: Setting<u32> = Setting::absent(
    "NOETL_RATE_PER_TENANT",
    "5000, and 0 on an embedded database",
    read::number::<0, 1_000_000>,
    "Requests in a second for each tenant; 0 is any number",
);

pub(crate) static INTERNAL_TOKEN: Setting<String> = Setting::absent(
    "NOETL_INTERNAL_API_TOKEN",
    "none; the internal API is closed",
    read::text,
    "Token of the internal API, which publishes, copies and purges; workers of pool system show it",
)
.secret();
