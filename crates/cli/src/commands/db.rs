//! `noetl db`: status, integrity check, migration and backup of the database.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use noetl_store::{LogDamage, SchemaStatus, Store, StoreError, verify_logs};
use noetl_types::limits::PageLimit;
use noetl_types::{ByteSize, Millis};
use serde::Serialize;

use crate::config::{Config, Database, SettingFlags};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableColumn, TextTable};
use crate::render::text_layout::escape_control;
use crate::roles::{self, OpenResult, StartError, StoreLocation};

/// Inspect, check and back up the database
///
/// These commands can run while a server uses the database. The exception is 'migrate' on a
/// database file: stop its server first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db status
  noetl db check
  noetl db backup noetl-copy.db")]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    Status(DbStatusArgs),
    Migrate(DbMigrateArgs),
    Check(DbCheckArgs),
    Backup(DbBackupArgs),
}

/// Show the schema version, the size and the tables
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db status
  noetl db status --store sqlite:other.db -o json")]
struct DbStatusArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Update the tables to the schema of this release (servers do this at startup)
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db migrate
  noetl db migrate --store sqlite:other.db")]
struct DbMigrateArgs {
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Check the database for damage and modified logs
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db check
  noetl db check --store sqlite:noetl-copy.db")]
struct DbCheckArgs {
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Back up the database to a new file
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db backup noetl-copy.db
  noetl db backup \"noetl-$(date +%F).db\"")]
struct DbBackupArgs {
    /// File to create
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    to: PathBuf,
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Runtime threads of a database command.
const DB_COMMAND_THREADS: usize = 2;

/// Runs the `noetl db` subcommands.
pub(crate) fn run(args: &DbArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let given = match &args.command {
        DbCommand::Status(args) => &args.settings.given,
        DbCommand::Migrate(args) => &args.settings.given,
        DbCommand::Check(args) => &args.settings.given,
        DbCommand::Backup(args) => &args.settings.given,
    };
    let config = Config::load(given, &io.env)?;
    io.print_warnings(&config.warnings)?;
    let location = StoreLocation::from_config(&config)?;
    let runtime = roles::build_tokio_runtime(&config, DB_COMMAND_THREADS)?;
    runtime.block_on(async {
        let name = location.display_name();
        match &args.command {
            DbCommand::Status(args) => match inspect_database(&location).await? {
                InspectedDatabase::Current(store) => {
                    print_database_status(&*store, &name, args.output, io).await
                }
                InspectedDatabase::Outdated(schema) => {
                    print_outdated_status(schema, &name, args.output, io)
                }
            },
            DbCommand::Migrate(_) => {
                print_migrated_schema(&*open_database(&location).await?, &name, io).await
            }
            DbCommand::Check(_) => {
                check_integrity(&*open_current_database(&location).await?, &name, io).await
            }
            DbCommand::Backup(args) => {
                backup_database(&*open_current_database(&location).await?, &args.to, io).await
            }
        }
    })
}

async fn open_database(location: &StoreLocation) -> Result<Arc<dyn Store>, Error> {
    match location.open_store().await? {
        OpenResult::Store(store) => Ok(store),
        OpenResult::InUse(lock_file) => Err(StartError::DatabaseInUse {
            path: location.display_name(),
            waited: Millis::ZERO,
            holder: lock_file.map(|lock_file| format!("the server of process {}", lock_file.pid)),
        }
        .into()),
    }
}

/// Result of inspecting a database. Inspecting never creates a file or a table.
enum InspectedDatabase {
    /// A database that this release can read.
    Current(Arc<dyn Store>),
    /// A database that must be migrated first.
    Outdated(SchemaStatus),
}

/// Opens a database read-only. Other processes may write to it meanwhile.
async fn inspect_database(location: &StoreLocation) -> Result<InspectedDatabase, Error> {
    if location.file_path().is_some_and(|file| !file.exists()) {
        let place = location.display_name();
        return Err(Error::NoDatabase { place });
    }
    match location.schema_version().await? {
        Some(schema) if schema.is_outdated() => Ok(InspectedDatabase::Outdated(schema)),
        Some(_) | None => Ok(InspectedDatabase::Current(location.open_read_only().await?)),
    }
}

/// Opens a database read-only. Fails if its schema is too old.
async fn open_current_database(location: &StoreLocation) -> Result<Arc<dyn Store>, Error> {
    match inspect_database(location).await? {
        InspectedDatabase::Current(store) => Ok(store),
        InspectedDatabase::Outdated(schema) => {
            Err(Error::OutdatedSchema { place: location.display_name(), schema })
        }
    }
}

/// Status of a database, for JSON output.
#[derive(Debug, Serialize)]
struct DatabaseStatus<'d> {
    database: &'d str,
    schema_version: i64,
    #[serde(flatten)]
    details: Option<DatabaseDetails>,
}

