//! Nobody waits for ever: not for a connection, not for a place in a queue, not for a server.

use std::time::Duration;

use noetl_types::limits::PageLimit;
use tokio::net::TcpListener;

use super::*;
use crate::{Saturated, Upkeep as _};

/// Longer than anything here takes on a busy machine: without an end the wait would pass it.
const LONG: Duration = Duration::from_mins(1);
/// How long calls wait that are to wait in vain.
const SHORT: Duration = Duration::from_millis(100);

async fn impatient(database: &Database) -> PostgresStore {
    let mut options = options(database);
    options.connections = 2;
    options.writers = 1;
    options.queue = 1;
    // The tables are there already, so that opening does not count.
    drop(open(database).await);
    let patient = PostgresStore::open(&options).await.unwrap();
    drop(patient);
    options.acquire_timeout = SHORT;
    loop {
        // On a machine that is busy with other tests, to connect may take longer than that.
        match PostgresStore::open(&options).await {
            Ok(store) => return store,
            Err(StoreError::Retry { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn who_waits_for_a_connection_in_vain_is_told() {
    let database = Database::new().unwrap();
    let store = impatient(&database).await;
    let held = store.lists.get().await.unwrap();
    let asked = store.execution_ids(None, PageLimit::MAX);
    let refused = tokio::time::timeout(LONG, asked).await.unwrap();
    let refused = refused.unwrap_err();
    assert_eq!(refused.saturated(), Some(Saturated(SHORT)), "{refused:?}");
    assert_eq!(refused, StoreError::retry("nothing happened"));
    drop(held);
    let ids = store.execution_ids(None, PageLimit::MAX).await;
    assert!(ids.unwrap().is_empty());
}

#[tokio::test]
async fn who_waits_for_a_writer_in_vain_is_told() {
    let database = Database::new().unwrap();
    let store = Arc::new(impatient(&database).await);
    // The writer has its connection before it counts how long one takes.
    while let Err(AppendRefused::Store(_)) = one(&*store, Run::new(9).start()).await {}
    let mut other = raw(&database).await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE execution IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let mut appends = JoinSet::new();
    let append = |appends: &mut JoinSet<_>, number| {
        let store = Arc::clone(&store);
        appends.spawn(async move { one(&*store, Run::new(number).start()).await });
    };
    // One is under way and waits for the lock; one waits for the writer; the third has no place.
    append(&mut appends, 1);
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'execution'::regclass";
    while lock.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    append(&mut appends, 2);
    append(&mut appends, 3);
    let first = tokio::time::timeout(LONG, appends.join_next()).await;
    let refused = first.unwrap().unwrap().unwrap().unwrap_err();
    let AppendRefused::Store(error) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.saturated(), Some(Saturated(SHORT)), "{error:?}");
    drop(lock);
    drop(other);
    while let Some(appended) = appends.join_next().await {
        appended.unwrap().unwrap();
    }
}

/// It takes connections and says nothing.
#[tokio::test]
async fn a_server_that_says_nothing_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = format!("host=127.0.0.1 port={port} user=u dbname=d sslmode=disable");
    let mut options = PostgresOptions::new(address, at("12:00:00"));
    options.acquire_timeout = SHORT;
    let opened = tokio::time::timeout(LONG, PostgresStore::open(&options)).await;
    let refused = opened.unwrap().unwrap_err();
    assert_eq!(refused, StoreError::retry("does not answer"), "{refused:?}");
    drop(listener);
}
