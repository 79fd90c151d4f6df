//! Where a system keeps its log while it is measured: a fresh place of its own, gone afterwards.

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
use noetl_testkit::postgres::{Cluster, Database};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_postgres::NoTls;

use crate::error::BenchError;
use crate::machine::pid_in;

/// Which database keeps the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// One SQLite file.
    Sqlite,
    /// A PostgreSQL cluster that is started for the occasion.
    Postgres,
}

impl StoreKind {
    /// How tables call it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Settings of PostgreSQL that a promise rests on.
const DURABLE: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// Rows of the outbox as marks leave them.
const ADD_PUBLISHED: &str = "INSERT INTO noetl.outbox
    (event_id, execution_id, subject, message_id, status, attempts, published_at)
    SELECT n, 1 + n / 1000, 'noetl.events.step.enter', '1:' || (1 + n / 1000) || ':' || n,
        'PUBLISHED', 1, now()
    FROM generate_series(1, $1::bigint) AS n";

/// The place of one system's log, and of the logs of its processes.
#[derive(Debug)]
pub(crate) struct Site {
    folder: TempDir,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Sqlite(PathBuf),
    Postgres(Database),
}

/// A store, with a view of how often it has committed.
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) commits: Commits,
}

/// Counts the commits that waited for the disk.
pub(crate) enum Commits {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Commits {
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Sqlite(store) => store.commits().synced,
            Self::Postgres(store) => store.commits(),
        }
    }
}

impl Site {
    /// A fresh place. For PostgreSQL it blocks until the cluster runs.
    pub(crate) fn new(kind: StoreKind) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new()
            .prefix("noetl-bench-")
            .tempdir()
            .map_err(BenchError::io("a temporary folder"))?;
        let place = match kind {
            StoreKind::Sqlite => Place::Sqlite(folder.path().join("noetl.db")),
            StoreKind::Postgres => Place::Postgres(Database::new()?),
        };
        Ok(Self { folder, place })
    }

    /// A folder for logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens the store in this process. SQLite lets one process in at a time.
    pub(crate) async fn open(&self) -> Result<OpenStore, BenchError> {
        match &self.place {
            Place::Sqlite(file) => {
                let store = Arc::new(open_file(file).await?);
                Ok(OpenStore {
                    store: Arc::clone(&store) as Arc<dyn Store>,
                    commits: Commits::Sqlite(store),
                })
            }
            Place::Postgres(database) => {
                let options = PostgresOptions::new(database.config(), SystemClock.now());
                let store = Arc::new(PostgresStore::open(&options).await?);
                Ok(OpenStore {
                    store: Arc::clone(&store) as Arc<dyn Store>,
                    commits: Commits::Postgres(store),
                })
            }
        }
    }

    /// How a server process is told where the store is: an argument, and the environment.
    pub(crate) fn server_store(&self) -> (OsString, Vec<(&'static str, String)>) {
        match &self.place {
            Place::Sqlite(file) => {
                let mut store = OsString::from("sqlite:");
                store.push(file);
                (store, Vec::new())
            }
            Place::Postgres(database) => (
                OsString::from("postgres"),
                vec![("NOETL_DSN", database.config())],
            ),
        }
    }

    /// The database, where there is a cluster.
    pub(crate) fn database(&self) -> Option<&Database> {
        match &self.place {
            Place::Sqlite(_) => None,
            Place::Postgres(database) => Some(database),
        }
    }

    /// Adds rows to the outbox that were published long ago; `false` where nobody but the product can
    /// write there.
    pub(crate) async fn add_published(&self, rows: u32) -> Result<bool, BenchError> {
        let Some(database) = self.database() else {
            return Ok(false);
        };
        let (client, connection) = tokio_postgres::connect(&database.config(), NoTls).await?;
        let serving = tokio::spawn(connection);
        let add = client.execute(ADD_PUBLISHED, &[&i64::from(rows)]).await;
        drop(client);
        // The connection ends with its client; how it says goodbye is of no interest.
        drop(serving.await);
        add?;
        Ok(true)
    }

    /// The processes of the database, which the shares of the processors tell apart.
    pub(crate) fn processes(&self) -> Vec<(&'static str, u32)> {
        match &self.place {
            Place::Sqlite(_) => Vec::new(),
            Place::Postgres(_) => postmaster()
                .map(|pid| ("postgres", pid))
                .into_iter()
                .collect(),
        }
    }

    /// What durability rests on, as the store itself tells. It has to exist by now.
    pub(crate) async fn durability(&self) -> Result<BTreeMap<String, String>, BenchError> {
        match &self.place {
            Place::Sqlite(file) => sqlite_durability(file),
            Place::Postgres(database) => postgres_durability(&database.config()).await,
        }
    }
}

/// Opens a file. Whoever has just let go of it may hold its lock for another moment.
async fn open_file(file: &Path) -> Result<SqliteStore, BenchError> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(5);
    let began = Instant::now();
    loop {
        match SqliteStore::open(&SqliteOptions::new(file)) {
            Ok(store) => return Ok(store),
            Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn postmaster() -> Option<u32> {
    let cluster = Cluster::shared().ok()?;
    pid_in(&cluster.socket_folder().join("data").join("postmaster.pid"))
}

/// The form of the journal is in the header of the file. How much is synced is a setting of each
/// connection, which the store reads back from its writer, and refuses to open without.
fn sqlite_durability(file: &Path) -> Result<BTreeMap<String, String>, BenchError> {
    const WAL: [u8; 2] = [2, 2];
    let mut header = [0; 20];
    File::open(file)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(BenchError::io("the header of the SQLite file"))?;
    let journal = if header.ends_with(&WAL) {
        "wal"
    } else {
        "rollback"
    };
    Ok(BTreeMap::from([
        ("journal_mode".to_owned(), journal.to_owned()),
        (
            "synchronous".to_owned(),
            "full, or the store would not open".to_owned(),
        ),
    ]))
}

async fn postgres_durability(config: &str) -> Result<BTreeMap<String, String>, BenchError> {
    let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
    let serving = tokio::spawn(connection);
    let mut settings = BTreeMap::new();
    for name in DURABLE.into_iter().chain(["server_version"]) {
        let row = client
            .query_one("SELECT current_setting($1)", &[&name])
            .await?;
        settings.insert(name.to_owned(), row.get::<_, String>(0));
    }
    drop(client);
    // The connection ends with its client; how it says goodbye is of no interest.
    drop(serving.await);
    for name in DURABLE {
        if settings.get(name).map(String::as_str) != Some("on") {
            return Err(BenchError::Harness(format!(
                "PostgreSQL runs with {name} off"
            )));
        }
    }
    Ok(settings)
}
