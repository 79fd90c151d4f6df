//! Location of the store, as configured, and opening it.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use etcetera::base_strategy::{BaseStrategy as _, choose_base_strategy};
use noetl_server::{Clock as _, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{PostgresStore, SchemaStatus, SqliteStore, Store, StoreError};

use super::lock_file::ServerLockFile;
use crate::config::table::{
    CLUSTER_DSN, DATA_DIR, DSN, OWNER_DSN, PARTITIONS_AHEAD_MONTHS, POSTGRES_ACQUIRE_TIMEOUT_SECS,
    POSTGRES_DATABASE, POSTGRES_HOST, POSTGRES_MAX_CONNECTIONS, POSTGRES_MIN_CONNECTIONS,
    POSTGRES_PASSWORD, POSTGRES_PORT, POSTGRES_SSLMODE, POSTGRES_SSLROOTCERT, POSTGRES_USER,
    SCHEMA, SHARDS, STATEMENT_CACHE, STORE, TLS_KEY, UNSAFE_DURABILITY,
};
use crate::config::{Config, SettingOrigin, StoreChoice};
use crate::error::{Error, Result, error_chain};
use crate::render::text_layout::escape_control;

/// Write connections of the PostgreSQL store.
const WRITER_CONNECTIONS: u32 = 2;

/// Configured location of the store.
#[derive(Debug, Clone)]
pub(crate) enum StoreLocation {
    /// A database file. `is_default` is true if every command uses it by default, and
    /// `dir_is_private` if its directory is the data directory, which holds nothing else.
    File { path: PathBuf, is_default: bool, dir_is_private: bool },
    /// A PostgreSQL database.
    Database(Box<DatabaseSettings>),
    /// Memory of this process.
    Memory,
}

/// A PostgreSQL database.
#[derive(Clone)]
pub(crate) struct DatabaseSettings {
    /// Address for messages, without user and password.
    display_name: String,
    options: PostgresOptions,
}

/// The address contains a password, so only the display name is printed.
impl std::fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.display_name)
    }
}

/// Result of opening a store.
pub(crate) enum OpenResult {
    Store(Arc<dyn Store>),
    /// Another process uses the file. Contains the lock file if that process is a server.
    InUse(Option<ServerLockFile>),
}

impl StoreLocation {
    /// Location from the configuration.
    pub(crate) fn from_config(config: &Config) -> Result<Self> {
        if config.is_given(&SHARDS) {
            let text = "NOETL_SHARDS names several databases, but this version supports one; set \
                NOETL_DSN or POSTGRES_HOST, and unset NOETL_SHARDS";
            return Err(Error::usage(text));
        }
        if config.is_given(&CLUSTER_DSN) {
            let text = "NOETL_CLUSTER_DSN names a database shared between several databases, but this \
                version supports one; set NOETL_DSN or POSTGRES_HOST, and unset \
                NOETL_CLUSTER_DSN";
            return Err(Error::usage(text));
        }
        let is_postgres = config.is_given(&DSN) || config.is_given(&POSTGRES_HOST);
        match config.get(&STORE)? {
            Some(StoreChoice::Sqlite(path)) => {
                Ok(Self::File { path, is_default: false, dir_is_private: false })
            }
            Some(StoreChoice::Memory) => Ok(Self::Memory),
            Some(StoreChoice::Postgres) => Ok(Self::Database(Box::new(database_settings(config)?))),
            None if is_postgres => Ok(Self::Database(Box::new(database_settings(config)?))),
            None if config.is_given(&OWNER_DSN) => {
                let text = "NOETL_OWNER_DSN is set, but no PostgreSQL database is configured; \
                    set NOETL_DSN or POSTGRES_HOST too";
                Err(Error::usage(text))
            }
            None => Ok(Self::File {
                path: data_dir(config)?.join("noetl.db"),
                is_default: !matches!(
                    config.text_and_origin(&DATA_DIR.info).1,
                    SettingOrigin::Flag(_)
                ),
                dir_is_private: true,
            }),
        }
    }

