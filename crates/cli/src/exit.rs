//! Exit codes: what a script may rely on.
//!
//! The numbers are stable, and mean the same in every command.

use std::process::ExitCode;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// The thing that was checked or run is at fault.
    Failed = 1,
    /// The command line, a setting or the playbook to run is at fault.
    Usage = 2,
    /// A file, a directory or a code does not exist.
    NotFound = 3,
    /// Somebody else has what is needed: the database, the port.
    Conflict = 4,
    /// There is no server, it cannot be reached, or it is in no state to do it now.
    Unreachable = 5,
    /// The server does not let this identity do it, or knows no such identity.
    Denied = 6,
    /// It took longer than it may.
    Timeout = 124,
    /// The user stopped it; shells report an interrupt by this number.
    Interrupted = 130,
    /// Whoever read the output stopped reading; shells report a broken pipe by this number.
    BrokenPipe = 141,
}

impl Exit {
    /// Every way to end, in order.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Conflict,
        Self::Unreachable,
        Self::Denied,
        Self::Timeout,
        Self::Interrupted,
        Self::BrokenPipe,
    ];

    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What the refusal of a server leads to, by the status of its answer. Whatever is wrong with the
    /// server itself is never told like a run that failed.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Denied,
            404 | 410 => Self::NotFound,
            409 => Self::Conflict,
            429 | 500 | 502.. => Self::Unreachable,
            // 501 among them: what a server does not support is wrong to ask of it.
            _ => Self::Usage,
        }
    }

    /// What it means, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "all went well",
            Self::Failed => "the run failed, or what was checked has errors",
            Self::Usage => "the command line, a setting or the playbook to run is wrong",
            Self::NotFound => "a file, a run, a definition or a code was not found",
            Self::Conflict => "somebody else has the database or the port, or the run has ended",
            Self::Unreachable => "there is no server, it cannot be reached, or it cannot do it now",
            Self::Denied => "the token is missing or wrong, or does not allow it",
            Self::Timeout => "it took longer than it may",
            Self::Interrupted => "stopped by Ctrl-C",
            Self::BrokenPipe => "the reader of the output went away",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_never_change() {
        let table: Vec<_> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(table, [0, 1, 2, 3, 4, 5, 6, 124, 130, 141]);
    }

    #[test]
    fn trouble_of_a_server_is_no_failed_run() {
        let of = |status| Exit::of_status(status).code();
        let table: Vec<(u16, u8)> = [400, 401, 403, 404, 409, 410, 413, 422, 429]
            .into_iter()
            .chain([500, 501, 502, 503, 504])
            .map(|status| (status, of(status)))
            .collect();
        assert_eq!(
            table,
            [
                (400, 2),
                (401, 6),
                (403, 6),
                (404, 3),
                (409, 4),
                (410, 3),
                (413, 2),
                (422, 2),
                (429, 5),
                (500, 5),
                (501, 2),
                (502, 5),
                (503, 5),
                (504, 5),
            ]
        );
        let codes = noetl_types::ErrorCode::ALL.iter();
        let mut exits = codes.map(|code| Exit::of_status(code.status()));
        assert!(exits.all(|exit| exit != Exit::Failed && exit != Exit::Ok));
    }
}
