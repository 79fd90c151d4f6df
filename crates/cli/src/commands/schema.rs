//! `noetl schema`: the JSON Schema of documents.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use noetl_playbook::{SchemaOf, json_schema};

use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;

/// Print the JSON Schema of a kind of document
///
/// Editors use it to complete keys, show what they mean and mark mistakes while you type.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_long_help = "\
Examples:
  noetl schema > playbook.schema.json
  noetl schema subscription > subscription.schema.json

In an editor with the YAML language server (VS Code, Neovim, Helix, Zed), begin
a playbook with
  # yaml-language-server: $schema=./playbook.schema.json
or map files to the schema once, in the settings of the editor:
  \"yaml.schemas\": { \"./playbook.schema.json\": \"playbooks/**/*.yaml\" }

The schema knows the shape of a document. Names, templates and routes are looked
at by
  noetl check FILE")]
pub(crate) struct SchemaArgs {
    /// The kind of document
    #[arg(value_enum, default_value_t = Kind::Playbook)]
    kind: Kind,
}

/// A kind of document that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A workflow.
    Playbook,
    /// Messages that start playbooks.
    Subscription,
    /// A clock that starts playbooks.
    Schedule,
}

/// Prints the JSON Schema of a kind of document.
pub(crate) fn run(args: SchemaArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let schema = json_schema(match args.kind {
        Kind::Playbook => SchemaOf::Playbook,
        Kind::Subscription => SchemaOf::Subscription,
        Kind::Schedule => SchemaOf::Schedule,
    });
    writeln!(io.out, "{schema:#}")?;
    Ok(Exit::Ok)
}
