//! `noetl outbox`: what waits to be published, and what cannot be.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxIds, OutboxList, QuarantineList};
use noetl_api::{ApiError, Client};
use noetl_types::{OutboxId, QuarantineId, Text};

use super::platform::ask;
use crate::ask::{Consent, agreed};
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::render::palette;
use crate::render::words::counted;

/// Dead rows that are asked for, and sent out again, in one call.
const AT_ONCE: u32 = 500;

/// Dead rows that one command sends out again at most.
const MOST_REPLAYED: usize = 100_000;

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
    Replay(ReplayArgs),
    Discard(DiscardArgs),
    Quarantined(QuarantinedArgs),
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

/// List events that were refused while their neighbours went on
///
/// Events that could not be copied into the log, and such that no broker takes, oldest first. As JSON
/// each is shown as it came.
#[derive(Debug, Args)]
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
#[derive(Debug, Args)]
struct ReplayArgs {
    /// The rows
    #[arg(required_unless_present = "all", value_name = "ID")]
    rows: Vec<OutboxId>,
    /// All rows that are dead; says how many they are, and asks
    #[arg(long, conflicts_with = "rows")]
    all: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    settings: Flags<Operator>,
}

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
        Verb::Replay(args) if args.all => replay_all(args, io),
        Verb::Replay(args) => replay(args, &args.rows, io),
        Verb::Discard(args) => discard(args, io),
        Verb::Quarantined(args) => quarantined(args, io),
    }
}

/// Sends rows out again, some at a time.
fn replay(args: &ReplayArgs, rows: &[OutboxId], io: &mut Io<'_>) -> Result<Exit, Error> {
    let at_once = usize::try_from(AT_ONCE).unwrap_or(usize::MAX);
    let changed = ask(&args.settings.given, io, async |client| {
        let mut changed = 0;
        for some in rows.chunks(at_once) {
            let some = OutboxIds {
                outbox_ids: some.to_vec(),
            };
            changed += client.replay_outbox(&some).await?.changed;
        }
        Ok(changed)
    })?;
    tell(changed, rows.len(), "sent out again", io)
}

fn replay_all(args: &ReplayArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let (dead, has_more) = ask(&args.settings.given, io, dead_rows)?;
    if dead.is_empty() {
        io.talk("there are no dead rows")?;
        return Ok(Exit::Ok);
    }
    let rows = counted(dead.len(), "dead row");
    if !agreed(args.consent, &format!("Send {rows} out again?"), "yes", io)? {
        return Ok(Exit::Failed);
    }
    let exit = replay(args, &dead, io)?;
    if has_more {
        io.talk("there are more: do it again")?;
    }
    Ok(exit)
}

/// The rows that are dead and not given up, page by page, and whether there are more than one command
/// takes.
async fn dead_rows(client: &Client) -> Result<(Vec<OutboxId>, bool), ApiError> {
    let (mut dead, mut after) = (Vec::new(), None);
    loop {
        let list = client.outbox(Some("dead"), after, AT_ONCE).await?;
        let open = list.rows.iter().filter(|row| row.discarded_at.is_none());
        dead.extend(open.map(|row| row.outbox_id));
        after = list.next_after;
        if after.is_none() || dead.len() >= MOST_REPLAYED {
            return Ok((dead, after.is_some()));
        }
    }
}

fn quarantined(args: &QuarantinedArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let list = ask(&args.settings.given, io, async |client| {
        let source = args.source.as_deref();
        client.quarantine(source, args.after, args.limit).await
    })?;
    if !args.output.is_table() {
        args.output.thing(&list, io)?;
        return Ok(Exit::Ok);
    }
    if list.rows.is_empty() {
        io.talk("nothing was refused")?;
        return Ok(Exit::Ok);
    }
    let times = args.output.times(io);
    args.output.table(&refused(&list, &times), io)?;
    if let Some(after) = list.next_after {
        io.talk(format_args!("there are more: --after {after}"))?;
    }
    Ok(Exit::Ok)
}

fn refused(list: &QuarantineList, times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("ID").right(),
        Column::new("SEEN"),
        Column::new("SOURCE"),
        Column::new("CODE"),
        Column::new("WHY").gives_way(),
    ]);
    for row in &list.rows {
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
