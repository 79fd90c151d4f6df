//! `noetl outbox`: lists unpublished events and resolves those that cannot be published.

use std::fmt::Display;
use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::internal::{OutboxChangeResponse, OutboxEntry, OutboxIds, QuarantineEntry};
use noetl_types::{OutboxId, QuarantineId};

use crate::config::{Operator, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TextTable, TimeFormatter};
use crate::render::palette;
use crate::render::text_layout::pluralize;

/// Inspect the outbox and resolve events that cannot be published
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  noetl outbox list --status pending       rows waiting to be published
  noetl outbox dead                        rows that failed too often
  noetl outbox replay 308400000000000001   publish a row again
  noetl outbox discard 308400000000000001  give up a row
  noetl outbox quarantined                 rejected events")]
pub(crate) enum OutboxCommand {
    List(OutboxListArgs),
    /// List rows that failed too often
    ///
    /// Dead rows block retention until they are resolved: 'replay' publishes them again, 'discard'
    /// gives them up.
    #[command(after_long_help = "\
Examples:
  noetl outbox dead
  noetl outbox dead -o jsonl | jq -r .outbox_id")]
    Dead(PageArgs),
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
pub(crate) struct OutboxListArgs {
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

#[derive(Debug, Args)]
pub(crate) struct PageArgs {
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
pub(crate) struct QuarantinedArgs {
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
pub(crate) struct OutboxReplayArgs {
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
pub(crate) struct OutboxDiscardArgs {
    /// Rows to discard
    #[arg(required = true, value_name = "ID")]
    rows: Vec<OutboxId>,
    #[command(flatten)]
    resolve_args: ResolveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
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

/// Rows per page and per request.
const PAGE_ROWS: u32 = 500;
const MAX_REQUEST_ROWS: usize = 500;

/// Maximum pages searched for dead rows.
const MAX_SEARCHED_PAGES: usize = 200;

/// Maximum rows shown before the confirmation. Further rows are only counted.
const MAX_SHOWN_ROWS: usize = 20;

/// Runs the `noetl outbox` subcommands.
pub(crate) fn run(command: &OutboxCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        OutboxCommand::List(args) => list_outbox(args.status.as_deref(), &args.page, io),
        OutboxCommand::Dead(page) => list_outbox(Some("dead"), page, io),
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

fn list_quarantined(args: &QuarantinedArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = Connection::for_operator(&args.settings.given, io)?;
    let source = args.source.as_deref();
    let list =
        server.send(async |client| client.list_quarantine(source, args.after, args.limit).await)?;
    if is_single_document(args.output) {
        return args.output.print_item(&list, io);
    }
    if list.rows.is_empty() && args.output.is_table() {
        io.print_message("no events are quarantined")?;
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(&list.rows, quarantine_table, io)?;
    print_next_cursor(list.next_after, io)
}

/// True if the page is printed as one document that includes the cursor of the next page.
fn is_single_document(output: OutputArgs) -> bool {
    !output.is_table() && !output.is_json_lines()
}

/// Prints the cursor of the next page if the output contains only rows.
fn print_next_cursor(after: Option<impl Display>, io: &mut Io<'_>) -> Result<CommandExit> {
    if let Some(after) = after {
        io.print_message(format_args!("more rows are available with: --after {after}"))?;
    }
    Ok(CommandExit::Ok)
}

fn quarantine_table<'t>(
    rows: &'t [QuarantineEntry],
    times: &TimeFormatter,
) -> TextTable<'t, QuarantineEntry> {
    TextTable::new(rows)
        .right("ID", |row| row.quarantine_id)
        .column("SEEN", |row| times.format_time(row.created_at))
        .column("SOURCE", |row| &row.source)
        .column("CODE", |row| &row.code)
        .shrinkable("REASON", |row| &row.message)
}

fn list_outbox(status: Option<&str>, page: &PageArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let server = Connection::for_operator(&page.settings.given, io)?;
    let list =
        server.send(async |client| client.list_outbox(status, page.after, page.limit).await)?;
    if is_single_document(page.output) {
        return page.output.print_item(&list, io);
    }
    if list.rows.is_empty() && page.output.is_table() {
        io.print_message(match status {
            None => "the outbox is empty",
            Some("dead") => "there are no dead rows",
            Some(_) => "there are no rows with this status",
        })?;
        return Ok(CommandExit::Ok);
    }
    page.output.print_list(&list.rows, outbox_table, io)?;
    print_next_cursor(list.next_after, io)
}

fn outbox_table<'t>(rows: &'t [OutboxEntry], _: &TimeFormatter) -> TextTable<'t, OutboxEntry> {
    let status = |row: &OutboxEntry| match row.discarded_at {
        Some(_) => TableCell::styled("DISCARDED", palette::CAUTION),
        None => row.status.as_str().into(),
    };
    TextTable::new(rows)
        .right("ID", |row| row.outbox_id)
        .column("STATUS", status)
        .right("ATTEMPTS", |row| row.attempts)
        .shrinkable("SUBJECT", |row| TableCell::or_dash(row.subject.as_ref()))
        .shrinkable("MESSAGE", |row| &row.message_id)
        .shrinkable("ERROR", |row| TableCell::or_dash(row.last_error.as_ref()))
}

/// Way to resolve dead rows.
#[derive(Debug, Clone, Copy)]
enum Resolution {
    Replay,
    Discard,
}

impl Resolution {
    fn confirmation_question(self, rows: &str, url: &str) -> String {
        match self {
            Self::Replay => format!("Publish {rows} again at {url}?"),
            Self::Discard => {
                format!("Discard {rows} permanently, without delivering the events, at {url}?")
            }
        }
    }

