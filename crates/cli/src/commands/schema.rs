//! `noetl schema`: prints the JSON Schema of documents.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use noetl_playbook::{SchemaKind, json_schema};

use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;

/// Print the JSON Schema of a document kind
///
/// Editors use it to complete keys, show their documentation and mark mistakes while you type.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_long_help = "\
Examples:
  noetl schema > playbook.schema.json
  noetl schema subscription > subscription.schema.json

In an editor with the YAML language server (VS Code, Neovim, Helix, Zed), start
a playbook with
  # yaml-language-server: $schema=./playbook.schema.json
or map files to the schema once, in the settings of the editor:
  \"yaml.schemas\": { \"./playbook.schema.json\": \"playbooks/**/*.yaml\" }

The schema describes the shape of a document. To check names, templates and
routes too, use
  noetl check FILE")]
pub(crate) struct SchemaArgs {
    /// Document kind
    #[arg(value_enum, default_value_t = DocumentKind::Playbook)]
    kind: DocumentKind,
}

/// Document kind that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DocumentKind {
    /// Workflow
    Playbook,
    /// Starts playbooks from messages
    Subscription,
    /// Starts playbooks at scheduled times
    Schedule,
}

pub(crate) fn run(args: SchemaArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let schema = json_schema(match args.kind {
        DocumentKind::Playbook => SchemaKind::Playbook,
        DocumentKind::Subscription => SchemaKind::Subscription,
        DocumentKind::Schedule => SchemaKind::Schedule,
    });
    writeln!(io.out, "{schema:#}")?;
    Ok(CommandExit::Ok)
}
