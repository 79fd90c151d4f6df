//! `noetl worker drain`

use std::io::Write as _;

use clap::Args;
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::WorkerName;

use super::list::worker_table;
use crate::config::{Client, SettingFlags, nearest_name};
use crate::confirm::{ConfirmArgs, confirm};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TextTable};
use crate::render::text_layout::{escape_control, pluralize};
use crate::roles::TargetError;
use crate::target::{Access, TargetConnection};

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
pub(crate) struct WorkerDrainArgs {
    /// Names of the workers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Only show the workers
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(
    args: &WorkerDrainArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let server = connection.target.require_server()?;
    let listed = connection.block_on(async {
        let listed = server.list_pools(&PoolsQuery::default()).await;
        Ok(listed.map_err(TargetError::from)?)
    })?;
    let mut selected = Vec::new();
    for name in &args.names {
        let Some(worker) = listed.items.iter().find(|worker| worker.name == **name) else {
            let near = nearest_name(name, listed.items.iter().map(|worker| worker.name.as_str()));
            return Err(Error::NoWorker { name: escape_control(name), near });
        };
        selected.push(worker.clone());
    }
    if args.dry_run {
        let table = |times: &_| worker_table(&selected, &listed.pools, times);
        args.output.print_list(&selected, table, io)?;
        return Ok(CommandExit::Ok);
    }
    if !args.confirm.yes {
        let times = args.output.time_formatter(io);
        let text =
            worker_table(&selected, &listed.pools, &times).render_table(false, true, &io.err);
        io.print_message(text.trim_end())?;
    }
    let question = format!(
        "Drain {} at {}?",
        pluralize(args.names.len(), "worker"),
        connection.display_name()
    );
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    let mut drained = Vec::new();
    let result = connection.block_on(async {
        for name in &args.names {
            let worker = WorkerName { name: name.as_str().into(), kind: None };
            let response = server.drain_worker(&worker).await.map_err(TargetError::from)?;
            if args.output.is_table() {
                writeln!(io.out, "{} {}", escape_control(name), response.status)?;
            }
            drained.push(response);
        }
        Ok(())
    });
    // Printed even if a later request failed, since the earlier workers are draining.
    if !args.output.is_table() {
        args.output.print_list(&drained, |_| TextTable::new([]), io)?;
    }
    result.map(|()| CommandExit::Ok)
}
