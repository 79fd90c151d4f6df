//! `noetl catalog`: definitions registered on a server.

mod diff;
mod get;
mod history;
mod list;
mod register;

use clap::{Args, Subcommand};

pub(crate) use get::definition_not_found;

use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;

/// Register playbooks and inspect registered definitions
///
/// Every change of a playbook is a new version. A run keeps the version it started with. If no
/// server is running, the read-only commands read the local database.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    command: CatalogCommand,
}

#[derive(Debug, Subcommand)]
enum CatalogCommand {
    Register(register::RegisterArgs),
    List(list::CatalogListArgs),
    Get(get::CatalogGetArgs),
    History(history::CatalogHistoryArgs),
    Diff(diff::CatalogDiffArgs),
}

/// Runs the `noetl catalog` subcommands.
pub(crate) fn run(args: &CatalogArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        CatalogCommand::Register(args) => register::run(args, quiet, io),
        CatalogCommand::List(args) => list::run(args, quiet, io),
        CatalogCommand::Get(args) => get::run(args, quiet, io),
        CatalogCommand::History(args) => history::run(args, quiet, io),
        CatalogCommand::Diff(args) => diff::run(args, quiet, io),
    }
}
