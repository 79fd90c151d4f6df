//! What a check found, and the forms in which it is told.

mod human;
mod json;
mod tally;

pub(crate) use human::Human;
pub(crate) use json::{Json, JsonLines};
pub(crate) use tally::{Tally, fit};

use noetl_playbook::{Diagnostic, Document};

use crate::error::Error;
use crate::io::Io;

/// What became of a file.
#[derive(Debug)]
pub(crate) struct FileReport {
    /// What to call it.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// What became of a file.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was checked.
    Checked(Box<CheckedFile>),
    /// It could not be read.
    Unreadable(Error),
}

/// A file that was checked.
#[derive(Debug)]
pub(crate) struct CheckedFile {
    pub(crate) text: String,
    pub(crate) document: Option<Document>,
    /// What was found and is to be shown, in the order of the text.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// How many findings the checker had no room for.
    pub(crate) hidden: usize,
    /// Whether nothing was found that fails the check.
    pub(crate) passes: bool,
}

/// A form in which findings are told.
pub(crate) trait Report {
    /// Tells about a file.
    fn file(&mut self, file: FileReport, io: &mut Io<'_>) -> Result<(), Error>;

    /// Tells about all of them.
    fn finish(&mut self, tally: &Tally, io: &mut Io<'_>) -> Result<(), Error>;
}
