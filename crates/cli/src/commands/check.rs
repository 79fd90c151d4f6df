//! `noetl check`: the mistakes in documents.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use noetl_playbook::{CheckOptions, Severity, check};

use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::render::report::{
    CheckedFile, FileReport, Human, Json, JsonLines, Outcome, Report, Tally, fit,
};
use crate::source::{self, Found, Origin};

/// Find the mistakes in playbooks, subscriptions and schedules
///
/// Every mistake is reported, with the line that it is in and what to do about it. Directories are
/// searched for *.yaml and *.yml files; what is hidden or made by a build is passed over. Nothing
/// is run, and no server is asked.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Diagnostics are what is asked for, so they go to standard output; the summary
goes to standard error.

Examples:
  noetl check flow.yaml                     one file
  noetl check playbooks/ --strict           a directory; warnings fail, too
  git show main:flow.yaml | noetl check -   standard input
  noetl check . --format json | jq '.files[].diagnostics[].code'

Exit codes:
    0  no errors (with --strict: no warnings either)
    1  errors were found, or a file could not be read
    2  the command line is wrong
    3  a path was not found, or no path holds a YAML file")]
pub(crate) struct CheckArgs {
    /// Files and directories, or - for standard input
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// The form of the output
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Format::Human)]
    format: Format,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Note what only this runtime understands
    #[arg(long)]
    portable: bool,
    /// Print at most N diagnostics, errors first; all are counted
    #[arg(long, value_name = "N")]
    max_diagnostics: Option<NonZeroUsize>,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Human,
    /// One JSON document.
    Json,
    /// One line of JSON for each file, as soon as it is checked.
    Jsonl,
}

/// Checks documents.
pub(crate) fn run(args: &CheckArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let Found { origins, problems } = source::find(&args.paths);
    if origins.is_empty() && problems.is_empty() {
        return Err(nothing_found(&args.paths));
    }
    let mut report: Box<dyn Report> = match args.format {
        Format::Human => Box::new(Human::new(quiet)),
        Format::Json => Box::new(Json::default()),
        Format::Jsonl => Box::new(JsonLines),
    };
    let mut tally = Tally::default();
    let mut room = args.max_diagnostics.map_or(usize::MAX, NonZeroUsize::get);
    let problems = problems.into_iter().map(|(name, problem)| FileReport {
        name,
        outcome: Outcome::Unreadable(problem),
    });
    for file in problems {
        tally.add(&file);
        report.file(file, io)?;
    }
    for origin in origins {
        let mut file = look_at(&origin, args, io);
        tally.add(&file);
        if let Outcome::Checked(checked) = &mut file.outcome {
            tally.hidden += checked.hidden;
            tally.hidden += fit(&mut checked.diagnostics, room);
            room -= checked.diagnostics.len();
        }
        report.file(file, io)?;
    }
    report.finish(&tally, io)?;
    Ok(tally.exit())
}

fn look_at(origin: &Origin, args: &CheckArgs, io: &mut Io<'_>) -> FileReport {
    let outcome = match origin.read(io) {
        Err(problem) => Outcome::Unreadable(problem),
        Ok(text) => {
            let options = CheckOptions {
                portable: args.portable,
                ..CheckOptions::default()
            };
            let checked = check(&text, &options);
            let fails = |severity| match severity {
                Severity::Error => true,
                Severity::Warning => args.strict,
                Severity::Note => false,
            };
            Outcome::Checked(Box::new(CheckedFile {
                text,
                document: checked.document,
                passes: !checked
                    .diagnostics
                    .iter()
                    .any(|found| fails(found.severity)),
                diagnostics: checked.diagnostics,
                hidden: checked.hidden,
            }))
        }
    };
    FileReport {
        name: origin.name(),
        outcome,
    }
}

fn nothing_found(paths: &[PathBuf]) -> Error {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| format!("'{}'", Origin::new(path).name()))
        .collect();
    Error::NothingFound {
        paths: paths.join(", "),
    }
}
