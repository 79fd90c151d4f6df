//! Boolean settings without a topic of their own.

use super::{Setting, parsers};

pub(crate) static UNSAFE_DURABILITY: Setting<bool> = Setting::new(
    "NOETL_UNSAFE_DURABILITY",
    "false",
    parsers::parse_bool,
    "Accept a PostgreSQL server that can lose committed transactions; reported by /readyz",
);

pub(crate) static SQL_CONSOLE: Setting<bool> = Setting::new(
    "NOETL_SQL_CONSOLE",
    "false",
    parsers::parse_bool,
    "Request a SQL console, which this version does not have: POST /api/postgres/execute is rejected",
);

pub(crate) static DISABLE_METRICS: Setting<bool> =
    Setting::new("NOETL_DISABLE_METRICS", "false", parsers::parse_bool, "Disable /metrics");

pub(crate) static DEBUG: Setting<bool> = Setting::new(
    "NOETL_DEBUG",
    "false",
    parsers::parse_bool,
    "Log more if NOETL_LOG is not set: info,noetl=debug",
);
