//! `noetl worker`: runs a worker, and lists and drains workers.

mod drain;
mod list;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use noetl_server::http::serve_metrics;
use noetl_tools::sandbox::{SandboxStatus, hide_this_process};

use crate::config::table::{POOL, SERVER_URL};
use crate::config::{Config, SettingFlags, Worker};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::roles::{self, CodeTrust, StartError, WorkerPlan};

/// Start a worker
///
/// Takes commands of its pool from a server, runs their tools and reports the results. Start as
/// many workers as needed, on any machine that can reach the server.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Ctrl-C stops the worker: running commands can finish, and those that take too
long are returned to the queue. A second Ctrl-C quits immediately. If the
server is unavailable, the worker waits and retries.

Examples:
  noetl worker              for a server on this machine
  noetl worker --server http://localhost:9000 --pool gpu --concurrency 2
  noetl worker list         list the workers of the server
  noetl worker drain NAME   let a worker finish and stop")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    command: Option<WorkerCommand>,
    #[command(flatten)]
    settings: SettingFlags<Worker>,
}

#[derive(Debug, Subcommand)]
enum WorkerCommand {
    List(list::WorkerListArgs),
    Drain(drain::WorkerDrainArgs),
}

/// Default runtime threads of a worker.
const DEFAULT_WORKER_THREADS: usize = 64;
/// Time that remaining tasks get to stop after the worker has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a worker until the process is stopped, or runs a subcommand.
pub(crate) fn run(args: &WorkerArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        None => {}
        Some(WorkerCommand::List(args)) => return list::run(args, quiet, io),
        Some(WorkerCommand::Drain(args)) => return drain::run(args, quiet, io),
    }
    hide_this_process();
    let config = Config::load(&args.settings.given, &io.env)?;
    roles::start_logging(&config, io.err.is_terminal(), io.err.paint().is_on())?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = roles::build_tokio_runtime(&config, DEFAULT_WORKER_THREADS)?;
    let result = runtime.block_on(run_worker(&config, io));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result.map(|()| CommandExit::Ok)
}

async fn run_worker(config: &Config, io: &mut Io<'_>) -> Result<(), Error> {
    let (graceful, immediate) = roles::shutdown_tokens()?;
    // Listens before registering: a worker that cannot listen must not start.
    let metrics_listener = roles::bind_worker_metrics(config).await?;
    let client = roles::server_client(config)?;
    let url = config.value(&SERVER_URL)?;
    let plan = WorkerPlan::new(config, config.value(&POOL)?, &io.env)?.for_server(config, &url)?;
    let platform = roles::PlatformToolSettings::from_config(config, plan.pool(), &url)?;
    let toolbox = roles::build_toolbox(config, &io.env, CodeTrust::Untrusted, platform)?;
    let sandbox_status =
        SandboxStatus::probe(&roles::sandbox_settings(config, CodeTrust::Untrusted)?).await;
    for layer in sandbox_status.describe_inactive() {
        tracing::warn!("sandbox layer is not active: {layer}");
    }
    let plan = plan.with_sandbox_status(&sandbox_status);
    writeln!(io.out, "NoETL worker {} of pool {} for {url}", plan.worker_id(), plan.pool())?;
    if let Some((_, address)) = &metrics_listener {
        writeln!(io.out, "Metrics on http://{address}/metrics")?;
    }
    io.out.flush()?;
    let worker = plan.build_worker(Arc::new(client), toolbox);
    if let Some((listener, _)) = metrics_listener {
        let metrics = worker.metrics();
        let render = Arc::new(move || metrics.to_text());
        // Metrics are served until the very end, so that a slow shutdown can be observed.
        tokio::spawn(serve_metrics(listener, render, immediate.clone()));
    }
    tokio::select! {
        result = worker.run(graceful) => result.map_err(StartError::Worker)?,
        () = immediate.cancelled() => {}
    }
    Ok(())
}
