//! Opening a file: the lock, the settings that promises rest on, the migrations.

use std::path::Path;
use std::sync::Arc;

use noetl_types::Digest;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::bind::failure;
use super::place;
use super::readers::Readers;
use super::writer::Writer;
use super::{SqliteOptions, SqliteStore};
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::migration::{Applied, Migration, OLDEST_PROGRAM, Schema, pending};

pub(crate) static MIGRATIONS: [Migration; 11] = [
    Migration {
        version: 1,
        name: "tables",
        sql: include_str!("migrations/0001_tables.sql"),
    },
    Migration {
        version: 2,
        name: "results",
        sql: include_str!("migrations/0002_results.sql"),
    },
    Migration {
        version: 3,
        name: "commons",
        sql: include_str!("migrations/0003_commons.sql"),
    },
    Migration {
        version: 4,
        name: "outlets",
        sql: include_str!("migrations/0004_outlets.sql"),
    },
    Migration {
        version: 5,
        name: "vault",
        sql: include_str!("migrations/0005_vault.sql"),
    },
    Migration {
        version: 6,
        name: "credentials",
        sql: include_str!("migrations/0006_credentials.sql"),
    },
    Migration {
        version: 7,
        name: "outbox_bytes",
        sql: include_str!("migrations/0007_outbox_bytes.sql"),
    },
    Migration {
        version: 8,
        name: "keychain",
        sql: include_str!("migrations/0008_keychain.sql"),
    },
    Migration {
        version: 9,
        name: "secret_acts",
        sql: include_str!("migrations/0009_secret_acts.sql"),
    },
    Migration {
        version: 10,
        name: "outbox_unpublished",
        sql: include_str!("migrations/0010_outbox_unpublished.sql"),
    },
    Migration {
        version: 11,
        name: "purge",
        sql: include_str!("migrations/0011_purge.sql"),
    },
];

/// Older libraries can damage a file when a WAL is reset.
const OLDEST_LIBRARY: i32 = 3_051_003;

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;

/// Settings that change how fast a connection is, and nothing else: no files for what is temporary, and
/// a checkpoint, which the writer waits for, only after as many pages as a few large groups have.
const TUNING: [(&str, i64); 2] = [("temp_store", 2), ("wal_autocheckpoint", 4_000)];

/// What a connection keeps of the file in memory, in KiB, hence negative. A large group fits into that
/// of the writer. Readers are several, and read what the system keeps of the file anyway.
const WRITER_CACHE: i64 = -32_768;
const READER_CACHE: i64 = -8_192;

/// What must be true of a file or its library before anything is written.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("SQLite {found} is too old: 3.51.3 is the oldest without known damage to files")]
    OldLibrary { found: &'static str },
    #[error(
        "the file is from before migration {before}; migrate it, or open it once with a server of \
         this version"
    )]
    OldFile { before: i64 },
    #[error("the setting {setting} is {found}, and has to be {wanted}")]
    Setting {
        setting: &'static str,
        found: String,
        wanted: &'static str,
    },
}

pub(super) fn open(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
    check_library(rusqlite::version_number(), rusqlite::version()).map_err(StoreError::fatal)?;
    let lock = place::take(&options.path).map_err(StoreError::fatal)?;
    let mut writing = connect(&options.path, OpenFlags::default(), WRITER_CACHE)?;
    set_up(&writing)?;
    migrate(&mut writing)?;
    let reading = readers(options)?;
    Ok(SqliteStore {
        writer: Writer::start(writing, options.queue)?,
        readers: Arc::new(Readers::new(reading)),
        blobs: options.blobs.as_deref().map(Blobs::open).transpose()?,
        path: options.path.clone(),
        _lock: Some(lock),
    })
}

/// Opens a file to read it, whoever writes it meanwhile.
pub(super) fn open_to_read(options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
    check_library(rusqlite::version_number(), rusqlite::version()).map_err(StoreError::fatal)?;
    let reading = readers(options)?;
    if let Some(connection) = reading.first() {
        let applied = applied(connection)?;
        let missing = pending(&MIGRATIONS, &applied).map_err(StoreError::fatal)?;
        if let Some(first) = missing.first() {
            let before = first.version;
            return Err(StoreError::fatal(OpenError::OldFile { before }));
        }
    }
    Ok(SqliteStore {
        writer: Writer::none(),
        readers: Arc::new(Readers::new(reading)),
        blobs: options.blobs.as_deref().map(Blobs::open).transpose()?,
        path: options.path.clone(),
        _lock: None,
    })
}

