//! `noetl runs signal`

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::signal::SignalRequest;
use noetl_types::Json;

use super::find_run;
use crate::commands::exec::read_payload;
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::roles::TargetError;
use crate::target::{Access, TargetConnection};

/// Send a signal to a run
///
/// A step that waits for the signal continues. A later wait that also accepts earlier signals
/// receives it too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs signal last paid --set amount=12
  noetl runs signal 4821 paid --key order-7 --payload order.json")]
pub(crate) struct SignalArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Name of the signal
    name: String,
    /// Correlation key: a wait with a key accepts only signals with that key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Set a payload value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// File with the payload as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(args: &SignalArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let payload = read_payload(args.payload.as_deref(), &args.sets, io)?;
    let connection = TargetConnection::connect(&args.target.given, Access::Write, quiet, io)?;
    let request = SignalRequest {
        name: args.name.as_str().into(),
        key: args.key.as_deref().map(Into::into),
        payload: (!payload.is_empty()).then(|| Json::from(payload)),
    };
    connection.block_on(async {
        let id = find_run(&connection.target, &args.run).await?;
        let response = connection.target.require_server()?.send_signal(id, &request).await;
        let response = response.map_err(TargetError::from)?;
        if !args.output.is_table() {
            args.output.print_item(&response, io)?;
            return Ok(CommandExit::Ok);
        }
        let result =
            if response.delivered { "delivered" } else { "stored: no step waits for it yet" };
        writeln!(io.out, "{id} {result}")?;
        Ok(CommandExit::Ok)
    })
}
