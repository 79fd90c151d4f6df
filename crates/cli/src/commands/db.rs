//! `noetl db`: the database itself: how it stands, whether it is whole, a copy of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use noetl_store::{LogDamage, Schema, Store, StoreError, verify_logs};
use noetl_types::limits::PageLimit;
use noetl_types::{ByteSize, Millis};
use serde::Serialize;

use crate::config::{Config, Database, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Column, Output, Table};
use crate::render::words::visible;
use crate::roles::{self, Opened, Place, StartError};

/// Look at the database, check it, copy it
///
/// A server may have a database file meanwhile; only to migrate it, stop its server first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db status
  noetl db check
  noetl db backup noetl-copy.db")]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Status(StatusArgs),
    Migrate(MigrateArgs),
    Check(CheckArgs),
    Backup(BackupArgs),
}

/// Show the version, the size and the tables
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db status
  noetl db status --store sqlite:other.db -o json")]
struct StatusArgs {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: Flags<Database>,
}

/// Bring the tables up to date; a server does so too when it starts
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db migrate
  noetl db migrate --store sqlite:other.db")]
struct MigrateArgs {
    #[command(flatten)]
    settings: Flags<Database>,
}

/// Check that nothing is damaged and that no log was edited
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db check
  noetl db check --store sqlite:noetl-copy.db")]
struct CheckArgs {
    #[command(flatten)]
    settings: Flags<Database>,
}

/// Copy the database to a file that is not there yet
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db backup noetl-copy.db
  noetl db backup \"noetl-$(date +%F).db\"")]
struct BackupArgs {
    /// The copy
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    to: PathBuf,
    #[command(flatten)]
    settings: Flags<Database>,
}

/// Threads of a command on a database.
const THREADS: usize = 2;

/// Does what the verb says.
pub(crate) fn run(args: &DbArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let given = match &args.verb {
        Verb::Status(args) => &args.settings.given,
        Verb::Migrate(args) => &args.settings.given,
        Verb::Check(args) => &args.settings.given,
        Verb::Backup(args) => &args.settings.given,
    };
    let config = Config::load(given, &io.env)?;
    io.warn(&config.warnings)?;
    let place = Place::of(&config)?;
    let threads = roles::threads(&config, THREADS)?;
    threads.block_on(async {
        let shown = place.shown();
        match &args.verb {
            Verb::Status(args) => match found(&place).await? {
                Found::Current(store) => status(&*store, &shown, args.output, io).await,
                Found::Old(schema) => old_status(schema, &shown, args.output, io),
            },
            Verb::Migrate(_) => migrated(&*open(&place).await?, &shown, io).await,
            Verb::Check(_) => check(&*current(&place).await?, &shown, io).await,
            Verb::Backup(args) => backup(&*current(&place).await?, &args.to, io).await,
        }
    })
}

async fn open(place: &Place) -> Result<Arc<dyn Store>, Error> {
    match place.open().await? {
        Opened::Store(store) => Ok(store),
        Opened::Held(beacon) => Err(StartError::InUse {
            path: place.shown(),
            waited: Millis::ZERO,
            holder: beacon.map(|beacon| format!("the server of process {}", beacon.pid)),
        }
        .into()),
    }
}

/// What is there. To look changes nothing: no file is made, and no table.
enum Found {
    /// A database that this program can read.
    Current(Arc<dyn Store>),
    /// One that has to be migrated first.
    Old(Schema),
}

/// Looks at a place, beside whoever writes to it.
async fn found(place: &Place) -> Result<Found, Error> {
    if place.file().is_some_and(|file| !file.exists()) {
        let place = place.shown();
        return Err(Error::NoDatabase { place });
    }
    match place.schema().await? {
        Some(schema) if schema.is_old() => Ok(Found::Old(schema)),
        Some(_) | None => Ok(Found::Current(place.open_to_read().await?)),
    }
}

