//! `noetl runs tail`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_types::{ExecutionStatus, Seq};

use super::{event_table, exit_for_status, find_run};
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::render::text_layout::{escape_control, pad_to_width, truncate_to_width};
use crate::roles::{ExecutionWatch, Target};
use crate::target::{Access, TargetConnection};

/// Follow a run until it ends
///
/// Prints past events first, then new ones, one line per event. The exit code is 0 if the run
/// completes and 1 otherwise. Ctrl-C stops following, not the run.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs tail last
  noetl runs tail last --new -o jsonl | jq -r .event_type")]
pub(crate) struct RunsTailArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Print only new events
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

pub(super) fn run(args: &RunsTailArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
    connection.block_on(tail_run(args, &connection.target, io))
}

async fn tail_run(
    args: &RunsTailArgs,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let id = find_run(target, &args.run).await?;
    let mut after: Option<Seq> = None;
    if args.new {
        let run = target.fetch_execution(id).await?;
        if run.summary.status.is_terminal() {
            return Ok(exit_for_status(run.summary.status));
        }
        after = Seq::new(run.summary.event_count).ok();
    }
    let mut watch = ExecutionWatch::new(target, id, after);
    while let Some(events) = watch.next_batch().await? {
        for event in &events {
            print_event(args.output, event, io)?;
        }
        io.out.flush()?;
        if let Some(status) = events.iter().find_map(terminal_status) {
            return Ok(exit_for_status(status));
        }
    }
    Ok(exit_for_status(target.fetch_status(id).await?.status))
}

/// Final status of the run if the event ends it.
fn terminal_status(event: &EventView) -> Option<ExecutionStatus> {
    event.event_type.known_type()?.terminal_status()
}

/// Widths of the type and step columns. Fixed, since lines are printed one by one.
const TYPE_WIDTH: usize = 18;
const STEP_WIDTH: usize = 16;

fn print_event(output: OutputArgs, event: &EventView, io: &mut Io<'_>) -> Result<(), Error> {
    if !output.is_table() {
        return output.print_stream_item(event, io);
    }
    let times = output.time_formatter(io);
    let paint = io.out.paint();
    let kind = pad_to_width(&escape_control(event.event_type.as_str()), TYPE_WIDTH);
    let step = pad_to_width(&escape_control(event.node_name.as_deref().unwrap_or("-")), STEP_WIDTH);
    let time = times.format_time(event.created_at);
    let plain =
        format!("{time}  {kind}  {step}  {}", escape_control(&event_table::event_note(event)));
    let plain = if io.out.is_terminal() {
        truncate_to_width(plain.trim_end(), io.out.width(), "…")
    } else {
        plain.trim_end().to_owned()
    };
    let painted =
        plain.replacen(&kind, &paint.text(event_table::event_style(event), &kind).to_string(), 1);
    writeln!(io.out, "{painted}")?;
    Ok(())
}
