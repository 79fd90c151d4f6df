//! Results of `noetl check` and their output formats.

mod human;
mod json;
mod summary;

pub(crate) use human::HumanReport;
pub(crate) use json::{JsonLinesReport, JsonReport};
pub(crate) use summary::{CheckSummary, drop_excess};

use noetl_playbook::{Diagnostic, Document};

use crate::error::Error;
use crate::io::Io;

/// Result of checking a file.
#[derive(Debug)]
pub(crate) struct FileReport {
    /// Name for messages.
    pub(crate) name: String,
    pub(crate) outcome: FileOutcome,
}

/// Outcome of checking a file.
#[derive(Debug)]
pub(crate) enum FileOutcome {
    /// The file was checked.
    Checked(Box<CheckedFile>),
    /// The file could not be read.
    Unreadable(Error),
}

#[derive(Debug)]
pub(crate) struct CheckedFile {
    pub(crate) text: String,
    pub(crate) document: Option<Document>,
    /// Diagnostics to show, in the order of the text.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Diagnostics dropped by the limit of the checker.
    pub(crate) hidden: usize,
    /// True if no diagnostic fails the check.
    pub(crate) passes: bool,
}

/// Output format of a report.
pub(crate) trait CheckReport {
    /// Reports a file.
    fn report_file(&mut self, file: FileReport, io: &mut Io<'_>) -> Result<(), Error>;

    /// Completes the report.
    fn finish_report(&mut self, summary: &CheckSummary, io: &mut Io<'_>) -> Result<(), Error>;
}
