//! Settings of clients: the server and the credentials.

use std::path::PathBuf;

use super::{Role, Setting, parsers};

pub(crate) static SERVER_URL: Setting<String> = Setting::new(
    "NOETL_SERVER_URL",
    "http://localhost:8082",
    parsers::parse_http_url,
    "Address of the server",
)
.with_flag("server", "URL", &[Role::Worker, Role::Client, Role::Operator]);

pub(crate) static INTERNAL_URL: Setting<String> = Setting::optional(
    "NOETL_INTERNAL_URL",
    "same as NOETL_SERVER_URL",
    parsers::parse_http_url,
    "Address of the internal API for workers of pool system and for operators, if it has a separate \
     listener",
);

pub(crate) static PROFILE: Setting<String> = Setting::optional(
    "NOETL_PROFILE",
    "the selected profile, if any",
    parsers::parse_text,
    "Profile that names the server; see noetl profile",
)
.with_flag("profile", "NAME", &[Role::Client, Role::Operator]);

pub(crate) static TOKEN: Setting<String> = Setting::optional(
    "NOETL_TOKEN",
    "none",
    parsers::parse_text,
    "Token that workers and commands send to the server",
)
.mark_secret();

pub(crate) static TLS_CA: Setting<PathBuf> = Setting::optional(
    "NOETL_TLS_CA",
    "the system's trusted authorities",
    parsers::parse_path,
    "PEM file with the authority that signed the server's certificate",
);

pub(crate) static TLS_CLIENT_CERT: Setting<PathBuf> = Setting::optional(
    "NOETL_TLS_CLIENT_CERT",
    "none",
    parsers::parse_path,
    "PEM file with the client certificate of workers and commands",
);

pub(crate) static TLS_CLIENT_KEY: Setting<PathBuf> = Setting::optional(
    "NOETL_TLS_CLIENT_KEY",
    "none",
    parsers::parse_path,
    "PEM file with the key of the client certificate",
);
