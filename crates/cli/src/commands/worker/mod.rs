//! `noetl worker`: a process that does the work of a server, and a look at those that do.

mod drain;
mod list;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use noetl_server::http::serve_scrapes;
use noetl_tools::walls::{Standing, hide_this_process};

use crate::config::table::{POOL, SERVER_URL};
use crate::config::{Config, Flags, Worker};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::roles::{self, Code, StartError, WorkerPlan};

/// Start a worker
///
/// It takes commands of its pool from a server, runs their tools, and reports what became of them.
/// Start as many as there is work for, on any machine that reaches the server.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Ctrl-C stops it: commands under way may finish, those that take too long are
given back; pressed again, it quits at once. While the server is away, it waits
and tries again.

Examples:
  noetl worker              for a server on this machine
  noetl worker --server http://localhost:9000 --pool gpu --concurrency 2
  noetl worker list         who works there
  noetl worker drain NAME   ask one to finish and leave")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    settings: Flags<Worker>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::ListArgs),
    Drain(drain::DrainArgs),
}

/// Threads of a worker, where the user does not say.
const THREADS: usize = 64;
/// What is still under way gets this long to end when the process is over.
const PARTING: Duration = Duration::from_secs(1);

/// Works until the process is told to stop, or does what the verb says.
pub(crate) fn run(args: &WorkerArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        None => {}
        Some(Verb::List(args)) => return list::run(args, quiet, io),
        Some(Verb::Drain(args)) => return drain::run(args, quiet, io),
    }
    hide_this_process();
    let config = Config::load(&args.settings.given, &io.env)?;
    roles::start_logging(&config, io.err.is_terminal(), io.err.paint().is_on())?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let threads = roles::threads(&config, THREADS)?;
    let worked = threads.block_on(work(&config, io));
    threads.shutdown_timeout(PARTING);
    worked.map(|()| Exit::Ok)
}

async fn work(config: &Config, io: &mut Io<'_>) -> Result<(), Error> {
    let (orderly, at_once) = roles::stopped()?;
    // Before the server hears of the worker: one that cannot listen does not begin.
    let scrapes = roles::listen_for_scrapes(config).await?;
    let client = roles::client(config)?;
    let url = config.value(&SERVER_URL)?;
    let plan = WorkerPlan::new(config, config.value(&POOL)?, &io.env)?.for_server(config, &url)?;
    let platform = roles::OfPlatform::of(config, plan.pool(), &url)?;
    let toolbox = roles::toolbox(config, &io.env, Code::Others, platform)?;
    let standing = Standing::of(&roles::sandbox(config, Code::Others)?).await;
    for wall in standing.lacking() {
        tracing::warn!("a wall around tasks does not stand: {wall}");
    }
    let plan = plan.behind(&standing);
    writeln!(
        io.out,
        "NoETL worker {} of pool {} for {url}",
        plan.name(),
        plan.pool()
    )?;
    if let Some((_, address)) = &scrapes {
        writeln!(io.out, "Metrics on http://{address}/metrics")?;
    }
    io.out.flush()?;
    let worker = plan.start(Arc::new(client), toolbox);
    if let Some((listener, _)) = scrapes {
        let metrics = worker.metrics();
        let scraped = Arc::new(move || metrics.text());
        // Told until the very end: what takes long to finish is worth watching.
        tokio::spawn(serve_scrapes(listener, scraped, at_once.clone()));
    }
    tokio::select! {
        ended = worker.run(orderly) => ended.map_err(StartError::Worker)?,
        () = at_once.cancelled() => {}
    }
    Ok(())
}
