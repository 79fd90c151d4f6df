//! `noetl check`: reports mistakes in documents.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use noetl_playbook::{CheckOptions, Severity, check};

use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::render::report::{
    CheckReport, CheckSummary, CheckedFile, FileOutcome, FileReport, HumanReport, JsonLinesReport,
    JsonReport, drop_excess,
};
use crate::source::{self, DocumentOrigin, FoundDocuments};

/// Check playbooks, subscriptions and schedules for errors
///
/// Reports every mistake with its line and a suggested fix. Directories are searched for *.yaml and
/// *.yml files, except hidden and build directories. Nothing is run, and no server is contacted.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Diagnostics are written to standard output and the summary to standard
error.

Examples:
  noetl check flow.yaml                     one file
  noetl check playbooks/ --strict           a directory; warnings fail too
  git show main:flow.yaml | noetl check -   standard input
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

pub(crate) fn run(args: &CheckArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let FoundDocuments { origins, problems } = source::find_documents(&args.paths);
    if origins.is_empty() && problems.is_empty() {
        return Err(no_documents_error(&args.paths));
    }
    let mut report: Box<dyn CheckReport> = match args.format {
        CheckFormat::Human => Box::new(HumanReport::new(quiet)),
        CheckFormat::Json => Box::new(JsonReport::default()),
        CheckFormat::Jsonl => Box::new(JsonLinesReport),
    };
    let mut summary = CheckSummary::default();
    let mut remaining = args.max_diagnostics.map_or(usize::MAX, NonZeroUsize::get);
    let problems = problems
        .into_iter()
        .map(|(name, problem)| FileReport { name, outcome: FileOutcome::Unreadable(problem) });
    for file in problems {
        summary.add_file(&file);
        report.report_file(file, io)?;
    }
    for origin in origins {
        let mut file = check_origin(&origin, args, io);
        summary.add_file(&file);
        if let FileOutcome::Checked(checked) = &mut file.outcome {
            summary.hidden += checked.hidden;
            summary.hidden += drop_excess(&mut checked.diagnostics, remaining);
            remaining -= checked.diagnostics.len();
        }
        report.report_file(file, io)?;
    }
    report.finish_report(&summary, io)?;
    Ok(summary.exit_code())
}

fn check_origin(origin: &DocumentOrigin, args: &CheckArgs, io: &mut Io<'_>) -> FileReport {
    let outcome = match origin.read_text(io) {
        Err(problem) => FileOutcome::Unreadable(problem),
        Ok(text) => {
            let options = CheckOptions { portable: args.portable, ..CheckOptions::default() };
            let checked = check(&text, &options);
            let fails = |severity| match severity {
                Severity::Error => true,
                Severity::Warning => args.strict,
                Severity::Note => false,
            };
            FileOutcome::Checked(Box::new(CheckedFile {
                text,
                document: checked.document,
                passes: !checked.diagnostics.iter().any(|diagnostic| fails(diagnostic.severity)),
                diagnostics: checked.diagnostics,
                hidden: checked.omitted_count,
            }))
        }
    };
    FileReport { name: origin.display_name(), outcome }
}

fn no_documents_error(paths: &[PathBuf]) -> Error {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| format!("'{}'", DocumentOrigin::new(path).display_name()))
        .collect();
    Error::NoDocuments { paths: paths.join(", ") }
}
