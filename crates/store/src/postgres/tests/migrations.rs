//! Tables that are brought up to date while others work with them.

use std::time::Duration;

use noetl_testkit::postgres::Database;
use tokio_postgres::Client;

use super::{open, options, raw};
use crate::postgres::PostgresStore;
use crate::postgres::open::migrate;
use crate::suite::fixture::Run;
use crate::{Store as _, StoreError};

/// Takes the last migrations back.
const EARLIER: &str = "DROP INDEX noetl.execution_live;
    DROP INDEX noetl.step_cache_by_origin;
    CREATE INDEX outbox_unpublished ON noetl.outbox (execution_id)
        WHERE status <> 'PUBLISHED' AND discarded_at IS NULL;
    DELETE FROM noetl.schema_migration WHERE version > 9";

/// What a writer of the outbox holds.
const HOLD: &str = "LOCK TABLE outbox IN ROW EXCLUSIVE MODE";

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// A migration that waits for a table stands before all who come later; it steps back before long, holds
/// nothing else meanwhile, and goes on by itself.
#[tokio::test]
async fn nobody_waits_for_long_behind_a_migration_that_waits() {
    let database = Database::new().unwrap();
    let run = Run::started(&open(&database).await, 1).await;
    database.run(EARLIER).unwrap();
    let mut other = raw(&database).await;
    let held = other.transaction().await.unwrap();
    held.batch_execute(HOLD).await.unwrap();
    let options = options(&database);
    let opening = tokio::spawn(async move { PostgresStore::open(&options).await });
    let writer = raw(&database).await;
    let waits = "SELECT count(*) FROM pg_locks
        WHERE NOT granted AND relation = 'outbox'::regclass AND mode = 'AccessExclusiveLock'";
    while count(&writer, waits).await == 0 {
        tokio::task::yield_now().await;
    }
    let holds = "SELECT count(*) FROM pg_locks
        WHERE granted AND relation = 'execution'::regclass AND mode = 'ShareLock'";
    assert_eq!(count(&writer, holds).await, 0);
    // Without a bound this would wait for the one that holds the table.
    for sql in ["SET statement_timeout = '30s'", "DELETE FROM outbox"] {
        writer.batch_execute(sql).await.unwrap();
    }
    held.commit().await.unwrap();
    let store = opening.await.unwrap().unwrap();
    assert!(store.execution(run.id).await.unwrap().is_some());
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'noetl'
        AND indexname IN ('execution_live', 'step_cache_by_origin', 'outbox_unpublished')";
    assert_eq!(count(&writer, indexes).await, 2);
}

/// Who has no more patience says what is in the way, and leaves the tables as they were.
#[tokio::test]
async fn a_migration_that_gets_no_lock_says_so() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    database.run(EARLIER).unwrap();
    let mut other = raw(&database).await;
    let held = other.transaction().await.unwrap();
    held.batch_execute(HOLD).await.unwrap();
    let mut pooled = store.owner.get().await.unwrap();
    let client = pooled.client().unwrap();
    let refused = migrate(client, "noetl", &store.owner, Duration::ZERO).await;
    let Err(StoreError::Retry { cause, .. }) = refused else {
        panic!("{refused:?}");
    };
    let told = cause.to_string();
    assert!(told.contains("others hold a lock"), "{told}");
    assert!(cause.source().is_some());
    held.commit().await.unwrap();
    let watcher = raw(&database).await;
    let newest = "SELECT max(version) FROM schema_migration";
    assert_eq!(count(&watcher, newest).await, 9);
    migrate(client, "noetl", &store.owner, Duration::ZERO)
        .await
        .unwrap();
    assert!(count(&watcher, newest).await > 9);
}
