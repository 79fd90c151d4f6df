//! `noetl outbox`: what waits to be published, and what cannot be.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxIds, OutboxList};
use noetl_types::{OutboxId, Text};

use super::platform::ask;
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
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(ListArgs),
    Dead(DeadArgs),
    Replay(DecideArgs),
    Discard(DiscardArgs),
}

/// List rows of the outbox, by id
#[derive(Debug, Args)]
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
#[derive(Debug, Args)]
struct DecideArgs {
    /// The rows
    #[arg(required = true, value_name = "ID")]
    rows: Vec<OutboxId>,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// Give dead rows up: their events count as published, and nobody gets them
#[derive(Debug, Args)]
struct DiscardArgs {
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    decide: DecideArgs,
}

/// Does what the verb says.
pub(crate) fn run(args: &OutboxArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::List(args) => list(args.status.as_deref(), &args.page, io),
        Verb::Dead(args) => list(Some("dead"), &args.page, io),
        Verb::Replay(args) => {
            let rows = OutboxIds {
                outbox_ids: args.rows.clone(),
            };
            let changed = ask(&args.settings.given, io, async |client| {
                client.replay_outbox(&rows).await
            })?;
            tell(changed.changed, rows.outbox_ids.len(), "sent out again", io)
        }
        Verb::Discard(args) => discard(args, io),
    }
}

fn discard(args: &DiscardArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let DecideArgs { rows, settings } = &args.decide;
    let rows = OutboxIds {
        outbox_ids: rows.clone(),
    };
    let count = rows.outbox_ids.len();
    let dead = counted(count, "dead row");
    let question = format!("Give up {dead} for good, told to nobody?");
    if !agreed(args.consent, &question, "yes", io)? {
        return Ok(Exit::Failed);
    }
    let changed = ask(&settings.given, io, async |client| {
        client.discard_outbox(&rows).await
    })?;
    tell(changed.changed, count, "given up", io)
}

fn tell(changed: u64, asked: usize, what: &str, io: &mut Io<'_>) -> Result<Exit, Error> {
    let changed = usize::try_from(changed).unwrap_or(usize::MAX);
    let others = asked.saturating_sub(changed);
    if changed > 0 {
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
    if !page.output.is_table() {
        // Whole, for who has to know where the next page begins.
        page.output.thing(&list, io)?;
        return Ok(Exit::Ok);
    }
    if list.rows.is_empty() {
        io.talk(match status {
            None => "the outbox is empty",
            Some("dead") => "there are no dead rows",
            Some(_) => "there are no such rows",
        })?;
        return Ok(Exit::Ok);
    }
    page.output.table(&table(&list), io)?;
    if let Some(after) = list.next_after {
        io.talk(format_args!("there are more: --after {after}"))?;
    }
    Ok(Exit::Ok)
}

fn table(list: &OutboxList) -> Table {
    let mut table = Table::new([
        Column::new("ID").right(),
        Column::new("STATUS"),
        Column::new("TRIES").right(),
        Column::new("SUBJECT").gives_way(),
        Column::new("MESSAGE").gives_way(),
        Column::new("ERROR").gives_way(),
    ]);
    let text = |text: Option<&Text>| Cell::from(text.map_or("-", Text::as_str));
    for row in &list.rows {
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
