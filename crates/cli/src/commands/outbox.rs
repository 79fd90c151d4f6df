//! `noetl outbox`: what waits to be published, and what cannot be.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxIds, OutboxLine};
use noetl_types::{OutboxId, Text};

use super::platform::{Operated, ask};
use crate::ask::{Consent, agreed};
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table};
use crate::render::palette;
use crate::render::words::counted;

/// Look at the outbox, and decide about what cannot be published
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox list --status pending       what waits
  noetl outbox dead                        what failed too often
  noetl outbox replay 308400000000000001   send it out again
  noetl outbox discard 308400000000000001  give it up")]
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

/// Send dead rows out again
///
/// The rows are shown first and have to be agreed to; without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox replay 308400000000000001
  noetl outbox replay 308400000000000001 --dry-run    only look at it
  noetl outbox dead -o jsonl | jq -r .outbox_id | xargs noetl outbox replay --yes")]
struct ReplayArgs {
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
    #[command(flatten)]
    decide: DecideArgs,
}

#[derive(Debug, Args)]
struct DecideArgs {
    /// The rows
    #[arg(required = true, value_name = "ID")]
    rows: Vec<OutboxId>,
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
        Verb::Replay(args) => decide(&args.decide, Decision::Replay, io),
        Verb::Discard(args) => decide(&args.decide, Decision::Discard, io),
    }
}

/// What becomes of dead rows.
#[derive(Debug, Clone, Copy)]
enum Decision {
    Replay,
    Discard,
}

impl Decision {
    fn question(self, rows: &str, url: &str) -> String {
        match self {
            Self::Replay => format!("Send {rows} out again, at {url}?"),
            Self::Discard => format!("Give up {rows} for good, told to nobody, at {url}?"),
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Replay => "sent out again",
            Self::Discard => "given up",
        }
    }
}

fn decide(args: &DecideArgs, decision: Decision, io: &mut Io<'_>) -> Result<Exit, Error> {
    let at = Operated::find(&args.settings.given, io)?;
    let (asked, output) = (args.rows.len(), args.output);
    if args.dry_run || !args.consent.yes {
        let Looked { dead, is_all } = look(&args.rows, &at)?;
        if !is_all {
            let text =
                "there are too many dead rows to look at; not all of those that you name were";
            io.warn(&[text.to_owned()])?;
        }
        if dead.is_empty() {
            return tell(0, asked, decision.done(), output, io);
        }
        if args.dry_run {
            output.list(&dead, |_| table(&dead), io)?;
            return Ok(Exit::Ok);
        }
        let text = table(&dead).render(false, true, &io.err);
        io.talk(text.trim_end())?;
        let question = decision.question(&counted(dead.len(), "dead row"), at.url());
        if !agreed(args.consent, &question, "yes", io)? {
            return Ok(Exit::Failed);
        }
    }
    let rows = OutboxIds {
        outbox_ids: args.rows.clone(),
    };
    let changed = at.ask(async |client| match decision {
        Decision::Replay => client.replay_outbox(&rows).await,
        Decision::Discard => client.discard_outbox(&rows).await,
    })?;
    if !output.is_table() {
        output.thing(&changed, io)?;
    }
    tell(changed.changed, asked, decision.done(), output, io)
}

/// Rows of a page, and pages, that are looked at for those that are dead.
const LOOKED_AT: u32 = 500;
const MAX_PAGES: usize = 200;

/// What was found of some rows.
struct Looked {
    /// Those that are dead and wait for a decision, by id.
    dead: Vec<OutboxLine>,
    /// Whether all of them were looked at.
    is_all: bool,
}

/// Looks for some rows among those that are dead.
fn look(rows: &[OutboxId], at: &Operated) -> Result<Looked, Error> {
    let (first, last) = (rows.iter().min(), rows.iter().max());
    // A page begins behind a row, and so the first one behind the row before all of these.
    let before = first.and_then(|first| OutboxId::new(first.get() - 1).ok());
    let (mut dead, mut after) = (Vec::new(), before);
    for _ in 0..MAX_PAGES {
        let page = at.ask(async |client| client.outbox(Some("dead"), after, LOOKED_AT).await)?;
        let is_meant =
            |row: &OutboxLine| row.discarded_at.is_none() && rows.contains(&row.outbox_id);
        dead.extend(page.rows.into_iter().filter(is_meant));
        after = page.next_after;
        if after.is_none() || after.as_ref() >= last {
            return Ok(Looked { dead, is_all: true });
        }
    }
    Ok(Looked {
        dead,
        is_all: false,
    })
}

fn tell(
    changed: u64,
    asked: usize,
    what: &str,
    output: Output,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let changed = usize::try_from(changed).unwrap_or(usize::MAX);
    let others = asked.saturating_sub(changed);
    if changed > 0 && output.is_table() {
        writeln!(io.out, "{} {what}", counted(changed, "row"))?;
    }
    if others > 0 {
        io.talk(format_args!(
            "{others} of {asked} rows were not dead and stay as they are; see those that are with: \
             noetl outbox dead"
        ))?;
    }
    Ok(if changed == 0 {
        Exit::NotFound
    } else {
        Exit::Ok
    })
}

fn list(status: Option<&str>, page: &Page, io: &mut Io<'_>) -> Result<Exit, Error> {
    let list = ask(&page.settings.given, io, async |client| {
        client.outbox(status, page.after, page.limit).await
    })?;
    if !page.output.is_table() && !page.output.is_lines() {
        // Whole, for who has to know where the next page begins.
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
    if let Some(after) = list.next_after {
        io.talk(format_args!("there are more: --after {after}"))?;
    }
    Ok(Exit::Ok)
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
