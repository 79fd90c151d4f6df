//! Parses the command line, runs the command and returns the exit code.

use std::ffi::OsString;
use std::io::Write as _;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{ColorMode, Command, CommandLine};
use crate::commands::{
    catalog, check, completions, config, db, doctor, exec, explain, graph, man, outbox, profile,
    replay, retention, run as run_command, runs, schema, secret, serve, stream, token, worker,
};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;

/// Runs a command line. The first argument is the program name.
pub fn run(args: impl IntoIterator<Item = OsString>, io: &mut Io<'_>) -> CommandExit {
    let result = match CommandLine::try_parse_from(args) {
        Ok(command_line) => dispatch_command(&command_line, io),
        Err(error) => print_usage_error(&error, io),
    };
    let result = result.and_then(|exit| {
        io.out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit,
        Err(error) => {
            if error.exit_code() != CommandExit::BrokenPipe {
                // If the error cannot be printed, only the exit code reports it.
                let _ = error.print_to(io);
            }
            error.exit_code()
        }
    }
}

fn dispatch_command(command_line: &CommandLine, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match command_line.common.color {
        ColorMode::Auto => {}
        ColorMode::Always => io.force_color(true),
        ColorMode::Never => io.force_color(false),
    }
    let quiet = command_line.common.quiet;
    match &command_line.command {
        Command::Run(args) => run_command::run(args, quiet, io),
        Command::Outbox(args) => outbox::run(args, io),
        Command::Db(args) => db::run(args, io),
        Command::Retention(args) => retention::run(args, io),
        Command::Dev(args) => serve::run(&args.settings.given, serve::ServeMode::WithWorker, io),
        Command::Server(args) => serve::run(&args.settings.given, serve::ServeMode::ServerOnly, io),
        Command::Stream(args) => stream::run(args, quiet, io),
        Command::Token(args) => token::run(args, quiet, io),
        Command::Secret(args) => secret::run(args, quiet, io),
        Command::Worker(args) => worker::run(args, quiet, io),
        Command::Catalog(args) => catalog::run(args, quiet, io),
        Command::Exec(args) => exec::run(args, quiet, io),
        Command::Runs(args) => runs::run(args, quiet, io),
        Command::Profile(args) => profile::run(args, quiet, io),
        Command::Doctor(args) => doctor::run(args, io),
        Command::Man(args) => man::run(args, io),
        Command::Config(args) => config::run(args, io),
        Command::Check(args) => check::run(args, quiet, io),
        Command::Graph(args) => graph::run(args, io),
        Command::Schema(args) => schema::run(*args, io),
        Command::Explain(args) => {
            let colors_requested = command_line.common.color == ColorMode::Always;
            explain::run(args, colors_requested, io)
        }
        Command::Replay(args) => replay::run(args, io),
        Command::Completions(args) => completions::run(*args, io),
    }
}

/// Prints help or a usage error.
fn print_usage_error(error: &clap::Error, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let text = error.render();
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let stream = if is_help { &mut io.out } else { &mut io.err };
    if stream.paint().is_on() {
        write!(stream, "{}", text.ansi())?;
    } else {
        write!(stream, "{text}")?;
    }
    Ok(if is_help { CommandExit::Ok } else { CommandExit::Usage })
}
