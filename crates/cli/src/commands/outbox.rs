//! `noetl outbox`: what waits to be published, and what cannot be.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxIds, OutboxList};
use noetl_types::OutboxId;

use super::platform::{Form, agrees, ask, write_json, write_table};
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;

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
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t = Form::Table)]
    output: Form,
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
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
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
    let question = format!("Give up {count} dead rows? Nobody will get their events.");
    if !agrees(&question, args.yes, io)? {
        return Ok(Exit::Failed);
    }
    let changed = ask(&settings.given, io, async |client| {
        client.discard_outbox(&rows).await
    })?;
    tell(changed.changed, count, "given up", io)
}

fn tell(changed: u64, asked: usize, what: &str, io: &mut Io<'_>) -> Result<Exit, Error> {
    writeln!(io.out, "{changed} of {asked} rows were dead and are {what}")?;
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
    match page.output {
        Form::Json => write_json(&list, io)?,
        Form::Table if list.rows.is_empty() => writeln!(io.err, "There are no such rows.")?,
        Form::Table => table(&list, io)?,
    }
    Ok(Exit::Ok)
}

fn table(list: &OutboxList, io: &mut Io<'_>) -> Result<(), Error> {
    let headings = ["ID", "STATUS", "TRIES", "SUBJECT", "MESSAGE", "ERROR"];
    let text = |text: Option<&noetl_types::Text>| text.map_or("-", |text| text.as_str()).to_owned();
    let rows: Vec<Vec<String>> = list
        .rows
        .iter()
        .map(|row| {
            let status = match row.discarded_at {
                Some(_) => "DISCARDED",
                None => row.status.as_str(),
            };
            vec![
                row.outbox_id.to_string(),
                status.to_owned(),
                row.attempts.to_string(),
                text(row.subject.as_ref()),
                row.message_id.as_str().to_owned(),
                text(row.last_error.as_ref()),
            ]
        })
        .collect();
    write_table(&headings, &rows, io)?;
    if let Some(after) = list.next_after {
        io.talk(format_args!("There are more: --after {after}"))?;
    }
    Ok(())
}
