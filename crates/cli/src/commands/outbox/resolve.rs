//! Resolves dead outbox rows: shows them, asks for confirmation, then publishes or discards them.

use std::io::Write as _;

use noetl_api::internal::{OutboxChangeResponse, OutboxEntry, OutboxIds};
use noetl_types::OutboxId;

use super::{ResolveArgs, outbox_table};
use crate::commands::platform::OperatorConnection;
use crate::confirm::confirm;
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::render::text_layout::pluralize;

/// Rows per page and per request.
const MAX_REQUEST_ROWS: u32 = 500;

/// Maximum pages searched for dead rows.
const MAX_SEARCHED_PAGES: usize = 200;

/// Maximum rows shown before the confirmation. Further rows are only counted.
const MAX_SHOWN_ROWS: usize = 20;

#[derive(Debug, Clone, Copy)]
pub(super) enum Resolution {
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
pub(super) enum RowSelection<'r> {
    Ids(&'r [OutboxId]),
    All,
}

impl RowSelection<'_> {
    fn contains(self, row: &OutboxEntry) -> bool {
        match self {
            Self::Ids(rows) => rows.contains(&row.outbox_id),
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

pub(super) fn resolve_rows(
    selection: RowSelection<'_>,
    args: &ResolveArgs,
    resolution: Resolution,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let server = OperatorConnection::connect(&args.settings.given, io)?;
    let output = args.output;
    let rows = match selection {
        RowSelection::Ids(rows) if args.confirm.yes && !args.dry_run => rows.to_vec(),
        RowSelection::Ids(_) | RowSelection::All => {
            let DeadRowSearch { dead, is_complete } = find_dead_rows(selection, &server)?;
            if !is_complete {
                let text = format!(
                    "there are more than {} dead rows; only these were searched",
                    MAX_SEARCHED_PAGES * request_rows()
                );
                io.print_warnings(&[text])?;
            }
            if args.dry_run {
                output.print_list(&dead, |_| outbox_table(&dead), io)?;
                return Ok(CommandExit::Ok);
            }
            let ids = match selection {
                RowSelection::Ids(rows) => rows.to_vec(),
                RowSelection::All => dead.iter().map(|row| row.outbox_id).collect(),
            };
            if dead.is_empty() {
                if ids.is_empty() {
                    io.print_message("there are no dead rows")?;
                }
                let resolved = ResolvedRows { requested: ids.len(), changed: 0 };
                return resolved.print_summary(resolution, output, io);
            }
            print_dead_rows(&dead, io)?;
            let question =
                resolution.confirmation_question(&pluralize(dead.len(), "dead row"), server.url());
            if !confirm(args.confirm, &question, "yes", io)? {
                return Ok(CommandExit::Failed);
            }
            ids
        }
    };
    let mut resolved = ResolvedRows::default();
    let result = rows.chunks(request_rows()).try_for_each(|chunk| -> Result<(), Error> {
        let ids = OutboxIds { outbox_ids: chunk.to_vec() };
        let response = server.send(async |client| match resolution {
            Resolution::Replay => client.replay_outbox(&ids).await,
            Resolution::Discard => client.discard_outbox(&ids).await,
        })?;
        resolved.requested += chunk.len();
        resolved.changed += response.changed;
        Ok(())
    });
    // Printed even if a later request failed, since the earlier rows have been changed.
    let exit = resolved.print_summary(resolution, output, io)?;
    result.map(|()| exit)
}

fn request_rows() -> usize {
    usize::try_from(MAX_REQUEST_ROWS).unwrap_or(usize::MAX)
}

/// Searches the dead rows for the selected ones.
fn find_dead_rows(
    selection: RowSelection<'_>,
    server: &OperatorConnection,
) -> Result<DeadRowSearch, Error> {
    let (mut dead, mut after) = (Vec::new(), selection.start_cursor());
    for _ in 0..MAX_SEARCHED_PAGES {
        let page = server
            .send(async |client| client.list_outbox(Some("dead"), after, MAX_REQUEST_ROWS).await)?;
        let is_selected = |row: &OutboxEntry| row.discarded_at.is_none() && selection.contains(row);
        dead.extend(page.rows.into_iter().filter(is_selected));
        after = page.next_after;
        if after.is_none_or(|row| selection.ends_before(row)) {
            return Ok(DeadRowSearch { dead, is_complete: true });
        }
    }
    Ok(DeadRowSearch { dead, is_complete: false })
}

/// Shows the rows to be confirmed.
fn print_dead_rows(dead: &[OutboxEntry], io: &mut Io<'_>) -> Result<(), Error> {
    let first = dead.get(..MAX_SHOWN_ROWS).unwrap_or(dead);
    let text = outbox_table(first).render_table(false, true, &io.err);
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
    ) -> Result<CommandExit, Error> {
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
