//! `noetl schema`: prints the JSON Schema of playbooks.

use std::io::Write as _;

use clap::Args;
use noetl_playbook::json_schema;

use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;

/// Print the JSON Schema of playbooks
///
/// Editors use it to complete keys, show their documentation and mark mistakes while you type.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_long_help = "\
Examples:
  noetl schema > playbook.schema.json

In an editor with the YAML language server (VS Code, Neovim, Helix, Zed), start
a playbook with
  # yaml-language-server: $schema=./playbook.schema.json
or map files to the schema once, in the settings of the editor:
  \"yaml.schemas\": { \"./playbook.schema.json\": \"playbooks/**/*.yaml\" }

The schema describes the shape of a document. To check names, templates and
routes too, use
  noetl check FILE")]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(io: &mut Io<'_>) -> Result<CommandExit> {
    writeln!(io.out, "{:#}", json_schema())?;
    Ok(CommandExit::Ok)
}
