//! `noetl runs rerun`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::execute::RerunRequest;
use noetl_types::Json;

use super::find;
use crate::commands::exec::{Following, follow, payload_of, tell_started};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};

/// Run the definition of a run again, with its input
///
/// The same version of the playbook is run with the same workload, over which values can be laid.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs rerun last --wait
  noetl runs rerun 4821 --set limit=10")]
pub(crate) struct RerunArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    /// Set a value of the workload; points lead into maps. May be given many times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// Values of the workload as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    #[command(flatten)]
    following: Following,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &RerunArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let payload = payload_of(args.payload.as_deref(), &args.sets, io)?;
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let host = &reached.host;
    reached.ask(async {
        let id = find(host, &args.run).await?;
        let request = RerunRequest {
            workload: (!payload.is_empty()).then(|| Json::from(payload)),
        };
        let started = host.server()?.rerun(id, &request).await;
        let started = started.map_err(crate::roles::HostError::from)?;
        if args.following.wait {
            let wanted = args.following.with(args.output, quiet);
            return follow(&started, wanted, host, io).await;
        }
        tell_started(&started, args.output, quiet, io)
    })
}
