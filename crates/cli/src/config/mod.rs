//! Configuration of all commands. The only place that reads settings.
//!
//! Owns the table of settings, the order of their sources (flag, environment, file, default) and
//! the messages for invalid values. Must not act on the values.

#[cfg(test)]
mod deploy;
mod error;
mod flags;
mod load;
mod parsers;
mod schema;
mod setting;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub(crate) use error::ConfigError;
pub(crate) use flags::{Client, Database, Dev, Operator, Run, Server, SettingFlags, Worker};
pub(crate) use load::{Config, GivenSettings, SettingOrigin, nearest_name};
pub(crate) use schema::config_schema;
pub(crate) use setting::{Setting, SettingDefault, SettingInfo};

/// Command, or group of commands, that reads settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// `noetl run`
    Run,
    /// `noetl dev`
    Dev,
    /// `noetl server`
    Server,
    /// `noetl worker`
    Worker,
    /// Client commands such as `noetl runs` or `noetl token`.
    Client,
    /// Operator commands such as `noetl outbox`.
    Operator,
    /// `noetl db`
    Database,
}

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
