//! The configuration: the one place that reads settings.
//!
//! Owns the table of settings, where their values come from (a flag before the environment, before
//! the file, before the default) and what is said when one is wrong. Must not: act on them.

#[cfg(test)]
mod deploy;
mod error;
mod flags;
mod load;
mod read;
mod schema;
mod setting;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub(crate) use error::ConfigError;
pub(crate) use flags::{Client, Database, Dev, Flags, Operator, Run, Server, Worker};
pub(crate) use load::{Config, Given, Origin, nearest};
pub(crate) use schema::schema;
pub(crate) use setting::{Default as SettingDefault, Facts, Setting};

/// A command that reads settings.
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
    /// `noetl token`
    /// The commands that ask a server, such as `noetl runs`.
    Client,
    /// A command that asks a server
    Operator,
    /// `noetl db`
    Database,
}

/// Where logs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    /// In a file.
    Sqlite(PathBuf),
    /// In a PostgreSQL database.
    Postgres,
    /// Nowhere: they are gone when the process ends.
    Memory,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}
