//! `noetl worker`: runs a worker, and lists and drains workers.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{PoolView, RuntimeView, WorkerName};
use noetl_server::http::serve_metrics;
use noetl_tools::Toolbox;
use noetl_tools::sandbox::{SandboxStatus, hide_this_process};

use crate::config::table::{POOL, SERVER_URL, TOKEN};
use crate::config::{Config, SettingFlags, Worker, nearest_name};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::{ClientArgs, build_client};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{TableCell, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};
use crate::roles::{self, CodeTrust};

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
    List(WorkerListArgs),
    Drain(WorkerDrainArgs),
}

/// List workers and the load of their pools
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl worker list
  noetl worker list --status offline --no-headers")]
struct WorkerListArgs {
    /// Filter by pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Filter by status: active, draining or offline
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Drain workers: let them finish their commands and stop
///
/// A worker receives the request with its next heartbeat, accepts no new commands, finishes the
/// current ones and stops. Shows the workers and the load of their pools first. Without a terminal,
/// --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl worker drain gpu-1
  noetl worker drain gpu-1 gpu-2 --dry-run    only show them
  noetl worker drain gpu-1 --yes")]
struct WorkerDrainArgs {
    /// Names of the workers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Only show the workers
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Default runtime threads of a worker.
const DEFAULT_WORKER_THREADS: usize = 64;
/// Time that remaining tasks get to stop after the worker has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a worker until the process is stopped, or runs a subcommand.
pub(crate) fn run(args: &WorkerArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    match &args.command {
        None => {}
        Some(WorkerCommand::List(args)) => return list_workers(args, io),
        Some(WorkerCommand::Drain(args)) => return drain_workers(args, io),
    }
    hide_this_process();
    let config = Config::load(&args.settings.given, &io.env)?;
    roles::start_logging(&config, &io.err)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = roles::build_tokio_runtime(&config, DEFAULT_WORKER_THREADS)?;
    let result = runtime.block_on(run_worker(&config, io));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result.map(|()| CommandExit::Ok)
}

async fn run_worker(config: &Config, io: &mut Io<'_>) -> Result<()> {
    let (graceful, immediate) = roles::shutdown_tokens()?;
    // Listens before registering: a worker that cannot listen must not start.
    let metrics_listener = roles::bind_worker_metrics(config).await?;
    let url = config.value(&SERVER_URL)?;
    let client = build_client(&url, config.get(&TOKEN)?, config)?;
    let mut settings = roles::worker_settings(config, config.value(&POOL)?, &io.env)?;
    settings.secrets = roles::worker_secrets(config, &settings.pool, &url)?;
    let platform = roles::PlatformToolSettings::from_config(config, &settings.pool, &url)?;
    let tool_settings = roles::tool_settings(config, &io.env, CodeTrust::Untrusted, platform)?;
    let sandbox_status = SandboxStatus::probe(&tool_settings).await;
    let toolbox = Arc::new(Toolbox::new(tool_settings));
    for layer in sandbox_status.describe_inactive() {
        tracing::warn!("sandbox layer is not active: {layer}");
    }
    settings.sandbox = Some(roles::sandbox_report(&sandbox_status));
    writeln!(io.out, "NoETL worker {} of pool {} for {url}", settings.worker_id, settings.pool)?;
    if let Some((_, address)) = &metrics_listener {
        writeln!(io.out, "Metrics on http://{address}/metrics")?;
    }
    io.out.flush()?;
    let worker = noetl_worker::Worker::new(Arc::new(client), toolbox, settings);
    if let Some((listener, _)) = metrics_listener {
        let metrics = worker.metrics();
        let render = Arc::new(move || metrics.to_text());
        // Metrics are served until the very end, so that a slow shutdown can be observed.
        tokio::spawn(serve_metrics(listener, render, immediate.clone()));
    }
    tokio::select! {
        result = worker.run(graceful) => result?,
        () = immediate.cancelled() => {}
    }
    Ok(())
}

fn list_workers(args: &WorkerListArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = args.client.connect_to_server(io)?;
    let query =
        PoolsQuery { status: args.status.as_deref().map(Into::into), ..PoolsQuery::default() };
    let mut response = server.send(async |client| client.list_pools(&query).await)?;
    if let Some(pool) = &args.pool {
        response.items.retain(|worker| worker_pool_name(worker) == pool);
    }
    let note = "there are no matching workers; start one with: noetl worker";
    let pools = &response.pools;
    args.client.output.print_list_or_note(
        &response.items,
        note,
        |workers, times| worker_table(workers, pools, times),
        io,
    )?;
    let lacks_worker =
        |pool: &&PoolView| pool.pending > 0 && !has_active_worker(&response.items, pool);
    let lacking = pools.iter().filter(lacks_worker);
    for PoolView { pool, pending, .. } in lacking.filter(|_| args.client.output.is_table()) {
        io.print_warning(format_args!(
            "{pending} commands wait in pool {pool}, which has no active worker"
        ))?;
    }
    Ok(CommandExit::Ok)
}

fn has_active_worker(workers: &[RuntimeView], pool: &PoolView) -> bool {
    let mut workers = workers.iter();
    workers
        .any(|worker| worker.status == *"active" && worker_pool_name(worker) == pool.pool.as_str())
}

fn worker_pool_name(worker: &RuntimeView) -> &str {
    let pool = worker.labels.get("pool_name");
    pool.and_then(|pool| pool.as_str()).unwrap_or("shared")
}

/// Table of workers with the load of their pools.
fn worker_table<'t>(
    workers: &'t [RuntimeView],
    pools: &[PoolView],
    times: &TimeFormatter,
) -> TextTable<'t, RuntimeView> {
    let status = |worker: &RuntimeView| {
        let style = match worker.status.as_str() {
            "active" => palette::SUCCESS,
            "offline" => palette::FAILURE,
            _ => palette::CAUTION,
        };
        TableCell::styled(&worker.status, style)
    };
    let load = |worker: &RuntimeView| {
        pools.iter().find(|load| load.pool.as_str() == worker_pool_name(worker))
    };
    TextTable::new(workers)
        .shrinkable("WORKER", |worker| TableCell::styled(&worker.name, palette::NAME))
        .column("STATUS", status)
        .column("POOL", worker_pool_name)
        .right("CAPACITY", |worker| TableCell::or_dash(worker.capacity))
        .column("LAST SEEN", |worker| times.format_time(worker.heartbeat))
        .right("POOL RUNNING", |worker| load(worker).map_or(0, |load| load.in_flight))
        .right("POOL WAITING", |worker| load(worker).map_or(0, |load| load.pending))
        .wide("SINCE", |worker| times.format_time(worker.created_at))
}

