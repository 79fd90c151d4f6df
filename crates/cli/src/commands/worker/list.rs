//! `noetl worker list`

use clap::Args;
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{PoolListResponse, PoolView, RuntimeView};

use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;
use crate::roles::TargetError;
use crate::target::{Access, TargetConnection};

/// List workers and the load of their pools
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl worker list
  noetl worker list --status offline --no-headers")]
pub(crate) struct WorkerListArgs {
    /// Filter by pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Filter by status: active, draining or offline
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(
    args: &WorkerListArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let query =
        PoolsQuery { status: args.status.as_deref().map(Into::into), ..PoolsQuery::default() };
    let mut response: PoolListResponse = connection.block_on(async {
        let pools = connection.target.require_server()?.list_pools(&query).await;
        Ok::<_, Error>(pools.map_err(TargetError::from)?)
    })?;
    if let Some(pool) = &args.pool {
        response.items.retain(|worker| worker_pool_name(worker) == pool);
    }
    if !args.output.is_table() {
        args.output.print_list(&response.items, |_| TextTable::new([]), io)?;
        return Ok(CommandExit::Ok);
    }
    if response.items.is_empty() && !quiet {
        io.print_message("there are no matching workers; start one with: noetl worker")?;
    }
    let times = args.output.time_formatter(io);
    if !response.items.is_empty() {
        args.output.print_table(&worker_table(&response.items, &response.pools, &times), io)?;
    }
    let lacks_worker =
        |pool: &&PoolView| pool.pending > 0 && !has_active_worker(&response.items, pool);
    for pool in response.pools.iter().filter(lacks_worker) {
        let text = format!(
            "{} commands wait in pool {}, which has no active worker",
            pool.pending, pool.pool
        );
        io.print_warnings(&[text])?;
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
pub(super) fn worker_table(
    workers: &[RuntimeView],
    pools: &[PoolView],
    times: &TimeFormatter,
) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("WORKER").shrinkable(),
        TableColumn::new("STATUS"),
        TableColumn::new("POOL"),
        TableColumn::new("CAPACITY").align_right(),
        TableColumn::new("LAST SEEN"),
        TableColumn::new("POOL RUNNING").align_right(),
        TableColumn::new("POOL WAITING").align_right(),
        TableColumn::new("SINCE").wide_only(),
    ]);
    for worker in workers {
        let style = match worker.status.as_str() {
            "active" => palette::SUCCESS,
            "offline" => palette::FAILURE,
            _ => palette::CAUTION,
        };
        let pool = worker_pool_name(worker);
        let load = pools.iter().find(|load| load.pool.as_str() == pool);
        let capacity = worker.capacity.map(|capacity| capacity.to_string());
        table.add_row([
            TableCell::styled(worker.name.as_str(), palette::NAME),
            TableCell::styled(worker.status.as_str(), style),
            pool.into(),
            capacity.unwrap_or_else(|| "-".to_owned()).into(),
            times.format_time(worker.heartbeat).into(),
            load.map_or(0, |load| load.in_flight).to_string().into(),
            load.map_or(0, |load| load.pending).to_string().into(),
            times.format_time(worker.created_at).into(),
        ]);
    }
    table
}
