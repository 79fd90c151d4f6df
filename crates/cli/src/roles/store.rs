//! Where logs are kept: which place the configuration means, and opening it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use etcetera::base_strategy::{BaseStrategy as _, choose_base_strategy};
use noetl_server::{Clock as _, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{MemoryStore, PostgresStore, SqliteStore, Store, StoreError, Trust};

use super::beacon::Beacon;
use super::error::StartError;
use crate::config::table::{
    CLUSTER_DSN, DATA_DIR, DSN, OWNER_DSN, PARTITIONS_AHEAD, POSTGRES_ACQUIRE_TIMEOUT,
    POSTGRES_DATABASE, POSTGRES_HOST, POSTGRES_MAX_CONNECTIONS, POSTGRES_MIN_CONNECTIONS,
    POSTGRES_PASSWORD, POSTGRES_PORT, POSTGRES_SSLMODE, POSTGRES_SSLROOTCERT, POSTGRES_USER,
    SCHEMA, SHARDS, STATEMENT_CACHE, STORE, TLS_KEY, UNSAFE_DURABILITY,
};
use crate::config::{Config, ConfigError, Origin, StoreChoice};
use crate::render::words::visible;

/// Connections of the PostgreSQL store that write.
const WRITERS: u32 = 2;

/// The place that the configuration means.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A file, and whether it is the one that every command uses unless told otherwise.
    File { path: PathBuf, is_usual: bool },
    /// A database server.
    Database(Box<Database>),
    /// This process.
    Memory,
}

/// A database server.
#[derive(Clone)]
pub(crate) struct Database {
    /// For people: without user and password.
    shown: String,
    dsn: String,
    /// The same for the role that owns the tables, where it is another.
    owner: Option<String>,
    schema: String,
    trust: Option<Trust>,
    root_certificates: Option<PathBuf>,
    connections: u32,
    /// Those that are opened at once.
    opened: u32,
    /// Statements that a connection keeps prepared.
    prepared: u32,
    /// Whether the server may be one that loses what it has committed.
    unsafe_durability: bool,
    /// Seconds that one waits for a connection.
    acquire_timeout: u32,
    months_ahead: u32,
}

/// The address holds a password, so it shows nothing of itself.
impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.shown)
    }
}

/// What came of opening a place.
pub(crate) enum Opened {
    /// It is open.
    Store(Arc<dyn Store>),
    /// Another process has the file; a server, if it says so.
    Held(Option<Beacon>),
}

impl Place {
    /// The place that the configuration means.
    pub(crate) fn of(config: &Config) -> Result<Self, ConfigError> {
        if config.is_given(&SHARDS) {
            let text = "NOETL_SHARDS names several databases, and this version works with one: name \
                it by NOETL_DSN or POSTGRES_HOST, and leave NOETL_SHARDS out";
            return Err(ConfigError::Refused(text));
        }
        if config.is_given(&CLUSTER_DSN) {
            let text = "NOETL_CLUSTER_DSN names the database of what several databases share, and this \
                version works with one: name it by NOETL_DSN or POSTGRES_HOST, and leave \
                NOETL_CLUSTER_DSN out";
            return Err(ConfigError::Refused(text));
        }
        let is_postgres = config.is_given(&DSN) || config.is_given(&POSTGRES_HOST);
        match config.get(&STORE)? {
            Some(StoreChoice::Sqlite(path)) => Ok(Self::File {
                path,
                is_usual: false,
            }),
            Some(StoreChoice::Memory) => Ok(Self::Memory),
            Some(StoreChoice::Postgres) => Ok(Self::Database(Box::new(database(config)?))),
            None if is_postgres => Ok(Self::Database(Box::new(database(config)?))),
            None if config.is_given(&OWNER_DSN) => {
                let text = "NOETL_OWNER_DSN names who owns the tables of a database that nothing names: \
                    name it by NOETL_DSN or POSTGRES_HOST too";
                Err(ConfigError::Refused(text))
            }
            None => Ok(Self::File {
                path: data_folder(config)?.join("noetl.db"),
                is_usual: !matches!(config.shown(&DATA_DIR.facts).1, Origin::Flag(_)),
            }),
        }
    }

