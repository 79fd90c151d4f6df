//! `noetl runs events` and `tail`: the log of a run

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_api::query::{EventOrder, EventsQuery};
use noetl_types::limits::PageLimit;
use noetl_types::{EventName, EventStatus, ExecutionId, ExecutionStatus, Json, Millis, Seq, Text};

use super::{exit_for_status, find_run, invalid_run_error};
use crate::connection::ClientArgs;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TextTable, TimeFormatter, to_json_value};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pad_to_width, truncate_to_width};
use crate::roles::{ExecutionWatch, Target};

/// Print the log of a run
///
/// Prints every event in order, with a note. With -o jsonl, prints full events page by page, for
/// logs of any length.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs events last
  noetl runs events 4821 --step load --type call.error
  noetl runs events last -o jsonl > run.jsonl")]
pub(crate) struct EventsArgs {
    /// Run: its id, a unique part of its id, or last
    run: String,
    /// Filter by step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Filter by event type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Start after this position in the log
    #[arg(long, value_name = "SEQ")]
    after: Option<i64>,
    /// Only the last N events
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    last: Option<u32>,
    #[command(flatten)]
    client: ClientArgs,
}

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
    client: ClientArgs,
}

/// Maximum events in a table. Longer logs require `-o jsonl`.
const MAX_TABLE_EVENTS: usize = 20_000;
/// Maximum characters of a note.
const MAX_NOTE_CHARS: usize = 200;
/// Widths of the type and step columns of `tail`. Fixed, since lines are printed one by one.
const TYPE_WIDTH: usize = 18;
const STEP_WIDTH: usize = 16;

pub(super) fn list_events(args: &EventsArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    connection.block_on(print_events(args, &connection.target, io))
}

async fn print_events(args: &EventsArgs, target: &Target, io: &mut Io<'_>) -> Result<CommandExit> {
    let id = find_run(target, &args.run).await?;
    let mut pages = EventPages::new(args)?;
    let mut events = Vec::new();
    while let Some(page) = pages.next_page(target, id).await? {
        if args.client.output.is_json_lines() && args.last.is_none() {
            for event in &page {
                writeln!(io.out, "{}", to_json_value(event)?)?;
            }
            continue;
        }
        events.extend(page);
        // With `--last`, lines are limited by that number. A table is built completely before it is
        // printed.
        if !args.client.output.is_json_lines() && events.len() >= MAX_TABLE_EVENTS {
            io.print_note(format_args!(
                "the log is longer than {MAX_TABLE_EVENTS} events; print all of it with -o jsonl"
            ))?;
            break;
        }
    }
    if args.last.is_some() {
        events.reverse();
    }
    args.client.output.print_list_or_note(&events, "there are no matching events", event_table, io)
}

/// Iterates over the pages of a log.
struct EventPages {
    query: EventsQuery,
    remaining: usize,
    is_finished: bool,
}

impl EventPages {
    fn new(args: &EventsArgs) -> Result<Self> {
        let after_seq = args.after.filter(|after| *after > 0).map(Seq::new);
        let kind = args.kind.as_deref().map(EventName::parse);
        Ok(Self {
            query: EventsQuery {
                after_seq: after_seq.transpose().map_err(|_| invalid_run_error("--after"))?,
                event_type: kind
                    .transpose()
                    .map_err(|error| Error::invalid_argument("--type", error))?,
                step: args.step.as_deref().map(Text::from),
                order: if args.last.is_some() { EventOrder::Desc } else { EventOrder::Asc },
                limit: PageLimit::MAX,
                ..EventsQuery::default()
            },
            remaining: args
                .last
                .map_or(usize::MAX, |last| usize::try_from(last).unwrap_or(usize::MAX)),
            is_finished: false,
        })
    }

    async fn next_page(
        &mut self,
        target: &Target,
        id: ExecutionId,
    ) -> Result<Option<Vec<EventView>>> {
        if self.is_finished || self.remaining == 0 {
            return Ok(None);
        }
        let mut page = target.fetch_events(id, self.query.clone()).await?;
        page.events.truncate(self.remaining);
        self.remaining = self.remaining.saturating_sub(page.events.len());
        self.is_finished = page.next_cursor.is_none();
        self.query.cursor = page.next_cursor;
        Ok(Some(page.events))
    }
}

