//! Errors of starting a component.

use std::io;
use std::net::SocketAddr;

use noetl_api::client::ClientBuildError;
use noetl_server::RuntimeError;
use noetl_server::http::ServeError;
use noetl_store::StoreError;
use noetl_types::Millis;
use noetl_worker::WorkerError;
use thiserror::Error;
use tokio::task::JoinError;

use super::error_chain;
use crate::config::table::PORT;
use crate::exit::CommandExit;

/// Error of a component that does not start or stops unexpectedly.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    /// Another process uses the database file.
    #[error("another process is using {path}")]
    DatabaseInUse {
        path: String,
        /// Time spent waiting for it.
        waited: Millis,
        /// Description of that process, if known.
        holder: Option<String>,
    },
    /// The database file cannot be opened.
    #[error("cannot open the database {path}: {}", error_chain(source))]
    DatabaseFile { path: String, source: StoreError },
    /// The PostgreSQL database cannot be used.
    #[error("cannot use the PostgreSQL database at {place}: {}", error_chain(source))]
    Database {
        place: String,
        /// True if a separate role owns the tables.
        has_owner: bool,
        source: StoreError,
    },
    /// The port is already in use.
    #[error("port {} of {} is already in use", address.port(), address.ip())]
    PortInUse { address: SocketAddr, setting: &'static str },
    /// The address cannot be used for listening.
    #[error("cannot listen on {address}: {}", source.kind())]
    Listen { address: SocketAddr, setting: &'static str, source: io::Error },
    /// The address of the server is invalid.
    #[error(transparent)]
    Client(#[from] ClientBuildError),
    /// The runtime failed.
    #[error("{}", error_chain(.0))]
    Runtime(#[from] RuntimeError),
    /// The HTTP server failed.
    #[error("{}", error_chain(.0))]
    Serve(#[from] ServeError),
    /// The worker was rejected.
    #[error("{}", error_chain(.0))]
    Worker(#[from] WorkerError),
    /// A required component stopped although no stop was requested.
    #[error("the {what} stopped unexpectedly")]
    ComponentStopped { what: &'static str },
    /// A required component panicked.
    #[error("the {what} has crashed")]
    ComponentCrashed { what: &'static str },
    /// The system provides no threads or timers.
    #[error("the process cannot start: {}", .0.kind())]
    Process(#[source] io::Error),
}

impl StartError {
    /// Error for a component that ended although it should have continued.
    pub(crate) fn from_component_end<E: Into<Self>>(
        what: &'static str,
        result: Result<Result<(), E>, JoinError>,
    ) -> Self {
        match result {
            Ok(Ok(())) => Self::ComponentStopped { what },
            Ok(Err(error)) => error.into(),
            Err(_) => Self::ComponentCrashed { what },
        }
    }

    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::DatabaseInUse { waited: Millis::ZERO, holder, .. } => {
                let holder = holder.as_deref().unwrap_or("the other process");
                Some(format!("stop {holder}, or choose another database with --store sqlite:PATH"))
            }
            Self::DatabaseInUse { waited, holder, .. } => {
                let waited = waited.to_human();
                Some(match holder {
                    Some(holder) => format!(
                        "{holder} did not respond within {waited}; stop it, or choose another \
                         database with --store sqlite:PATH"
                    ),
                    None => format!(
                        "it did not finish within {waited}; wait longer with --lock-timeout, or \
                         choose another database with --store sqlite:PATH"
                    ),
                })
            }
            Self::DatabaseFile { .. } => Some(
                "choose another database with --store sqlite:PATH, or use --store memory"
                    .to_owned(),
            ),
            Self::Database { has_owner, .. } => {
                let owner = if *has_owner { "NOETL_OWNER_DSN and " } else { "" };
                Some(format!(
                    "check that PostgreSQL 15 or newer is running there and that {owner}NOETL_DSN, or \
                     POSTGRES_HOST, _PORT, _USER, _PASSWORD and _DATABASE, are correct"
                ))
            }
            Self::PortInUse { setting, .. } if *setting == PORT.info.name => {
                Some("choose another with --port, or use --port 0 for a free one".to_owned())
            }
            Self::Listen { setting, .. } if *setting == PORT.info.name => {
                Some("choose another address with --host and --port".to_owned())
            }
            Self::PortInUse { setting, .. } | Self::Listen { setting, .. } => {
                Some(format!("choose another in {setting}; port 0 selects a free one"))
            }
            Self::Worker(_) => Some("check --server and NOETL_TOKEN".to_owned()),
            Self::Client(_) => Some("check --server".to_owned()),
            Self::ComponentStopped { .. } => Some(
                "it may have been drained with 'noetl worker drain'; start it again".to_owned(),
            ),
            Self::ComponentCrashed { .. } => {
                Some("see its log for the cause; start it again".to_owned())
            }
            Self::Runtime(_) | Self::Serve(_) | Self::Process(_) => None,
        }
    }

    /// Exit code of the error.
    pub(crate) fn exit_code(&self) -> CommandExit {
        match self {
            Self::DatabaseInUse { .. } | Self::PortInUse { .. } => CommandExit::Conflict,
            Self::Client(_) | Self::Serve(_) => CommandExit::Usage,
            Self::DatabaseFile { .. }
            | Self::Database { .. }
            | Self::Listen { .. }
            | Self::Runtime(_)
            | Self::Worker(_)
            | Self::ComponentStopped { .. }
            | Self::ComponentCrashed { .. }
            | Self::Process(_) => CommandExit::Failed,
        }
    }
}