    /// What to call it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::File { path, .. } => visible(&path.to_string_lossy()),
            Self::Database(database) => database.shown.clone(),
            Self::Memory => "memory".to_owned(),
        }
    }

    /// The file, if it is one: a place that only one process writes to.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Database(_) | Self::Memory => None,
        }
    }

    /// Whether another role than the server's is named to own its tables.
    pub(crate) fn has_owner(&self) -> bool {
        matches!(self, Self::Database(database) if database.owner.is_some())
    }

    /// Opens it, unless another process has it.
    pub(crate) async fn open(&self) -> Result<Opened, StartError> {
        match self {
            Self::Memory => Ok(Opened::Store(Arc::new(MemoryStore::new()))),
            Self::Database(database) => Ok(Opened::Store(Arc::new(database.open().await?))),
            Self::File { path, .. } => open_file(path),
        }
    }
}

impl Place {
    /// Looks for somebody to read it through: the server that has it, or else the file itself, beside
    /// whoever writes it. Nothing where there is no file.
    pub(crate) fn look(&self) -> Result<Option<Opened>, StartError> {
        let Self::File { path, .. } = self else {
            return Ok(None);
        };
        if !path.exists() {
            return Ok(None);
        }
        if is_held(path)
            && let Some(beacon) = Beacon::seen(path)
        {
            return Ok(Some(Opened::Held(Some(beacon))));
        }
        Ok(Some(Opened::Store(open_to_read(path)?)))
    }
}

/// Opens a file beside whoever writes it, only to read.
pub(crate) fn open_to_read(path: &Path) -> Result<Arc<dyn Store>, StartError> {
    let store = SqliteStore::open_to_read(&SqliteOptions::new(path));
    let store = store.map_err(|source| StartError::File {
        path: visible(&path.to_string_lossy()),
        source,
    })?;
    Ok(Arc::new(store))
}

fn open_file(path: &Path) -> Result<Opened, StartError> {
    match SqliteStore::open(&SqliteOptions::new(path)) {
        Ok(store) => {
            // The lock is ours, so no server has it.
            Beacon::put_out(path);
            Ok(Opened::Store(Arc::new(store)))
        }
        Err(_) if is_held(path) => Ok(Opened::Held(Beacon::seen(path))),
        Err(source) => Err(StartError::File {
            path: visible(&path.to_string_lossy()),
            source,
        }),
    }
}

/// Whether another process has locked a database.
fn is_held(database: &Path) -> bool {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let Ok(lock) = File::options().write(true).open(PathBuf::from(path)) else {
        return false;
    };
    // A lock that is had here is let go of with the file.
    matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
}

impl Database {
    /// How it is reached.
    pub(super) fn options(&self) -> PostgresOptions {
        let mut options = PostgresOptions::new(&self.dsn, SystemClock.now());
        options.owner.clone_from(&self.owner);
        options.schema.clone_from(&self.schema);
        options.months_ahead = self.months_ahead;
        options.trust = self.trust;
        options
            .root_certificates
            .clone_from(&self.root_certificates);
        let beside_writers = |count: u32| usize::try_from(count.saturating_sub(WRITERS));
        options.connections = beside_writers(self.connections).unwrap_or(1).max(1);
        options.opened = beside_writers(self.opened).unwrap_or(0);
        options.prepared = usize::try_from(self.prepared).unwrap_or(usize::MAX);
        options.unsafe_durability = self.unsafe_durability;
        options.acquire_timeout = Duration::from_secs(self.acquire_timeout.into());
        options
    }

    async fn open(&self) -> Result<PostgresStore, StartError> {
        let opened = PostgresStore::open(&self.options()).await;
        opened.map_err(|source| self.refused(source))
    }

