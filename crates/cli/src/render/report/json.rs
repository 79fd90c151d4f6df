//! Reports of `noetl check` as JSON.

use std::io::Write as _;

use noetl_playbook::{Diagnostic, Document};
use serde::Serialize;

use super::{CheckReport, CheckSummary, CheckedFile, FileOutcome, FileReport};
use crate::error::Error;
use crate::io::Io;

/// One document with all files and the counts.
#[derive(Debug, Default)]
pub(crate) struct JsonReport {
    files: Vec<serde_json::Value>,
}

impl CheckReport for JsonReport {
    fn report_file(&mut self, file: FileReport, _: &mut Io<'_>) -> Result<(), Error> {
        self.files.push(file_to_json(&file)?);
        Ok(())
    }

    fn finish_report(&mut self, summary: &CheckSummary, io: &mut Io<'_>) -> Result<(), Error> {
        let output = ReportOutput { files: &self.files, summary };
        serde_json::to_writer_pretty(&mut io.out, &output).map_err(std::io::Error::from)?;
        writeln!(io.out)?;
        Ok(())
    }
}

/// One line per file, printed as it is checked.
#[derive(Debug)]
pub(crate) struct JsonLinesReport;

impl CheckReport for JsonLinesReport {
    fn report_file(&mut self, file: FileReport, io: &mut Io<'_>) -> Result<(), Error> {
        writeln!(io.out, "{}", file_to_json(&file)?)?;
        io.out.flush()?;
        Ok(())
    }

    fn finish_report(&mut self, _: &CheckSummary, _: &mut Io<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Serialize)]
struct ReportOutput<'r> {
    files: &'r [serde_json::Value],
    summary: &'r CheckSummary,
}

#[derive(Serialize)]
struct FileEntry<'r> {
    file: &'r str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    diagnostics: Vec<DiagnosticEntry<'r>>,
}

/// Diagnostic with its file, so that it is complete by itself.
#[derive(Serialize)]
struct DiagnosticEntry<'r> {
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

fn file_to_json(file: &FileReport) -> Result<serde_json::Value, Error> {
    let entry = match &file.outcome {
        FileOutcome::Checked(checked) => checked_file_entry(&file.name, checked),
        FileOutcome::Unreadable(error) => FileEntry {
            file: &file.name,
            ok: false,
            kind: None,
            name: None,
            error: Some(error.to_string()),
            diagnostics: Vec::new(),
        },
    };
    Ok(serde_json::to_value(entry).map_err(std::io::Error::from)?)
}

fn checked_file_entry<'r>(name: &'r str, checked: &'r CheckedFile) -> FileEntry<'r> {
    let (kind, document) = match &checked.document {
        None => (None, None),
        Some(Document::Playbook(playbook)) => (Some("Playbook"), Some(&*playbook.metadata.name)),
        Some(Document::Subscription(subscription)) => {
            (Some("Subscription"), Some(&*subscription.metadata.name))
        }
        Some(Document::Schedule(schedule)) => (Some("Schedule"), Some(&*schedule.metadata.name)),
        Some(Document::Other(other)) => (Some(&*other.kind), other.path.as_deref()),
    };
    FileEntry {
        file: name,
        ok: checked.passes,
        kind,
        name: document,
        error: None,
        diagnostics: checked
            .diagnostics
            .iter()
            .map(|diagnostic| diagnostic_entry(name, diagnostic))
            .collect(),
    }
}

fn diagnostic_entry<'r>(file: &'r str, diagnostic: &'r Diagnostic) -> DiagnosticEntry<'r> {
    DiagnosticEntry {
        code: diagnostic.code.as_str(),
        severity: diagnostic.severity.as_str(),
        message: &diagnostic.message,
        hint: diagnostic.hint.as_deref(),
        file,
        line: diagnostic.line,
        column: diagnostic.column,
        end_line: diagnostic.end_line,
        end_column: diagnostic.end_column,
        path: &diagnostic.path,
    }
}
