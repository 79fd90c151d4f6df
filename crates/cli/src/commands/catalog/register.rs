//! `noetl catalog register`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::catalog::{RegisterAnswer, RegisterRequest};
use noetl_playbook::{CheckOptions, Severity, check};

use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table};
use crate::reach::{Reached, Wants};
use crate::render::words::counted;
use crate::render::{diagnostic, palette};
use crate::roles::HostError;
use crate::source::{self, Found};

/// Register playbooks and other documents
///
/// Documents are checked here first, as 'noetl check' does: where one has errors, nothing is
/// registered. The same content again makes no new version.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog register flow.yaml
  noetl catalog register playbooks/ --dry-run     what would be registered")]
pub(crate) struct RegisterArgs {
    /// Files and directories, or - for standard input
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Check, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &RegisterArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let Found { origins, problems } = source::find(&args.paths);
    if let Some((_, problem)) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut documents = Vec::new();
    let mut wrong = 0;
    for origin in &origins {
        let text = origin.read(io)?;
        let is_well = is_well(&origin.name(), &text, quiet, io)?;
        wrong += usize::from(!is_well);
        documents.push(text);
    }
    if wrong > 0 {
        let files = counted(wrong, "file");
        io.talk(format_args!(
            "{files} with errors, so nothing was registered"
        ))?;
        return Ok(Exit::Failed);
    }
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let answers = reached.ask(async {
        let server = reached.host.server()?;
        let mut answers = Vec::new();
        for content in documents {
            let request = RegisterRequest {
                content,
                resource_type: None,
                dry_run: args.dry_run,
            };
            let answer = server.catalog_register(&request).await;
            answers.push(answer.map_err(HostError::from)?);
        }
        Ok::<_, Error>(answers)
    })?;
    args.output
        .list(&answers, |_| table(&answers, args.dry_run), io)?;
    Ok(Exit::Ok)
}

/// Tells what is wrong with a document; whether it can be registered.
fn is_well(file: &str, text: &str, quiet: bool, io: &mut Io<'_>) -> Result<bool, Error> {
    let mut is_well = true;
    for found in &check(text, &CheckOptions::default()).diagnostics {
        let is_told = match found.severity {
            Severity::Error => true,
            Severity::Warning => !quiet,
            Severity::Note => false,
        };
        is_well &= found.severity != Severity::Error;
        if is_told {
            let snippet = diagnostic::render(file, text, found, &io.err);
            io.talk(format_args!("{snippet}\n"))?;
        }
    }
    Ok(is_well)
}

fn table(answers: &[RegisterAnswer], is_dry_run: bool) -> Table {
    let mut table = Table::new([
        Column::new("PATH").gives_way(),
        Column::new("VERSION").right(),
        Column::new("KIND"),
        Column::new("RESULT"),
        Column::new("ID").wide(),
    ]);
    for answer in answers {
        let (word, style) = match (answer.unchanged, is_dry_run) {
            (true, _) => ("unchanged", palette::QUIET),
            (false, true) => ("would be registered", palette::CODE),
            (false, false) => ("registered", palette::GOOD),
        };
        let version = answer.version.map(|version| version.to_string());
        let id = answer.catalog_id.map(|id| id.to_string());
        table.row([
            Cell::styled(answer.path.as_str(), palette::NAME),
            version.unwrap_or_else(|| "-".to_owned()).into(),
            answer.kind.as_str().into(),
            Cell::styled(word, style),
            id.unwrap_or_else(|| "-".to_owned()).into(),
        ]);
    }
    table
}
