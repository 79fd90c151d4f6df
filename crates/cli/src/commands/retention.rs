//! `noetl retention`: shows and deletes old data.

use clap::{Args, Subcommand};
use noetl_api::internal::{PurgeRequest, PurgeResponse};

use crate::config::{Operator, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::connection::Connection;
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TextTable};

/// Delete old data
///
/// Logs are deleted by whole months, and only if all their runs have ended and are published.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  noetl retention plan --events 90     show what would be deleted and kept
  noetl retention apply --events 90    show it, ask, and delete it")]
pub(crate) enum RetentionCommand {
    /// Show what would be deleted, and what would be kept and why, without deleting
    #[command(after_long_help = "\
Examples:
  noetl retention plan
  noetl retention plan --events 90 --commands 30
  noetl retention plan --events 90 -o json | jq .skipped")]
    Plan(RetentionWindowArgs),
    Apply(RetentionApplyArgs),
}

/// Show what will be deleted, ask for confirmation, and delete it
///
/// Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention apply --events 90
  noetl retention apply --events 90 --profile staging --yes")]
pub(crate) struct RetentionApplyArgs {
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    windows: RetentionWindowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RetentionWindowArgs {
    /// Delete logs of runs older than this many days; 0 keeps all
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    events: i64,
    /// Delete commands that ended more than this many days ago; 0 keeps all
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    commands: i64,
    /// Delete workers without a heartbeat for this many minutes; 0 keeps all
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    workers: i64,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Operator>,
}

/// Runs the `noetl retention` subcommands.
pub(crate) fn run(command: &RetentionCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    let (windows, confirm_args) = match command {
        RetentionCommand::Plan(windows) => (windows, None),
        RetentionCommand::Apply(args) => (&args.windows, Some(args.confirm)),
    };
    let server = Connection::for_operator(&windows.settings.given, io)?;
    if let Some(confirm_args) = confirm_args {
        if !confirm_args.yes {
            let rows = purge_rows(&send_purge(windows, true, &server)?);
            let text = purge_table(&rows).render_table(false, true, &io.err);
            io.print_message(text.trim_end())?;
        }
        let question = format!("Delete this data at {}?", server.display_name());
        if !confirm(confirm_args, &question, "yes", io)? {
            return Ok(CommandExit::Failed);
        }
    }
    let response = send_purge(windows, confirm_args.is_none(), &server)?;
    if !windows.output.is_table() {
        return windows.output.print_item(&response, io);
    }
    windows.output.print_table(&purge_table(&purge_rows(&response)), io)
}

fn send_purge(
    windows: &RetentionWindowArgs,
    dry_run: bool,
    server: &Connection,
) -> Result<PurgeResponse> {
    let request = PurgeRequest {
        command_retention_days: Some(windows.commands),
        runtime_stale_minutes: Some(windows.workers),
        event_retention_days: Some(windows.events),
        dry_run,
    };
    server.send(async |client| client.purge_expired(&request).await)
}

/// Row of the result: what, how many, and a note.
type PurgeRow = (String, String, String);

fn purge_rows(response: &PurgeResponse) -> Vec<PurgeRow> {
    let note = if response.dry_run { "would be deleted" } else { "deleted" };
    let counts = [
        ("commands", response.commands_purged),
        ("workers", response.runtime_purged),
        ("months of logs", response.events_purged),
        ("outbox rows", response.outbox_purged),
    ];
    let counts = counts.map(|(what, count)| (what.to_owned(), count.to_string(), note.to_owned()));
    let dropped = response.event_partitions_dropped.iter();
    let dropped = dropped.map(|name| (format!("  {name}"), "-".to_owned(), note.to_owned()));
    let kept = response.skipped.iter().map(|skipped| {
        (format!("  {}", skipped.partition), "-".to_owned(), format!("kept: {}", skipped.reason))
    });
    counts.into_iter().chain(dropped).chain(kept).collect()
}

fn purge_table(rows: &[PurgeRow]) -> TextTable<'_, PurgeRow> {
    TextTable::new(rows)
        .column("WHAT", |row| &row.0)
        .right("COUNT", |row| &row.1)
        .shrinkable("NOTE", |row| &row.2)
}
