//! `noetl check`: reports mistakes in documents.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use noetl_playbook::model::Playbook;
use noetl_playbook::{
    CatalogNames, CheckOptions, Code, Diagnostic, Document, Severity, check, to_json,
};
use noetl_types::ErrorCode;
use serde::Serialize;

use crate::commands::catalog::fetch_playbook_paths;
use crate::config::SettingFlags;
use crate::config::table::{PROFILE, SERVER_URL};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::{ColorPaint, Io};
use crate::render::text_layout::{escape_control, pluralize};
use crate::render::{diagnostic, palette};
use crate::source::{self, DocumentOrigin, FoundDocuments};

/// Check playbooks for errors
///
/// Reports every mistake with its line and a suggested fix. Directories are searched for *.yaml and
/// *.yml files, except hidden and build directories. The playbooks of a directory may start each
/// other; with --server or --profile, also those of that server's catalog, and credentials are
/// checked too. Otherwise no server is contacted. Nothing is run.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Diagnostics are written to standard output and the summary to standard
error.

Examples:
  noetl check flow.yaml                     one file
  noetl check playbooks/ --strict           a directory; warnings fail too
  git show main:flow.yaml | noetl check -   standard input
  noetl check playbooks/ --server http://noetl.example:8082
  noetl check . --format json | jq '.files[].diagnostics[].code'

Exit codes:
    0  no errors (with --strict: no warnings either)
    1  errors were found, or a file could not be read
    2  the command line is invalid
    3  a path was not found, or no path contains a YAML file")]
pub(crate) struct CheckArgs {
    /// Files and directories, or - for standard input
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = CheckFormat::Human)]
    format: CheckFormat,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Report features that only this runtime supports
    #[arg(long)]
    portable: bool,
    /// Print at most N diagnostics, errors first (all are counted)
    #[arg(long, value_name = "N")]
    max_diagnostics: Option<NonZeroUsize>,
    #[command(flatten)]
    target: SettingFlags<crate::config::Client>,
}

/// Output format of `noetl check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// Human-readable text
    Human,
    /// One JSON document
    Json,
    /// One line of JSON per file, printed as it is checked
    Jsonl,
}

pub(crate) fn run(args: &CheckArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let FoundDocuments { origins, problems } = source::find_documents(&args.paths);
    if origins.is_empty() && problems.is_empty() {
        return Err(no_documents_error(&args.paths));
    }
    let catalog = find_catalog_names(args, &origins, io)?;
    let options =
        CheckOptions { portable: args.portable, catalog, ..CheckOptions::for_this_build() };
    let mut report = CheckReport {
        args,
        options,
        remaining: args.max_diagnostics.map_or(usize::MAX, NonZeroUsize::get),
        summary: CheckSummary::default(),
        files: Vec::new(),
    };
    for (name, problem) in problems {
        report.add_unreadable(&name, &problem, io)?;
    }
    for origin in origins {
        match origin.read_text(io) {
            Ok(text) => report.add_document(&origin.display_name(), &text, io)?,
            Err(problem) => report.add_unreadable(&origin.display_name(), &problem, io)?,
        }
    }
    report.finish(io)
}

/// Returns the names that references can be resolved with: the playbooks of directories, and the
/// catalog of the server that the command line names.
fn find_catalog_names(
    args: &CheckArgs,
    origins: &[DocumentOrigin],
    io: &mut Io<'_>,
) -> Result<CatalogNames> {
    let given = &args.target.given;
    let mut names = CatalogNames::default();
    if [&SERVER_URL.info, &PROFILE.info].iter().any(|info| given.flags.contains_key(info.name)) {
        let connection = Connection::to_server(given, io)?;
        let paths = connection.block_on(fetch_playbook_paths(&connection.target))?;
        names.playbooks = Some(paths);
        names.credentials = match connection.send(async |client| client.list_credentials().await) {
            Ok(list) => Some(list.items.iter().map(|item| item.name.to_string()).collect()),
            Err(Error::Api(error)) if error.code() == Some(ErrorCode::Forbidden) => None,
            Err(error) => return Err(error),
        };
    } else if !args.paths.iter().any(|path| path.is_dir()) {
        return Ok(names);
    }
    // Documents that cannot be read are reported when they are checked.
    let files = origins.iter().filter(|origin| **origin != DocumentOrigin::StandardInput);
    let paths = files.filter_map(|origin| document_path(&origin.read_text(io).ok()?));
    names.playbooks.get_or_insert_default().extend(paths);
    Ok(names)
}

