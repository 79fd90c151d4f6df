//! `noetl runs events`

use std::io::Write as _;

use clap::Args;
use noetl_api::execution::EventView;
use noetl_api::query::{EventsQuery, Order};
use noetl_types::limits::PageLimit;
use noetl_types::{EventName, ExecutionId, Seq, Text};

use super::{find, note};
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Form, Output, json_of};
use crate::reach::{Reached, Wants};
use crate::roles::Host;

/// Print the log of a run
///
/// Every event, in order, with what is special about it. As jsonl, each event is printed whole, page
/// by page, however long the log is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs events last
  noetl runs events 4821 --step load --type call.error
  noetl runs events last -o jsonl > run.jsonl")]
pub(crate) struct EventsArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    /// Only events of this step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only those behind this place in the log
    #[arg(long, value_name = "SEQ")]
    after: Option<i64>,
    /// Only the last N
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    last: Option<u32>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

/// Events that a table holds; a longer log is for -o jsonl.
const MAX_ROWS: usize = 20_000;

pub(super) fn run(args: &EventsArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    reached.ask(print(args, &reached.host, quiet, io))
}

async fn print(
    args: &EventsArgs,
    host: &Host,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let id = find(host, &args.run).await?;
    let mut walk = Walk::new(args)?;
    let mut events = Vec::new();
    while let Some(page) = walk.next(host, id).await? {
        if args.output.form == Form::Jsonl && args.last.is_none() {
            for event in &page {
                writeln!(io.out, "{}", json_of(event)?)?;
            }
            continue;
        }
        events.extend(page);
        // Lines have no bound but that of --last; a table is made whole before it is shown.
        if args.output.form != Form::Jsonl && events.len() >= MAX_ROWS {
            if !quiet {
                io.talk(format_args!(
                    "the log is longer than {MAX_ROWS} events; print all of it with -o jsonl"
                ))?;
            }
            break;
        }
    }
    if args.output.form == Form::Jsonl && args.last.is_none() {
        return Ok(Exit::Ok);
    }
    if args.last.is_some() {
        events.reverse();
    }
    if events.is_empty() && args.output.is_table() {
        if !quiet {
            io.talk("there are no such events")?;
        }
        return Ok(Exit::Ok);
    }
    args.output
        .list(&events, |times| note::table(&events, times), io)?;
    Ok(Exit::Ok)
}

/// A walk along a log.
struct Walk {
    query: EventsQuery,
    left: usize,
    is_over: bool,
}

impl Walk {
    fn new(args: &EventsArgs) -> Result<Self, Error> {
        let after_seq = args.after.filter(|after| *after > 0).map(Seq::new);
        let kind = args.kind.as_deref().map(EventName::read);
        Ok(Self {
            query: EventsQuery {
                after_seq: after_seq.transpose().map_err(|_| Error::BadRun {
                    text: "--after".to_owned(),
                })?,
                event_type: kind.transpose().map_err(|error| Error::BadValue {
                    what: "--type",
                    reason: error.to_string(),
                })?,
                step: args.step.as_deref().map(Text::from),
                order: if args.last.is_some() {
                    Order::Desc
                } else {
                    Order::Asc
                },
                limit: PageLimit::MAX,
                ..EventsQuery::default()
            },
            left: args.last.map_or(usize::MAX, |last| {
                usize::try_from(last).unwrap_or(usize::MAX)
            }),
            is_over: false,
        })
    }

    async fn next(
        &mut self,
        host: &Host,
        id: ExecutionId,
    ) -> Result<Option<Vec<EventView>>, Error> {
        if self.is_over || self.left == 0 {
            return Ok(None);
        }
        let mut page = host.log(id, self.query.clone()).await?;
        page.events.truncate(self.left);
        self.left = self.left.saturating_sub(page.events.len());
        self.is_over = page.next_cursor.is_none();
        self.query.cursor = page.next_cursor;
        Ok(Some(page.events))
    }
}

/// The whole log of a run, up to a number of events.
pub(super) async fn whole(
    host: &Host,
    id: ExecutionId,
    most: usize,
    io: &mut Io<'_>,
) -> Result<Vec<EventView>, Error> {
    let mut query = EventsQuery {
        limit: PageLimit::MAX,
        ..EventsQuery::default()
    };
    let mut events = Vec::new();
    loop {
        let page = host.log(id, query.clone()).await?;
        events.extend(page.events);
        query.cursor = page.next_cursor;
        if query.cursor.is_none() && events.len() <= most {
            return Ok(events);
        }
        if events.len() >= most {
            events.truncate(most);
            // Also where talk is not wanted: what follows would be taken for the whole.
            let text = format!("the log is longer; only its first {most} events are looked at");
            io.warn(&[text])?;
            return Ok(events);
        }
    }
}
