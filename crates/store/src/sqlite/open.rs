//! Opening a file: the lock, the settings that promises rest on, the migrations.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use noetl_types::Digest;
use rusqlite::{Connection, OpenFlags, params};

use super::bind::failure;
use super::readers::Readers;
use super::writer::Writer;
use super::{SqliteOptions, SqliteStore};
use crate::error::StoreError;
use crate::migration::{Migration, pending};

static MIGRATIONS: [Migration; 1] = [Migration {
    version: 1,
    name: "tables",
    sql: include_str!("migrations/0001_tables.sql"),
}];

/// Older libraries can damage a file when a WAL is reset.
const OLDEST_LIBRARY: i32 = 3_051_003;

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;

/// What must be true of a file or its library before anything is written.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("SQLite {found} is too old: 3.51.3 is the oldest without known damage to files")]
    OldLibrary { found: &'static str },
    #[error("another process writes to {path}")]
    InUse { path: PathBuf },
    #[error("{path} cannot be opened")]
    Lock {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the setting {setting} is {found}, and has to be {wanted}")]
    Setting {
        setting: &'static str,
        found: String,
        wanted: &'static str,
    },
}

pub(super) fn open(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
    if rusqlite::version_number() < OLDEST_LIBRARY {
        return Err(StoreError::fatal(OpenError::OldLibrary {
            found: rusqlite::version(),
        }));
    }
    let lock = lock(&options.path).map_err(StoreError::fatal)?;
    let mut writing = connect(&options.path, OpenFlags::default())?;
    set_up(&writing)?;
    migrate(&mut writing)?;
    let mut reading = Vec::new();
    for _ in 0..options.readers.max(1) {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        reading.push(connect(&options.path, flags)?);
    }
    Ok(SqliteStore {
        writer: Writer::start(writing, options.queue)?,
        readers: Arc::new(Readers::new(reading)),
        _lock: lock,
    })
}

/// A file beside the database is locked, since SQLite's own locks are only held while it works.
fn lock(database: &Path) -> Result<File, OpenError> {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| OpenError::Lock {
            path: path.clone(),
            source,
        })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: database.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(OpenError::Lock { path, source }),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags).map_err(failure)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(failure)?;
    Ok(connection)
}

/// Sets what durability rests on, and reads it back: a file on an odd system may refuse.
fn set_up(connection: &Connection) -> Result<(), StoreError> {
    for (setting, wanted, shown) in [
        ("journal_mode", "WAL", "wal"),
        ("synchronous", "FULL", "2"),
        ("foreign_keys", "OFF", "0"),
    ] {
        connection
            .pragma_update(None, setting, wanted)
            .map_err(failure)?;
        let found: String = connection
            .pragma_query_value(None, setting, |row| {
                let value: rusqlite::types::Value = row.get(0)?;
                Ok(match value {
                    rusqlite::types::Value::Integer(number) => number.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    other => format!("{other:?}"),
                })
            })
            .map_err(failure)?;
        if found != shown {
            return Err(StoreError::fatal(OpenError::Setting {
                setting,
                found,
                wanted,
            }));
        }
    }
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS schema_migration (
                version INTEGER NOT NULL PRIMARY KEY,
                name TEXT NOT NULL,
                sha256 TEXT NOT NULL
            ) STRICT",
        )
        .map_err(failure)?;
    let applied = applied(connection)?;
    for migration in pending(&MIGRATIONS, &applied).map_err(StoreError::fatal)? {
        let transaction = connection.transaction().map_err(failure)?;
        transaction.execute_batch(migration.sql).map_err(failure)?;
        transaction
            .execute(
                "INSERT INTO schema_migration (version, name, sha256) VALUES (?1, ?2, ?3)",
                params![
                    migration.version,
                    migration.name,
                    migration.checksum().to_string()
                ],
            )
            .map_err(failure)?;
        transaction.commit().map_err(failure)?;
    }
    Ok(())
}

fn applied(connection: &Connection) -> Result<Vec<(i64, Digest)>, StoreError> {
    let mut statement = connection
        .prepare("SELECT version, sha256 FROM schema_migration ORDER BY version")
        .map_err(failure)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .map_err(failure)?;
    rows.map(|row| {
        let (version, checksum) = row.map_err(failure)?;
        let checksum = Digest::parse(&checksum).map_err(StoreError::fatal)?;
        Ok((version, checksum))
    })
    .collect()
}
