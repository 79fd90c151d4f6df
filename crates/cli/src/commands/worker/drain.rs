//! `noetl worker drain`

use std::io::Write as _;

use clap::Args;
use noetl_api::query::PoolsQuery;
use noetl_api::runtime::WorkerName;

use crate::ask::{Consent, agreed};
use crate::config::{Client, Flags, nearest};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::reach::{Reached, Wants};
use crate::render::words::{counted, visible};
use crate::roles::HostError;

/// Ask workers to finish what they have and leave
///
/// A worker hears of it with its next sign of life, takes nothing more, finishes and ends. Without a
/// terminal, --yes is needed.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The workers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &DrainArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let server = reached.host.server()?;
    let known = reached.ask(async {
        let known = server.pools(&PoolsQuery::default()).await;
        Ok(known.map_err(HostError::from)?.items)
    })?;
    for name in &args.names {
        if known.iter().all(|worker| worker.name != **name) {
            let near = nearest(name, known.iter().map(|worker| worker.name.as_str()));
            return Err(Error::NoWorker {
                name: visible(name),
                near,
            });
        }
    }
    let question = format!("Drain {}?", counted(args.names.len(), "worker"));
    if !agreed(args.consent, &question, "yes", io)? {
        return Ok(Exit::Failed);
    }
    for name in &args.names {
        let worker = WorkerName {
            name: name.as_str().into(),
            kind: None,
        };
        let asked = reached.ask(async {
            let asked = server.drain(&worker).await;
            Ok(asked.map_err(HostError::from)?)
        })?;
        writeln!(io.out, "{} {}", visible(name), asked.status)?;
    }
    Ok(Exit::Ok)
}