    /// Why it cannot be used.
    pub(super) fn refused(&self, source: StoreError) -> StartError {
        StartError::Database {
            place: self.shown.clone(),
            has_owner: self.owner.is_some(),
            source,
        }
    }
}

fn database(config: &Config) -> Result<Database, ConfigError> {
    let schema = config.value(&SCHEMA)?;
    let connections = config.value(&POSTGRES_MAX_CONNECTIONS)?;
    let opened = config.value(&POSTGRES_MIN_CONNECTIONS)?;
    if opened > connections {
        let text = "POSTGRES_MIN_CONNECTIONS is more than POSTGRES_MAX_CONNECTIONS: set it to as many at \
            most";
        return Err(ConfigError::Refused(text));
    }
    let months_ahead = config.value(&PARTITIONS_AHEAD)?;
    let (dsn, shown) = match config.get(&DSN)? {
        Some(dsn) => {
            let shown = without_secrets(&dsn);
            (dsn, shown)
        }
        None => of_parts(config)?,
    };
    Ok(Database {
        shown,
        dsn,
        owner: config.get(&OWNER_DSN)?,
        schema,
        trust: config.get(&POSTGRES_SSLMODE)?,
        root_certificates: config.get(&POSTGRES_SSLROOTCERT)?,
        connections,
        opened,
        prepared: config.value(&STATEMENT_CACHE)?,
        unsafe_durability: config.value(&UNSAFE_DURABILITY)?,
        acquire_timeout: config.value(&POSTGRES_ACQUIRE_TIMEOUT)?,
        months_ahead,
    })
}

fn of_parts(config: &Config) -> Result<(String, String), ConfigError> {
    let host = config.value(&POSTGRES_HOST)?;
    let port = config.value(&POSTGRES_PORT)?;
    let database = config.value(&POSTGRES_DATABASE)?;
    let mut dsn = format!(
        "host={} port={port} user={} dbname={}",
        quoted(&host),
        quoted(&config.value(&POSTGRES_USER)?),
        quoted(&database),
    );
    if let Some(password) = config.get(&POSTGRES_PASSWORD)? {
        dsn += &format!(" password={}", quoted(&password));
    }
    Ok((dsn, visible(&format!("{host}:{port}/{database}"))))
}

/// A value of a connection string.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// An address without what is nobody's business: of a URL the host and what follows, of pairs the
/// host, the port and the database.
fn without_secrets(dsn: &str) -> String {
    if let Some((_, rest)) = dsn.split_once("://") {
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        return visible(place.split('?').next().unwrap_or(place));
    }
    let keys = ["host=", "port=", "dbname="];
    let is_told = |pair: &&str| keys.iter().any(|key| pair.starts_with(key));
    let told: Vec<&str> = dsn.split_whitespace().filter(is_told).collect();
    visible(&told.join(" "))
}

/// The folder of the embedded database, which is made if it is not there.
fn data_folder(config: &Config) -> Result<PathBuf, ConfigError> {
    let folder = match config.get(&DATA_DIR)? {
        Some(folder) => folder,
        None => choose_base_strategy()
            .map_err(|_| ConfigError::NoHome)?
            .data_dir()
            .join("noetl"),
    };
    make(&folder).map_err(|source| ConfigError::Folder {
        path: visible(&folder.to_string_lossy()),
        source,
    })?;
    Ok(folder)
}

/// What of the platform's places is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The folder of its data, and all that is in it.
    Whole,
    /// Only its own files: in their folder may be others, of whoever runs their own playbooks there.
    Files,
}

