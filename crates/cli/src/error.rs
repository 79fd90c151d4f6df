//! What can go wrong with a command itself, and what the user can do about it.

use std::io;

use noetl_api::ApiError;
use noetl_store::Schema;
use noetl_types::ErrorCode;
use thiserror::Error;

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::io::Io;
use crate::payload::PayloadError;
use crate::profile::ProfileError;
use crate::render::palette;
use crate::render::words::visible_lines;
use crate::roles::{HostError, StartError, ThreadsRefused, exit_of_refusal};

/// Why a command could not do its work.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A path that the user named does not exist.
    #[error("cannot find '{path}'")]
    Missing { path: String },
    /// A database that an older program made.
    #[error("{place} is at schema {} of {}", schema.version, schema.newest)]
    OldSchema { place: String, schema: Schema },
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
    /// The encryption key cannot be had.
    #[error(transparent)]
    Key(#[from] crate::roles::KeyError),
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
    /// A server did not do what an operator asked.
    #[error(transparent)]
    Platform(ApiError),
    /// A database did not do what an operator asked.
    #[error("{}", crate::roles::causes(.0))]
    Store(#[source] noetl_store::StoreError),
    /// A code that nobody reports.
    #[error("there is no code '{code}'")]
    UnknownCode {
        code: String,
        near: Vec<&'static str>,
    },
    /// Profiles cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The server is not there.
    #[error("the server at {url} cannot be reached: {reason}")]
    Unreachable { url: String, reason: String },
    /// What is not the name of a run.
    #[error("'{text}' is not a run")]
    BadRun { text: String },
    /// A part of an id, where nobody can tell which run it is of.
    #[error("'{text}' is not the whole id of a run, and {url} has only the internal API")]
    NotWhole { text: String, url: String },
    /// No run fits.
    #[error("there is no run '{text}'")]
    NoRun { text: String },
    /// No run fits among those that were looked at.
    #[error("there is no run '{text}' among the newest, and older ones were not looked at")]
    NotAmongNewest { text: String },
    /// Several runs fit.
    #[error("'{text}' fits several runs: {}", some.join(", "))]
    ManyRuns { text: String, some: Vec<String> },
    /// No token fits.
    #[error("there is no token '{text}'")]
    NoToken { text: String },
    /// Several tokens fit.
    #[error("'{text}' fits several tokens: {}", some.join(", "))]
    ManyTokens { text: String, some: Vec<String> },
    /// No definition fits.
    #[error("there is no definition '{name}'")]
    NoDefinition { name: String, near: Option<String> },
    /// No worker has the name.
    #[error("there is no worker '{name}'")]
    NoWorker { name: String, near: Option<String> },
    /// There is no database to look at.
    #[error("there is no database at {place}")]
    NoDatabase { place: String },
    /// A file that is not to be overwritten.
    #[error("'{path}' is there already")]
    InTheWay { path: String },
    /// Nothing in a run waits for anybody.
    #[error("nothing in run {run} waits for anybody")]
    NothingWaits { run: String },
    /// Several steps of a run wait for somebody.
    #[error("several steps wait for somebody: {}", steps.join(", "))]
    ManySteps { steps: Vec<String> },
    /// There is no version before it.
    #[error("'{path}' has only one version")]
    OneVersion { path: String },
    /// An argument that cannot be used.
    #[error("{what}: {reason}")]
    BadValue { what: &'static str, reason: String },
    /// Nobody is there to agree.
    #[error("nobody is there to agree, since standard error is not a terminal")]
    NotAsked,
    /// Something cannot be written out.
    #[error("the answer cannot be written out: {0}")]
    Unwritable(String),
    /// The output could not be written.
    #[error("cannot write the output: {}", .0.kind())]
    Write(#[from] io::Error),
}

impl Error {
    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Unreadable { source, .. } => unreadable_help(source),
            Self::NotText { wide, .. } => {
                let guess = if *wide { "it looks like UTF-16; " } else { "" };
                Some(format!("{guess}save it as UTF-8"))
            }
            Self::Config(error) => error.help(),
            Self::Payload(error) => error.help(),
            Self::Start(error) => error.help(),
            Self::Host(error) => error.help(),
            Self::Platform(error) => platform_help(error),
            Self::Profile(error) => error.help(),
            Self::UnknownCode { near, .. } if !near.is_empty() => {
                Some(format!("did you mean {}?", near.join(" or ")))
            }
            Self::NoDefinition {
                near: Some(near), ..
            }
            | Self::NoWorker {
                near: Some(near), ..
            } => Some(format!("did you mean {near}?")),
            Self::NothingWaits { run } => Some(format!("see why with: noetl runs explain {run}")),
            other => other.advice().map(str::to_owned),
        }
    }

    /// What is the same whatever the error is about.
    const fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Missing { .. } => "check the spelling and the current directory",
            Self::OldSchema { .. } => {
                "bring it up to date with 'noetl db migrate', or start a server of this version"
            }
            Self::NothingFound { .. } => "name a file, or a directory with playbooks",
            Self::TooMany { .. } => "name the directories inside it one by one",
            Self::NoGraph { .. } | Self::NotRunnable { .. } => "look at it with: noetl check FILE",
            Self::BadLog { .. } => "a log has one event a line, as JSON",
            Self::NotInLog { .. } => "check the id, and that the log is the right one",
            Self::NoLocalLog => "ask its server: --server URL",
            Self::UnknownCode { .. } => "list every code with: noetl explain",
            Self::Unreachable { .. } => {
                "start one with 'noetl dev' or 'noetl server', or name another by --server URL or \
                 --profile NAME"
            }
            Self::BadRun { .. } => "name it by its id, by a part of its id, or as last",
            Self::NotWhole { .. } => {
                "give its whole id, as 'noetl runs list' shows it, or name the server by --server URL"
            }
            Self::NoRun { .. } => "see them with: noetl runs list",
            Self::NotAmongNewest { .. } => {
                "give its whole id; see older ones with: noetl runs list --until WHEN"
            }
            Self::NoDefinition { .. } => "see them with: noetl catalog list",
            Self::NoWorker { .. } => "see them with: noetl worker list",
            Self::NoDatabase { .. } => NO_DATABASE_HELP,
            Self::InTheWay { .. } => "name another file, or remove that one",
            Self::ManyRuns { .. } | Self::ManyTokens { .. } => "give more of its digits",
            Self::NoToken { .. } => "see them with: noetl token list",
            Self::ManySteps { .. } => "name one behind the run",
            Self::OneVersion { .. } => "compare it with a file: noetl catalog diff PATH FILE",
            Self::NotAsked => "agree beforehand with --yes",
            Self::BadValue { .. }
            | Self::Unwritable(_)
            | Self::Write(_)
            | Self::Store(_)
            | Self::Key(_)
            // What these say depends on what they are about.
            | Self::Unreadable { .. }
            | Self::NotText { .. }
            | Self::Config(_)
            | Self::Payload(_)
            | Self::Start(_)
            | Self::Host(_)
            | Self::Platform(_)
            | Self::Profile(_)
            | Self::NothingWaits { .. } => return None,
        })
    }

    /// The exit code it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
            Self::Missing { .. }
            | Self::NothingFound { .. }
            | Self::NotInLog { .. }
            | Self::UnknownCode { .. }
            | Self::NoRun { .. }
            | Self::NotAmongNewest { .. }
            | Self::NoToken { .. }
            | Self::NoDefinition { .. }
            | Self::NoWorker { .. }
            | Self::NoDatabase { .. }
            | Self::NothingWaits { .. }
            | Self::OneVersion { .. }
            | Self::Profile(ProfileError::Unknown { .. }) => Exit::NotFound,
            Self::Profile(ProfileError::Exists(_)) | Self::InTheWay { .. } => Exit::Conflict,
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Config(_)
            | Self::Payload(_)
            | Self::NotRunnable { .. }
            | Self::Profile(_)
            | Self::BadRun { .. }
            | Self::NotWhole { .. }
            | Self::ManyRuns { .. }
            | Self::ManyTokens { .. }
            | Self::ManySteps { .. }
            | Self::BadValue { .. }
            | Self::NoLocalLog
            | Self::NotAsked => Exit::Usage,
            Self::Start(error) => error.exit(),
            Self::Host(error) => error.exit(),
            Self::Platform(error) => exit_of_refusal(error),
            Self::OldSchema { .. }
            | Self::Unreadable { .. }
            | Self::NotText { .. }
            | Self::TooMany { .. }
            | Self::NoGraph { .. }
            | Self::BadLog { .. }
            | Self::Unwritable(_)
            | Self::Store(_)
            | Self::Key(_)
            | Self::Write(_) => Exit::Failed,
        }
    }

    /// Tells the user.
    pub(crate) fn tell(&self, io: &mut Io<'_>) -> io::Result<()> {
        let paint = io.err.paint();
        // Others may have written what it tells: the names of things, the answer of a server.
        io.talk(format_args!(
            "{}: {}",
            paint.text(palette::BAD, "error"),
            visible_lines(&self.to_string())
        ))?;
        if let Some(help) = self.help() {
            io.talk(format_args!(
                "  {}: {}",
                paint.text(palette::HELP, "help"),
                visible_lines(&help)
            ))?;
        }
        Ok(())
    }
}

const NO_DATABASE_HELP: &str =
    "the first 'noetl run' or 'noetl dev' makes it; name another by --store sqlite:PATH";

fn unreadable_help(error: &io::Error) -> Option<String> {
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => "check its permissions",
        io::ErrorKind::NotADirectory => "a part of the path is a file",
        io::ErrorKind::IsADirectory => "name a file inside it",
        _ => return None,
    };
    Some(help.to_owned())
}

fn platform_help(error: &ApiError) -> Option<String> {
    let is_closed = error.code() == Some(ErrorCode::Forbidden);
    is_closed.then(|| {
        "set NOETL_INTERNAL_API_TOKEN to the value that the server has; the server of a profile is \
         shown only the token that the profile names"
            .to_owned()
    })
}

impl From<ThreadsRefused> for Error {
    fn from(refused: ThreadsRefused) -> Self {
        match refused {
            ThreadsRefused::Config(error) => Self::Config(error),
            ThreadsRefused::Start(error) => Self::Start(error),
        }
    }
}
