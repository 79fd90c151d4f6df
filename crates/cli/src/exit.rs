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
    /// There is no server, or it cannot be reached.
    Unreachable = 5,
    /// It took longer than it may.
    Timeout = 124,
    /// The user stopped it; shells report an interrupt by this number.
    Interrupted = 130,
    /// Whoever read the output stopped reading; shells report a broken pipe by this number.
    BrokenPipe = 141,
}

impl Exit {
    /// Every way to end, in order.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Conflict,
        Self::Unreachable,
        Self::Timeout,
        Self::Interrupted,
        Self::BrokenPipe,
    ];

    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What it means, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "all went well",
            Self::Failed => "the run failed, or what was checked has errors",
            Self::Usage => "the command line, a setting or the playbook to run is wrong",
            Self::NotFound => "a file, a run, a definition or a code was not found",
            Self::Conflict => "somebody else has the database or the port, or the run has ended",
            Self::Unreachable => "there is no server, or it cannot be reached",
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
        assert_eq!(table, [0, 1, 2, 3, 4, 5, 124, 130, 141]);
    }
}
