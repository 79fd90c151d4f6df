//! Prints progress on standard error, so that a long measurement does not look stuck.

use std::io::Write as _;

/// Destination of progress messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressOutput {
    Stderr,
    /// No output.
    Silent,
}

impl ProgressOutput {
    /// Prints a line. A closed stream does not stop the measurement.
    pub(crate) fn print_line(self, line: &str) {
        match self {
            Self::Stderr => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            Self::Silent => {}
        }
    }
}
