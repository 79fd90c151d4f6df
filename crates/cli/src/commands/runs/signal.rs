//! `noetl runs signal`

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use noetl_api::signal::SignalRequest;
use noetl_types::Json;

use super::find;
use crate::commands::exec::payload_of;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};
use crate::roles::HostError;

/// Send a signal to a run
///
/// A step that waits for it goes on. One that will wait for it soon, and looks back, finds it too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs signal last paid --set amount=12
  noetl runs signal 4821 paid --key order-7 --payload order.json")]
pub(crate) struct SignalArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    /// The name of the signal
    name: String,
    /// What it is about: a wait with a key takes only signals of that key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Set a value of what it says; points lead into maps. May be given many times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// What it says, as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &SignalArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let payload = payload_of(args.payload.as_deref(), &args.sets, io)?;
    let reached = Reached::find(&args.target.given, Wants::Act, quiet, io)?;
    let request = SignalRequest {
        name: args.name.as_str().into(),
        key: args.key.as_deref().map(Into::into),
        payload: (!payload.is_empty()).then(|| Json::from(payload)),
    };
    reached.ask(async {
        let id = find(&reached.host, &args.run).await?;
        let sent = reached.host.server()?.signal(id, &request).await;
        let sent = sent.map_err(HostError::from)?;
        if !args.output.is_table() {
            args.output.thing(&sent, io)?;
            return Ok(Exit::Ok);
        }
        let what = if sent.delivered {
            "delivered"
        } else {
            "kept: nothing waits for it yet"
        };
        writeln!(io.out, "{id} {what}")?;
        Ok(Exit::Ok)
    })
}