fn drain_workers(args: &WorkerDrainArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = args.client.connect_to_server(io)?;
    let listed = server.send(async |client| client.list_pools(&PoolsQuery::default()).await)?;
    let mut selected = Vec::new();
    for name in &args.names {
        let Some(worker) = listed.items.iter().find(|worker| worker.name == **name) else {
            let near = nearest_name(name, listed.items.iter().map(|worker| worker.name.as_str()));
            return Err(Error::not_found(format!("there is no worker '{}'", escape_control(name)))
                .with_suggestion(near, "list workers with: noetl worker list"));
        };
        selected.push(worker.clone());
    }
    if args.dry_run {
        return args.client.output.print_list(
            &selected,
            |workers, times| worker_table(workers, &listed.pools, times),
            io,
        );
    }
    if !args.confirm.yes {
        let times = args.client.output.time_formatter(io);
        let table = worker_table(&selected, &listed.pools, &times);
        io.print_message(table.render_table(false, true, &io.err).trim_end())?;
    }
    let count = pluralize(args.names.len(), "worker");
    let question = format!("Drain {count} at {}?", server.display_name());
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    let mut drained = Vec::new();
    let result = server.send(async |client| {
        for name in &args.names {
            let worker = WorkerName { name: name.as_str().into(), kind: None };
            let response = client.drain_worker(&worker).await?;
            if args.client.output.is_table() {
                writeln!(io.out, "{} {}", escape_control(name), response.status)?;
            }
            drained.push(response);
        }
        Ok::<_, Error>(())
    });
    // Printed even if a later request failed, since the earlier workers are draining.
    if !args.client.output.is_table() {
        args.client.output.print_data_list(&drained, io)?;
    }
    result.map(|()| CommandExit::Ok)
}