/// Returns the path under which a document is registered, even if it has mistakes.
pub(crate) fn document_path(text: &str) -> Option<String> {
    let document = to_json(text)?;
    let metadata = document.get("metadata")?;
    let path = metadata.get("path").or_else(|| metadata.get("name"))?.as_str()?;
    Some(path.trim_start_matches('/').to_owned())
}

fn no_documents_error(paths: &[PathBuf]) -> Error {
    let quoted_name = |path: &PathBuf| format!("'{}'", DocumentOrigin::new(path).display_name());
    let names: Vec<String> = paths.iter().map(quoted_name).collect();
    Error::not_found(format!("no *.yaml or *.yml file in {}", names.join(", ")))
        .with_help("specify a file, or a directory with playbooks")
}

/// Report in the format of the command line. Files are reported as they are checked.
struct CheckReport<'a> {
    args: &'a CheckArgs,
    options: CheckOptions,
    /// Number of diagnostics that can still be shown.
    remaining: usize,
    summary: CheckSummary,
    /// Entries of the JSON document.
    files: Vec<serde_json::Value>,
}

/// Counts of all files.
#[derive(Debug, Default, Serialize)]
struct CheckSummary {
    /// Checked files.
    files: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    /// Files that could not be read.
    unreadable: usize,
    /// Diagnostics that were counted but not shown.
    hidden: usize,
    #[serde(skip)]
    failed: bool,
    #[serde(skip)]
    missing: bool,
    /// Code with the highest severity. If several have it, the first one.
    #[serde(skip)]
    most_severe: Option<Code>,
}

impl CheckReport<'_> {
    fn add_unreadable(&mut self, name: &str, problem: &Error, io: &mut Io<'_>) -> Result<()> {
        self.summary.unreadable += 1;
        let is_missing = problem.exit_code() == CommandExit::NotFound;
        self.summary.missing |= is_missing;
        self.summary.failed |= !is_missing;
        if self.args.format == CheckFormat::Human {
            return Ok(problem.print_to(io)?);
        }
        let entry =
            FileEntry { file: name, error: Some(problem.to_string()), ..FileEntry::default() };
        self.add_entry(&entry, io)
    }

    fn add_document(&mut self, name: &str, text: &str, io: &mut Io<'_>) -> Result<()> {
        let checked = check(text, &self.options);
        let mut diagnostics = checked.diagnostics;
        let passes = !diagnostics.iter().any(|diagnostic| match diagnostic.severity {
            Severity::Error => true,
            Severity::Warning => self.args.strict,
            Severity::Note => false,
        });
        self.summary.files += 1;
        self.summary.failed |= !passes;
        for diagnostic in &diagnostics {
            self.summary.count_diagnostic(diagnostic);
        }
        self.summary.hidden += checked.omitted_count;
        self.summary.hidden += drop_excess(&mut diagnostics, self.remaining);
        self.remaining -= diagnostics.len();
        let document = checked.document.as_ref();
        if self.args.format != CheckFormat::Human {
            let (kind, document_name) = kind_and_name(document);
            let diagnostics =
                diagnostics.iter().map(|found| diagnostic_entry(name, found)).collect();
            let entry = FileEntry {
                file: name,
                ok: passes,
                kind,
                name: document_name,
                error: None,
                diagnostics,
            };
            return self.add_entry(&entry, io);
        }
        for diagnostic in &diagnostics {
            let snippet = diagnostic::render_diagnostic(name, text, diagnostic, &io.out);
            writeln!(io.out, "{snippet}\n")?;
        }
        if diagnostics.is_empty() && passes && !io.quiet {
            let ok = io.out.paint().text(palette::SUCCESS, "ok").to_string();
            writeln!(io.out, "{ok} {name}{}", describe_document(document))?;
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &FileEntry<'_>, io: &mut Io<'_>) -> Result<()> {
        let json = serde_json::to_value(entry).map_err(std::io::Error::from)?;
        if self.args.format == CheckFormat::Jsonl {
            writeln!(io.out, "{json}")?;
            io.out.flush()?;
        } else {
            self.files.push(json);
        }
        Ok(())
    }

    fn finish(self, io: &mut Io<'_>) -> Result<CommandExit> {
        let Self { summary, files, .. } = &self;
        match self.args.format {
            CheckFormat::Jsonl => {}
            CheckFormat::Json => {
                let output = ReportOutput { files, summary };
                serde_json::to_writer_pretty(&mut io.out, &output).map_err(std::io::Error::from)?;
                writeln!(io.out)?;
            }
            CheckFormat::Human => {
                let paint = io.err.paint();
                io.print_note(summary.to_line(paint))?;
                if let Some(code) = summary.most_severe {
                    let command = format!("noetl explain {code}");
                    io.print_note(format_args!("see: {}", paint.text(palette::NAME, command)))?;
                }
            }
        }
        Ok(if summary.failed {
            CommandExit::Failed
        } else if summary.missing {
            CommandExit::NotFound
        } else {
            CommandExit::Ok
        })
    }
}

