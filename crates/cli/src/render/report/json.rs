//! Findings for programs.

use std::io::Write as _;

use noetl_playbook::{Diagnostic, Document};
use serde::Serialize;

use super::{CheckedFile, FileReport, Outcome, Report, Tally};
use crate::error::Error;
use crate::io::Io;

/// One document with all files and the counts.
#[derive(Debug, Default)]
pub(crate) struct Json {
    files: Vec<serde_json::Value>,
}

impl Report for Json {
    fn file(&mut self, file: FileReport, _: &mut Io<'_>) -> Result<(), Error> {
        self.files.push(value(&file)?);
        Ok(())
    }

    fn finish(&mut self, tally: &Tally, io: &mut Io<'_>) -> Result<(), Error> {
        let whole = Whole {
            files: &self.files,
            summary: tally,
        };
        serde_json::to_writer_pretty(&mut io.out, &whole).map_err(std::io::Error::from)?;
        writeln!(io.out)?;
        Ok(())
    }
}

/// A line for each file, as soon as it is known.
#[derive(Debug)]
pub(crate) struct JsonLines;

impl Report for JsonLines {
    fn file(&mut self, file: FileReport, io: &mut Io<'_>) -> Result<(), Error> {
        writeln!(io.out, "{}", value(&file)?)?;
        io.out.flush()?;
        Ok(())
    }

    fn finish(&mut self, _: &Tally, _: &mut Io<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Serialize)]
struct Whole<'r> {
    files: &'r [serde_json::Value],
    summary: &'r Tally,
}

#[derive(Serialize)]
struct Entry<'r> {
    file: &'r str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    diagnostics: Vec<Finding<'r>>,
}

/// A diagnostic with its file, so that it makes sense on its own.
#[derive(Serialize)]
struct Finding<'r> {
    code: &'static str,
    severity: &'static str,
    message: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'r str>,
    file: &'r str,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    path: &'r str,
}

fn value(file: &FileReport) -> Result<serde_json::Value, Error> {
    let written = match &file.outcome {
        Outcome::Checked(checked) => checked_file(&file.name, checked),
        Outcome::Unreadable(error) => Entry {
            file: &file.name,
            ok: false,
            kind: None,
            name: None,
            error: Some(error.to_string()),
            diagnostics: Vec::new(),
        },
    };
    Ok(serde_json::to_value(written).map_err(std::io::Error::from)?)
}

fn checked_file<'r>(name: &'r str, checked: &'r CheckedFile) -> Entry<'r> {
    let (kind, document) = match &checked.document {
        None => (None, None),
        Some(Document::Playbook(playbook)) => (Some("Playbook"), Some(&*playbook.metadata.name)),
        Some(Document::Subscription(subscription)) => {
            (Some("Subscription"), Some(&*subscription.metadata.name))
        }
        Some(Document::Schedule(schedule)) => (Some("Schedule"), Some(&*schedule.metadata.name)),
        Some(Document::Other(other)) => (Some(&*other.kind), other.path.as_deref()),
    };
    Entry {
        file: name,
        ok: checked.passes,
        kind,
        name: document,
        error: None,
        diagnostics: checked
            .diagnostics
            .iter()
            .map(|found| finding(name, found))
            .collect(),
    }
}

fn finding<'r>(file: &'r str, found: &'r Diagnostic) -> Finding<'r> {
    Finding {
        code: found.code.as_str(),
        severity: found.severity.as_str(),
        message: &found.message,
        hint: found.hint.as_deref(),
        file,
        line: found.line,
        column: found.column,
        end_line: found.end_line,
        end_column: found.end_column,
        path: &found.path,
    }
}
