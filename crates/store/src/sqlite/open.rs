//! Opens a file: takes the lock, applies the durability settings, and runs migrations.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use noetl_types::Digest;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::bind::to_store_error;
use super::file_lock;
use super::reader_pool::Readers;
use super::writer::SqliteWriter;
use super::{SqliteOptions, SqliteStore};
use crate::blobs::{BlobFolder, PRIVATE_FILE_MODE};
use crate::error::StoreError;
use crate::migration::{
    AppliedMigrations, OLDEST_COMPATIBLE_VERSION, SQLITE_MIGRATIONS, SchemaStatus,
    pending_migrations,
};

/// Oldest supported SQLite version. Older ones can corrupt a file when they reset the WAL.
const MIN_SQLITE_VERSION: i32 = 3_051_003;

/// Prepared statements that a connection caches.
const MAX_CACHED_STATEMENTS: usize = 64;

/// Pragmas that affect performance only. Temporary data stays in memory. The writer waits for a
/// checkpoint, so one runs only after as many pages as a few large groups write.
const PERFORMANCE_PRAGMAS: [(&str, i64); 2] = [("temp_store", 2), ("wal_autocheckpoint", 4_000)];

/// Page cache sizes per connection, in KiB (SQLite expects KiB as a negative number). A large group
/// fits into the writer's cache. There are several readers, and the operating system caches the
/// file for them.
const WRITER_CACHE_SIZE: i64 = -32_768;
const READER_CACHE_SIZE: i64 = -8_192;

/// Failed check of a file or of the SQLite library before anything is written.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("SQLite {found} is too old: versions before 3.51.3 can corrupt database files")]
    OutdatedLibrary { found: &'static str },
    #[error(
        "the database file lacks migration {before}; migrate it, or open it once with a server of \
         this version"
    )]
    PendingMigration { before: i64 },
    #[error("the setting {setting} is {found}, but must be {wanted}")]
    WrongSetting { setting: &'static str, found: String, wanted: &'static str },
}

pub(super) fn open_store(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
    check_sqlite_version(rusqlite::version_number(), rusqlite::version())
        .map_err(StoreError::fatal)?;
    let lock = file_lock::lock_database_file(&options.path).map_err(StoreError::fatal)?;
    create_private_file(&options.path).map_err(StoreError::fatal)?;
    let mut write_connection =
        open_connection(&options.path, OpenFlags::default(), WRITER_CACHE_SIZE)?;
    apply_durability_settings(&write_connection)?;
    run_migrations(&mut write_connection)?;
    let read_connections = open_readers(options)?;
    Ok(SqliteStore {
        writer: SqliteWriter::spawn_writer(write_connection, options.queue_capacity)?,
        readers: Readers::new_pool(read_connections),
        blobs: options.blob_folder.as_deref().map(BlobFolder::open).transpose()?,
        path: Some(options.path.clone()),
        _lock: Some(lock),
    })
}

/// Creates an empty file that only its owner can access, unless it exists. SQLite gives the files
/// next to a database the mode of the database file. Returns `false` if the file exists.
pub(super) fn create_private_file(path: &Path) -> io::Result<bool> {
    match File::options().write(true).create_new(true).mode(PRIVATE_FILE_MODE).open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => {
            let text = format!("cannot create {}: {error}", path.display());
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// Creates an empty database in memory.
pub(super) fn open_in_memory() -> Result<SqliteStore, StoreError> {
    let mut connection = Connection::open_in_memory().map_err(to_store_error)?;
    configure_connection(&connection, WRITER_CACHE_SIZE)?;
    run_migrations(&mut connection)?;
    let (writer, connection) = SqliteWriter::in_memory(connection);
    Ok(SqliteStore {
        writer,
        readers: Readers::Memory(connection),
        blobs: None,
        path: None,
        _lock: None,
    })
}

/// Opens a file read-only, also while another process writes to it.
pub(super) fn open_read_only(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
    check_sqlite_version(rusqlite::version_number(), rusqlite::version())
        .map_err(StoreError::fatal)?;
    let read_connections = open_readers(options)?;
    if let Some(connection) = read_connections.first() {
        let applied = read_applied_migrations(connection)?;
        let pending = pending_migrations(SQLITE_MIGRATIONS, &applied).map_err(StoreError::fatal)?;
        if let Some(first) = pending.first() {
            let before = first.version;
            return Err(StoreError::fatal(OpenError::PendingMigration { before }));
        }
    }
    Ok(SqliteStore {
        writer: SqliteWriter::read_only(),
        readers: Readers::new_pool(read_connections),
        blobs: options.blob_folder.as_deref().map(BlobFolder::open).transpose()?,
        path: Some(options.path.clone()),
        _lock: None,
    })
}

/// Returns the schema version of a file without changing it.
pub(super) fn read_schema_status(options: &SqliteOptions) -> Result<SchemaStatus, StoreError> {
    let connection = open_reader(&options.path)?;
    SchemaStatus::from_applied(SQLITE_MIGRATIONS, &read_applied_migrations(&connection)?)
        .map_err(StoreError::fatal)
}

fn open_readers(options: &SqliteOptions) -> Result<Vec<Connection>, StoreError> {
    (0..options.reader_count.max(1)).map(|_| open_reader(&options.path)).collect()
}

fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open_connection(path, flags, READER_CACHE_SIZE)
}

fn check_sqlite_version(number: i32, found: &'static str) -> Result<(), OpenError> {
    if number < MIN_SQLITE_VERSION {
        return Err(OpenError::OutdatedLibrary { found });
    }
    Ok(())
}

fn open_connection(path: &Path, flags: OpenFlags, cache: i64) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags).map_err(to_store_error)?;
    configure_connection(&connection, cache)?;
    Ok(connection)
}

