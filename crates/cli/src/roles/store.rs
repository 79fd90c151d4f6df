//! Location of the store, as configured, and opening it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use etcetera::base_strategy::{BaseStrategy as _, choose_base_strategy};
use noetl_server::{Clock as _, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{MemoryStore, PostgresStore, SqliteStore, Store, StoreError, TlsVerification};

use super::error::StartError;
use super::lock_file::ServerLockFile;
use crate::config::table::{
    CLUSTER_DSN, DATA_DIR, DSN, OWNER_DSN, PARTITIONS_AHEAD_MONTHS, POSTGRES_ACQUIRE_TIMEOUT_SECS,
    POSTGRES_DATABASE, POSTGRES_HOST, POSTGRES_MAX_CONNECTIONS, POSTGRES_MIN_CONNECTIONS,
    POSTGRES_PASSWORD, POSTGRES_PORT, POSTGRES_SSLMODE, POSTGRES_SSLROOTCERT, POSTGRES_USER,
    SCHEMA, SHARDS, STATEMENT_CACHE, STORE, TLS_KEY, UNSAFE_DURABILITY,
};
use crate::config::{Config, ConfigError, SettingOrigin, StoreChoice};
use crate::render::text_layout::escape_control;

/// Write connections of the PostgreSQL store.
const WRITER_CONNECTIONS: u32 = 2;

/// Configured location of the store.
#[derive(Debug, Clone)]
pub(crate) enum StoreLocation {
    /// A database file. `is_default` is true if every command uses it by default.
    File { path: PathBuf, is_default: bool },
    /// A PostgreSQL database.
    Database(Box<DatabaseSettings>),
    /// Memory of this process.
    Memory,
}

/// Settings of a PostgreSQL database.
#[derive(Clone)]
pub(crate) struct DatabaseSettings {
    /// Address for messages, without user and password.
    display_name: String,
    dsn: String,
    /// Address for the role that owns the tables, if it is a different one.
    owner_dsn: Option<String>,
    schema: String,
    trust: Option<TlsVerification>,
    root_certificates: Option<PathBuf>,
    connections: u32,
    /// Connections opened at startup.
    initial_connections: u32,
    /// Prepared statements cached per connection.
    statement_cache: u32,
    /// Accepts a server that can lose committed transactions.
    unsafe_durability: bool,
    /// Maximum seconds to wait for a connection.
    acquire_timeout_secs: u32,
    months_ahead: u32,
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
    pub(crate) fn from_config(config: &Config) -> Result<Self, ConfigError> {
        if config.is_given(&SHARDS) {
            let text = "NOETL_SHARDS names several databases, but this version supports one; set \
                NOETL_DSN or POSTGRES_HOST, and unset NOETL_SHARDS";
            return Err(ConfigError::Unsupported(text));
        }
        if config.is_given(&CLUSTER_DSN) {
            let text = "NOETL_CLUSTER_DSN names a database shared between several databases, but this \
                version supports one; set NOETL_DSN or POSTGRES_HOST, and unset \
                NOETL_CLUSTER_DSN";
            return Err(ConfigError::Unsupported(text));
        }
        let is_postgres = config.is_given(&DSN) || config.is_given(&POSTGRES_HOST);
        match config.get(&STORE)? {
            Some(StoreChoice::Sqlite(path)) => Ok(Self::File { path, is_default: false }),
            Some(StoreChoice::Memory) => Ok(Self::Memory),
            Some(StoreChoice::Postgres) => Ok(Self::Database(Box::new(database_settings(config)?))),
            None if is_postgres => Ok(Self::Database(Box::new(database_settings(config)?))),
            None if config.is_given(&OWNER_DSN) => {
                let text = "NOETL_OWNER_DSN is set, but no PostgreSQL database is configured; \
                    set NOETL_DSN or POSTGRES_HOST too";
                Err(ConfigError::Unsupported(text))
            }
            None => Ok(Self::File {
                path: data_dir(config)?.join("noetl.db"),
                is_default: !matches!(
                    config.text_and_origin(&DATA_DIR.info).1,
                    SettingOrigin::Flag(_)
                ),
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

    /// True if a separate role is configured as the owner of the tables.
    pub(crate) fn has_separate_owner(&self) -> bool {
        matches!(self, Self::Database(database) if database.owner_dsn.is_some())
    }

    /// Opens the store, unless another process uses it.
    pub(crate) async fn open_store(&self) -> Result<OpenResult, StartError> {
        match self {
            Self::Memory => Ok(OpenResult::Store(Arc::new(MemoryStore::new()))),
            Self::Database(database) => {
                Ok(OpenResult::Store(Arc::new(database.open_postgres().await?)))
            }
            Self::File { path, .. } => open_database_file(path),
        }
    }
}

impl StoreLocation {
    /// Finds the server that uses the database file, or opens the file read-only while other
    /// processes may write to it. Returns `None` if there is no file.
    pub(crate) fn find_server_or_open(&self) -> Result<Option<OpenResult>, StartError> {
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
pub(crate) fn open_file_read_only(path: &Path) -> Result<Arc<dyn Store>, StartError> {
    let store = SqliteStore::open_read_only(&SqliteOptions::new(path));
    let store = store.map_err(|source| StartError::DatabaseFile {
        path: escape_control(&path.to_string_lossy()),
        source,
    })?;
    Ok(Arc::new(store))
}

fn open_database_file(path: &Path) -> Result<OpenResult, StartError> {
    match SqliteStore::open(&SqliteOptions::new(path)) {
        Ok(store) => {
            // This process holds the lock, so any lock file of a server is stale.
            ServerLockFile::remove_stale(path);
            Ok(OpenResult::Store(Arc::new(store)))
        }
        Err(_) if is_locked(path) => Ok(OpenResult::InUse(ServerLockFile::read_beside(path))),
        Err(source) => {
            Err(StartError::DatabaseFile { path: escape_control(&path.to_string_lossy()), source })
        }
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
    /// Connection options.
    pub(super) fn postgres_options(&self) -> PostgresOptions {
        let mut options = PostgresOptions::new(&self.dsn, SystemClock.now());
        options.owner_config.clone_from(&self.owner_dsn);
        options.schema.clone_from(&self.schema);
        options.months_ahead = self.months_ahead;
        options.trust = self.trust;
        options.root_certificates.clone_from(&self.root_certificates);
        let readers = |count: u32| usize::try_from(count.saturating_sub(WRITER_CONNECTIONS));
        options.max_connections = readers(self.connections).unwrap_or(1).max(1);
        options.initial_connections = readers(self.initial_connections).unwrap_or(0);
        options.max_prepared_statements =
            usize::try_from(self.statement_cache).unwrap_or(usize::MAX);
        options.unsafe_durability = self.unsafe_durability;
        options.acquire_timeout = Duration::from_secs(self.acquire_timeout_secs.into());
        options
    }

    async fn open_postgres(&self) -> Result<PostgresStore, StartError> {
        let store = PostgresStore::open(&self.postgres_options()).await;
        store.map_err(|source| self.to_start_error(source))
    }

    pub(super) fn to_start_error(&self, source: StoreError) -> StartError {
        StartError::Database {
            place: self.display_name.clone(),
            has_owner: self.owner_dsn.is_some(),
            source,
        }
    }
}

fn database_settings(config: &Config) -> Result<DatabaseSettings, ConfigError> {
    let schema = config.value(&SCHEMA)?;
    let connections = config.value(&POSTGRES_MAX_CONNECTIONS)?;
    let initial_connections = config.value(&POSTGRES_MIN_CONNECTIONS)?;
    if initial_connections > connections {
        let text = "POSTGRES_MIN_CONNECTIONS is greater than POSTGRES_MAX_CONNECTIONS; set it to at most that \
            number";
        return Err(ConfigError::Unsupported(text));
    }
    let months_ahead = config.value(&PARTITIONS_AHEAD_MONTHS)?;
    let (dsn, display_name) = match config.get(&DSN)? {
        Some(dsn) => {
            let display_name = redact_dsn(&dsn);
            (dsn, display_name)
        }
        None => dsn_from_parts(config)?,
    };
    Ok(DatabaseSettings {
        display_name,
        dsn,
        owner_dsn: config.get(&OWNER_DSN)?,
        schema,
        trust: config.get(&POSTGRES_SSLMODE)?,
        root_certificates: config.get(&POSTGRES_SSLROOTCERT)?,
        connections,
        initial_connections,
        statement_cache: config.value(&STATEMENT_CACHE)?,
        unsafe_durability: config.value(&UNSAFE_DURABILITY)?,
        acquire_timeout_secs: config.value(&POSTGRES_ACQUIRE_TIMEOUT_SECS)?,
        months_ahead,
    })
}

fn dsn_from_parts(config: &Config) -> Result<(String, String), ConfigError> {
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
fn data_dir(config: &Config) -> Result<PathBuf, ConfigError> {
    let dir = match config.get(&DATA_DIR)? {
        Some(dir) => dir,
        None => {
            choose_base_strategy().map_err(|_| ConfigError::NoDataDir)?.data_dir().join("noetl")
        }
    };
    create_private_dir(&dir).map_err(|source| ConfigError::DataDir {
        path: escape_control(&dir.to_string_lossy()),
        source,
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
pub(super) fn secret_paths(
    config: &Config,
    scope: SecretPathScope,
) -> Result<Vec<PathBuf>, ConfigError> {
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
    let files = ["", "-wal", "-shm", "-journal", ".lock"].into_iter();
    let files = files.map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    });
    files.chain([database.with_extension("key")]).collect()
}

/// Creates a directory that only its owner can access, since logs contain the data of playbooks.
fn create_private_dir(dir: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GivenSettings;

    #[test]
    fn address_is_shown_without_secrets() {
        let addresses = [
            "postgres://u:p%40ss@db.example:5432/noetl?sslmode=require",
            "postgres://u:a@b@db/x",
            "postgresql:///noetl",
            "host=db port=5 user=u password='se cret' dbname=n",
        ]
        .map(redact_dsn);
        assert_eq!(
            addresses,
            ["db.example:5432/noetl", "db/x", "/noetl", "host=db port=5 dbname=n"]
        );
    }

    #[test]
    fn pool_sizes_come_from_settings() {
        let options_for = |variables: &[(&str, &str)]| {
            let dsn = [("NOETL_DSN", "postgres://h/d")];
            let variables = dsn.iter().chain(variables).copied().collect();
            let config = Config::load(&GivenSettings::default(), &variables).unwrap();
            database_settings(&config).map(|database| database.postgres_options())
        };
        let defaulted = options_for(&[]).unwrap();
        assert_eq!(
            (
                defaulted.max_connections,
                defaulted.initial_connections,
                defaulted.max_prepared_statements
            ),
            (8, 0, 100)
        );
        assert!(!defaulted.unsafe_durability);
        let configured = options_for(&[
            ("POSTGRES_MAX_CONNECTIONS", "7"),
            ("POSTGRES_MIN_CONNECTIONS", "6"),
            ("NOETL_PG_STATEMENT_CACHE_CAPACITY", "0"),
            ("NOETL_UNSAFE_DURABILITY", "true"),
        ]);
        let configured = configured.unwrap();
        // Two of the connections are for writes.
        assert_eq!(
            (
                configured.max_connections,
                configured.initial_connections,
                configured.max_prepared_statements
            ),
            (5, 4, 0)
        );
        assert!(configured.unsafe_durability);
        let error = options_for(&[("POSTGRES_MIN_CONNECTIONS", "11")]).unwrap_err();
        assert!(error.to_string().contains("POSTGRES_MAX_CONNECTIONS"), "{error}");
    }

    #[test]
    fn connection_string_values_are_quoted() {
        assert_eq!(quote_dsn_value(r"a'b\c"), r"'a\'b\\c'");
    }

    #[test]
    fn secret_files_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, text) in [
            ("token", "t"),
            ("owner", "postgres://o:p@h/d"),
            ("noetl.toml", "dsn = 'postgres://u:p@h/d'"),
        ] {
            fs::write(path(name), text).unwrap();
        }
        let text = |name: &str| path(name).display().to_string();
        let variables = [
            ("NOETL_DATA_DIR", text("data")),
            ("NOETL_STORE", "sqlite:beside.db".to_owned()),
            ("NOETL_TLS_KEY", text("tls.pem")),
            ("NOETL_TOKEN_FILE", text("token")),
            ("NOETL_OWNER_DSN_FILE", text("owner")),
            ("NOETL_CONFIG", text("noetl.toml")),
        ];
        let variables = variables.iter().map(|(name, value)| (*name, &**value));
        let config = Config::load(&GivenSettings::default(), &variables.collect()).unwrap();
        let with_directory = secret_paths(&config, SecretPathScope::Directory).unwrap();
        let files = secret_paths(&config, SecretPathScope::Files).unwrap();
        let key_file = std::path::absolute("beside.key").unwrap();
        let named_files = ["tls.pem", "token", "owner", "noetl.toml"].map(path);
        for path in named_files.into_iter().chain([key_file]) {
            assert!(with_directory.contains(&path), "{path:?} {with_directory:?}");
            assert!(files.contains(&path), "{path:?} {files:?}");
        }
        assert!(with_directory.contains(&path("data")) && !files.contains(&path("data")));
        for name in ["noetl.db", "noetl.db-wal", "noetl.key"] {
            assert!(files.contains(&path("data").join(name)), "{files:?}");
        }
        assert!(with_directory.iter().all(|path| path.is_absolute()), "{with_directory:?}");
    }
}
