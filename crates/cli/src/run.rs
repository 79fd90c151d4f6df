//! From the arguments to the exit code.

use std::ffi::OsString;
use std::io::Write as _;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{Color, Command, CommandLine};
use crate::commands::{
    catalog, check, completions, config, db, doctor, exec, explain, graph, man, outbox, profile,
    replay, retention, run as play, runs, schema, secret, serve, stream, token, worker,
};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;

/// Runs a command line, the name of the program being its first argument.
pub fn run(args: impl IntoIterator<Item = OsString>, io: &mut Io<'_>) -> Exit {
    let outcome = match CommandLine::try_parse_from(args) {
        Ok(line) => dispatch(&line, io),
        Err(refused) => refuse(&refused, io),
    };
    let outcome = outcome.and_then(|exit| {
        io.out.flush()?;
        Ok(exit)
    });
    match outcome {
        Ok(exit) => exit,
        Err(error) => {
            if error.exit() != Exit::BrokenPipe {
                // Where even that cannot be told, the exit code has to say it all.
                let _ = error.tell(io);
            }
            error.exit()
        }
    }
}

fn dispatch(line: &CommandLine, io: &mut Io<'_>) -> Result<Exit, Error> {
    match line.common.color {
        Color::Auto => {}
        Color::Always => io.force_color(true),
        Color::Never => io.force_color(false),
    }
    let quiet = line.common.quiet;
    match &line.command {
        Command::Run(args) => play::run(args, quiet, io),
        Command::Outbox(args) => outbox::run(args, io),
        Command::Db(args) => db::run(args, io),
        Command::Retention(args) => retention::run(args, io),
        Command::Dev(args) => serve::run(&args.settings.given, serve::Work::Here, io),
        Command::Server(args) => serve::run(&args.settings.given, serve::Work::Elsewhere, io),
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
            let force = line.common.color == Color::Always;
            explain::run(args, force, io)
        }
        Command::Replay(args) => replay::run(args, io),
        Command::Completions(args) => completions::run(*args, io),
    }
}

/// Answers a command line that asks for help or cannot be understood.
fn refuse(refused: &clap::Error, io: &mut Io<'_>) -> Result<Exit, Error> {
    let text = refused.render();
    let asked = matches!(
        refused.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let stream = if asked { &mut io.out } else { &mut io.err };
    if stream.paint().is_on() {
        write!(stream, "{}", text.ansi())?;
    } else {
        write!(stream, "{text}")?;
    }
    Ok(if asked { Exit::Ok } else { Exit::Usage })
}
