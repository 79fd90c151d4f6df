//! `noetl outbox`: lists unpublished events and resolves those that cannot be published.

mod resolve;

use std::fmt::Display;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxEntry, QuarantineEntry};
use noetl_types::{OutboxId, QuarantineId, Text};

use self::resolve::{Resolution, RowSelection, resolve_rows};
use super::platform::send_operator_request;
use crate::config::{Operator, SettingFlags};
use crate::confirm::ConfirmArgs;
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable, TimeFormatter};
use crate::render::palette;

/// Inspect the outbox and resolve events that cannot be published
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox list --status pending       rows waiting to be published
  noetl outbox dead                        rows that failed too often
  noetl outbox replay 308400000000000001   publish a row again
  noetl outbox discard 308400000000000001  give up a row
  noetl outbox quarantined                 rejected events")]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    command: OutboxCommand,
}

#[derive(Debug, Subcommand)]
enum OutboxCommand {
    List(OutboxListArgs),
    Dead(OutboxDeadArgs),
    Replay(OutboxReplayArgs),
    Discard(OutboxDiscardArgs),
    Quarantined(QuarantinedArgs),
}

/// List rows of the outbox by id
///
/// With -o json or yaml, the output includes the cursor of the next page, if there is one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox list
  noetl outbox list --status failed --limit 500
  noetl outbox list --status pending -o jsonl | jq .subject")]
struct OutboxListArgs {
    /// Filter by status
    #[arg(
        long,
        value_name = "STATUS",
        help = "Filter by status: pending, in_flight, published, failed or dead"
    )]
    status: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

/// List rows that failed too often
///
/// Dead rows block retention until they are resolved: 'replay' publishes them again, 'discard'
/// gives them up.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox dead
  noetl outbox dead -o jsonl | jq -r .outbox_id")]
struct OutboxDeadArgs {
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, Args)]
struct PageArgs {
    /// Maximum rows, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Start after this row
    #[arg(long, value_name = "ID")]
    after: Option<OutboxId>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Operator>,
}

/// List events that were rejected while others were processed
///
/// Lists events that could not be copied into the log or that no broker accepts, oldest first. JSON
/// output shows each event as received. With -o json or yaml, it includes the cursor of the next
/// page.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox quarantined
  noetl outbox quarantined --source stream -o json")]
struct QuarantinedArgs {
    /// Filter by source: projector, materializer or stream
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Maximum rows, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Start after this row
    #[arg(long, value_name = "ID")]
    after: Option<QuarantineId>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Operator>,
}

/// Publish dead rows again
///
/// Shows the rows and asks for confirmation. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox replay 308400000000000001
  noetl outbox replay 308400000000000001 --dry-run    only show the row
  noetl outbox replay --all                           all dead rows")]
struct OutboxReplayArgs {
    /// Rows to publish
    #[arg(required_unless_present = "all", value_name = "ID")]
    rows: Vec<OutboxId>,
    /// Publish all dead rows
    #[arg(long, conflicts_with = "rows")]
    all: bool,
    #[command(flatten)]
    resolve_args: ResolveArgs,
}

/// Give up dead rows: their events count as published but are never delivered
///
/// Shows the rows and asks for confirmation. Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl outbox discard 308400000000000001
  noetl outbox discard 308400000000000001 308400000000000002 --yes")]
struct OutboxDiscardArgs {
    /// Rows to discard
    #[arg(required = true, value_name = "ID")]
    rows: Vec<OutboxId>,
    #[command(flatten)]
    resolve_args: ResolveArgs,
}

#[derive(Debug, Args)]
struct ResolveArgs {
    /// Only show the dead rows
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Operator>,
}

/// Runs the `noetl outbox` subcommands.
pub(crate) fn run(args: &OutboxArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        OutboxCommand::List(args) => list_outbox(args.status.as_deref(), &args.page, io),
        OutboxCommand::Dead(args) => list_outbox(Some("dead"), &args.page, io),
        OutboxCommand::Replay(args) => {
            let selection =
                if args.all { RowSelection::All } else { RowSelection::Ids(&args.rows) };
            resolve_rows(selection, &args.resolve_args, Resolution::Replay, io)
        }
        OutboxCommand::Discard(args) => {
            let selection = RowSelection::Ids(&args.rows);
            resolve_rows(selection, &args.resolve_args, Resolution::Discard, io)
        }
        OutboxCommand::Quarantined(args) => list_quarantined(args, io),
    }
}

fn list_quarantined(args: &QuarantinedArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let list = send_operator_request(&args.settings.given, io, async |client| {
        let source = args.source.as_deref();
        client.list_quarantine(source, args.after, args.limit).await
    })?;
    if list.rows.is_empty() && args.output.is_table() {
        io.print_message("no events are quarantined")?;
        return Ok(CommandExit::Ok);
    }
    if is_single_document(args.output) {
        args.output.print_item(&list, io)?;
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(&list.rows, |times| quarantine_table(&list.rows, times), io)?;
    print_next_cursor(list.next_after, io)
}

/// True if the page is printed as one document that includes the cursor of the next page.
fn is_single_document(output: OutputArgs) -> bool {
    !output.is_table() && !output.is_json_lines()
}

/// Prints the cursor of the next page if the output contains only rows.
fn print_next_cursor(after: Option<impl Display>, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    if let Some(after) = after {
        io.print_message(format_args!("more rows are available with: --after {after}"))?;
    }
    Ok(CommandExit::Ok)
}

fn quarantine_table(rows: &[QuarantineEntry], times: &TimeFormatter) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("ID").align_right(),
        TableColumn::new("SEEN"),
        TableColumn::new("SOURCE"),
        TableColumn::new("CODE"),
        TableColumn::new("REASON").shrinkable(),
    ]);
    for row in rows {
        table.add_row([
            row.quarantine_id.to_string().into(),
            times.format_time(row.created_at).into(),
            row.source.as_str().into(),
            row.code.as_str().into(),
            row.message.as_str().into(),
        ]);
    }
    table
}

fn list_outbox(
    status: Option<&str>,
    page: &PageArgs,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let list = send_operator_request(&page.settings.given, io, async |client| {
        client.list_outbox(status, page.after, page.limit).await
    })?;
    if is_single_document(page.output) {
        page.output.print_item(&list, io)?;
        return Ok(CommandExit::Ok);
    }
    if list.rows.is_empty() && page.output.is_table() {
        io.print_message(match status {
            None => "the outbox is empty",
            Some("dead") => "there are no dead rows",
            Some(_) => "there are no rows with this status",
        })?;
        return Ok(CommandExit::Ok);
    }
    page.output.print_list(&list.rows, |_| outbox_table(&list.rows), io)?;
    print_next_cursor(list.next_after, io)
}

fn outbox_table(rows: &[OutboxEntry]) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new("ID").align_right(),
        TableColumn::new("STATUS"),
        TableColumn::new("ATTEMPTS").align_right(),
        TableColumn::new("SUBJECT").shrinkable(),
        TableColumn::new("MESSAGE").shrinkable(),
        TableColumn::new("ERROR").shrinkable(),
    ]);
    let text = |text: Option<&Text>| TableCell::from(text.map_or("-", Text::as_str));
    for row in rows {
        let status = match row.discarded_at {
            Some(_) => TableCell::styled("DISCARDED", palette::CAUTION),
            None => row.status.as_str().into(),
        };
        table.add_row([
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
