//! `noetl worker list`

use clap::Args;
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::{PoolView, Pools, RuntimeView};

use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::roles::HostError;

/// List workers, and how busy their pools are
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl worker list
  noetl worker list --status offline --no-headers")]
pub(crate) struct ListArgs {
    /// Only those of a pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Only those that stand so: active, draining or offline
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &ListArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let query = PoolsQuery {
        status: args.status.as_deref().map(Into::into),
        ..PoolsQuery::default()
    };
    let mut found: Pools = reached.ask(async {
        let pools = reached.host.server()?.pools(&query).await;
        Ok::<_, Error>(pools.map_err(HostError::from)?)
    })?;
    if let Some(pool) = &args.pool {
        found.items.retain(|worker| pool_of(worker) == pool);
    }
    if !args.output.is_table() {
        args.output.list(&found.items, |_| Table::new([]), io)?;
        return Ok(Exit::Ok);
    }
    if found.items.is_empty() && !quiet {
        io.talk("there are no such workers; start one with: noetl worker")?;
    }
    let times = args.output.times(io);
    if !found.items.is_empty() {
        args.output
            .table(&table(&found.items, &found.pools, &times), io)?;
    }
    let idle = |pool: &&PoolView| pool.pending > 0 && !is_worked_for(&found.items, pool);
    for pool in found.pools.iter().filter(idle) {
        let text = format!(
            "{} commands wait in pool {}, which has no worker",
            pool.pending, pool.pool
        );
        io.warn(&[text])?;
    }
    Ok(Exit::Ok)
}

fn is_worked_for(workers: &[RuntimeView], pool: &PoolView) -> bool {
    let mut workers = workers.iter();
    workers.any(|worker| worker.status == *"active" && pool_of(worker) == pool.pool.as_str())
}

fn pool_of(worker: &RuntimeView) -> &str {
    let pool = worker.labels.get("pool_name");
    pool.and_then(|pool| pool.as_str()).unwrap_or("shared")
}

/// Workers in a table, with how busy their pools are.
pub(super) fn table(workers: &[RuntimeView], pools: &[PoolView], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("WORKER").gives_way(),
        Column::new("STATUS"),
        Column::new("POOL"),
        Column::new("CAPACITY").right(),
        Column::new("HEARD"),
        Column::new("POOL RUNS").right(),
        Column::new("POOL WAITS").right(),
        Column::new("SINCE").wide(),
    ]);
    for worker in workers {
        let style = match worker.status.as_str() {
            "active" => palette::GOOD,
            "offline" => palette::BAD,
            _ => palette::DOUBT,
        };
        let pool = pool_of(worker);
        let busy = pools.iter().find(|busy| busy.pool.as_str() == pool);
        let capacity = worker.capacity.map(|capacity| capacity.to_string());
        table.row([
            Cell::styled(worker.name.as_str(), palette::NAME),
            Cell::styled(worker.status.as_str(), style),
            pool.into(),
            capacity.unwrap_or_else(|| "-".to_owned()).into(),
            times.tell(worker.heartbeat).into(),
            busy.map_or(0, |busy| busy.in_flight).to_string().into(),
            busy.map_or(0, |busy| busy.pending).to_string().into(),
            times.tell(worker.created_at).into(),
        ]);
    }
    table
}
