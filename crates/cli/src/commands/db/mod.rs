//! `noetl db`: status, integrity check, migration and backup of the database.

mod check;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use noetl_server::anchors::SealedAnchor;
use noetl_store::{SchemaStatus, Store};
use noetl_types::{ByteSize, ExecutionId};
use serde::Serialize;

use crate::config::{Config, Database, SettingFlags};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TextTable};
use crate::render::text_layout::escape_control;
use crate::roles::{self, ServerLockFile, StoreLocation};

/// Inspect, check and back up the database
///
/// These commands can run while a server uses the database. The exception is 'migrate' on a
/// database file: stop its server first.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  noetl db status
  noetl db check
  noetl db backup noetl-copy.db")]
pub(crate) enum DbCommand {
    Status(DbStatusArgs),
    /// Update the tables to the schema of this release (servers do this at startup)
    #[command(after_long_help = "\
Examples:
  noetl db migrate
  noetl db migrate --store sqlite:other.db")]
    Migrate(SettingFlags<Database>),
    Check(DbCheckArgs),
    /// Print the head of the chain of anchors, to be kept outside of the database
    ///
    /// A later 'noetl db check --anchor HEAD' finds logs that were changed, cut off or removed
    /// after they were anchored, even by someone who can change the whole database.
    #[command(after_long_help = "\
Examples:
  noetl db anchor
  noetl db anchor >> /mnt/write-once/noetl-heads")]
    Anchor(SettingFlags<Database>),
    Backup(DbBackupArgs),
}

/// Show the schema version, the size and the tables
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db status
  noetl db status --store sqlite:other.db -o json")]
pub(crate) struct DbStatusArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Back up the database to a new file
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db backup noetl-copy.db
  noetl db backup \"noetl-$(date +%F).db\"")]
