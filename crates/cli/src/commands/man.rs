//! `noetl man`: generates manual pages.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueHint};
use clap_mangen::Man;

use crate::command_line::command_tree;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::source::unreadable_error;

/// Print the manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl man | man -l -                               read it
  noetl man --dir ~/.local/share/man/man1            install all pages")]
pub(crate) struct ManArgs {
    /// Directory to write one page per command to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// Prints the manual page of `noetl`, or writes one page per command.
pub(crate) fn run(args: &ManArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let mut command = command_tree();
    command.build();
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        io.out.write_all(&page)?;
        return Ok(CommandExit::Ok);
    };
    let unwritable = |error| unreadable_error(&dir.to_string_lossy(), &error);
    fs::create_dir_all(dir).map_err(unwritable)?;
    let count = write_pages(command, "noetl", dir).map_err(unwritable)?;
    io.print_message(format_args!("{count} pages written to {}", dir.display()))?;
    Ok(CommandExit::Ok)
}

/// Writes the page of a command and of its subcommands. Returns the number of pages.
fn write_pages(command: Command, name: &str, dir: &Path) -> std::io::Result<usize> {
    let mut count = 1;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        if subcommand.get_name() == "help" {
            continue;
        }
        let name = format!("{name}-{}", subcommand.get_name());
        count += write_pages(subcommand.clone(), &name, dir)?;
    }
    let mut page = Vec::new();
    // Clap requires `'static` command names, so only the title and the file get the full name.
    Man::new(command).title(name.to_uppercase()).render(&mut page)?;
    fs::write(dir.join(format!("{name}.1")), page)?;
    Ok(count)
}