/// What is there, unless it is too old to be read.
async fn current(place: &Place) -> Result<Arc<dyn Store>, Error> {
    match found(place).await? {
        Found::Current(store) => Ok(store),
        Found::Old(schema) => Err(Error::OldSchema {
            place: place.shown(),
            schema,
        }),
    }
}

/// How a database stands, for programs.
#[derive(Debug, Serialize)]
struct Standing<'d> {
    database: &'d str,
    schema_version: i64,
    #[serde(flatten)]
    more: Option<More>,
}

/// What only a database at the schema of this program tells.
#[derive(Debug, Serialize)]
struct More {
    backend: &'static str,
    log_epoch: u64,
    bytes: u64,
    rows: BTreeMap<&'static str, u64>,
}

fn old_status(schema: Schema, place: &str, output: Output, io: &mut Io<'_>) -> Result<Exit, Error> {
    let Schema { version, newest } = schema;
    if !output.is_table() {
        let standing = Standing {
            database: place,
            schema_version: version,
            more: None,
        };
        output.thing(&standing, io)?;
        return Ok(Exit::Ok);
    }
    writeln!(io.out, "database {place}")?;
    writeln!(
        io.out,
        "schema {version} of {newest}: 'noetl db migrate' brings it up to date"
    )?;
    Ok(Exit::Ok)
}

async fn status(
    store: &dyn Store,
    place: &str,
    output: Output,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    let facts = store.facts().await.map_err(failed)?;
    if !output.is_table() {
        let standing = Standing {
            database: place,
            schema_version: facts.schema_version,
            more: Some(More {
                backend: facts.backend,
                log_epoch: facts.log_epoch.get(),
                bytes: facts.bytes,
                rows: facts.rows.into_iter().collect(),
            }),
        };
        output.thing(&standing, io)?;
        return Ok(Exit::Ok);
    }
    writeln!(io.out, "{} database {place}", facts.backend)?;
    let size = ByteSize::from_bytes(facts.bytes);
    let (version, epoch) = (facts.schema_version, facts.log_epoch.get());
    writeln!(
        io.out,
        "schema {version}, life {epoch} of the log, {size}\n"
    )?;
    let mut table = Table::new([Column::new("TABLE"), Column::new("ROWS").right()]);
    for (name, count) in &facts.rows {
        table.row([(*name).into(), count.to_string().into()]);
    }
    output.table(&table, io)?;
    Ok(Exit::Ok)
}

async fn migrated(store: &dyn Store, place: &str, io: &mut Io<'_>) -> Result<Exit, Error> {
    // Opening it has done it.
    let facts = store.facts().await.map_err(failed)?;
    writeln!(io.out, "{place} is at schema {}", facts.schema_version)?;
    Ok(Exit::Ok)
}

async fn check(store: &dyn Store, place: &str, io: &mut Io<'_>) -> Result<Exit, Error> {
    let mut faults = store.integrity().await.map_err(failed)?;
    let mut after = None;
    loop {
        let page = verify_logs(store, after, PageLimit::MAX).await;
        let (damaged, last) = page.map_err(failed)?;
        faults.extend(damaged.iter().map(LogDamage::to_string));
        if last.is_none() {
            break;
        }
        after = last;
    }
    for fault in &faults {
        writeln!(io.out, "{}", visible(fault))?;
    }
    if faults.is_empty() {
        writeln!(io.out, "{place} is whole: every log is as it was written")?;
        return Ok(Exit::Ok);
    }
    io.talk(format_args!("{} faults in {place}", faults.len()))?;
    Ok(Exit::Failed)
}

async fn backup(store: &dyn Store, to: &Path, io: &mut Io<'_>) -> Result<Exit, Error> {
    if to.exists() {
        let path = visible(&to.to_string_lossy());
        return Err(Error::InTheWay { path });
    }
    store.backup(to).await.map_err(failed)?;
    writeln!(io.out, "Copied to {}", visible(&to.to_string_lossy()))?;
    Ok(Exit::Ok)
}

fn failed(source: StoreError) -> Error {
    Error::Store(source)
}
