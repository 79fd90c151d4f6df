//! Backends of the benchmark and the counters of their databases.

use std::any::Any;
use std::sync::Arc;

use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{PostgresStore, SqliteStore, Store};
use noetl_testkit::postgres::TestDatabase;
use tokio_postgres::{Client, NoTls};

use crate::workload::noon;

pub(crate) struct MeasuredBackend {
    pub(crate) store: Arc<dyn Store>,
    source: CounterSource,
    /// The folder or the database, deleted when this value is dropped.
    _resources: Box<dyn Any>,
}

enum CounterSource {
    Postgres(Client),
    Sqlite(Arc<SqliteStore>),
}

/// Counters of a database at one point in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatabaseCounters {
    /// Synced commits on SQLite, all commits of the database on PostgreSQL.
    commits: i64,
    wal_bytes: i64,
}

impl DatabaseCounters {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            commits: self.commits - before.commits,
            wal_bytes: self.wal_bytes - before.wal_bytes,
        }
    }

    pub(crate) fn format_per_item(self, items: f64) -> String {
        #[expect(clippy::cast_precision_loss, reason = "it is a measurement")]
        let (commits, bytes) = (self.commits as f64, self.wal_bytes as f64);
        format!("{:.3} commits, {:.1} kB of WAL each", commits / items, bytes / items / 1e3)
    }
}

impl MeasuredBackend {
    /// Opens a backend by name. On PostgreSQL, `config` names the database; without it, a temporary
    /// one is created.
    pub(crate) async fn open(name: &str, config: Option<String>) -> Self {
        if name == "postgres" {
            let database = config.is_none().then(|| TestDatabase::new().expect("a cluster"));
            let own = database.as_ref().map(TestDatabase::connection_config);
            let config = config.or(own).expect("a database");
            let options = PostgresOptions::new(&config, noon());
            let store = PostgresStore::open(&options).await.expect("a store");
            let (client, connection) =
                tokio_postgres::connect(&config, NoTls).await.expect("a connection");
            tokio::spawn(connection);
            return Self {
                store: Arc::new(store),
                source: CounterSource::Postgres(client),
                _resources: Box::new(database),
            };
        }
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteOptions::new(folder.path().join("noetl.db"));
        let store = Arc::new(SqliteStore::open(&options).expect("a store"));
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            source: CounterSource::Sqlite(store),
            _resources: Box::new(folder),
        }
    }

    pub(crate) async fn read_counters(&self) -> DatabaseCounters {
        match &self.source {
            CounterSource::Sqlite(store) => DatabaseCounters {
                commits: i64::try_from(store.commit_counts().synced).unwrap_or(i64::MAX),
                wal_bytes: 0,
            },
            CounterSource::Postgres(client) => {
                // WAL is counted for the whole cluster, which this benchmark does not share.
                let sql = "SELECT pg_stat_force_next_flush(), xact_commit,
                    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
                    FROM pg_stat_database WHERE datname = current_database()";
                let row = client.query_one(sql, &[]).await.expect("counters");
                DatabaseCounters { commits: row.get(1), wal_bytes: row.get(2) }
            }
        }
    }
}