    /// Name for messages.
    pub(crate) fn display_name(&self) -> String {
        match self {
            Self::File { path, .. } => escape_control(&path.to_string_lossy()),
            Self::Database(database) => database.display_name.clone(),
            Self::Memory => "memory".to_owned(),
        }
    }

    /// Path of the database file, if there is one. Only one process can write to it.
    pub(crate) fn file_path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Database(_) | Self::Memory => None,
        }
    }

    /// Warnings about files of the database that other users of the machine can access. NoETL
    /// creates them private, but earlier files and copies may not be.
    pub(crate) fn permission_warnings(&self) -> Vec<String> {
        let Self::File { path, dir_is_private, .. } = self else {
            return Vec::new();
        };
        let dir = path.parent().filter(|_| *dir_is_private).map(Path::to_owned);
        let paths = dir.into_iter().map(|dir| (dir, "700"));
        let paths = paths.chain(database_files(path).into_iter().map(|file| (file, "600")));
        let warnings = paths.filter_map(|(path, mode)| {
            let found = fs::metadata(&path).ok()?.mode() & 0o777;
            let name = escape_control(&path.to_string_lossy());
            (found & 0o077 != 0).then(|| {
                format!(
                    "other users of this machine can access '{name}' (mode {found:04o}); run: \
                     chmod {mode} '{name}'"
                )
            })
        });
        warnings.collect()
    }

    /// True if a separate role is configured as the owner of the tables.
    pub(crate) fn has_separate_owner(&self) -> bool {
        matches!(self, Self::Database(database) if database.options.owner_config.is_some())
    }

    /// Opens the store, unless another process uses it.
    pub(crate) async fn open_store(&self) -> Result<OpenResult> {
        match self {
            Self::Memory => Ok(OpenResult::Store(Arc::new(open_in_memory()?))),
            Self::Database(database) => {
                let store = PostgresStore::open(&database.options).await;
                let store = store.map_err(|error| database.open_error(&error))?;
                Ok(OpenResult::Store(Arc::new(store)))
            }
            Self::File { path, .. } => open_database_file(path),
        }
    }

    /// Opens the store. Fails if another process uses it, which `describe_holder` names.
    pub(crate) async fn open_exclusive_store(
        &self,
        describe_holder: impl FnOnce(Option<ServerLockFile>) -> Option<String>,
    ) -> Result<Arc<dyn Store>> {
        match self.open_store().await? {
            OpenResult::Store(store) => Ok(store),
            OpenResult::InUse(lock_file) => {
                let holder = describe_holder(lock_file);
                let holder = holder.as_deref().unwrap_or("the other process");
                Err(self.in_use_error(&format!(
                    "stop {holder}, or choose another database with --store sqlite:PATH"
                )))
            }
        }
    }

    /// Error of a database file that another process uses.
    pub(crate) fn in_use_error(&self, help: &str) -> Error {
        let message = format!("another process is using {}", self.display_name());
        Error::conflict(message).with_help(help)
    }

    /// Schema version of the tables. `None` for a store in memory.
    pub(crate) async fn schema_version(&self) -> Result<Option<SchemaStatus>> {
        let status = match self {
            Self::Memory => return Ok(None),
            Self::File { path, .. } => SqliteStore::schema_status(&SqliteOptions::new(path))
                .map_err(|error| file_error(path, &error)),
            Self::Database(database) => PostgresStore::schema_status(&database.options)
                .await
                .map_err(|error| database.open_error(&error)),
        };
        status.map(Some)
    }

    /// Opens the store read-only while other processes may write to it. Creates and migrates
    /// nothing.
    pub(crate) async fn open_read_only(&self) -> Result<Arc<dyn Store>> {
        match self {
            Self::Memory => Ok(Arc::new(open_in_memory()?)),
            Self::File { path, .. } => open_file_read_only(path),
            Self::Database(database) => {
                let store = PostgresStore::open_read_only(&database.options).await;
                Ok(Arc::new(store.map_err(|error| database.open_error(&error))?))
            }
        }
    }

    /// Finds the server that uses the database file, or opens the file read-only while other
    /// processes may write to it. Returns `None` if there is no file.
    pub(crate) fn find_server_or_open(&self) -> Result<Option<OpenResult>> {
        let Self::File { path, .. } = self else {
            return Ok(None);
        };
        if !path.exists() {
            return Ok(None);
        }
        if is_locked(path)
            && let Some(lock_file) = ServerLockFile::read_beside(path)
        {
            return Ok(Some(OpenResult::InUse(Some(lock_file))));
        }
        Ok(Some(OpenResult::Store(open_file_read_only(path)?)))
    }
}

