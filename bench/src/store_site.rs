//! Location of a system's log during a measurement: created for it, and removed afterwards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use noetl_server::{Clock as _, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{PostgresStore, SqliteStore, Store};
use noetl_testkit::postgres::{PostgresCluster, TestDatabase};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_postgres::NoTls;

use crate::error::BenchError;
use crate::machine::read_pid_file;

/// Database of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// One SQLite file
    Sqlite,
    /// A PostgreSQL cluster that is started for the measurement
    Postgres,
}

impl StoreKind {
    /// Name in tables.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// PostgreSQL settings that durability depends on.
const DURABILITY_SETTINGS: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// Adds rows to the outbox that are marked as published.
const INSERT_PUBLISHED_ROWS: &str = "INSERT INTO noetl.outbox
    (event_id, execution_id, subject, message_id, status, attempts, published_at)
    SELECT n, 1 + n / 1000, 'noetl.events.step.enter', '1:' || (1 + n / 1000) || ':' || n,
        'PUBLISHED', 1, now()
    FROM generate_series(1, $1::bigint) AS n";

/// Location of one system's log, and of the log files of its processes.
#[derive(Debug)]
pub(crate) struct StoreSite {
    folder: TempDir,
    location: StoreLocation,
}

#[derive(Debug)]
enum StoreLocation {
    Sqlite(PathBuf),
    Postgres(TestDatabase),
}

/// An open store with its commit counter.
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) commits: CommitCounter,
}

/// Counts the commits that waited for the disk.
pub(crate) enum CommitCounter {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl CommitCounter {
    pub(crate) fn synced_commits(&self) -> u64 {
        match self {
            Self::Sqlite(store) => store.commit_counts().synced,
            Self::Postgres(store) => store.commit_count(),
        }
    }
}

impl StoreSite {
    /// Creates a location. For PostgreSQL it blocks until the cluster runs.
    pub(crate) fn new(kind: StoreKind) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new()
            .prefix("noetl-bench-")
            .tempdir()
            .map_err(BenchError::io_error("a temporary folder"))?;
        let location = match kind {
            StoreKind::Sqlite => StoreLocation::Sqlite(folder.path().join("noetl.db")),
            StoreKind::Postgres => StoreLocation::Postgres(TestDatabase::new()?),
        };
        Ok(Self { folder, location })
    }

    /// Folder for log files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens the store in this process. SQLite allows one process at a time.
    pub(crate) async fn open(&self) -> Result<OpenStore, BenchError> {
        match &self.location {
            StoreLocation::Sqlite(file) => {
                let store = Arc::new(open_sqlite(file).await?);
                Ok(OpenStore {
                    store: Arc::clone(&store) as Arc<dyn Store>,
                    commits: CommitCounter::Sqlite(store),
                })
            }
            StoreLocation::Postgres(database) => {
                let options = PostgresOptions::new(database.connection_config(), SystemClock.now());
                let store = Arc::new(PostgresStore::open(&options).await?);
                Ok(OpenStore {
                    store: Arc::clone(&store) as Arc<dyn Store>,
                    commits: CommitCounter::Postgres(store),
                })
            }
        }
    }

    /// Returns the store argument and the environment of a server process.
    pub(crate) fn server_store_config(&self) -> (OsString, Vec<(&'static str, String)>) {
        match &self.location {
            StoreLocation::Sqlite(file) => {
                let mut store = OsString::from("sqlite:");
                store.push(file);
                (store, Vec::new())
            }
            StoreLocation::Postgres(database) => {
                (OsString::from("postgres"), vec![("NOETL_DSN", database.connection_config())])
            }
        }
    }

    /// Returns the database, if there is a cluster.
    pub(crate) fn database(&self) -> Option<&TestDatabase> {
        match &self.location {
            StoreLocation::Sqlite(_) => None,
            StoreLocation::Postgres(database) => Some(database),
        }
    }

    /// Adds published rows to the outbox. Returns `false` if only the product can write there.
    pub(crate) async fn add_published_rows(&self, rows: u32) -> Result<bool, BenchError> {
        let Some(database) = self.database() else {
            return Ok(false);
        };
        let (client, connection) =
            tokio_postgres::connect(&database.connection_config(), NoTls).await?;
        let connection_task = tokio::spawn(connection);
        let inserted = client.execute(INSERT_PUBLISHED_ROWS, &[&i64::from(rows)]).await;
        drop(client);
        // The connection ends with its client. Its result does not matter.
        drop(connection_task.await);
        inserted?;
        Ok(true)
    }

    /// Processes of the database, for the CPU shares.
    pub(crate) fn database_processes(&self) -> Vec<(&'static str, u32)> {
        match &self.location {
            StoreLocation::Sqlite(_) => Vec::new(),
            StoreLocation::Postgres(_) => {
                postmaster_pid().map(|pid| ("postgres", pid)).into_iter().collect()
            }
        }
    }

    /// Returns the durability settings as reported by the store, which has to exist by now.
    pub(crate) async fn read_durability(&self) -> Result<BTreeMap<String, String>, BenchError> {
        match &self.location {
            StoreLocation::Sqlite(file) => sqlite_durability(file),
            StoreLocation::Postgres(database) => {
                postgres_durability(&database.connection_config()).await
            }
        }
    }
}

/// Opens a file. The previous process may hold its lock for a short time.
async fn open_sqlite(file: &Path) -> Result<SqliteStore, BenchError> {
    const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
    const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);
    let started = Instant::now();
    loop {
        match SqliteStore::open(&SqliteOptions::new(file)) {
            Ok(store) => return Ok(store),
            Err(error) if started.elapsed() > LOCK_TIMEOUT => return Err(error.into()),
            Err(_) => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
        }
    }
}

fn postmaster_pid() -> Option<u32> {
    let cluster = PostgresCluster::shared().ok()?;
    read_pid_file(&cluster.socket_folder().join("data").join("postmaster.pid"))
}

/// Reads the journal mode from the header of the file. The sync level is a setting of each
/// connection: the store reads it back from its writer, and refuses to open if it is wrong.
fn sqlite_durability(file: &Path) -> Result<BTreeMap<String, String>, BenchError> {
    const WAL_VERSIONS: [u8; 2] = [2, 2];
    let mut header = [0; 20];
    File::open(file)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(BenchError::io_error("the header of the SQLite file"))?;
    let journal = if header.ends_with(&WAL_VERSIONS) { "wal" } else { "rollback" };
    Ok(BTreeMap::from([
        ("journal_mode".to_owned(), journal.to_owned()),
        ("synchronous".to_owned(), "full (the store refuses to open otherwise)".to_owned()),
    ]))
}

async fn postgres_durability(config: &str) -> Result<BTreeMap<String, String>, BenchError> {
    let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
    let connection_task = tokio::spawn(connection);
    let mut settings = BTreeMap::new();
    for name in DURABILITY_SETTINGS.into_iter().chain(["server_version"]) {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).await?;
        settings.insert(name.to_owned(), row.get::<_, String>(0));
    }
    drop(client);
    // The connection ends with its client. Its result does not matter.
    drop(connection_task.await);
    for name in DURABILITY_SETTINGS {
        if settings.get(name).map(String::as_str) != Some("on") {
            return Err(BenchError::Harness(format!("PostgreSQL runs with {name} off")));
        }
    }
    Ok(settings)
}
