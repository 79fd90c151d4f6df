//! Configuration of all commands. The only place that reads settings.
//!
//! Owns the table of settings, the order of their sources (flag, environment, file, default) and
//! the messages for invalid values. Must not act on the values.

mod load;
mod parsers;
mod setting;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub(crate) use load::{Config, GivenSettings, SettingOrigin, nearest_name};
pub(crate) use setting::{
    Client, Database, Dev, Operator, Role, Run, Server, Setting, SettingDefault, SettingFlags,
    SettingInfo, Worker, config_schema,
};

use crate::error::Error;
use crate::render::text_layout::escape_control;

/// Store of event logs and all other state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    /// A database file.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres,
    /// Memory of the process. Data is lost when the process ends.
    Memory,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Human-readable text.
    Text,
    /// JSON, one object per line.
    Json,
}

/// Error of an invalid value. `place` is the flag, the variable or the key of the file. The value is
/// omitted if it is secret.
pub(crate) fn invalid_value_error(place: &str, value: Option<&str>, fault: &str) -> Error {
    let value = value.map_or("invalid".to_owned(), |value| format!("'{}'", escape_control(value)));
    Error::usage(format!("{place} is {value}: {fault}"))
}

/// Error of a required setting that is missing.
pub(crate) fn missing_setting_error(name: &str) -> Error {
    Error::usage(format!("{name} is not set")).with_help(format!("set {name}"))
}

/// Error of a file that cannot be read or parsed.
pub(crate) fn unusable_file_error(what: &str, path: &str, reason: impl std::fmt::Display) -> Error {
    Error::usage(format!("{what} {path} cannot be used: {reason}"))
}

/// Error of settings that would expose the server.
pub(crate) fn unsafe_settings_error(message: String) -> Error {
    Error::usage(message).with_help(
        "listen on a loopback address such as 127.0.0.1, or set NOETL_TLS_CERT and NOETL_TLS_KEY, \
         with NOETL_DEV=false",
    )
}
