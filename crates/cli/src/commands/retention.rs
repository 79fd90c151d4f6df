//! `noetl retention`: shows and deletes old data.

use clap::{Args, Subcommand};
use noetl_api::internal::{PurgeRequest, PurgeResponse};

use super::platform::OperatorConnection;
use crate::config::{Operator, SettingFlags};
use crate::confirm::{ConfirmArgs, confirm};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableColumn, TextTable};

/// Delete old data
///
/// Logs are deleted by whole months, and only if all their runs have ended and are published.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention plan --events 90     show what would be deleted and kept
  noetl retention apply --events 90    show it, ask, and delete it")]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    command: RetentionCommand,
}

#[derive(Debug, Subcommand)]
enum RetentionCommand {
    Plan(RetentionPlanArgs),
    Apply(RetentionApplyArgs),
}

/// Show what would be deleted, and what would be kept and why, without deleting
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention plan
  noetl retention plan --events 90 --commands 30
  noetl retention plan --events 90 -o json | jq .skipped")]
struct RetentionPlanArgs {
    #[command(flatten)]
    windows: RetentionWindowArgs,
}

/// Show what will be deleted, ask for confirmation, and delete it
///
/// Without a terminal, --yes is required.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention apply --events 90
  noetl retention apply --events 90 --profile staging --yes")]
struct RetentionApplyArgs {
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    windows: RetentionWindowArgs,
}

#[derive(Debug, Args)]
struct RetentionWindowArgs {
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
pub(crate) fn run(args: &RetentionArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        RetentionCommand::Plan(args) => {
            let server = OperatorConnection::connect(&args.windows.settings.given, io)?;
            let plan = send_purge(&args.windows, true, &server)?;
            print_purge(&plan, args.windows.output, io)?;
        }
        RetentionCommand::Apply(args) => {
            let server = OperatorConnection::connect(&args.windows.settings.given, io)?;
            if !args.confirm.yes {
                let plan = send_purge(&args.windows, true, &server)?;
                let text = purge_table(&plan).render_table(false, true, &io.err);
                io.print_message(text.trim_end())?;
            }
            let question = format!("Delete this data at {}?", server.url());
            if !confirm(args.confirm, &question, "yes", io)? {
                return Ok(CommandExit::Failed);
            }
            let result = send_purge(&args.windows, false, &server)?;
            print_purge(&result, args.windows.output, io)?;
        }
    }
    Ok(CommandExit::Ok)
}

fn send_purge(
    windows: &RetentionWindowArgs,
    dry_run: bool,
    server: &OperatorConnection,
) -> Result<PurgeResponse, Error> {
    let request = PurgeRequest {
        command_retention_days: Some(windows.commands),
        runtime_stale_minutes: Some(windows.workers),
        event_retention_days: Some(windows.events),
        dry_run,
    };
    server.send(async |client| client.purge_expired(&request).await)
}

fn print_purge(response: &PurgeResponse, output: OutputArgs, io: &mut Io<'_>) -> Result<(), Error> {
    if !output.is_table() {
        return output.print_item(response, io);
    }
    output.print_table(&purge_table(response), io)
}

fn purge_table(response: &PurgeResponse) -> TextTable {
    let note = if response.dry_run { "would be deleted" } else { "deleted" };
    let mut table = TextTable::new([
        TableColumn::new("WHAT"),
        TableColumn::new("COUNT").align_right(),
        TableColumn::new("NOTE").shrinkable(),
    ]);
    let mut row =
        |what: &str, count: u64| table.add_row([what, &count.to_string(), note].map(Into::into));
    row("commands", response.commands_purged);
    row("workers", response.runtime_purged);
    row("months of logs", response.events_purged);
    row("outbox rows", response.outbox_purged);
    for name in &response.event_partitions_dropped {
        table.add_row([&*format!("  {name}"), "-", note].map(Into::into));
    }
    for skipped in &response.skipped {
        let name = format!("  {}", skipped.partition);
        let note = format!("kept: {}", skipped.reason);
        table.add_row([&*name, "-", &*note].map(Into::into));
    }
    table
}
