//! The command line.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    catalog, check, completions, config, db, doctor, exec, explain, graph, man, outbox, profile,
    replay, retention, run, runs, schema, secret, serve, stream, token, worker,
};
use crate::exit::Exit;

/// The colours of help texts: the same as those of Cargo, which its readers know.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs workflows that are written as YAML playbooks.
#[derive(Debug, Parser)]
#[command(
    name = "noetl",
    version,
    about = "Workflows as YAML playbooks, with an event log that remembers everything",
    long_about = "Workflows as YAML playbooks, with an event log that remembers everything.\n\n\
        Playbooks are run, checked, drawn and explained with nothing but this command: no server is \
        needed. The same command is the server, and its workers.",
    after_help = "Start here: noetl run examples/hello.yaml",
    after_long_help = getting_started(),
    styles = STYLES,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = false
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// When to use colours
    #[arg(
        help = "When to use colours; auto obeys NO_COLOR in the environment",
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = Color::Auto
    )]
    pub(crate) color: Color,
    /// Say only what was asked for: no summaries, no tips, no good news
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal that shows them.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Not at all.
    Never,
}

/// What to do.
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
    let codes = Exit::ALL
        .map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning()))
        .join("\n");
    format!(
        "Getting started:\n  \
           noetl run examples/hello.yaml         run a playbook, here and now\n  \
           noetl check examples/                 find the mistakes in playbooks\n  \
           noetl graph examples/hello.yaml       see what leads where\n  \
           noetl explain NP201                   learn what a message means\n  \
           noetl replay last --at-seq 12         see a run as it was\n  \
           noetl schema > playbook.schema.json   completion and checks while you type\n  \
           noetl dev                             a server and a worker, to develop with\n  \
           noetl catalog register flow.yaml      hand a playbook to a server\n  \
           noetl exec flow --wait                run it there\n  \
           noetl runs list                       see what ran\n  \
           noetl doctor                          find out what is amiss\n\n\
         Exit codes:\n{codes}\n\n\
         Data goes to standard output, everything else to standard error."
    )
}