    const fn past_tense(self) -> &'static str {
        match self {
            Self::Replay => "queued for publishing again",
            Self::Discard => "discarded",
        }
    }
}

/// Rows selected on the command line.
#[derive(Debug, Clone, Copy)]
enum RowSelection<'r> {
    Ids(&'r [OutboxId]),
    All,
}

impl RowSelection<'_> {
    fn contains(self, row: &OutboxEntry) -> bool {
        match self {
            Self::Ids(rows) => rows.contains(&row.outbox_id.0),
            Self::All => true,
        }
    }

    /// Cursor of the first page. A page starts after its cursor, so this is the id before the
    /// smallest selected id.
    fn start_cursor(self) -> Option<OutboxId> {
        let Self::Ids(rows) = self else {
            return None;
        };
        let first = rows.iter().min()?;
        OutboxId::new(first.get() - 1).ok()
    }

    /// True if no selected row comes after `row`.
    fn ends_before(self, row: OutboxId) -> bool {
        match self {
            Self::Ids(rows) => rows.iter().all(|id| *id <= row),
            Self::All => false,
        }
    }
}

/// Dead rows found for a selection.
struct DeadRowSearch {
    /// Undecided dead rows, by id.
    dead: Vec<OutboxEntry>,
    /// True if the search reached the last row.
    is_complete: bool,
}

/// Resolves dead rows: shows them, asks for confirmation, then publishes or discards them.
fn resolve_rows(
    selection: RowSelection<'_>,
    args: &ResolveArgs,
    resolution: Resolution,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    let server = Connection::for_operator(&args.settings.given, io)?;
    let output = args.output;
    let rows = match selection {
        RowSelection::Ids(rows) if args.confirm.yes && !args.dry_run => rows.to_vec(),
        RowSelection::Ids(_) | RowSelection::All => {
            let DeadRowSearch { dead, is_complete } = find_dead_rows(selection, &server)?;
            if !is_complete {
                let count = MAX_SEARCHED_PAGES * MAX_REQUEST_ROWS;
                io.print_warning(format_args!(
                    "there are more than {count} dead rows; only these were searched"
                ))?;
            }
            if args.dry_run {
                return output.print_list(&dead, outbox_table, io);
            }
            let ids = match selection {
                RowSelection::Ids(rows) => rows.to_vec(),
                RowSelection::All => dead.iter().map(|row| row.outbox_id.0).collect(),
            };
            if dead.is_empty() {
                if ids.is_empty() {
                    io.print_message("there are no dead rows")?;
                }
                let resolved = ResolvedRows { requested: ids.len(), changed: 0 };
                return resolved.print_summary(resolution, output, io);
            }
            print_dead_rows(&dead, output, io)?;
            let count = pluralize(dead.len(), "dead row");
            let question = resolution.confirmation_question(&count, server.display_name());
            if !confirm(args.confirm, &question, "yes", io)? {
                return Ok(CommandExit::Failed);
            }
            ids
        }
    };
    let mut resolved = ResolvedRows::default();
    let result = rows.chunks(MAX_REQUEST_ROWS).try_for_each(|chunk| {
        let ids = OutboxIds { outbox_ids: chunk.to_vec() };
        let response = server.send(async |client| match resolution {
            Resolution::Replay => client.replay_outbox(&ids).await,
            Resolution::Discard => client.discard_outbox(&ids).await,
        })?;
        resolved.requested += chunk.len();
        resolved.changed += response.changed;
        Ok::<_, Error>(())
    });
    // Printed even if a later request failed, since the earlier rows have been changed.
    let exit = resolved.print_summary(resolution, output, io)?;
    result.map(|()| exit)
}

/// Searches the dead rows for the selected ones.
fn find_dead_rows(selection: RowSelection<'_>, server: &Connection) -> Result<DeadRowSearch> {
    let (mut dead, mut after) = (Vec::new(), selection.start_cursor());
    for _ in 0..MAX_SEARCHED_PAGES {
        let page =
            server.send(async |client| client.list_outbox(Some("dead"), after, PAGE_ROWS).await)?;
        let is_selected = |row: &OutboxEntry| row.discarded_at.is_none() && selection.contains(row);
        dead.extend(page.rows.into_iter().filter(is_selected));
        after = page.next_after.map(|after| after.0);
        if after.is_none_or(|row| selection.ends_before(row)) {
            return Ok(DeadRowSearch { dead, is_complete: true });
        }
    }
    Ok(DeadRowSearch { dead, is_complete: false })
}

/// Shows the rows to be confirmed.
fn print_dead_rows(dead: &[OutboxEntry], output: OutputArgs, io: &mut Io<'_>) -> Result<()> {
    let first = dead.get(..MAX_SHOWN_ROWS).unwrap_or(dead);
    let times = output.time_formatter(io);
    let text = outbox_table(first, &times).render_table(false, true, &io.err);
    io.print_message(text.trim_end())?;
    match dead.len() - first.len() {
        0 => {}
        more => io.print_message(format_args!("and {more} more; show all with: --dry-run"))?,
    }
    Ok(())
}

/// Number of rows requested and changed.
#[derive(Debug, Default)]
struct ResolvedRows {
    requested: usize,
    changed: u64,
}

impl ResolvedRows {
    fn print_summary(
        &self,
        resolution: Resolution,
        output: OutputArgs,
        io: &mut Io<'_>,
    ) -> Result<CommandExit> {
        let Self { requested, changed } = *self;
        if !output.is_table() {
            output.print_item(&OutboxChangeResponse { changed }, io)?;
        }
        let changed = usize::try_from(changed).unwrap_or(usize::MAX);
        if changed > 0 && output.is_table() {
            writeln!(io.out, "{} {}", pluralize(changed, "row"), resolution.past_tense())?;
        }
        let others = requested.saturating_sub(changed);
        if others > 0 {
            io.print_message(format_args!(
                "{others} of {requested} rows are not dead and were not changed; list dead rows with: \
                 noetl outbox dead"
            ))?;
        }
        Ok(if changed == 0 && requested > 0 { CommandExit::NotFound } else { CommandExit::Ok })
    }
}
