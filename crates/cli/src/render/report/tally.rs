//! Counting what a check found.

use noetl_playbook::{Code, Diagnostic, Severity};
use serde::Serialize;

use super::{FileReport, Outcome};
use crate::error::Error;
use crate::exit::Exit;

/// What was found in all files.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    /// Files that were checked.
    pub(crate) files: usize,
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) notes: usize,
    /// Files that could not be read.
    pub(crate) unreadable: usize,
    /// Diagnostics that were counted but not shown.
    pub(crate) hidden: usize,
    #[serde(skip)]
    failed: bool,
    #[serde(skip)]
    missing: bool,
    /// The weightiest code, of these the first.
    #[serde(skip)]
    worst: Option<Code>,
}

impl Tally {
    /// Counts a file.
    pub(crate) fn add(&mut self, file: &FileReport) {
        match &file.outcome {
            Outcome::Unreadable(Error::Missing { .. }) => {
                self.unreadable += 1;
                self.missing = true;
            }
            Outcome::Unreadable(_) => {
                self.unreadable += 1;
                self.failed = true;
            }
            Outcome::Checked(checked) => {
                self.files += 1;
                self.failed |= !checked.passes;
                for found in &checked.diagnostics {
                    self.count(found);
                }
            }
        }
    }

    fn count(&mut self, found: &Diagnostic) {
        match found.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
        // Severities are ordered from the weightiest on.
        if self
            .worst
            .is_none_or(|worst| found.severity < worst.severity())
        {
            self.worst = Some(found.code);
        }
    }

    /// The code that is most worth reading about.
    pub(crate) fn worst(&self) -> Option<Code> {
        self.worst
    }

    /// The exit code that it adds up to.
    pub(crate) fn exit(&self) -> Exit {
        if self.failed {
            Exit::Failed
        } else if self.missing {
            Exit::NotFound
        } else {
            Exit::Ok
        }
    }
}

/// Takes out of `found` what exceeds `room`, the lightest and last first, and says how much it was.
pub(crate) fn fit(found: &mut Vec<Diagnostic>, room: usize) -> usize {
    let excess = found.len().saturating_sub(room);
    if excess > 0 {
        let mut weight: Vec<(Severity, usize)> = found
            .iter()
            .enumerate()
            .map(|(at, found)| (found.severity, at))
            .collect();
        weight.sort_unstable();
        let mut keep = vec![false; found.len()];
        for (_, at) in weight.iter().take(room) {
            keep[*at] = true;
        }
        let mut keep = keep.into_iter();
        found.retain(|_| keep.next().unwrap_or(false));
    }
    excess
}
