//! Migrations while other sessions use the tables.

use std::time::Duration;

use noetl_testkit::postgres::TestDatabase;
use tokio_postgres::Client;

use super::{connect_raw, open_store, test_options};
use crate::StoreError;
use crate::migration::POSTGRES_MIGRATIONS;
use crate::postgres::PostgresStore;
use crate::postgres::open::{apply_migrations, create_schema, run_migrations};
use crate::suite::fixture::TestExecution;

/// Schema version before the migrations that change the outbox.
const FORMER_VERSION: usize = 9;

/// Creates the tables as an earlier program did.
async fn create_former_tables(database: &TestDatabase) {
    let mut client = connect_raw(database).await;
    let transaction = client.transaction().await.unwrap();
    create_schema(&transaction, "noetl").await.unwrap();
    let former: Vec<_> = POSTGRES_MIGRATIONS.iter().take(FORMER_VERSION).collect();
    apply_migrations(&transaction, &former).await.unwrap();
    transaction.commit().await.unwrap();
}

/// The lock that a writer of the outbox holds.
const LOCK_OUTBOX: &str = "LOCK TABLE outbox IN ROW EXCLUSIVE MODE";

async fn query_count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// A migration that waits for a table lock blocks all later sessions. It gives up within a short
/// timeout, holds no other lock meanwhile, and retries.
#[tokio::test]
async fn waiting_migration_does_not_block_writers() {
    let database = TestDatabase::new().unwrap();
    create_former_tables(&database).await;
    let mut other = connect_raw(&database).await;
    let transaction = other.transaction().await.unwrap();
    transaction.batch_execute(LOCK_OUTBOX).await.unwrap();
    let options = test_options(&database);
    let opening = tokio::spawn(async move { PostgresStore::open(&options).await });
    let writer = connect_raw(&database).await;
    let waits = "SELECT count(*) FROM pg_locks
        WHERE NOT granted AND relation = 'outbox'::regclass AND mode = 'AccessExclusiveLock'";
    while query_count(&writer, waits).await == 0 {
        tokio::task::yield_now().await;
    }
    let holds = "SELECT count(*) FROM pg_locks
        WHERE granted AND relation = 'execution'::regclass AND mode = 'ShareLock'";
    assert_eq!(query_count(&writer, holds).await, 0);
    // Without the lock timeout of the migration, this would wait for the transaction that holds the
    // table.
    for sql in ["SET statement_timeout = '30s'", "DELETE FROM outbox"] {
        writer.batch_execute(sql).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let store = opening.await.unwrap().unwrap();
    TestExecution::create_started(&store, 1).await;
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'noetl'
        AND indexname IN ('execution_live', 'step_cache_by_origin', 'outbox_unpublished')";
    assert_eq!(query_count(&writer, indexes).await, 2);
}

/// A migration that reaches its timeout reports the blocking transactions and leaves the tables
/// unchanged.
#[tokio::test]
async fn migration_without_lock_is_reported() {
    let database = TestDatabase::new().unwrap();
    let store = open_store(&database).await;
    database.run_statement("DROP SCHEMA noetl CASCADE").unwrap();
    create_former_tables(&database).await;
    let mut other = connect_raw(&database).await;
    let transaction = other.transaction().await.unwrap();
    transaction.batch_execute(LOCK_OUTBOX).await.unwrap();
    let mut pooled = store.owner.acquire().await.unwrap();
    let client = pooled.client().unwrap();
    let result = run_migrations(client, "noetl", &store.owner, Duration::ZERO).await;
    let Err(StoreError::Retry { cause, .. }) = result else {
        panic!("{result:?}");
    };
    let message = cause.to_string();
    assert!(message.contains("other transactions hold"), "{message}");
    assert!(cause.source().is_some());
    transaction.commit().await.unwrap();
    let watcher = connect_raw(&database).await;
    let newest = "SELECT max(version) FROM schema_migration";
    assert_eq!(query_count(&watcher, newest).await, 9);
    run_migrations(client, "noetl", &store.owner, Duration::ZERO).await.unwrap();
    assert!(query_count(&watcher, newest).await > 9);
}
