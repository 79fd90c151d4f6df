//! Settings that are on or off.

use super::{Setting, read};

pub(crate) static UNSAFE_DURABILITY: Setting<bool> = Setting::new(
    "NOETL_UNSAFE_DURABILITY",
    "false",
    read::flag,
    "Works on a PostgreSQL server that may lose what it has committed; shows in /readyz",
);

pub(crate) static SQL_CONSOLE: Setting<bool> = Setting::new(
    "NOETL_SQL_CONSOLE",
    "false",
    read::flag,
    "Asks for an SQL console, which this version does not have: POST /api/postgres/execute is refused",
);

pub(crate) static DISABLE_METRICS: Setting<bool> = Setting::new(
    "NOETL_DISABLE_METRICS",
    "false",
    read::flag,
    "Whether /metrics tells nothing",
);

pub(crate) static DEBUG: Setting<bool> = Setting::new(
    "NOETL_DEBUG",
    "false",
    read::flag,
    "Whether more is logged where NOETL_LOG does not say: info,noetl=debug",
);