/// Details that only a database at the current schema provides.
#[derive(Debug, Serialize)]
struct DatabaseDetails {
    backend: &'static str,
    log_epoch: u64,
    bytes: u64,
    rows: BTreeMap<&'static str, u64>,
}

fn print_outdated_status(
    schema: SchemaStatus,
    name: &str,
    output: OutputArgs,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let SchemaStatus { version, newest } = schema;
    if !output.is_table() {
        let status = DatabaseStatus { database: name, schema_version: version, details: None };
        output.print_item(&status, io)?;
        return Ok(CommandExit::Ok);
    }
    writeln!(io.out, "database {name}")?;
    writeln!(io.out, "schema {version} of {newest}; update it with: noetl db migrate")?;
    Ok(CommandExit::Ok)
}

async fn print_database_status(
    store: &dyn Store,
    name: &str,
    output: OutputArgs,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let stats = store.store_stats().await.map_err(to_store_error)?;
    if !output.is_table() {
        let status = DatabaseStatus {
            database: name,
            schema_version: stats.schema_version,
            details: Some(DatabaseDetails {
                backend: stats.backend,
                log_epoch: stats.log_epoch.get(),
                bytes: stats.bytes,
                rows: stats.rows.into_iter().collect(),
            }),
        };
        output.print_item(&status, io)?;
        return Ok(CommandExit::Ok);
    }
    writeln!(io.out, "{} database {name}", stats.backend)?;
    let size = ByteSize::from_bytes(stats.bytes);
    let (version, epoch) = (stats.schema_version, stats.log_epoch.get());
    writeln!(io.out, "schema {version}, log epoch {epoch}, {size}\n")?;
    let mut table =
        TextTable::new([TableColumn::new("TABLE"), TableColumn::new("ROWS").align_right()]);
    for (name, count) in &stats.rows {
        table.add_row([(*name).into(), count.to_string().into()]);
    }
    output.print_table(&table, io)?;
    Ok(CommandExit::Ok)
}

async fn print_migrated_schema(
    store: &dyn Store,
    name: &str,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    // Opening the store has migrated it.
    let stats = store.store_stats().await.map_err(to_store_error)?;
    writeln!(io.out, "{name} is at schema {}", stats.schema_version)?;
    Ok(CommandExit::Ok)
}

async fn check_integrity(
    store: &dyn Store,
    name: &str,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let mut problems = store.check_integrity().await.map_err(to_store_error)?;
    let mut after = None;
    loop {
        let page = verify_logs(store, after, PageLimit::MAX).await;
        let (damaged, last) = page.map_err(to_store_error)?;
        problems.extend(damaged.iter().map(LogDamage::to_string));
        if last.is_none() {
            break;
        }
        after = last;
    }
    for problem in &problems {
        writeln!(io.out, "{}", escape_control(problem))?;
    }
    if problems.is_empty() {
        writeln!(io.out, "{name} is intact; no log was modified")?;
        return Ok(CommandExit::Ok);
    }
    io.print_message(format_args!("{} problems found in {name}", problems.len()))?;
    Ok(CommandExit::Failed)
}

async fn backup_database(
    store: &dyn Store,
    to: &Path,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    if to.exists() {
        let path = escape_control(&to.to_string_lossy());
        return Err(Error::FileExists { path });
    }
    store.write_backup(to).await.map_err(to_store_error)?;
    writeln!(io.out, "Copied to {}", escape_control(&to.to_string_lossy()))?;
    Ok(CommandExit::Ok)
}

fn to_store_error(source: StoreError) -> Error {
    Error::Store(source)
}
