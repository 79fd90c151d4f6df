//! Exit codes of the program.
//!
//! The numbers are stable and have the same meaning in every command. Scripts rely on them.

use std::process::ExitCode;

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CommandExit {
    /// Success.
    Ok = 0,
    /// The checked or executed object failed.
    Failed = 1,
    /// The command line, a setting or the playbook is invalid.
    Usage = 2,
    /// A file, directory or code does not exist.
    NotFound = 3,
    /// Another process uses the database or the port.
    Conflict = 4,
    /// There is no server, it cannot be reached, or it cannot process the request now.
    Unreachable = 5,
    /// The server rejects the identity or its permissions.
    Denied = 6,
    /// The time limit was exceeded.
    Timeout = 124,
    /// The user interrupted the command. Shells report an interrupt with this number.
    Interrupted = 130,
    /// The reader of the output closed it. Shells report a broken pipe with this number.
    BrokenPipe = 141,
}

impl CommandExit {
    /// All exit codes in order, with short descriptions.
    pub const MEANINGS: [(Self, &'static str); 10] = [
        (Self::Ok, "success"),
        (Self::Failed, "the run failed, or a checked document has errors"),
        (Self::Usage, "the command line, a setting or the playbook is invalid"),
        (Self::NotFound, "a file, a run, a definition or a code was not found"),
        (Self::Conflict, "the database or the port is in use, or the run has ended"),
        (Self::Unreachable, "there is no server, it cannot be reached, or it is unavailable"),
        (Self::Denied, "the token is missing, invalid or lacks the required scope"),
        (Self::Timeout, "the time limit was exceeded"),
        (Self::Interrupted, "interrupted by Ctrl-C"),
        (Self::BrokenPipe, "the reader of the output closed it"),
    ];

    /// Number that the shell receives.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Exit code for the HTTP status of a server's error response. Server errors never map to the
    /// code of a failed run.
    pub(crate) const fn from_http_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Denied,
            404 | 410 => Self::NotFound,
            409 => Self::Conflict,
            429 | 500 | 502.. => Self::Unreachable,
            // Includes 501: requesting an unsupported operation is a usage error.
            _ => Self::Usage,
        }
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests;
