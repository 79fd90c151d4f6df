//! `noetl retention`: what is old, what may go, and dropping it.

use std::io::Write as _;

use clap::{Args, Subcommand};
use noetl_api::internal::{PurgeAnswer, PurgeRequest};

use super::platform::{Form, agrees, ask, write_json, write_table};
use crate::config::{Flags, Operator};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;

/// Drop what is old
///
/// Logs go by whole months, and only those whose runs have all ended and are published.
#[derive(Debug, Args)]
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
struct PlanArgs {
    #[command(flatten)]
    windows: Windows,
}

/// Show what goes, ask, and drop it
#[derive(Debug, Args)]
struct ApplyArgs {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
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
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t = Form::Table)]
    output: Form,
    #[command(flatten)]
    settings: Flags<Operator>,
}

/// Does what the verb says.
pub(crate) fn run(args: &RetentionArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::Plan(args) => {
            let plan = purge(&args.windows, true, io)?;
            write(&plan, &args.windows, io)?;
        }
        Verb::Apply(args) => {
            let plan = purge(&args.windows, true, io)?;
            if !args.yes {
                write(&plan, &args.windows, io)?;
            }
            if !agrees("Drop this?", args.yes, io)? {
                return Ok(Exit::Failed);
            }
            let done = purge(&args.windows, false, io)?;
            write(&done, &args.windows, io)?;
        }
    }
    Ok(Exit::Ok)
}

fn purge(windows: &Windows, dry_run: bool, io: &mut Io<'_>) -> Result<PurgeAnswer, Error> {
    let request = PurgeRequest {
        command_retention_days: Some(windows.commands),
        runtime_stale_minutes: Some(windows.workers),
        event_retention_days: Some(windows.events),
        dry_run,
    };
    ask(&windows.settings.given, io, async |client| {
        client.purge(&request).await
    })
}

fn write(answer: &PurgeAnswer, windows: &Windows, io: &mut Io<'_>) -> Result<(), Error> {
    if windows.output == Form::Json {
        return write_json(answer, io);
    }
    let did = if answer.dry_run { "would go" } else { "gone" };
    let row = |what: &str, count: String, note: &str| vec![what.to_owned(), count, note.to_owned()];
    let mut rows = vec![
        row("commands", answer.commands_purged.to_string(), did),
        row("workers", answer.runtime_purged.to_string(), did),
        row("months of logs", answer.events_purged.to_string(), did),
    ];
    if !answer.dry_run {
        rows.push(row("outbox rows", answer.outbox_purged.to_string(), did));
    }
    let dropped = answer.event_partitions_dropped.iter();
    rows.extend(dropped.map(|name| row(&format!("  {name}"), "-".to_owned(), did)));
    let skipped = answer.skipped.iter();
    rows.extend(skipped.map(|part| {
        let note = format!("stays: {}", part.reason);
        row(&format!("  {}", part.partition), "-".to_owned(), &note)
    }));
    write_table(&["WHAT", "COUNT", "NOTE"], &rows, io)?;
    if answer.dry_run {
        io.err.flush()?;
    }
    Ok(())
}