/// Files and folders that the platform keeps its data and its secrets in, there or not.
pub(super) fn secret_places(config: &Config, extent: Extent) -> Result<Vec<PathBuf>, ConfigError> {
    let of_user = choose_base_strategy().ok();
    let mut places = Vec::new();
    let data = config.get(&DATA_DIR)?;
    let data = data.or_else(|| Some(of_user.as_ref()?.data_dir().join("noetl")));
    if let Some(data) = data {
        match extent {
            Extent::Whole => places.push(data),
            Extent::Files => places.extend(files_of(&data.join("noetl.db"))),
        }
    }
    if let Some(StoreChoice::Sqlite(path)) = config.get(&STORE)? {
        places.extend(files_of(&path));
    }
    places.extend(config.get(&TLS_KEY)?);
    places.extend_from_slice(config.secret_files());
    // Profiles have tokens in them.
    places.extend(of_user.map(|folders| folders.config_dir().join("noetl/profiles.toml")));
    // Who looks at them may be in another folder by then.
    let whole = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    Ok(places.into_iter().map(whole).collect())
}

/// The files of a database: itself, what stands beside it, and the key that secrets are sealed under.
fn files_of(database: &Path) -> Vec<PathBuf> {
    let beside = ["", "-wal", "-shm", "-journal", ".lock"].into_iter();
    let beside = beside.map(|end| {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    beside.chain([database.with_extension("key")]).collect()
}

/// Makes a folder that only its owner may look into: logs hold what playbooks work on.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Given;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let shown = [
            "postgres://u:p%40ss@db.example:5432/noetl?sslmode=require",
            "postgres://u:a@b@db/x",
            "postgresql:///noetl",
            "host=db port=5 user=u password='se cret' dbname=n",
        ]
        .map(without_secrets);
        assert_eq!(
            shown,
            [
                "db.example:5432/noetl",
                "db/x",
                "/noetl",
                "host=db port=5 dbname=n"
            ]
        );
    }

    #[test]
    fn connections_are_as_somebody_says() {
        let of = |variables: &[(&str, &str)]| {
            let given = [("NOETL_DSN", "postgres://h/d")];
            let variables = given.iter().chain(variables).copied().collect();
            let config = Config::load(&Given::default(), &variables).unwrap();
            database(&config).map(|database| database.options())
        };
        let usual = of(&[]).unwrap();
        assert_eq!(
            (usual.connections, usual.opened, usual.prepared),
            (8, 0, 100)
        );
        assert!(!usual.unsafe_durability);
        let said = of(&[
            ("POSTGRES_MAX_CONNECTIONS", "7"),
            ("POSTGRES_MIN_CONNECTIONS", "6"),
            ("NOETL_PG_STATEMENT_CACHE_CAPACITY", "0"),
            ("NOETL_UNSAFE_DURABILITY", "true"),
        ]);
        let said = said.unwrap();
        // Two of them write.
        assert_eq!((said.connections, said.opened, said.prepared), (5, 4, 0));
        assert!(said.unsafe_durability);
        let error = of(&[("POSTGRES_MIN_CONNECTIONS", "11")]).unwrap_err();
        assert!(
            error.to_string().contains("POSTGRES_MAX_CONNECTIONS"),
            "{error}"
        );
    }

    #[test]
    fn values_of_a_connection_string_are_quoted() {
        assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
    }

    #[test]
    fn every_file_with_a_secret_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
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
        let config = Config::load(&Given::default(), &variables.collect()).unwrap();
        let whole = secret_places(&config, Extent::Whole).unwrap();
        let files = secret_places(&config, Extent::Files).unwrap();
        let beside = std::path::absolute("beside.key").unwrap();
        let named = ["tls.pem", "token", "owner", "noetl.toml"].map(path);
        for place in named.into_iter().chain([beside]) {
            assert!(whole.contains(&place), "{place:?} {whole:?}");
            assert!(files.contains(&place), "{place:?} {files:?}");
        }
        assert!(whole.contains(&path("data")) && !files.contains(&path("data")));
        for name in ["noetl.db", "noetl.db-wal", "noetl.key"] {
            assert!(files.contains(&path("data").join(name)), "{files:?}");
        }
        assert!(whole.iter().all(|place| place.is_absolute()), "{whole:?}");
    }
}
