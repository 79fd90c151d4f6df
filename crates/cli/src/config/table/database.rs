//! Settings of the database.

use std::path::PathBuf;

use noetl_store::TlsVerification;

use super::{LOCAL_STORE_ROLES, Setting, StoreChoice, parsers};

pub(crate) static DATA_DIR: Setting<PathBuf> = Setting::optional(
    "NOETL_DATA_DIR",
    "noetl in the user's data directory",
    parsers::parse_path,
    "Directory of the embedded database",
)
.with_flag("data-dir", "DIR", LOCAL_STORE_ROLES);

pub(crate) static STORE: Setting<StoreChoice> = Setting::optional(
    "NOETL_STORE",
    "a file in the data directory, or postgres if NOETL_DSN or POSTGRES_HOST is set",
    parsers::parse_store,
    "Storage for logs: sqlite:PATH, postgres or memory",
)
.with_flag("store", "STORE", LOCAL_STORE_ROLES);

pub(crate) static DSN: Setting<String> = Setting::optional(
    "NOETL_DSN",
    "built from POSTGRES_*",
    parsers::parse_text,
    "Address of the PostgreSQL database",
)
.mark_secret();

pub(crate) static OWNER_DSN: Setting<String> = Setting::optional(
    "NOETL_OWNER_DSN",
    "the server's role owns the tables",
    parsers::parse_text,
    "Address of the same database for the role that owns the tables; the server's role can then only \
     append to the event log",
)
.mark_secret();

pub(crate) static POSTGRES_HOST: Setting<String> = Setting::new(
    "POSTGRES_HOST",
    "localhost",
    parsers::parse_text,
    "Host of the PostgreSQL database",
);

pub(crate) static POSTGRES_PORT: Setting<u16> =
    Setting::new("POSTGRES_PORT", "5432", parsers::parse_port, "Port of the PostgreSQL database");

pub(crate) static POSTGRES_USER: Setting<String> =
    Setting::new("POSTGRES_USER", "noetl", parsers::parse_text, "User of the PostgreSQL database");

pub(crate) static POSTGRES_PASSWORD: Setting<String> = Setting::optional(
    "POSTGRES_PASSWORD",
    "none",
    parsers::parse_text,
    "Password of the PostgreSQL database",
)
.mark_secret();

pub(crate) static POSTGRES_DATABASE: Setting<String> = Setting::new(
    "POSTGRES_DATABASE",
    "noetl",
    parsers::parse_text,
    "Name of the PostgreSQL database",
);

pub(crate) static POSTGRES_MAX_CONNECTIONS: Setting<u32> = Setting::new(
    "POSTGRES_MAX_CONNECTIONS",
    "10",
    parsers::parse_number::<3, 1000>,
    "Maximum connections to the PostgreSQL database, two of which write",
);

pub(crate) static POSTGRES_ACQUIRE_TIMEOUT_SECS: Setting<u32> = Setting::new(
    "POSTGRES_ACQUIRE_TIMEOUT",
    "30",
    parsers::parse_number::<1, 300>,
    "Maximum seconds that a request waits for a connection to the PostgreSQL database",
);

pub(crate) static POSTGRES_SSLMODE: Setting<TlsVerification> = Setting::optional(
    "POSTGRES_SSLMODE",
    "verify-full; prefer for a local server",
    parsers::parse_ssl_mode,
    "TLS mode of PostgreSQL connections, if NOETL_DSN does not set one: disable, prefer, require, \
     verify-ca or verify-full",
);

pub(crate) static POSTGRES_SSLROOTCERT: Setting<PathBuf> = Setting::optional(
    "POSTGRES_SSLROOTCERT",
    "the system's trusted authorities",
    parsers::parse_path,
    "PEM file with the authorities that signed the PostgreSQL server's certificate",
);

pub(crate) static SCHEMA: Setting<String> = Setting::new(
    "NOETL_SCHEMA",
    "noetl",
    parsers::parse_identifier,
    "Schema of the tables in the PostgreSQL database",
);

pub(crate) static PARTITIONS_AHEAD_MONTHS: Setting<u32> = Setting::new(
    "NOETL_PARTITIONS_AHEAD_MONTHS",
    "3",
    parsers::parse_number::<1, 24>,
    "Months for which log partitions are created in advance (PostgreSQL)",
);