/// How far the tables of a file are, which is not changed.
pub(super) fn schema(options: &SqliteOptions) -> Result<Schema, StoreError> {
    let connection = reader(&options.path)?;
    Schema::of(&MIGRATIONS, &applied(&connection)?).map_err(StoreError::fatal)
}

fn readers(options: &SqliteOptions) -> Result<Vec<Connection>, StoreError> {
    (0..options.readers.max(1))
        .map(|_| reader(&options.path))
        .collect()
}

fn reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(path, flags, READER_CACHE)
}

fn check_library(number: i32, found: &'static str) -> Result<(), OpenError> {
    if number < OLDEST_LIBRARY {
        return Err(OpenError::OldLibrary { found });
    }
    Ok(())
}

fn connect(path: &Path, flags: OpenFlags, cache: i64) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags).map_err(failure)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans that depend on what is bound are made anew each time that a statement comes out of the
    // cache, which costs more than most of them run.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failure)?;
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(failure)?;
    for (setting, value) in TUNING.into_iter().chain([("cache_size", cache)]) {
        connection
            .pragma_update(None, setting, value)
            .map_err(failure)?;
    }
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
        check_setting(connection, setting, wanted, shown)?;
    }
    Ok(())
}

fn check_setting(
    connection: &Connection,
    setting: &'static str,
    wanted: &'static str,
    shown: &str,
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
        .map_err(failure)?;
    if found == shown {
        return Ok(());
    }
    Err(StoreError::fatal(OpenError::Setting {
        setting,
        found,
        wanted,
    }))
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
        if has_table(&transaction, "meta")? {
            let said = transaction.execute(SAY_OLDEST_PROGRAM, [OLDEST_PROGRAM]);
            said.map_err(failure)?;
        }
        transaction.commit().map_err(failure)?;
    }
    Ok(())
}

const SAY_OLDEST_PROGRAM: &str = "INSERT INTO meta (key, value)
    VALUES ('oldest_program', CAST(?1 AS TEXT))
    ON CONFLICT (key) DO UPDATE
    SET value = CAST(max(CAST(value AS INTEGER), ?1) AS TEXT)";

fn has_table(connection: &Connection, table: &str) -> Result<bool, StoreError> {
    connection.table_exists(None, table).map_err(failure)
}

fn applied(connection: &Connection) -> Result<Applied, StoreError> {
    if !has_table(connection, "schema_migration")? {
        return Ok(Applied::default());
    }
    let oldest_program = if has_table(connection, "meta")? {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'oldest_program'";
        let said = connection.query_row(sql, [], |row| row.get(0)).optional();
        said.map_err(failure)?
    } else {
        None
    };
    let mut statement = connection
        .prepare("SELECT version, sha256 FROM schema_migration ORDER BY version")
        .map_err(failure)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
        .map_err(failure)?;
    let migrations = rows.map(|row| {
        let (version, checksum) = row.map_err(failure)?;
        let checksum = Digest::parse(&checksum).map_err(StoreError::fatal)?;
        Ok((version, checksum))
    });
    Ok(Applied {
        migrations: migrations.collect::<Result<_, StoreError>>()?,
        oldest_program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hole I7.
    #[test]
    fn an_old_library_is_refused() {
        let refused = check_library(3_051_002, "3.51.2").unwrap_err();
        assert!(refused.to_string().starts_with("SQLite 3.51.2 is too old"));
        check_library(OLDEST_LIBRARY, "3.51.3").unwrap();
    }

    /// A database in memory has no write-ahead log, whatever it is asked for.
    #[test]
    fn a_file_that_does_not_take_the_settings_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        let refused = set_up(&connection).unwrap_err();
        let StoreError::Fatal { cause } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            cause.to_string(),
            "the setting journal_mode is memory, and has to be WAL"
        );
    }

    /// Hole I6.
    #[test]
    fn a_setting_that_does_not_sync_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .unwrap();
        let refused = check_setting(&connection, "synchronous", "FULL", "2");
        let Err(StoreError::Fatal { cause }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            cause.to_string(),
            "the setting synchronous is 1, and has to be FULL"
        );
    }
}
