//! Why a part of the system does not start.

use std::io;
use std::net::SocketAddr;

use noetl_api::client::ClientRefused;
use noetl_server::RuntimeError;
use noetl_server::http::ServeError;
use noetl_store::StoreError;
use noetl_types::Millis;
use noetl_worker::WorkerError;
use thiserror::Error;
use tokio::task::JoinError;

use super::causes;
use crate::config::table::PORT;
use crate::exit::Exit;

/// Why a part of the system does not start, or stops by itself.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    /// Another process writes to the file.
    #[error("another process uses {path}")]
    InUse {
        path: String,
        /// How long it was waited for.
        waited: Millis,
        /// What that process is, where it says so.
        holder: Option<String>,
    },
    /// The file cannot be opened.
    #[error("the database {path} cannot be opened: {}", causes(source))]
    File { path: String, source: StoreError },
    /// The database server cannot be used.
    #[error(
        "the PostgreSQL database at {place} cannot be used: {}",
        causes(source)
    )]
    Database {
        place: String,
        /// Whether another role than the server's owns the tables.
        has_owner: bool,
        source: StoreError,
    },
    /// Somebody listens there already.
    #[error("port {} of {} is taken", address.port(), address.ip())]
    PortTaken {
        address: SocketAddr,
        setting: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", source.kind())]
    Listen {
        address: SocketAddr,
        setting: &'static str,
        source: io::Error,
    },
    /// The address of the server is wrong.
    #[error(transparent)]
    Client(#[from] ClientRefused),
    /// The runtime refused.
    #[error("{}", causes(.0))]
    Runtime(#[from] RuntimeError),
    /// The server refused.
    #[error("{}", causes(.0))]
    Serve(#[from] ServeError),
    /// The worker was refused.
    #[error("{}", causes(.0))]
    Worker(#[from] WorkerError),
    /// A part of the process is gone that all of it needs.
    #[error("the {what} has left before it was told to stop")]
    Left { what: &'static str },
    /// The same, by a mistake of the program.
    #[error("the {what} has crashed")]
    Crashed { what: &'static str },
    /// The machine has no threads or timers to give.
    #[error("the process cannot start: {}", .0.kind())]
    Process(#[source] io::Error),
}

impl StartError {
    /// Why a part of the process that should have gone on has ended.
    pub(crate) fn of_end<E: Into<Self>>(
        what: &'static str,
        ended: Result<Result<(), E>, JoinError>,
    ) -> Self {
        match ended {
            Ok(Ok(())) => Self::Left { what },
            Ok(Err(error)) => error.into(),
            Err(_) => Self::Crashed { what },
        }
    }

    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::InUse {
                waited: Millis::ZERO,
                holder,
                ..
            } => {
                let holder = holder.as_deref().unwrap_or("the other process");
                Some(format!(
                    "stop {holder}, or name another database by --store sqlite:PATH"
                ))
            }
            Self::InUse { waited, holder, .. } => {
                let waited = waited.human();
                Some(match holder {
                    Some(holder) => format!(
                        "{holder} did not answer within {waited}; stop it, or name another \
                         database by --store sqlite:PATH"
                    ),
                    None => format!(
                        "it did not end within {waited}; wait longer with --lock-timeout, or \
                         name another database by --store sqlite:PATH"
                    ),
                })
            }
            Self::File { .. } => Some(
                "name another database by --store sqlite:PATH, or use --store memory".to_owned(),
            ),
            Self::Database { has_owner, .. } => {
                let owner = if *has_owner {
                    "NOETL_OWNER_DSN and "
                } else {
                    ""
                };
                Some(format!(
                    "check that PostgreSQL 15 or newer runs there and that {owner}NOETL_DSN, or \
                     POSTGRES_HOST, _PORT, _USER, _PASSWORD and _DATABASE, are right"
                ))
            }
            Self::PortTaken { setting, .. } if *setting == PORT.facts.name => {
                Some("choose another by --port, or --port 0 for a free one".to_owned())
            }
            Self::Listen { setting, .. } if *setting == PORT.facts.name => {
                Some("choose another address by --host and --port".to_owned())
            }
            Self::PortTaken { setting, .. } | Self::Listen { setting, .. } => Some(format!(
                "choose another in {setting}; port 0 takes a free one"
            )),
            Self::Worker(_) => Some("check --server and NOETL_TOKEN".to_owned()),
            Self::Client(_) => Some("check --server".to_owned()),
            Self::Left { .. } => {
                Some("'noetl worker drain' asks workers to leave; start it again".to_owned())
            }
            Self::Crashed { .. } => Some("its log says where; start it again".to_owned()),
            Self::Runtime(_) | Self::Serve(_) | Self::Process(_) => None,
        }
    }

    /// The exit code it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::InUse { .. } | Self::PortTaken { .. } => Exit::Conflict,
            Self::Client(_) | Self::Serve(_) => Exit::Usage,
            Self::File { .. }
            | Self::Database { .. }
            | Self::Listen { .. }
            | Self::Runtime(_)
            | Self::Worker(_)
            | Self::Left { .. }
            | Self::Crashed { .. }
            | Self::Process(_) => Exit::Failed,
        }
    }
}
