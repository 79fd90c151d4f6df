//! `noetl outbox`: what waits to be published, and what cannot be.

mod decide;

use std::fmt::Display;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxLine, QuarantineLine};
use noetl_types::{OutboxId, QuarantineId, Text};

use self::decide::{Decision, Meant, decide};
use super::platform::ask;
use crate::ask::Consent;
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::render::palette;

/// Look at the outbox, and decide about what cannot be published
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox list --status pending       what waits
  noetl outbox dead                        what failed too often
  noetl outbox replay 308400000000000001   send it out again
  noetl outbox discard 308400000000000001  give it up
  noetl outbox quarantined                 what was refused")]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(ListArgs),
    Dead(DeadArgs),
    Replay(ReplayArgs),
    Discard(DiscardArgs),
    Quarantined(QuarantinedArgs),
}

/// List rows of the outbox, by id
///
/// With -o json and yaml it is also said where the next page begins, if there is one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox list
  noetl outbox list --status failed --limit 500
  noetl outbox list --status pending -o jsonl | jq .subject")]
struct ListArgs {
    /// Only rows that have come so far
    #[arg(
        long,
        value_name = "STATUS",
        help = "Only rows that are pending, in_flight, published, failed or dead"
    )]
    status: Option<String>,
    #[command(flatten)]
    page: Page,
}

/// List rows that failed too often
///
/// They hold back retention until somebody decides: replay sends them out again, discard gives them
/// up.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox dead
  noetl outbox dead -o jsonl | jq -r .outbox_id")]
struct DeadArgs {
    #[command(flatten)]
    page: Page,
}

#[derive(Debug, Args)]
struct Page {
    /// Rows to list, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// List the rows behind this one
    #[arg(long, value_name = "ID")]
    after: Option<OutboxId>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// List events that were refused while their neighbours went on
///
/// Events that could not be copied into the log, and such that no broker takes, oldest first. As JSON
/// each is shown as it came; with -o json and yaml it is also said where the next page begins.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox quarantined
  noetl outbox quarantined --source stream -o json")]
struct QuarantinedArgs {
    /// Only what was met there: projector, materializer or stream
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Rows to list, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// List the rows behind this one
    #[arg(long, value_name = "ID")]
    after: Option<QuarantineId>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// Send dead rows out again
///
/// The rows are shown first and have to be agreed to; without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox replay 308400000000000001
  noetl outbox replay 308400000000000001 --dry-run    only look at it
  noetl outbox replay --all                           all that are dead")]
struct ReplayArgs {
    /// The rows
    #[arg(required_unless_present = "all", value_name = "ID")]
    rows: Vec<OutboxId>,
    /// All rows that are dead
    #[arg(long, conflicts_with = "rows")]
    all: bool,
    #[command(flatten)]
    decide: DecideArgs,
}

/// Give dead rows up: their events count as published, and nobody gets them
///
/// The rows are shown first and have to be agreed to; without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox discard 308400000000000001
  noetl outbox discard 308400000000000001 308400000000000002 --yes")]
struct DiscardArgs {
    /// The rows
    #[arg(required = true, value_name = "ID")]
    rows: Vec<OutboxId>,
    #[command(flatten)]
    decide: DecideArgs,
}

#[derive(Debug, Args)]
struct DecideArgs {
    /// Only show the rows that are dead
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// Does what the verb says.
pub(crate) fn run(args: &OutboxArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::List(args) => list(args.status.as_deref(), &args.page, io),
        Verb::Dead(args) => list(Some("dead"), &args.page, io),
        Verb::Replay(args) => {
            let meant = if args.all {
                Meant::All
            } else {
                Meant::These(&args.rows)
            };
            decide(meant, &args.decide, Decision::Replay, io)
        }
        Verb::Discard(args) => {
            let meant = Meant::These(&args.rows);
            decide(meant, &args.decide, Decision::Discard, io)
        }
        Verb::Quarantined(args) => quarantined(args, io),
    }
}

fn quarantined(args: &QuarantinedArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let list = ask(&args.settings.given, io, async |client| {
        let source = args.source.as_deref();
        client.quarantine(source, args.after, args.limit).await
    })?;
    if list.rows.is_empty() && args.output.is_table() {
        io.talk("nothing was refused")?;
        return Ok(Exit::Ok);
    }
    if is_whole(args.output) {
        args.output.thing(&list, io)?;
        return Ok(Exit::Ok);
    }
    args.output
        .list(&list.rows, |times| refused(&list.rows, times), io)?;
    more(list.next_after, io)
}

/// Whether a page is one document: with the place where the next one begins, beside its rows.
fn is_whole(output: Output) -> bool {
    !output.is_table() && !output.is_lines()
}

/// Says where the next page begins, where rows are all that is shown.
fn more(after: Option<impl Display>, io: &mut Io<'_>) -> Result<Exit, Error> {
    if let Some(after) = after {
        io.talk(format_args!("there are more: --after {after}"))?;
    }
    Ok(Exit::Ok)
}

fn refused(rows: &[QuarantineLine], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("ID").right(),
        Column::new("SEEN"),
        Column::new("SOURCE"),
        Column::new("CODE"),
        Column::new("WHY").gives_way(),
    ]);
    for row in rows {
        table.row([
            row.quarantine_id.to_string().into(),
            times.tell(row.created_at).into(),
            row.source.as_str().into(),
            row.code.as_str().into(),
            row.message.as_str().into(),
        ]);
    }
    table
}

fn list(status: Option<&str>, page: &Page, io: &mut Io<'_>) -> Result<Exit, Error> {
    let list = ask(&page.settings.given, io, async |client| {
        client.outbox(status, page.after, page.limit).await
    })?;
    if is_whole(page.output) {
        page.output.thing(&list, io)?;
        return Ok(Exit::Ok);
    }
    if list.rows.is_empty() && page.output.is_table() {
        io.talk(match status {
            None => "the outbox is empty",
            Some("dead") => "there are no dead rows",
            Some(_) => "there are no such rows",
        })?;
        return Ok(Exit::Ok);
    }
    page.output.list(&list.rows, |_| table(&list.rows), io)?;
    more(list.next_after, io)
}

fn table(rows: &[OutboxLine]) -> Table {
    let mut table = Table::new([
        Column::new("ID").right(),
        Column::new("STATUS"),
        Column::new("TRIES").right(),
        Column::new("SUBJECT").gives_way(),
        Column::new("MESSAGE").gives_way(),
        Column::new("ERROR").gives_way(),
    ]);
    let text = |text: Option<&Text>| Cell::from(text.map_or("-", Text::as_str));
    for row in rows {
        let status = match row.discarded_at {
            Some(_) => Cell::styled("DISCARDED", palette::DOUBT),
            None => row.status.as_str().into(),
        };
        table.row([
            row.outbox_id.to_string().into(),
            status,
            row.attempts.to_string().into(),
            text(row.subject.as_ref()),
            row.message_id.as_str().into(),
            text(row.last_error.as_ref()),
        ]);
    }
    table
}