pub(crate) struct DbBackupArgs {
    /// File to create
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    to: PathBuf,
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Check the database for damage and tampering
///
/// Checks the hash chain of every run, and compares every row that is derived from a log with that
/// log. A server may use the database meanwhile. Exits with 0 if nothing was found, and with 1 if
/// something was found.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl db check
  noetl db check --run 381498273941553152
  noetl db check --anchor /mnt/write-once/noetl-anchors
  noetl db check --store sqlite:noetl-copy.db -o json")]
pub(crate) struct DbCheckArgs {
    /// Check only this run
    #[arg(long, value_name = "ID", conflicts_with = "anchor")]
    run: Option<ExecutionId>,
    /// What is kept outside of the database: an anchor file, or a head of 'noetl db anchor'
    #[arg(long, value_name = "FILE|HEAD", value_hint = ValueHint::FilePath)]
    anchor: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    settings: SettingFlags<Database>,
}

/// Runtime threads of a database command.
const DB_COMMAND_THREADS: usize = 2;

/// Runs the `noetl db` subcommands.
pub(crate) fn run(command: &DbCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    let settings = match command {
        DbCommand::Status(args) => &args.settings,
        DbCommand::Migrate(settings) | DbCommand::Anchor(settings) => settings,
        DbCommand::Check(args) => &args.settings,
        DbCommand::Backup(args) => &args.settings,
    };
    let config = Config::load(&settings.given, &io.env)?;
    io.print_warnings(&config.warnings)?;
    let location = StoreLocation::from_config(&config)?;
    let runtime = roles::build_tokio_runtime(&config, DB_COMMAND_THREADS)?;
    runtime.block_on(async {
        let name = location.display_name();
        match command {
            DbCommand::Status(args) => match inspect_database(&location).await? {
                InspectedDatabase::Current(store) => {
                    print_database_status(&*store, &name, args.output, io).await
                }
                InspectedDatabase::Outdated(schema) => {
                    print_outdated_status(schema, &name, args.output, io)
                }
            },
            DbCommand::Migrate(_) => {
                let describe_holder = |lock_file: Option<ServerLockFile>| {
                    lock_file.map(|lock_file| format!("the server of process {}", lock_file.pid))
                };
                // Opening the store migrates it.
                let store = location.open_exclusive_store(describe_holder).await?;
                let version = store.store_stats().await?.schema_version;
                writeln!(io.out, "{name} is at schema {version}")?;
                Ok(CommandExit::Ok)
            }
            DbCommand::Check(args) => {
                let store = open_current_database(&location).await?;
                let runtime =
                    roles::open_verifying_runtime(Arc::clone(&store), &location, &config)?;
                check::check_database(&*store, &runtime, args, &name, io).await
            }
            DbCommand::Anchor(_) => {
                print_anchor_head(&*open_current_database(&location).await?, &name, io).await
            }
            DbCommand::Backup(args) => {
                backup_database(&*open_current_database(&location).await?, &args.to, io).await
            }
        }
    })
}

/// Result of inspecting a database. Inspecting never creates a file or a table.
enum InspectedDatabase {
    /// A database that this release can read.
    Current(Arc<dyn Store>),
    /// A database that must be migrated first.
    Outdated(SchemaStatus),
}

/// Opens a database read-only. Other processes may write to it meanwhile.
async fn inspect_database(location: &StoreLocation) -> Result<InspectedDatabase> {
    if location.file_path().is_some_and(|file| !file.exists()) {
        let message = format!("there is no database at {}", location.display_name());
        return Err(Error::not_found(message).with_help(
            "the first 'noetl run' or 'noetl dev' creates it; choose another with --store sqlite:PATH",
        ));
    }
    match location.schema_version().await? {
        Some(schema) if schema.is_outdated() => Ok(InspectedDatabase::Outdated(schema)),
        Some(_) | None => Ok(InspectedDatabase::Current(location.open_read_only().await?)),
    }
}

/// Opens a database read-only. Fails if its schema is too old.
async fn open_current_database(location: &StoreLocation) -> Result<Arc<dyn Store>> {
    match inspect_database(location).await? {
        InspectedDatabase::Current(store) => Ok(store),
        InspectedDatabase::Outdated(SchemaStatus { version, newest }) => {
            let place = location.display_name();
            Err(Error::failed(format!("{place} is at schema {version} of {newest}"))
                .with_help("update it with 'noetl db migrate', or start a server of this version"))
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
) -> Result<CommandExit> {
    let SchemaStatus { version, newest } = schema;
    if !output.is_table() {
        let status = DatabaseStatus { database: name, schema_version: version, details: None };
        return output.print_item(&status, io);
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
) -> Result<CommandExit> {
    let stats = store.store_stats().await?;
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
        return output.print_item(&status, io);
    }
    writeln!(io.out, "{} database {name}", stats.backend)?;
    let size = ByteSize::from_bytes(stats.bytes);
    let (version, epoch) = (stats.schema_version, stats.log_epoch.get());
    writeln!(io.out, "schema {version}, log epoch {epoch}, {size}\n")?;
    let rows: Vec<_> = stats.rows.iter().collect();
    let table = TextTable::new(&rows).column("TABLE", |row| row.0).right("ROWS", |row| row.1);
    output.print_table(&table, io)
}

async fn print_anchor_head(store: &dyn Store, name: &str, io: &mut Io<'_>) -> Result<CommandExit> {
    let newest = store.newest_anchor().await?;
    let newest = newest.as_ref().and_then(SealedAnchor::from_row).ok_or_else(|| {
        Error::not_found(format!("there is no anchor in {name}"))
            .with_help("a server writes anchors every NOETL_ANCHOR_SECS seconds")
    })?;
    writeln!(io.out, "{}", newest.anchor.head())?;
    io.print_note(format_args!("all logs are anchored up to {}", newest.anchor.time))?;
    Ok(CommandExit::Ok)
}

async fn backup_database(store: &dyn Store, to: &Path, io: &mut Io<'_>) -> Result<CommandExit> {
    let path = escape_control(&to.to_string_lossy());
    if to.exists() {
        return Err(Error::conflict(format!("'{path}' already exists"))
            .with_help("choose another file, or remove the existing one"));
    }
    store.write_backup(to).await?;
    writeln!(io.out, "Copied to {path}")?;
    Ok(CommandExit::Ok)
}
