//! Errors of commands: the message, the suggested fix and the exit code.

use std::io;

use noetl_api::client::ClientBuildError;
use noetl_api::{ApiError, Problem};
use noetl_server::RuntimeError;
pub(crate) use noetl_server::error_chain;
use noetl_server::http::ServeError;
use noetl_store::StoreError;
use noetl_types::ErrorCode;
use noetl_worker::WorkerError;

use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::palette;
use crate::render::text_layout::{escape_control, escape_control_lines};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An error that is only reported.
    #[error("{message}")]
    Failure { message: String, help: Option<String>, exit: CommandExit },
    /// A server rejected a request, or cannot be reached.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A server rejected a request of an operator.
    #[error(transparent)]
    Operator(ApiError),
    /// A runtime in this process rejected a request.
    #[error("{}", error_chain(.0))]
    Runtime(#[from] RuntimeError),
    /// The output cannot be written.
    #[error("cannot write the output: {}", .0.kind())]
    Write(#[from] io::Error),
}

/// Maximum errors of a rejected request that are listed.
const MAX_LISTED_ERRORS: usize = 10;

const UNAUTHENTICATED_HELP: &str = "set NOETL_TOKEN for a server given by --server or NOETL_SERVER_URL; a \
     profile has its own token source, see: noetl profile show";
const FORBIDDEN_OPERATOR_HELP: &str = "set NOETL_INTERNAL_API_TOKEN to the server's value; the server of a \
     profile receives only the token that the profile names";

impl Error {
    fn new(exit: CommandExit, message: impl Into<String>) -> Self {
        Self::Failure { message: message.into(), help: None, exit }
    }

    /// Error of a failed operation.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Failed, message)
    }

    /// Error of an invalid command line, setting or input.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Usage, message)
    }

    /// Error of an object that does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(CommandExit::NotFound, message)
    }

    /// Error of a caller without a permission.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Denied, message)
    }

    /// Error of an object that already exists or is in use.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Conflict, message)
    }

    /// Error of an invalid argument.
    pub(crate) fn invalid_argument(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::usage(format!("{name}: {reason}"))
    }

    /// Error of a server that cannot be reached.
    pub(crate) fn unreachable(url: &str, reason: &str) -> Self {
        // The last cause is the specific one. The causes before it repeat the context.
        let reason = reason.rsplit(": ").next().unwrap_or(reason);
        let message = format!("cannot reach the server at {url}: {reason}");
        let is_https = url.starts_with("https://");
        let help = if is_https && reason.contains("InvalidContentType") {
            "the server answers without TLS; use an http:// address, or set NOETL_TLS_CERT and \
             NOETL_TLS_KEY on the server"
        } else if !is_https && reason.contains("invalid HTTP version") {
            "the server answers with TLS; use an https:// address"
        } else {
            "start one with 'noetl dev' or 'noetl server', or choose another with --server URL or \
             --profile NAME"
        };
        Self::new(CommandExit::Unreachable, message).with_help(help)
    }

    /// Error of a component that fails or does not start, with its causes.
    pub(crate) fn from_chain(error: &dyn std::error::Error) -> Self {
        Self::failed(error_chain(error))
    }

    /// Adds a suggested fix.
    pub(crate) fn with_help(mut self, text: impl Into<String>) -> Self {
        if let Self::Failure { help, .. } = &mut self {
            *help = Some(text.into());
        }
        self
    }

    /// Suggests a similar name, or another fix if no name is similar.
    pub(crate) fn with_suggestion(self, near: Option<String>, otherwise: &str) -> Self {
        self.with_help(
            near.map_or_else(|| otherwise.to_owned(), |near| format!("did you mean {near}?")),
        )
    }

    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::Failure { help, .. } => help.clone(),
            Self::Api(ApiError::Unreachable(_)) => {
                Some("the run continues when its server is available again".to_owned())
            }
            Self::Api(ApiError::Unreadable(_)) => {
                Some("check that the address is that of a NoETL server".to_owned())
            }
            Self::Api(ApiError::Refused { problem, .. })
            | Self::Runtime(RuntimeError::Refused(problem)) => problem_help(problem),
            Self::Operator(error) => (error.code() == Some(ErrorCode::Forbidden))
                .then(|| FORBIDDEN_OPERATOR_HELP.to_owned()),
            Self::Runtime(RuntimeError::Store(_) | RuntimeError::Machine(_)) | Self::Write(_) => {
                None
            }
        }
    }

    /// Exit code of the error.
    pub(crate) fn exit_code(&self) -> CommandExit {
        match self {
            Self::Failure { exit, .. } => *exit,
            Self::Api(ApiError::Refused { problem, .. })
            | Self::Operator(ApiError::Refused { problem, .. }) => {
                CommandExit::from_http_status(problem.status)
            }
            // An unreadable response is from something else than a NoETL server, such as a proxy.
            Self::Api(_) | Self::Operator(_) => CommandExit::Unreachable,
            // Without a server, no error can mean that the server is unavailable.
            Self::Runtime(RuntimeError::Refused(problem)) => {
                match CommandExit::from_http_status(problem.status) {
                    CommandExit::Unreachable => CommandExit::Failed,
                    exit => exit,
                }
            }
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                CommandExit::BrokenPipe
            }
            Self::Runtime(RuntimeError::Store(_) | RuntimeError::Machine(_)) | Self::Write(_) => {
                CommandExit::Failed
            }
        }
    }

    /// Error code of a rejected request.
    pub(crate) fn error_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Api(error) | Self::Operator(error) => error.code(),
            Self::Runtime(RuntimeError::Refused(problem)) => problem.known_code(),
            Self::Runtime(_) | Self::Failure { .. } | Self::Write(_) => None,
        }
    }

    /// Prints the error and its help.
    pub(crate) fn print_to(&self, io: &mut Io<'_>) -> io::Result<()> {
        let paint = io.err.paint();
        // The message can contain text from others, such as names or a server's response.
        let message = escape_control_lines(&self.to_string());
        io.print_message(format_args!("{}: {message}", paint.text(palette::FAILURE, "error")))?;
        if let Some(help) = self.help_text() {
            let help = escape_control_lines(&help);
            io.print_message(format_args!("  {}: {help}", paint.text(palette::HELP, "help")))?;
        }
        Ok(())
    }
}

/// Lists the single errors of a rejected request.
fn problem_help(problem: &Problem) -> Option<String> {
    let details: Vec<String> = problem
        .errors
        .iter()
        .take(MAX_LISTED_ERRORS)
        .map(|error| {
            let position = match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}: "),
                (Some(line), None) => format!("line {line}: "),
                (None, _) => String::new(),
            };
            let code = error.code.as_deref();
            let code = code.map_or_else(String::new, |code| format!(" ({code})"));
            escape_control(&format!("{position}{}{code}", error.message))
        })
        .collect();
    match problem.known_code() {
        _ if !details.is_empty() => Some(details.join("\n        ")),
        Some(ErrorCode::Unauthenticated) => Some(UNAUTHENTICATED_HELP.to_owned()),
        Some(code) => Some(format!("see: noetl explain {}", code.as_str())),
        None => None,
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::from_chain(&error)
    }
}

impl From<WorkerError> for Error {
    fn from(error: WorkerError) -> Self {
        Self::from_chain(&error).with_help("check --server and NOETL_TOKEN")
    }
}

impl From<ServeError> for Error {
    fn from(error: ServeError) -> Self {
        Self::usage(error_chain(&error))
    }
}

impl From<ClientBuildError> for Error {
    fn from(error: ClientBuildError) -> Self {
        Self::usage(error.to_string()).with_help("check --server")
    }
}
