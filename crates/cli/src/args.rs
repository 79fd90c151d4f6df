//! Definition of the command line.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    catalog, check, completions, config, db, doctor, exec, explain, graph, man, outbox, profile,
    replay, retention, run, runs, schema, secret, serve, stream, token, worker,
};
use crate::exit::CommandExit;

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
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Color output
    #[arg(
        help = "Color output; auto respects NO_COLOR",
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorMode::Auto
    )]
    pub(crate) color: ColorMode,
    /// Print only the requested data: no summaries, tips or confirmations of success
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// Color output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    /// If the output is a terminal that supports it
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

/// Top-level command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Graph(graph::GraphArgs),
    Schema(schema::SchemaArgs),
    Explain(explain::ExplainArgs),
    Replay(replay::ReplayArgs),
    Dev(serve::DevArgs),
    Server(serve::ServerArgs),
    Worker(worker::WorkerArgs),
    Outbox(outbox::OutboxArgs),
    Retention(retention::RetentionArgs),
    Db(db::DbArgs),
    Stream(stream::StreamArgs),
    Token(token::TokenArgs),
    Secret(secret::SecretArgs),
    Catalog(catalog::CatalogArgs),
    Exec(exec::ExecArgs),
    Runs(runs::RunsArgs),
    Profile(profile::ProfileArgs),
    Config(config::ConfigArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

fn getting_started() -> String {
    let codes =
        CommandExit::ALL.map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning())).join("\n");
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
