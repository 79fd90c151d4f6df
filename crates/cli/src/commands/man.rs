//! `noetl man`: the manual pages.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _, ValueHint};
use clap_mangen::Man;

use crate::args::CommandLine;
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;

/// Print the manual page, or write all of them
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl man | man -l -                               read it
  noetl man --dir ~/.local/share/man/man1            keep all of them")]
pub(crate) struct ManArgs {
    /// The directory to write a page for each command to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// Prints the manual page of the whole command, or writes one for each command.
pub(crate) fn run(args: &ManArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let mut command = CommandLine::command();
    command.build();
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        io.out.write_all(&page)?;
        return Ok(Exit::Ok);
    };
    let unwritable = |source| Error::Unreadable {
        path: folder.to_string_lossy().into_owned(),
        source,
    };
    fs::create_dir_all(folder).map_err(unwritable)?;
    let count = write(command, "noetl", folder).map_err(unwritable)?;
    io.talk(format_args!("{count} pages in {}", folder.display()))?;
    Ok(Exit::Ok)
}

/// Writes the page of a command and those below it; gives their number.
fn write(command: Command, name: &str, folder: &Path) -> std::io::Result<usize> {
    let mut count = 1;
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        if inner.get_name() == "help" {
            continue;
        }
        let name = format!("{name}-{}", inner.get_name());
        count += write(inner.clone(), &name, folder)?;
    }
    let mut page = Vec::new();
    // Clap wants names that live as long as the process; of a page, only its file needs another.
    Man::new(command)
        .title(name.to_uppercase())
        .render(&mut page)?;
    fs::write(folder.join(format!("{name}.1")), page)?;
    Ok(count)
}
