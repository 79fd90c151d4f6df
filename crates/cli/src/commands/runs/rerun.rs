//! `noetl runs rerun`

use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::execute::RerunRequest;
use noetl_types::Json;

use super::find_run;
use crate::commands::exec::{WaitArgs, follow_execution, print_started, read_payload};
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::target::{Access, TargetConnection};

/// Repeat a run with the same version and input
///
/// Runs the same version of the playbook with the same workload. Individual values can be
/// overridden.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs rerun last --wait
  noetl runs rerun 4821 --set limit=10")]
pub(crate) struct RerunArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Override a workload value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// File with workload values as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    #[command(flatten)]
    wait_args: WaitArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(args: &RerunArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let payload = read_payload(args.payload.as_deref(), &args.sets, io)?;
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let target = &connection.target;
    connection.block_on(async {
        let id = find_run(target, &args.run).await?;
        let request = RerunRequest { workload: (!payload.is_empty()).then(|| Json::from(payload)) };
        let started = target.require_server()?.rerun_execution(id, &request).await;
        let started = started.map_err(crate::roles::TargetError::from)?;
        if args.wait_args.wait {
            let options = args.wait_args.with_output(args.output, quiet);
            return follow_execution(&started, options, target, io).await;
        }
        print_started(&started, args.output, quiet, io)
    })
}
