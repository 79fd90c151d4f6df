//! Tells on standard error what is being done, so that nobody takes a long measurement for a hang.

use std::io::Write as _;

/// Where progress is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// On standard error.
    Told,
    /// Nowhere.
    Silent,
}

impl Progress {
    /// Says a line. A closed stream is no reason to stop measuring.
    pub(crate) fn say(self, line: &str) {
        match self {
            Self::Told => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            Self::Silent => {}
        }
    }
}
