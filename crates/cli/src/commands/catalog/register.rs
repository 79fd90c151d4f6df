//! `noetl catalog register`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::catalog::{RegisterRequest, RegisterResponse};
use noetl_playbook::{CheckOptions, Severity, check};

use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable};
use crate::render::text_layout::pluralize;
use crate::render::{diagnostic, palette};
use crate::roles::TargetError;
use crate::source::{self, FoundDocuments};
use crate::target::{Access, TargetConnection};

/// Register playbooks and other documents
///
/// Documents are checked first, as with 'noetl check'. If one has errors, nothing is registered.
/// Registering unchanged content does not create a new version.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl catalog register flow.yaml
  noetl catalog register playbooks/ --dry-run     show what would be registered")]
pub(crate) struct RegisterArgs {
    /// Files and directories, or - for standard input
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Check without registering
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(args: &RegisterArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let FoundDocuments { origins, problems } = source::find_documents(&args.paths);
    if let Some((_, problem)) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut documents = Vec::new();
    let mut failed = 0;
    for origin in &origins {
        let text = origin.read_text(io)?;
        let is_valid = print_diagnostics(&origin.display_name(), &text, quiet, io)?;
        failed += usize::from(!is_valid);
        documents.push(text);
    }
    if failed > 0 {
        let files = pluralize(failed, "file");
        io.print_message(format_args!("{files} with errors; nothing was registered"))?;
        return Ok(CommandExit::Failed);
    }
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let responses = connection.block_on(async {
        let server = connection.target.require_server()?;
        let mut responses = Vec::new();
        for content in documents {
            let request = RegisterRequest { content, resource_type: None, dry_run: args.dry_run };
            let response = server.catalog_register(&request).await;
            responses.push(response.map_err(TargetError::from)?);
        }
        Ok::<_, Error>(responses)
    })?;
    args.output.print_list(&responses, |_| registration_table(&responses, args.dry_run), io)?;
    Ok(CommandExit::Ok)
}

/// Prints the diagnostics of a document. Returns true if the document can be registered.
fn print_diagnostics(file: &str, text: &str, quiet: bool, io: &mut Io<'_>) -> Result<bool, Error> {
    let mut is_valid = true;
    for diagnostic in &check(text, &CheckOptions::default()).diagnostics {
        let is_printed = match diagnostic.severity {
            Severity::Error => true,
            Severity::Warning => !quiet,
            Severity::Note => false,
        };
        is_valid &= diagnostic.severity != Severity::Error;
        if is_printed {
            let snippet = diagnostic::render_diagnostic(file, text, diagnostic, &io.err);
            io.print_message(format_args!("{snippet}\n"))?;
        }
    }
    Ok(is_valid)
}

fn registration_table(responses: &[RegisterResponse], is_dry_run: bool) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("PATH").shrinkable(),
        TableColumn::new("VERSION").align_right(),
        TableColumn::new("KIND"),
        TableColumn::new("RESULT"),
        TableColumn::new("ID").wide_only(),
    ]);
    for response in responses {
        let (result, style) = match (response.unchanged, is_dry_run) {
            (true, _) => ("unchanged", palette::MUTED),
            (false, true) => ("would be registered", palette::CODE),
            (false, false) => ("registered", palette::SUCCESS),
        };
        let version = response.version.map(|version| version.to_string());
        let id = response.catalog_id.map(|id| id.to_string());
        table.add_row([
            TableCell::styled(response.path.as_str(), palette::NAME),
            version.unwrap_or_else(|| "-".to_owned()).into(),
            response.kind.as_str().into(),
            TableCell::styled(result, style),
            id.unwrap_or_else(|| "-".to_owned()).into(),
        ]);
    }
    table
}
