//! Runs requests on every store.

use std::sync::Arc;

use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{PostgresStore, SqliteStore, Store};
use noetl_store_testing::migrated_database;
use noetl_testkit::postgres::TestDatabase;
use tempfile::TempDir;

use super::{TestServer, server_from_services};
use crate::clock::{Clock as _, SystemClock};
use crate::http::settings::HttpSettings;
use crate::services::ControlPlane;
use crate::settings::Settings;

/// A store and the owner of its storage.
pub(super) struct StoreFixture {
    pub(super) store: Arc<dyn Store>,
    _guard: StoreGuard,
}

enum StoreGuard {
    Memory,
    TempFolder(#[expect(dead_code, reason = "it is removed when it is dropped")] TempDir),
    TestDatabase(
        #[expect(dead_code, reason = "it is removed when it is dropped")] Box<TestDatabase>,
    ),
}

impl StoreFixture {
    pub(super) fn in_memory() -> Self {
        Self { store: Arc::new(SqliteStore::in_memory().unwrap()), _guard: StoreGuard::Memory }
    }

    pub(super) fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("noetl.db"));
        Self {
            store: Arc::new(SqliteStore::open(&options).unwrap()),
            _guard: StoreGuard::TempFolder(folder),
        }
    }

    pub(super) async fn on_postgres() -> Self {
        let now = SystemClock.now();
        let database = migrated_database(now).unwrap();
        let options = PostgresOptions::new(database.connection_config(), now);
        Self {
            store: Arc::new(PostgresStore::open(&options).await.unwrap()),
            _guard: StoreGuard::TestDatabase(Box::new(database)),
        }
    }

    pub(super) async fn start_server(
        &self,
        http: HttpSettings,
        change: impl FnOnce(&mut Settings),
    ) -> TestServer {
        let mut settings = Settings::default();
        change(&mut settings);
        let services = ControlPlane::open(Arc::clone(&self.store), Arc::new(SystemClock), settings)
            .await
            .unwrap();
        server_from_services(services, &http)
    }
}

/// Runs a test on every store.
pub(super) async fn on_every_store(test: impl AsyncFn(&StoreFixture)) {
    test(&StoreFixture::in_memory()).await;
    test(&StoreFixture::on_sqlite()).await;
    test(&StoreFixture::on_postgres().await).await;
}
