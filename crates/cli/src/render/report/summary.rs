//! Counts the diagnostics of a check.

use noetl_playbook::{Code, Diagnostic, Severity};
use serde::Serialize;

use super::{FileOutcome, FileReport};
use crate::error::Error;
use crate::exit::CommandExit;

/// Counts of all files.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CheckSummary {
    /// Checked files.
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
    /// Code with the highest severity. If several have it, the first one.
    #[serde(skip)]
    most_severe: Option<Code>,
}

impl CheckSummary {
    /// Adds a file.
    pub(crate) fn add_file(&mut self, file: &FileReport) {
        match &file.outcome {
            FileOutcome::Unreadable(Error::PathNotFound { .. }) => {
                self.unreadable += 1;
                self.missing = true;
            }
            FileOutcome::Unreadable(_) => {
                self.unreadable += 1;
                self.failed = true;
            }
            FileOutcome::Checked(checked) => {
                self.files += 1;
                self.failed |= !checked.passes;
                for diagnostic in &checked.diagnostics {
                    self.count_diagnostic(diagnostic);
                }
            }
        }
    }

    fn count_diagnostic(&mut self, diagnostic: &Diagnostic) {
        match diagnostic.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
        // Severities are ordered from most to least severe.
        if self.most_severe.is_none_or(|most_severe| diagnostic.severity < most_severe.severity()) {
            self.most_severe = Some(diagnostic.code);
        }
    }

    /// Most severe code.
    pub(crate) fn most_severe(&self) -> Option<Code> {
        self.most_severe
    }

    /// Exit code of the check.
    pub(crate) fn exit_code(&self) -> CommandExit {
        if self.failed {
            CommandExit::Failed
        } else if self.missing {
            CommandExit::NotFound
        } else {
            CommandExit::Ok
        }
    }
}

/// Removes diagnostics beyond `limit`, starting with the least severe and, among those, the last.
/// Returns the number removed.
pub(crate) fn drop_excess(diagnostics: &mut Vec<Diagnostic>, limit: usize) -> usize {
    let excess = diagnostics.len().saturating_sub(limit);
    if excess > 0 {
        let mut order: Vec<(Severity, usize)> = diagnostics
            .iter()
            .enumerate()
            .map(|(index, diagnostic)| (diagnostic.severity, index))
            .collect();
        order.sort_unstable();
        let mut keep = vec![false; diagnostics.len()];
        for (_, index) in order.iter().take(limit) {
            keep[*index] = true;
        }
        let mut keep = keep.into_iter();
        diagnostics.retain(|_| keep.next().unwrap_or(false));
    }
    excess
}
