//! Which server a command asks, and as whom.

use std::path::PathBuf;

use super::{Role, Setting, read};

pub(crate) static SERVER_URL: Setting<String> = Setting::new(
    "NOETL_SERVER_URL",
    "http://localhost:8082",
    read::url,
    "Address of the server",
)
.flag(
    "server",
    "URL",
    &[Role::Worker, Role::Client, Role::Operator],
);

pub(crate) static INTERNAL_URL: Setting<String> = Setting::absent(
    "NOETL_INTERNAL_URL",
    "what NOETL_SERVER_URL says",
    read::url,
    "Address of the internal API for workers of pool system and for operators, where it has a listener of \
     its own",
);

pub(crate) static PROFILE: Setting<String> = Setting::absent(
    "NOETL_PROFILE",
    "the one that is in use, if any",
    read::text,
    "Profile that names the server; see noetl profile",
)
.flag("profile", "NAME", &[Role::Client, Role::Operator]);

pub(crate) static TOKEN: Setting<String> = Setting::absent(
    "NOETL_TOKEN",
    "none",
    read::text,
    "Token that workers and commands show to the server",
)
.secret();

pub(crate) static TLS_CA: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CA",
    "what the machine trusts",
    read::path,
    "File with the authority, in PEM, that signed the certificate of the server",
);

pub(crate) static TLS_CLIENT_CERT: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CLIENT_CERT",
    "none",
    read::path,
    "File with the certificate, in PEM, that workers and commands show to the server",
);

pub(crate) static TLS_CLIENT_KEY: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CLIENT_KEY",
    "none",
    read::path,
    "File with the key of that certificate in PEM",
);
