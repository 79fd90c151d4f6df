//! `noetl runs events`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_api::query::{EventOrder, EventsQuery};
use noetl_types::limits::PageLimit;
use noetl_types::{EventName, ExecutionId, Seq, Text};

use super::{event_table, find_run};
use crate::config::{Client, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, OutputFormat, to_json_value};
use crate::roles::Target;
use crate::target::{Access, TargetConnection};

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
    output: OutputArgs,
    #[command(flatten)]
    target: SettingFlags<Client>,
}

/// Maximum events in a table. Longer logs require `-o jsonl`.
const MAX_TABLE_EVENTS: usize = 20_000;

pub(super) fn run(args: &EventsArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let connection = TargetConnection::connect(&args.target.given, Access::ReadOnly, quiet, io)?;
    connection.block_on(print_events(args, &connection.target, quiet, io))
}

async fn print_events(
    args: &EventsArgs,
    target: &Target,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let id = find_run(target, &args.run).await?;
    let mut pages = EventPages::new(args)?;
    let mut events = Vec::new();
    while let Some(page) = pages.next_page(target, id).await? {
        if args.output.format == OutputFormat::Jsonl && args.last.is_none() {
            for event in &page {
                writeln!(io.out, "{}", to_json_value(event)?)?;
            }
            continue;
        }
        events.extend(page);
        // With `--last`, lines are limited by that number. A table is built completely before it is
        // printed.
        if args.output.format != OutputFormat::Jsonl && events.len() >= MAX_TABLE_EVENTS {
            if !quiet {
                io.print_message(format_args!(
                    "the log is longer than {MAX_TABLE_EVENTS} events; print all of it with -o jsonl"
                ))?;
            }
            break;
        }
    }
    if args.output.format == OutputFormat::Jsonl && args.last.is_none() {
        return Ok(CommandExit::Ok);
    }
    if args.last.is_some() {
        events.reverse();
    }
    if events.is_empty() && args.output.is_table() {
        if !quiet {
            io.print_message("there are no matching events")?;
        }
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(&events, |times| event_table::event_table(&events, times), io)?;
    Ok(CommandExit::Ok)
}

/// Iterates over the pages of a log.
struct EventPages {
    query: EventsQuery,
    remaining: usize,
    is_finished: bool,
}

impl EventPages {
    fn new(args: &EventsArgs) -> Result<Self, Error> {
        let after_seq = args.after.filter(|after| *after > 0).map(Seq::new);
        let kind = args.kind.as_deref().map(EventName::parse);
        Ok(Self {
            query: EventsQuery {
                after_seq: after_seq
                    .transpose()
                    .map_err(|_| Error::InvalidRunName { text: "--after".to_owned() })?,
                event_type: kind.transpose().map_err(|error| Error::InvalidArgument {
                    what: "--type",
                    reason: error.to_string(),
                })?,
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
    ) -> Result<Option<Vec<EventView>>, Error> {
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
) -> Result<Vec<EventView>, Error> {
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
            let text = format!("the log is longer; only its first {max_events} events are read");
            io.print_warnings(&[text])?;
            return Ok(events);
        }
    }
}
