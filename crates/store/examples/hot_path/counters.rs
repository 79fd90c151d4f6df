//! The databases, and what they count themselves.

use std::any::Any;
use std::sync::Arc;

use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{PostgresStore, SqliteStore, Store};
use noetl_testkit::postgres::Database;
use tokio_postgres::{Client, NoTls};

use crate::work::noon;

/// A backend that is measured.
pub(crate) struct Backend {
    pub(crate) store: Arc<dyn Store>,
    source: Source,
    /// The folder or the database, which goes with this.
    _keep: Box<dyn Any>,
}

enum Source {
    Postgres(Client),
    Sqlite(Arc<SqliteStore>),
}

/// What a database has counted so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// Commits: those that waited for the disk on SQLite, all of the database on PostgreSQL.
    commits: i64,
    wal_bytes: i64,
}

impl Counts {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            wal_bytes: self.wal_bytes - before.wal_bytes,
        }
    }

    pub(crate) fn per(self, items: f64) -> String {
        #[expect(clippy::cast_precision_loss, reason = "it is a measurement")]
        let (commits, bytes) = (self.commits as f64, self.wal_bytes as f64);
        format!(
            "{:.3} commits, {:.1} kB of WAL each",
            commits / items,
            bytes / items / 1e3
        )
    }
}

impl Backend {
    /// Opens a backend by name; on PostgreSQL in a given database, or else in one of its own.
    pub(crate) async fn open(name: &str, config: Option<String>) -> Self {
        if name == "postgres" {
            let database = config
                .is_none()
                .then(|| Database::new().expect("a cluster"));
            let own = database.as_ref().map(Database::config);
            let config = config.or(own).expect("a database");
            let options = PostgresOptions::new(&config, noon());
            let store = PostgresStore::open(&options).await.expect("a store");
            let (client, connection) = tokio_postgres::connect(&config, NoTls)
                .await
                .expect("a connection");
            tokio::spawn(connection);
            return Self {
                store: Arc::new(store),
                source: Source::Postgres(client),
                _keep: Box::new(database),
            };
        }
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteOptions::new(folder.path().join("noetl.db"));
        let store = Arc::new(SqliteStore::open(&options).expect("a store"));
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            source: Source::Sqlite(store),
            _keep: Box::new(folder),
        }
    }

    pub(crate) async fn counts(&self) -> Counts {
        match &self.source {
            Source::Sqlite(store) => Counts {
                commits: i64::try_from(store.commits().synced).unwrap_or(i64::MAX),
                wal_bytes: 0,
            },
            Source::Postgres(client) => {
                // Of the whole cluster, which nobody else uses at the moment.
                let sql = "SELECT pg_stat_force_next_flush(), xact_commit,
                    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
                    FROM pg_stat_database WHERE datname = current_database()";
                let row = client.query_one(sql, &[]).await.expect("counters");
                Counts {
                    commits: row.get(1),
                    wal_bytes: row.get(2),
                }
            }
        }
    }
}
