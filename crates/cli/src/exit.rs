//! Exit codes: what a script may rely on.
//!
//! The numbers are stable. 4 and 124 stay free: everywhere in the product they mean a conflict and
//! a timeout.

use std::process::ExitCode;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// The thing that was checked or run is at fault.
    Failed = 1,
    /// The command line is at fault.
    Usage = 2,
    /// A file, a directory or a code does not exist.
    NotFound = 3,
    /// Whoever read the output stopped reading; shells report a broken pipe by this number.
    BrokenPipe = 141,
}

impl Exit {
    /// Every way to end, in order.
    pub const ALL: [Self; 5] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
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
            Self::Failed => "what was checked has errors",
            Self::Usage => "the command line is wrong",
            Self::NotFound => "a file or a code was not found",
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
        assert_eq!(table, [0, 1, 2, 3, 141]);
    }
}