/// Opens a database file read-only while other processes may write to it.
pub(crate) fn open_file_read_only(path: &Path) -> Result<Arc<dyn Store>> {
    let store = SqliteStore::open_read_only(&SqliteOptions::new(path));
    Ok(Arc::new(store.map_err(|error| file_error(path, &error))?))
}

/// Error of a database file that cannot be opened.
fn file_error(path: &Path, error: &StoreError) -> Error {
    let path = escape_control(&path.to_string_lossy());
    Error::failed(format!("cannot open the database {path}: {}", error_chain(error)))
        .with_help("choose another database with --store sqlite:PATH, or use --store memory")
}

/// Creates an empty store in memory.
fn open_in_memory() -> Result<SqliteStore> {
    SqliteStore::in_memory().map_err(|error| file_error(Path::new("in memory"), &error))
}

fn open_database_file(path: &Path) -> Result<OpenResult> {
    match SqliteStore::open(&SqliteOptions::new(path)) {
        Ok(store) => {
            // This process holds the lock, so any lock file of a server is stale.
            ServerLockFile::remove_stale(path);
            Ok(OpenResult::Store(Arc::new(store)))
        }
        Err(_) if is_locked(path) => Ok(OpenResult::InUse(ServerLockFile::read_beside(path))),
        Err(error) => Err(file_error(path, &error)),
    }
}

/// True if another process has locked the database.
fn is_locked(database: &Path) -> bool {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let Ok(lock) = File::options().write(true).open(PathBuf::from(path)) else {
        return false;
    };
    // A lock acquired here is released when the file is dropped.
    matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
}

impl DatabaseSettings {
    /// Error of a database that cannot be used.
    fn open_error(&self, error: &StoreError) -> Error {
        let (place, cause) = (&self.display_name, error_chain(error));
        let owner = if self.options.owner_config.is_some() { "NOETL_OWNER_DSN and " } else { "" };
        Error::failed(format!("cannot use the PostgreSQL database at {place}: {cause}")).with_help(
            format!(
                "check that PostgreSQL 15 or newer is running there and that {owner}NOETL_DSN, or \
                 POSTGRES_HOST, _PORT, _USER, _PASSWORD and _DATABASE, are correct"
            ),
        )
    }
}

fn database_settings(config: &Config) -> Result<DatabaseSettings> {
    let connections = config.value(&POSTGRES_MAX_CONNECTIONS)?;
    let initial_connections = config.value(&POSTGRES_MIN_CONNECTIONS)?;
    if initial_connections > connections {
        let text = "POSTGRES_MIN_CONNECTIONS is greater than POSTGRES_MAX_CONNECTIONS; set it to at most that \
            number";
        return Err(Error::usage(text));
    }
    let (dsn, display_name) = match config.get(&DSN)? {
        Some(dsn) => {
            let display_name = redact_dsn(&dsn);
            (dsn, display_name)
        }
        None => dsn_from_parts(config)?,
    };
    let readers = |count: u32| usize::try_from(count.saturating_sub(WRITER_CONNECTIONS));
    let mut options = PostgresOptions::new(dsn, SystemClock.now());
    options.owner_config = config.get(&OWNER_DSN)?;
    options.schema = config.value(&SCHEMA)?;
    options.months_ahead = config.value(&PARTITIONS_AHEAD_MONTHS)?;
    options.trust = config.get(&POSTGRES_SSLMODE)?;
    options.root_certificates = config.get(&POSTGRES_SSLROOTCERT)?;
    options.max_connections = readers(connections).unwrap_or(1).max(1);
    options.initial_connections = readers(initial_connections).unwrap_or(0);
    options.max_prepared_statements =
        usize::try_from(config.value(&STATEMENT_CACHE)?).unwrap_or(usize::MAX);
    options.unsafe_durability = config.value(&UNSAFE_DURABILITY)?;
    options.acquire_timeout =
        Duration::from_secs(config.value(&POSTGRES_ACQUIRE_TIMEOUT_SECS)?.into());
    Ok(DatabaseSettings { display_name, options })
}