/// Fetches the log of a run, up to `max_events` events.
pub(super) async fn fetch_log(
    target: &Target,
    id: ExecutionId,
    max_events: usize,
    io: &mut Io<'_>,
) -> Result<Vec<EventView>> {
    let mut query = EventsQuery { limit: PageLimit::MAX, ..EventsQuery::default() };
    let mut events = Vec::new();
    loop {
        let page = target.fetch_events(id, query.clone()).await?;
        events.extend(page.events);
        query.cursor = page.next_cursor;
        if query.cursor.is_none() && events.len() <= max_events {
            return Ok(events);
        }
        if events.len() >= max_events {
            events.truncate(max_events);
            // Printed even in quiet mode, since the output would otherwise look complete.
            io.print_warning(format_args!(
                "the log is longer; only its first {max_events} events are read"
            ))?;
            return Ok(events);
        }
    }
}

fn event_table<'t>(events: &'t [EventView], times: &TimeFormatter) -> TextTable<'t, EventView> {
    TextTable::new(events)
        .right("SEQ", |event| event.seq)
        .column("TIME", |event| times.format_time(event.created_at))
        .column("EVENT", |event| TableCell::styled(&event.event_type, event_style(event)))
        .shrinkable("STEP", |event| TableCell::or_dash(event.node_name.as_ref()))
        .wide("STATUS", |event| &event.status)
        .shrinkable("NOTE", event_note)
}

fn event_style(event: &EventView) -> anstyle::Style {
    match EventStatus::parse(&event.status) {
        Ok(EventStatus::Failed) => palette::FAILURE,
        Ok(EventStatus::Completed) => palette::SUCCESS,
        Ok(EventStatus::Cancelled | EventStatus::Expired | EventStatus::Paused) => palette::CAUTION,
        Ok(_) | Err(_) => anstyle::Style::new(),
    }
}

/// Summary of the notable metadata of an event.
fn event_note(event: &EventView) -> String {
    let meta = |key: &str| event.meta.as_ref()?.get(key);
    let number = |key: &str| meta(key).and_then(Json::as_u64);
    let text = |key: &str| meta(key).and_then(Json::as_str);
    let mut parts: Vec<String> = Vec::new();
    if let Some(run) = number("run").filter(|run| *run > 1) {
        parts.push(format!("run {run}"));
    }
    if let Some(index) = number("iter_index").or_else(|| number("index")) {
        parts.push(format!("item {index}"));
    }
    if let Some(items) = number("collection_size") {
        parts.push(format!("{items} items"));
    }
    if let Some(attempt) = number("attempt").filter(|attempt| *attempt > 1) {
        parts.push(format!("attempt {attempt}"));
    }
    if let Some(tool) = text("tool_kind") {
        parts.push(tool.to_owned());
    }
    if let Some(worker) = &event.worker_id {
        parts.push(format!("worker {worker}"));
    }
    if let Some(ms) = number("retry_in_ms") {
        parts.push(format!("retry in {}", Millis::from_ms(ms).to_human()));
    }
    if let Some(reason) = text("reason") {
        parts.push(reason.to_owned());
    }
    if let Some(actor) = text("actor") {
        parts.push(format!("by {actor}"));
    }
    if let Some(error) = &event.error {
        parts.push(error.lines().next().unwrap_or_default().to_owned());
    }
    truncate_to_width(&parts.join(", "), MAX_NOTE_CHARS, "…")
}

pub(super) fn tail_run(args: &RunsTailArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let connection = args.client.connect_for_reading(io)?;
    connection.block_on(follow_events(args, &connection.target, io))
}

async fn follow_events(
    args: &RunsTailArgs,
    target: &Target,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
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
            print_event(args.client.output, event, io)?;
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

fn print_event(output: OutputArgs, event: &EventView, io: &mut Io<'_>) -> Result<()> {
    if !output.is_table() {
        return output.print_stream_item(event, io);
    }
    let times = output.time_formatter(io);
    let paint = io.out.paint();
    let kind = pad_to_width(&escape_control(event.event_type.as_str()), TYPE_WIDTH);
    let step = pad_to_width(&escape_control(event.node_name.as_deref().unwrap_or("-")), STEP_WIDTH);
    let time = times.format_time(event.created_at);
    let plain = format!("{time}  {kind}  {step}  {}", escape_control(&event_note(event)));
    let plain = if io.out.is_terminal() {
        truncate_to_width(plain.trim_end(), io.out.width(), "…")
    } else {
        plain.trim_end().to_owned()
    };
    let painted = plain.replacen(&kind, &paint.text(event_style(event), &kind).to_string(), 1);
    writeln!(io.out, "{painted}")?;
    Ok(())
}
