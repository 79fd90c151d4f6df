//! `noetl retention`: what is old, what may go, and dropping it.

use clap::{Args, Subcommand};
use noetl_api::internal::{PurgeAnswer, PurgeRequest};

use super::platform::Operated;
use crate::ask::{Consent, agreed};
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Column, Output, Table};

/// Drop what is old
///
/// Logs go by whole months, and only those whose runs have all ended and are published.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention plan --events 90     what would go, and what would stay
  noetl retention apply --events 90    show it, ask, and drop it")]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Plan(PlanArgs),
    Apply(ApplyArgs),
}

/// Show what would go, and what would stay and why; touches nothing
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention plan
  noetl retention plan --events 90 --commands 30
  noetl retention plan --events 90 -o json | jq .skipped")]
struct PlanArgs {
    #[command(flatten)]
    windows: Windows,
}

/// Show what goes, ask, and drop it
///
/// Without a terminal, --yes is needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl retention apply --events 90
  noetl retention apply --events 90 --profile staging --yes")]
struct ApplyArgs {
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    windows: Windows,
}

#[derive(Debug, Args)]
struct Windows {
    /// Drop logs of runs that are older than this many days; 0 keeps them all
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    events: i64,
    /// Drop commands that ended more than this many days ago; 0 keeps them all
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    commands: i64,
    /// Forget workers that were silent for this many minutes; 0 keeps them all
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    workers: i64,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// Does what the verb says.
pub(crate) fn run(args: &RetentionArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Plan(args) => {
            let at = Operated::find(&args.windows.settings.given, io)?;
            let plan = purge(&args.windows, true, &at)?;
            write(&plan, args.windows.output, io)?;
        }
        Verb::Apply(args) => {
            let at = Operated::find(&args.windows.settings.given, io)?;
            if !args.consent.yes {
                let plan = purge(&args.windows, true, &at)?;
                let text = table(&plan).render(false, true, &io.err);
                io.talk(text.trim_end())?;
            }
            let question = format!("Drop this at {}?", at.url());
            if !agreed(args.consent, &question, "yes", io)? {
                return Ok(Exit::Failed);
            }
            let done = purge(&args.windows, false, &at)?;
            write(&done, args.windows.output, io)?;
        }
    }
    Ok(Exit::Ok)
}

fn purge(windows: &Windows, dry_run: bool, at: &Operated) -> Result<PurgeAnswer, Error> {
    let request = PurgeRequest {
        command_retention_days: Some(windows.commands),
        runtime_stale_minutes: Some(windows.workers),
        event_retention_days: Some(windows.events),
        dry_run,
    };
    at.ask(async |client| client.purge(&request).await)
}

fn write(answer: &PurgeAnswer, output: Output, io: &mut Io<'_>) -> Result<(), Error> {
    if !output.is_table() {
        return output.thing(answer, io);
    }
    output.table(&table(answer), io)
}

fn table(answer: &PurgeAnswer) -> Table {
    let did = if answer.dry_run { "would go" } else { "gone" };
    let mut table = Table::new([
        Column::new("WHAT"),
        Column::new("COUNT").right(),
        Column::new("NOTE").gives_way(),
    ]);
    let mut row =
        |what: &str, count: u64| table.row([what, &count.to_string(), did].map(Into::into));
    row("commands", answer.commands_purged);
    row("workers", answer.runtime_purged);
    row("months of logs", answer.events_purged);
    row("outbox rows", answer.outbox_purged);
    for name in &answer.event_partitions_dropped {
        table.row([&*format!("  {name}"), "-", did].map(Into::into));
    }
    for part in &answer.skipped {
        let (name, note) = (
            format!("  {}", part.partition),
            format!("stays: {}", part.reason),
        );
        table.row([&*name, "-", &*note].map(Into::into));
    }
    table
}
