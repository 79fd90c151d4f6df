//! What can go wrong with a command itself, and what the user can do about it.

use std::io;

use thiserror::Error;

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::io::Io;
use crate::payload::PayloadError;
use crate::render::palette;
use crate::roles::{HostError, StartError, ThreadsRefused};

/// Why a command could not do its work.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A path that the user named does not exist.
    #[error("cannot find '{path}'")]
    Missing { path: String },
    /// A file or directory exists but cannot be read.
    #[error("cannot read '{path}': {}", source.kind())]
    Unreadable { path: String, source: io::Error },
    /// A file holds something other than text.
    #[error("'{path}' is not UTF-8 text: byte {offset} cannot be read")]
    NotText {
        path: String,
        offset: usize,
        wide: bool,
    },
    /// None of the directories holds a YAML file.
    #[error("no *.yaml or *.yml file in {paths}")]
    NothingFound { paths: String },
    /// A directory holds more than anybody wants to have checked.
    #[error("'{path}' holds more than {limit} {what}")]
    TooMany {
        path: String,
        limit: usize,
        what: &'static str,
    },
    /// A document that has no steps to draw.
    #[error("'{path}' is a {kind}, and only a playbook has a graph")]
    NoGraph { path: String, kind: String },
    /// A document that is not one to run.
    #[error("'{path}' is a {kind}, and only a playbook can be run")]
    NotRunnable { path: String, kind: String },
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What a run should start with is wrong.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A part of the system does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A run cannot be started or followed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A log that is a text cannot be read.
    #[error("'{path}' is not the log of a run: {reason}")]
    BadLog { path: String, reason: String },
    /// A log that is a text does not hold what was asked for.
    #[error("'{path}' does not hold {what}")]
    NotInLog { path: String, what: String },
    /// The settings name no file that logs could be read from.
    #[error("the settings name no local database to read from")]
    NoLocalLog,
    /// A code that nobody reports.
    #[error("there is no code '{code}'")]
    UnknownCode {
        code: String,
        near: Vec<&'static str>,
    },
    /// The output could not be written.
    #[error("cannot write the output: {}", .0.kind())]
    Write(#[from] io::Error),
}

impl Error {
    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some("check the spelling and the current directory".to_owned()),
            Self::Unreadable { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Some("check its permissions".to_owned()),
                io::ErrorKind::NotADirectory => Some("a part of the path is a file".to_owned()),
                io::ErrorKind::IsADirectory => Some("name a file inside it".to_owned()),
                _ => None,
            },
            Self::NotText { wide: true, .. } => {
                Some("it looks like UTF-16; save it as UTF-8".to_owned())
            }
            Self::NotText { .. } => Some("save it as UTF-8".to_owned()),
            Self::NothingFound { .. } => {
                Some("name a file, or a directory with playbooks".to_owned())
            }
            Self::TooMany { .. } => Some("name the directories inside it one by one".to_owned()),
            Self::NoGraph { .. } | Self::NotRunnable { .. } => {
                Some("look at it with: noetl check FILE".to_owned())
            }
            Self::Config(error) => error.help(),
            Self::Payload(error) => error.help(),
            Self::Start(error) => error.help(),
            Self::Host(error) => error.help(),
            Self::BadLog { .. } => Some("a log has one event a line, as JSON".to_owned()),
            Self::NotInLog { .. } => {
                Some("check the id, and that the log is the right one".to_owned())
            }
            Self::NoLocalLog => Some("ask its server: --server URL".to_owned()),
            Self::UnknownCode { near, .. } if near.is_empty() => {
                Some("list every code with: noetl explain".to_owned())
            }
            Self::UnknownCode { near, .. } => Some(format!("did you mean {}?", near.join(" or "))),
            Self::Write(_) => None,
        }
    }

    /// The exit code it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Missing { .. }
            | Self::NothingFound { .. }
            | Self::NotInLog { .. }
            | Self::UnknownCode { .. } => Exit::NotFound,
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
            Self::Config(_) | Self::Payload(_) | Self::NotRunnable { .. } | Self::NoLocalLog => {
                Exit::Usage
            }
            Self::Start(error) => error.exit(),
            Self::Host(error) => error.exit(),
            Self::Unreadable { .. }
            | Self::NotText { .. }
            | Self::TooMany { .. }
            | Self::NoGraph { .. }
            | Self::BadLog { .. }
            | Self::Write(_) => Exit::Failed,
        }
    }

    /// Tells the user.
    pub(crate) fn tell(&self, io: &mut Io<'_>) -> io::Result<()> {
        let paint = io.err.paint();
        io.talk(format_args!(
            "{}: {self}",
            paint.text(palette::BAD, "error")
        ))?;
        if let Some(help) = self.help() {
            io.talk(format_args!(
                "  {}: {help}",
                paint.text(palette::HELP, "help")
            ))?;
        }
        Ok(())
    }
}

impl From<ThreadsRefused> for Error {
    fn from(refused: ThreadsRefused) -> Self {
        match refused {
            ThreadsRefused::Config(error) => Self::Config(error),
            ThreadsRefused::Start(error) => Self::Start(error),
        }
    }
}
