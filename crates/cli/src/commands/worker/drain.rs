//! `noetl worker drain`

use std::io::Write as _;

use clap::Args;
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::WorkerName;

use super::list::table;
use crate::ask::{Consent, agreed};
use crate::config::{Client, Flags, nearest};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Output, Table};
use crate::reach::{Reached, Wants};
use crate::render::words::{counted, visible};
use crate::roles::HostError;

/// Ask workers to finish what they have and leave
///
/// A worker hears of it with its next sign of life, takes nothing more, finishes and ends. The workers
/// are shown first, and how busy their pools are; without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl worker drain gpu-1
  noetl worker drain gpu-1 gpu-2 --dry-run    only look at them
  noetl worker drain gpu-1 --yes")]
pub(crate) struct DrainArgs {
    /// The workers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Only show the workers
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &DrainArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let server = reached.host.server()?;
    let known = reached.ask(async {
        let known = server.pools(&PoolsQuery::default()).await;
        Ok(known.map_err(HostError::from)?)
    })?;
    let mut meant = Vec::new();
    for name in &args.names {
        let Some(worker) = known.items.iter().find(|worker| worker.name == **name) else {
            let near = nearest(name, known.items.iter().map(|worker| worker.name.as_str()));
            return Err(Error::NoWorker {
                name: visible(name),
                near,
            });
        };
        meant.push(worker.clone());
    }
    if args.dry_run {
        let shown = |times: &_| table(&meant, &known.pools, times);
        args.output.list(&meant, shown, io)?;
        return Ok(Exit::Ok);
    }
    if !args.consent.yes {
        let times = args.output.times(io);
        let text = table(&meant, &known.pools, &times).render(false, true, &io.err);
        io.talk(text.trim_end())?;
    }
    let question = format!(
        "Drain {} at {}?",
        counted(args.names.len(), "worker"),
        reached.name()
    );
    if !agreed(args.consent, &question, "yes", io)? {
        return Ok(Exit::Failed);
    }
    let mut drained = Vec::new();
    let ended = reached.ask(async {
        for name in &args.names {
            let worker = WorkerName {
                name: name.as_str().into(),
                kind: None,
            };
            let asked = server.drain(&worker).await.map_err(HostError::from)?;
            if args.output.is_table() {
                writeln!(io.out, "{} {}", visible(name), asked.status)?;
            }
            drained.push(asked);
        }
        Ok(())
    });
    // Also where one could not be: the others were asked to leave.
    if !args.output.is_table() {
        args.output.list(&drained, |_| Table::new([]), io)?;
    }
    ended.map(|()| Exit::Ok)
}