fn configure_connection(connection: &Connection, cache: i64) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(MAX_CACHED_STATEMENTS);
    // Without QPSG, plans that depend on bound values are recomputed each time a statement leaves
    // the cache. That costs more than most statements take to run.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(to_store_error)?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(to_store_error)?;
    for (setting, value) in PERFORMANCE_PRAGMAS.into_iter().chain([("cache_size", cache)]) {
        connection.pragma_update(None, setting, value).map_err(to_store_error)?;
    }
    Ok(())
}

/// Applies the settings that durability depends on, and reads them back: some file systems ignore
/// them.
fn apply_durability_settings(connection: &Connection) -> Result<(), StoreError> {
    for (setting, wanted, reported) in
        [("journal_mode", "WAL", "wal"), ("synchronous", "FULL", "2"), ("foreign_keys", "OFF", "0")]
    {
        connection.pragma_update(None, setting, wanted).map_err(to_store_error)?;
        check_setting(connection, setting, wanted, reported)?;
    }
    Ok(())
}

fn check_setting(
    connection: &Connection,
    setting: &'static str,
    wanted: &'static str,
    reported: &str,
) -> Result<(), StoreError> {
    let found: String = connection
        .pragma_query_value(None, setting, |row| {
            let value: rusqlite::types::Value = row.get(0)?;
            Ok(match value {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => format!("{other:?}"),
            })
        })
        .map_err(to_store_error)?;
    if found == reported {
        return Ok(());
    }
    Err(StoreError::fatal(OpenError::WrongSetting { setting, found, wanted }))
}

fn run_migrations(connection: &mut Connection) -> Result<(), StoreError> {
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS schema_migration (
                version INTEGER NOT NULL PRIMARY KEY,
                name TEXT NOT NULL,
                sha256 TEXT NOT NULL
            ) STRICT",
        )
        .map_err(to_store_error)?;
    let applied = read_applied_migrations(connection)?;
    for migration in pending_migrations(SQLITE_MIGRATIONS, &applied).map_err(StoreError::fatal)? {
        let transaction = connection.transaction().map_err(to_store_error)?;
        transaction.execute_batch(migration.sql).map_err(to_store_error)?;
        transaction
            .execute(
                "INSERT INTO schema_migration (version, name, sha256) VALUES (?1, ?2, ?3)",
                params![migration.version, migration.name, migration.checksum().to_string()],
            )
            .map_err(to_store_error)?;
        if has_table(&transaction, "meta")? {
            let recorded = transaction.execute(RECORD_OLDEST_VERSION, [OLDEST_COMPATIBLE_VERSION]);
            recorded.map_err(to_store_error)?;
        }
        transaction.commit().map_err(to_store_error)?;
    }
    Ok(())
}

const RECORD_OLDEST_VERSION: &str = "INSERT INTO meta (key, value)
    VALUES ('oldest_program', CAST(?1 AS TEXT))
    ON CONFLICT (key) DO UPDATE
    SET value = CAST(max(CAST(value AS INTEGER), ?1) AS TEXT)";

fn has_table(connection: &Connection, table: &str) -> Result<bool, StoreError> {
    connection.table_exists(None, table).map_err(to_store_error)
}

fn read_applied_migrations(connection: &Connection) -> Result<AppliedMigrations, StoreError> {
    if !has_table(connection, "schema_migration")? {
        return Ok(AppliedMigrations::default());
    }
    let oldest_program = if has_table(connection, "meta")? {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'oldest_program'";
        let version = connection.query_row(sql, [], |row| row.get(0)).optional();
        version.map_err(to_store_error)?
    } else {
        None
    };
    let mut statement = connection
        .prepare("SELECT version, sha256 FROM schema_migration ORDER BY version")
        .map_err(to_store_error)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .map_err(to_store_error)?;
    let migrations = rows.map(|row| {
        let (version, checksum) = row.map_err(to_store_error)?;
        let checksum = Digest::parse(&checksum).map_err(StoreError::fatal)?;
        Ok((version, checksum))
    });
    Ok(AppliedMigrations {
        migrations: migrations.collect::<Result<_, StoreError>>()?,
        oldest_program,
    })
}

#[cfg(test)]
mod tests;
