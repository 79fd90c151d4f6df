//! `noetl completions`: completion scripts for shells.

use std::io::Write as _;

use clap::Args;
use clap_complete::Shell;

use crate::command_line::command_tree;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;

/// Print the completion script for a shell
#[derive(Debug, Clone, Copy, Args)]
#[command(after_long_help = "\
Examples:
  source <(noetl completions bash)          load it into this shell
  noetl completions zsh > ~/.zfunc/_noetl   install it, with ~/.zfunc in $fpath
  noetl completions fish > ~/.config/fish/completions/noetl.fish
  noetl completions powershell >> $PROFILE")]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    // The generator panics if it cannot write. Writing to a vector never fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command_tree(), "noetl", &mut script);
    io.out.write_all(&script)?;
    Ok(CommandExit::Ok)
}
