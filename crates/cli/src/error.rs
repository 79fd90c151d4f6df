//! Errors of commands, with help text and exit codes.

use std::io;

use noetl_api::ApiError;
use noetl_store::SchemaStatus;
use noetl_types::ErrorCode;
use thiserror::Error;

use crate::config::ConfigError;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::payload::PayloadError;
use crate::profile::ProfileError;
use crate::render::palette;
use crate::render::text_layout::escape_control_lines;
use crate::roles::{RuntimeBuildError, StartError, TargetError, exit_for_api_error};

/// Error of a command.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A path does not exist.
    #[error("cannot find '{path}'")]
    PathNotFound { path: String },
    /// The database has an older schema.
    #[error("{place} is at schema {} of {}", schema.version, schema.newest)]
    OutdatedSchema { place: String, schema: SchemaStatus },
    /// A file or directory exists but cannot be read.
    #[error("cannot read '{path}': {}", source.kind())]
    Unreadable { path: String, source: io::Error },
    /// A file is not UTF-8 text.
    #[error("'{path}' is not UTF-8 text: invalid byte at offset {offset}")]
    NotUtf8 { path: String, offset: usize, wide: bool },
    /// The given directories contain no YAML file.
    #[error("no *.yaml or *.yml file in {paths}")]
    NoDocuments { paths: String },
    /// A directory exceeds a limit on files or depth.
    #[error("'{path}' contains more than {limit} {what}")]
    LimitExceeded { path: String, limit: usize, what: &'static str },
    /// The document has no steps to draw.
    #[error("'{path}' is a {kind}; only playbooks have a graph")]
    NoGraph { path: String, kind: String },
    /// The document cannot be run.
    #[error("'{path}' is a {kind}; only playbooks can be run")]
    NotRunnable { path: String, kind: String },
    /// Invalid settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Invalid workload values.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A component does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The encryption key is not available.
    #[error(transparent)]
    Key(#[from] crate::roles::KeyError),
    /// A run cannot be started or followed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A log file is invalid.
    #[error("'{path}' is not the log of a run: {reason}")]
    InvalidLog { path: String, reason: String },
    /// A log file does not contain the requested run or event.
    #[error("'{path}' does not contain {what}")]
    NotInLog { path: String, what: String },
    /// The settings name no database file to read logs from.
    #[error("the settings name no local database to read from")]
    NoLocalLog,
    /// A server rejected an operator request.
    #[error(transparent)]
    Platform(ApiError),
    /// A database operation failed.
    #[error("{}", crate::roles::error_chain(.0))]
    Store(#[source] noetl_store::StoreError),
    /// Unknown diagnostic or error code.
    #[error("there is no code '{code}'")]
    UnknownCode { code: String, near: Vec<&'static str> },
    /// Profiles cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The server cannot be reached.
    #[error("cannot reach the server at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// Invalid name of a run.
    #[error("'{text}' is not a run id")]
    InvalidRunName { text: String },
    /// Part of an id, on a server that cannot search for runs.
    #[error("'{text}' is not a full run id, and {url} provides only the internal API")]
    PartialRunId { text: String, url: String },
    /// No run matches.
    #[error("there is no run '{text}'")]
    NoRun { text: String },
    /// None of the newest runs matches.
    #[error("there is no run '{text}' among the newest runs; older runs were not searched")]
    NotAmongNewest { text: String },
    /// Several runs match.
    #[error("'{text}' matches several runs: {}", some.join(", "))]
    AmbiguousRun { text: String, some: Vec<String> },
    /// No token matches.
    #[error("there is no token '{text}'")]
    NoToken { text: String },
    /// Several tokens match.
    #[error("'{text}' matches several tokens: {}", some.join(", "))]
    AmbiguousToken { text: String, some: Vec<String> },
    /// No definition matches.
    #[error("there is no definition '{name}'")]
    NoDefinition { name: String, near: Option<String> },
    /// No worker has this name.
    #[error("there is no worker '{name}'")]
    NoWorker { name: String, near: Option<String> },
    /// The database does not exist.
    #[error("there is no database at {place}")]
    NoDatabase { place: String },
    /// The file exists and must not be overwritten.
    #[error("'{path}' already exists")]
    FileExists { path: String },
    /// No step of the run waits for an approval.
    #[error("no step of run {run} waits for an approval")]
    NoPendingApproval { run: String },
    /// Several steps of the run wait for an approval.
    #[error("several steps wait for an approval: {}", steps.join(", "))]
    AmbiguousStep { steps: Vec<String> },
    /// There is no earlier version.
    #[error("'{path}' has only one version")]
    SingleVersion { path: String },
    /// Invalid argument.
    #[error("{what}: {reason}")]
    InvalidArgument { what: &'static str, reason: String },
    /// Confirmation is required, but there is no terminal.
    #[error("confirmation is required, but standard error is not a terminal")]
    ConfirmationRequired,
    /// The output cannot be serialized.
    #[error("cannot serialize the output: {0}")]
    NotSerializable(String),
    /// The output cannot be written.
    #[error("cannot write the output: {}", .0.kind())]
    Write(#[from] io::Error),
}

impl Error {
    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::Unreadable { source, .. } => unreadable_help(source),
            Self::NotUtf8 { wide, .. } => {
                let guess = if *wide { "it looks like UTF-16; " } else { "" };
                Some(format!("{guess}save it as UTF-8"))
            }
            Self::Config(error) => error.help_text(),
            Self::Payload(error) => error.help_text(),
            Self::Start(error) => error.help_text(),
            Self::Target(error) => error.help_text(),
            Self::Platform(error) => platform_help(error),
            Self::Profile(error) => error.help_text(),
            Self::UnknownCode { near, .. } if !near.is_empty() => {
                Some(format!("did you mean {}?", near.join(" or ")))
            }
            Self::NoDefinition { near: Some(near), .. }
            | Self::NoWorker { near: Some(near), .. } => Some(format!("did you mean {near}?")),
            Self::NoPendingApproval { run } => {
                Some(format!("show why with: noetl runs explain {run}"))
            }
            other => other.fixed_help().map(str::to_owned),
        }
    }

    /// Suggested fix for errors whose help does not depend on their data.
    const fn fixed_help(&self) -> Option<&'static str> {
        Some(match self {
            Self::PathNotFound { .. } => "check the spelling and the current directory",
            Self::OutdatedSchema { .. } => {
                "update it with 'noetl db migrate', or start a server of this version"
            }
            Self::NoDocuments { .. } => "specify a file, or a directory with playbooks",
            Self::LimitExceeded { .. } => "specify its subdirectories one by one",
            Self::NoGraph { .. } | Self::NotRunnable { .. } => "check it with: noetl check FILE",
            Self::InvalidLog { .. } => "a log contains one JSON event per line",
            Self::NotInLog { .. } => "check the id and the log file",
            Self::NoLocalLog => "read from a server with --server URL",
            Self::UnknownCode { .. } => "list every code with: noetl explain",
            Self::Unreachable { .. } => {
                "start one with 'noetl dev' or 'noetl server', or choose another with --server URL or \
                 --profile NAME"
            }
            Self::InvalidRunName { .. } => "use its id, part of its id, or 'last'",
            Self::PartialRunId { .. } => {
                "use the full id, as shown by 'noetl runs list', or specify the server with --server URL"
            }
            Self::NoRun { .. } => "list runs with: noetl runs list",
            Self::NotAmongNewest { .. } => {
                "use its full id; list older runs with: noetl runs list --until WHEN"
            }
            Self::NoDefinition { .. } => "list definitions with: noetl catalog list",
            Self::NoWorker { .. } => "list workers with: noetl worker list",
            Self::NoDatabase { .. } => NO_DATABASE_HELP,
            Self::FileExists { .. } => "choose another file, or remove the existing one",
            Self::AmbiguousRun { .. } | Self::AmbiguousToken { .. } => "use more digits of the id",
            Self::NoToken { .. } => "list tokens with: noetl token list",
            Self::AmbiguousStep { .. } => "specify one after the run",
            Self::SingleVersion { .. } => "compare it with a file: noetl catalog diff PATH FILE",
            Self::ConfirmationRequired => "confirm with --yes",
            Self::InvalidArgument { .. }
            | Self::NotSerializable(_)
            | Self::Write(_)
            | Self::Store(_)
            | Self::Key(_)
            // Their help depends on their data.
            | Self::Unreadable { .. }
            | Self::NotUtf8 { .. }
            | Self::Config(_)
            | Self::Payload(_)
            | Self::Start(_)
            | Self::Target(_)
            | Self::Platform(_)
            | Self::Profile(_)
            | Self::NoPendingApproval { .. } => return None,
        })
    }

    /// Exit code of the error.
    pub(crate) fn exit_code(&self) -> CommandExit {
        match self {
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                CommandExit::BrokenPipe
            }
            Self::PathNotFound { .. }
            | Self::NoDocuments { .. }
            | Self::NotInLog { .. }
            | Self::UnknownCode { .. }
            | Self::NoRun { .. }
            | Self::NotAmongNewest { .. }
            | Self::NoToken { .. }
            | Self::NoDefinition { .. }
            | Self::NoWorker { .. }
            | Self::NoDatabase { .. }
            | Self::NoPendingApproval { .. }
            | Self::SingleVersion { .. }
            | Self::Profile(ProfileError::Unknown { .. }) => CommandExit::NotFound,
            Self::Profile(ProfileError::Exists(_)) | Self::FileExists { .. } => {
                CommandExit::Conflict
            }
            Self::Unreachable { .. } => CommandExit::Unreachable,
            Self::Config(_)
            | Self::Payload(_)
            | Self::NotRunnable { .. }
            | Self::Profile(_)
            | Self::InvalidRunName { .. }
            | Self::PartialRunId { .. }
            | Self::AmbiguousRun { .. }
            | Self::AmbiguousToken { .. }
            | Self::AmbiguousStep { .. }
            | Self::InvalidArgument { .. }
            | Self::NoLocalLog
            | Self::ConfirmationRequired => CommandExit::Usage,
            Self::Start(error) => error.exit_code(),
            Self::Target(error) => error.exit_code(),
            Self::Platform(error) => exit_for_api_error(error),
            Self::OutdatedSchema { .. }
            | Self::Unreadable { .. }
            | Self::NotUtf8 { .. }
            | Self::LimitExceeded { .. }
            | Self::NoGraph { .. }
            | Self::InvalidLog { .. }
            | Self::NotSerializable(_)
            | Self::Store(_)
            | Self::Key(_)
            | Self::Write(_) => CommandExit::Failed,
        }
    }

    /// Prints the error and its help.
    pub(crate) fn print_to(&self, io: &mut Io<'_>) -> io::Result<()> {
        let paint = io.err.paint();
        // The message can contain text from others, such as names or a server's response.
        io.print_message(format_args!(
            "{}: {}",
            paint.text(palette::FAILURE, "error"),
            escape_control_lines(&self.to_string())
        ))?;
        if let Some(help) = self.help_text() {
            io.print_message(format_args!(
                "  {}: {}",
                paint.text(palette::HELP, "help"),
                escape_control_lines(&help)
            ))?;
        }
        Ok(())
    }
}

const NO_DATABASE_HELP: &str =
    "the first 'noetl run' or 'noetl dev' creates it; choose another with --store sqlite:PATH";

fn unreadable_help(error: &io::Error) -> Option<String> {
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => "check its permissions",
        io::ErrorKind::NotADirectory => "part of the path is a file",
        io::ErrorKind::IsADirectory => "specify a file inside it",
        _ => return None,
    };
    Some(help.to_owned())
}

fn platform_help(error: &ApiError) -> Option<String> {
    let is_forbidden = error.code() == Some(ErrorCode::Forbidden);
    is_forbidden.then(|| {
        "set NOETL_INTERNAL_API_TOKEN to the server's value; the server of a profile receives \
         only the token that the profile names"
            .to_owned()
    })
}

impl From<RuntimeBuildError> for Error {
    fn from(error: RuntimeBuildError) -> Self {
        match error {
            RuntimeBuildError::Config(error) => Self::Config(error),
            RuntimeBuildError::Start(error) => Self::Start(error),
        }
    }
}
