//! The same requests on every store.

use std::sync::Arc;

use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{MemoryStore, PostgresStore, SqliteStore, Store};
use noetl_testkit::postgres::Database;
use tempfile::TempDir;

use super::{House, house_of};
use crate::clock::{Clock as _, SystemClock};
use crate::http::settings::HttpSettings;
use crate::runtime::{Runtime, Settings};

/// A store, and what it lives in.
pub(super) struct Shelter {
    pub(super) store: Arc<dyn Store>,
    _place: Place,
}

enum Place {
    Memory,
    Folder(#[expect(dead_code, reason = "it is removed when it is dropped")] TempDir),
    Database(#[expect(dead_code, reason = "it is removed when it is dropped")] Box<Database>),
}

impl Shelter {
    pub(super) fn memory() -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            _place: Place::Memory,
        }
    }

    pub(super) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("noetl.db"));
        Self {
            store: Arc::new(SqliteStore::open(&options).unwrap()),
            _place: Place::Folder(folder),
        }
    }

    pub(super) async fn postgres() -> Self {
        let database = Database::new().unwrap();
        let options = PostgresOptions::new(database.config(), SystemClock.now());
        Self {
            store: Arc::new(PostgresStore::open(&options).await.unwrap()),
            _place: Place::Database(Box::new(database)),
        }
    }

    /// A server on it.
    pub(super) async fn house(
        &self,
        http: HttpSettings,
        change: impl FnOnce(&mut Settings),
    ) -> House {
        let mut settings = Settings::default();
        change(&mut settings);
        let runtime = Runtime::open(Arc::clone(&self.store), Arc::new(SystemClock), settings)
            .await
            .unwrap();
        house_of(runtime, &http)
    }
}

/// Does the same on every store.
pub(super) async fn on_every_store(test: impl AsyncFn(&Shelter)) {
    test(&Shelter::memory()).await;
    test(&Shelter::sqlite()).await;
    test(&Shelter::postgres().await).await;
}