impl CheckSummary {
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

    fn to_line(&self, paint: ColorPaint) -> String {
        let severities = [
            (self.errors, "error", palette::FAILURE),
            (self.warnings, "warning", palette::CAUTION),
            (self.notes, "note", palette::SUCCESS),
        ];
        let counts: Vec<String> = severities
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, noun, style)| paint.text(*style, pluralize(*count, noun)).to_string())
            .collect();
        let mut parts = vec![format!("{} checked", pluralize(self.files, "file"))];
        if !counts.is_empty() {
            parts.push(format!(": {}", counts.join(", ")));
        } else if self.files > 0 {
            parts.push(format!(": {}", paint.text(palette::SUCCESS, "no problems")));
        }
        if self.hidden > 0 {
            parts.push(format!(" ({} not shown)", self.hidden));
        }
        if self.unreadable > 0 {
            parts.push(format!(", {} not read", self.unreadable));
        }
        parts.concat()
    }
}

/// Removes diagnostics beyond `limit`, starting with the least severe and, among those, the last.
/// Returns the number removed.
fn drop_excess(diagnostics: &mut Vec<Diagnostic>, limit: usize) -> usize {
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

fn describe_document(document: Option<&Document>) -> String {
    match document {
        Some(Document::Playbook(playbook)) => {
            let steps = pluralize(playbook.workflow.len(), "step");
            format!(" (playbook '{}', {steps})", escape_control(&playbook.metadata.name))
        }
        Some(Document::Other(other)) => {
            format!(" ({}, stored unchecked)", escape_control(&other.kind))
        }
        None => String::new(),
    }
}

/// Kind and name of a document.
fn kind_and_name(document: Option<&Document>) -> (Option<&str>, Option<&str>) {
    match document {
        None => (None, None),
        Some(Document::Playbook(playbook)) => (Some("Playbook"), Some(&playbook.metadata.name)),
        Some(Document::Other(other)) => (Some(&other.kind), other.path.as_deref()),
    }
}

#[derive(Serialize)]
struct ReportOutput<'r> {
    files: &'r [serde_json::Value],
    summary: &'r CheckSummary,
}

#[derive(Default, Serialize)]
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

/// A document whose diagnostics were printed.
pub(crate) struct PrintedDocument {
    pub(crate) error_count: usize,
    pub(crate) document: Option<Document>,
}

/// Prints the errors of a document, and its warnings if they are requested.
pub(crate) fn print_diagnostics(
    file: &str,
    text: &str,
    shows_warnings: bool,
    io: &mut Io<'_>,
) -> Result<PrintedDocument> {
    let checked = check(text, &CheckOptions::for_this_build());
    let mut error_count = 0;
    for diagnostic in &checked.diagnostics {
        let is_printed = match diagnostic.severity {
            Severity::Error => true,
            Severity::Warning => shows_warnings,
            Severity::Note => false,
        };
        error_count += usize::from(diagnostic.severity == Severity::Error);
        if is_printed {
            let snippet = diagnostic::render_diagnostic(file, text, diagnostic, &io.err);
            io.print_message(format_args!("{snippet}\n"))?;
        }
    }
    Ok(PrintedDocument { error_count, document: checked.document })
}

/// Returns the playbook, or the kind of another document.
pub(crate) fn into_playbook(document: Option<Document>) -> Result<Box<Playbook>, Option<String>> {
    match document {
        Some(Document::Playbook(playbook)) => Ok(playbook),
        Some(Document::Other(other)) => Err(Some(other.kind.to_string())),
        None => Err(None),
    }
}