fn dsn_from_parts(config: &Config) -> Result<(String, String)> {
    let host = config.value(&POSTGRES_HOST)?;
    let port = config.value(&POSTGRES_PORT)?;
    let database = config.value(&POSTGRES_DATABASE)?;
    let mut dsn = format!(
        "host={} port={port} user={} dbname={}",
        quote_dsn_value(&host),
        quote_dsn_value(&config.value(&POSTGRES_USER)?),
        quote_dsn_value(&database),
    );
    if let Some(password) = config.get(&POSTGRES_PASSWORD)? {
        dsn += &format!(" password={}", quote_dsn_value(&password));
    }
    Ok((dsn, escape_control(&format!("{host}:{port}/{database}"))))
}

/// Quotes a value of a connection string.
fn quote_dsn_value(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Address without credentials: the part after the user of a URL, or the host, port and database of
/// key-value pairs.
fn redact_dsn(dsn: &str) -> String {
    if let Some((_, rest)) = dsn.split_once("://") {
        let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
        return escape_control(address.split('?').next().unwrap_or(address));
    }
    let keys = ["host=", "port=", "dbname="];
    let is_public = |pair: &&str| keys.iter().any(|key| pair.starts_with(key));
    let public: Vec<&str> = dsn.split_whitespace().filter(is_public).collect();
    escape_control(&public.join(" "))
}

/// Directory of the embedded database. Created if it does not exist.
fn data_dir(config: &Config) -> Result<PathBuf> {
    let dir = if let Some(dir) = config.get(&DATA_DIR)? {
        dir
    } else {
        let user_dirs = choose_base_strategy().map_err(|_| {
            Error::usage("cannot determine the user's data directory")
                .with_help("set HOME, or choose a directory with NOETL_DATA_DIR")
        })?;
        user_dirs.data_dir().join("noetl")
    };
    create_private_dir(&dir).map_err(|error| {
        let path = escape_control(&dir.to_string_lossy());
        Error::usage(format!("cannot create the data directory {path}: {}", error.kind()))
            .with_help("choose another directory with --data-dir or NOETL_DATA_DIR")
    })?;
    Ok(dir)
}

/// Extent of the platform's paths to protect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretPathScope {
    /// The data directory with all its contents.
    Directory,
    /// Only the platform's own files. Their directory can contain files of users who run their own
    /// playbooks there.
    Files,
}

/// Files and directories with data and secrets of the platform, existing or not.
pub(super) fn secret_paths(config: &Config, scope: SecretPathScope) -> Result<Vec<PathBuf>> {
    let user_dirs = choose_base_strategy().ok();
    let mut paths = Vec::new();
    let data = config.get(&DATA_DIR)?;
    let data = data.or_else(|| Some(user_dirs.as_ref()?.data_dir().join("noetl")));
    if let Some(data) = data {
        match scope {
            SecretPathScope::Directory => paths.push(data),
            SecretPathScope::Files => paths.extend(database_files(&data.join("noetl.db"))),
        }
    }
    if let Some(StoreChoice::Sqlite(path)) = config.get(&STORE)? {
        paths.extend(database_files(&path));
    }
    paths.extend(config.get(&TLS_KEY)?);
    paths.extend_from_slice(config.secret_files());
    // Profiles can name files with tokens.
    paths.extend(user_dirs.map(|dirs| dirs.config_dir().join("noetl/profiles.toml")));
    // Absolute, since the current directory of the reader may differ.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    Ok(paths.into_iter().map(absolute).collect())
}

/// Files of a database: the file, its companion files, and the encryption key.
fn database_files(database: &Path) -> Vec<PathBuf> {
    let files = ["", "-wal", "-shm", "-journal", ".lock", ".sock"].into_iter();
    let files = files.map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    });
    files.chain([database.with_extension("key")]).collect()
}

/// Creates a directory that only its owner can access, since logs contain the data of playbooks.
fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests;
