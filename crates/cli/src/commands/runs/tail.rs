//! `noetl runs tail`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_types::{ExecutionStatus, Seq};

use super::{exit_of, find, note};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::Output;
use crate::reach::{Reached, Wants};
use crate::render::words::{padded, shorten, visible};
use crate::roles::{Host, Watch};

/// Follow a run until it ends
///
/// What has happened is printed first, then what happens, a line for each event. The exit code is 0
/// where the run completes and 1 where it does not. Ctrl-C stops the following, not the run.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs tail last
  noetl runs tail last --new -o jsonl | jq -r .event_type")]
pub(crate) struct TailArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    /// Only what happens from now on
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

pub(super) fn run(args: &TailArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    reached.ask(follow(args, &reached.host, io))
}

async fn follow(args: &TailArgs, host: &Host, io: &mut Io<'_>) -> Result<Exit, Error> {
    let id = find(host, &args.run).await?;
    let mut after: Option<Seq> = None;
    if args.new {
        let run = host.detail(id).await?;
        if run.line.status.is_terminal() {
            return Ok(exit_of(run.line.status));
        }
        after = Seq::new(run.line.event_count).ok();
    }
    let mut watch = Watch::new(host, id, after);
    while let Some(events) = watch.next().await? {
        for event in &events {
            print(args.output, event, io)?;
        }
        io.out.flush()?;
        if let Some(status) = events.iter().find_map(end) {
            return Ok(exit_of(status));
        }
    }
    Ok(exit_of(host.status(id).await?.status))
}

/// How the run ended, where an event says so.
fn end(event: &EventView) -> Option<ExecutionStatus> {
    event.event_type.known()?.ends_as()
}

/// Columns for the type of an event, and for its step: a line is printed before the next is known.
const TYPE: usize = 18;
const STEP: usize = 16;

fn print(output: Output, event: &EventView, io: &mut Io<'_>) -> Result<(), Error> {
    if !output.is_table() {
        return output.one_of_many(event, io);
    }
    let times = output.times(io);
    let paint = io.out.paint();
    let kind = padded(&visible(event.event_type.as_str()), TYPE);
    let step = padded(&visible(event.node_name.as_deref().unwrap_or("-")), STEP);
    let time = times.tell(event.created_at);
    let plain = format!("{time}  {kind}  {step}  {}", visible(&note::note(event)));
    let plain = if io.out.is_terminal() {
        shorten(plain.trim_end(), io.out.width(), "…")
    } else {
        plain.trim_end().to_owned()
    };
    let painted = plain.replacen(&kind, &paint.text(note::style(event), &kind).to_string(), 1);
    writeln!(io.out, "{painted}")?;
    Ok(())
}
