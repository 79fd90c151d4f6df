//! `noetl catalog`: the definitions that a server has.

mod diff;
mod get;
mod history;
mod list;
mod register;

use clap::{Args, Subcommand};

pub(crate) use get::not_found;

use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;

/// Register playbooks and look at those that are registered
///
/// Every change of a playbook is a version; runs keep the version that they began with. Where no
/// server runs, those commands that only look read the database of this machine.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Register(register::RegisterArgs),
    List(list::ListArgs),
    Get(get::GetArgs),
    History(history::HistoryArgs),
    Diff(diff::DiffArgs),
}

/// Registers definitions, or looks at them.
pub(crate) fn run(args: &CatalogArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Register(args) => register::run(args, quiet, io),
        Verb::List(args) => list::run(args, quiet, io),
        Verb::Get(args) => get::run(args, quiet, io),
        Verb::History(args) => history::run(args, quiet, io),
        Verb::Diff(args) => diff::run(args, quiet, io),
    }
}
