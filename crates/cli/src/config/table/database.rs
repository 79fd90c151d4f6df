//! Where logs are kept, and how the database is reached.

use std::path::PathBuf;

use noetl_store::Trust;

use super::{EMBEDDED, Setting, StoreChoice, read};

pub(crate) static DATA_DIR: Setting<PathBuf> = Setting::absent(
    "NOETL_DATA_DIR",
    "noetl in the data folder of the user",
    read::path,
    "Folder of the embedded database",
)
.flag("data-dir", "DIR", EMBEDDED);

pub(crate) static STORE: Setting<StoreChoice> = Setting::absent(
    "NOETL_STORE",
    "a file in the data folder, or postgres where NOETL_DSN or POSTGRES_HOST is set",
    read::store,
    "Where logs are kept: sqlite:PATH, postgres or memory",
)
.flag("store", "STORE", EMBEDDED);

pub(crate) static DSN: Setting<String> = Setting::absent(
    "NOETL_DSN",
    "made of POSTGRES_*",
    read::text,
    "Address of the PostgreSQL database",
)
.secret();

pub(crate) static OWNER_DSN: Setting<String> = Setting::absent(
    "NOETL_OWNER_DSN",
    "the server's own role owns the tables",
    read::text,
    "Address of the same database for the role that owns the tables; the server's own role can then \
     add to the log and change nothing of it",
)
.secret();

pub(crate) static POSTGRES_HOST: Setting<String> = Setting::new(
    "POSTGRES_HOST",
    "localhost",
    read::text,
    "Host of the PostgreSQL database",
);

pub(crate) static POSTGRES_PORT: Setting<u16> = Setting::new(
    "POSTGRES_PORT",
    "5432",
    read::port,
    "Port of the PostgreSQL database",
);

pub(crate) static POSTGRES_USER: Setting<String> = Setting::new(
    "POSTGRES_USER",
    "noetl",
    read::text,
    "User of the PostgreSQL database",
);

pub(crate) static POSTGRES_PASSWORD: Setting<String> = Setting::absent(
    "POSTGRES_PASSWORD",
    "none",
    read::text,
    "Password of the PostgreSQL database",
)
.secret();

pub(crate) static POSTGRES_DATABASE: Setting<String> = Setting::new(
    "POSTGRES_DATABASE",
    "noetl",
    read::text,
    "Name of the PostgreSQL database",
);

pub(crate) static POSTGRES_MAX_CONNECTIONS: Setting<u32> = Setting::new(
    "POSTGRES_MAX_CONNECTIONS",
    "10",
    read::number::<3, 1000>,
    "Connections to the PostgreSQL database, two of which write",
);

pub(crate) static POSTGRES_ACQUIRE_TIMEOUT: Setting<u32> = Setting::new(
    "POSTGRES_ACQUIRE_TIMEOUT",
    "30",
    read::number::<1, 300>,
    "Seconds that a request waits for a connection to the PostgreSQL database",
);

pub(crate) static POSTGRES_SSLMODE: Setting<Trust> = Setting::absent(
    "POSTGRES_SSLMODE",
    "verify-full; prefer for a server on this machine",
    read::ssl_mode,
    "Encryption of the way to PostgreSQL, where NOETL_DSN does not say: disable, prefer, require, \
     verify-ca or verify-full",
);

pub(crate) static POSTGRES_SSLROOTCERT: Setting<PathBuf> = Setting::absent(
    "POSTGRES_SSLROOTCERT",
    "what the machine trusts",
    read::path,
    "File with the authorities, in PEM, that signed the certificate of the PostgreSQL server",
);

pub(crate) static SCHEMA: Setting<String> = Setting::new(
    "NOETL_SCHEMA",
    "noetl",
    read::identifier,
    "Schema of the tables in the PostgreSQL database",
);

pub(crate) static PARTITIONS_AHEAD: Setting<u32> = Setting::new(
    "NOETL_PARTITIONS_AHEAD_MONTHS",
    "3",
    read::number::<1, 24>,
    "Months of the log that are prepared ahead of time (PostgreSQL)",
);
