//! The command line: its definition, and running it.

use std::ffi::OsString;
use std::io::Write as _;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::commands::{
    catalog, check, completions, config, db, doctor, exec, explain, graph, man, outbox, profile,
    replay, retention, run, runs, schema, secret, serve, stream, token, worker,
};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;

/// Colors of help texts, the same as Cargo's.
const HELP_STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs workflows written as YAML playbooks.
#[derive(Debug, Parser)]
#[command(
    name = "noetl",
    version,
    about = "Run workflows written as YAML playbooks, with a complete event log",
    long_about = "Run workflows written as YAML playbooks, with a complete event log.\n\n\
        This command runs, checks, draws and explains playbooks without a server. It also provides \
        the server and its workers.",
    after_help = "Start here: noetl run examples/hello.yaml",
    after_long_help = getting_started(),
    styles = HELP_STYLES,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = false
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of every command.
#[derive(Debug, Args)]
struct CommonArgs {
    /// Color output
    #[arg(
        help = "Color output; auto respects NO_COLOR",
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorMode::Auto
    )]
    color: ColorMode,
    /// Print only the requested data: no summaries, tips or confirmations of success
    #[arg(short, long, global = true)]
    quiet: bool,
}

/// Color output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColorMode {
    /// If the output is a terminal that supports it
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

/// Top-level command.
#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Graph(graph::GraphArgs),
    Schema(schema::SchemaArgs),
    Explain(explain::ExplainArgs),
    Replay(replay::ReplayArgs),
    Dev(serve::DevArgs),
    Server(serve::ServerArgs),
    Worker(worker::WorkerArgs),
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    #[command(subcommand)]
    Retention(retention::RetentionCommand),
    #[command(subcommand)]
    Db(db::DbCommand),
    #[command(subcommand)]
    Stream(stream::StreamCommand),
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    Exec(exec::ExecArgs),
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

fn getting_started() -> String {
    let line = |(exit, meaning): (CommandExit, _)| format!("  {:>3}  {meaning}", exit.code());
    let codes = CommandExit::MEANINGS.map(line).join("\n");
    format!(
        "Getting started:\n  \
           noetl run examples/hello.yaml         run a playbook locally\n  \
           noetl check examples/                 check playbooks for errors\n  \
           noetl graph examples/hello.yaml       draw a playbook\n  \
           noetl explain NP201                   explain an error code\n  \
           noetl replay last --at-seq 12         show the state of a run at an event\n  \
           noetl schema > playbook.schema.json   completion and checks in editors\n  \
           noetl dev                             start a server and a worker for development\n  \
           noetl catalog register flow.yaml      register a playbook on a server\n  \
           noetl exec flow --wait                run it on the server\n  \
           noetl runs list                       list runs\n  \
           noetl doctor                          diagnose problems\n\n\
         Exit codes:\n{codes}\n\n\
         Data is written to standard output, everything else to standard error."
    )
}

/// All commands with their help texts.
pub fn command_tree() -> clap::Command {
    CommandLine::command()
}

/// Runs a command line. The first argument is the program name.
pub fn run_command_line(args: impl IntoIterator<Item = OsString>, io: &mut Io<'_>) -> CommandExit {
    let result = match CommandLine::try_parse_from(args) {
        Ok(command_line) => dispatch_command(&command_line, io),
        Err(error) => print_usage_error(&error, io),
    };
    let flushed = result.and_then(|exit| io.out.flush().map(|()| exit).map_err(Error::from));
    flushed.unwrap_or_else(|error| {
        if error.exit_code() != CommandExit::BrokenPipe {
            // If the error cannot be printed, only the exit code reports it.
            let _ = error.print_to(io);
        }
        error.exit_code()
    })
}

fn dispatch_command(command_line: &CommandLine, io: &mut Io<'_>) -> Result<CommandExit> {
    match command_line.common.color {
        ColorMode::Auto => {}
        ColorMode::Always => io.force_color(true),
        ColorMode::Never => io.force_color(false),
    }
    io.quiet = command_line.common.quiet;
    match &command_line.command {
        Command::Run(args) => run::run(args, io),
        Command::Outbox(command) => outbox::run(command, io),
        Command::Db(command) => db::run(command, io),
        Command::Retention(command) => retention::run(command, io),
        Command::Dev(args) => serve::run(&args.settings.given, serve::ServeMode::WithWorker, io),
        Command::Server(args) => serve::run(&args.settings.given, serve::ServeMode::ServerOnly, io),
        Command::Stream(command) => stream::run(command, io),
        Command::Token(command) => token::run(command, io),
        Command::Secret(command) => secret::run(command, io),
        Command::Worker(args) => worker::run(args, io),
        Command::Catalog(command) => catalog::run(command, io),
        Command::Exec(args) => exec::run(args, io),
        Command::Runs(command) => runs::run(command, io),
        Command::Profile(command) => profile::run(command, io),
        Command::Doctor(args) => doctor::run(args, io),
        Command::Man(args) => man::run(args, io),
        Command::Config(command) => config::run(command, io),
        Command::Check(args) => check::run(args, io),
        Command::Graph(args) => graph::run(args, io),
        Command::Schema(_) => schema::run(io),
        Command::Explain(args) => {
            let colors_requested = command_line.common.color == ColorMode::Always;
            explain::run(args, colors_requested, io)
        }
        Command::Replay(args) => replay::run(args, io),
        Command::Completions(args) => completions::run(*args, io),
    }
}

/// Prints help or a usage error.
fn print_usage_error(error: &clap::Error, io: &mut Io<'_>) -> Result<CommandExit> {
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
