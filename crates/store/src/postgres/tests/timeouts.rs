//! Every wait has a timeout: for a connection, for the writer queue, for a server.

use std::time::Duration;

use noetl_types::limits::PageLimit;
use tokio::net::TcpListener;

use super::*;
use crate::StoreSaturated;
use crate::prelude::*;

/// Longer than any call takes on a busy machine. A wait without a timeout would exceed it.
const LONG_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout of the calls that are expected to time out.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);

async fn open_with_short_timeout(database: &TestDatabase) -> PostgresStore {
    let mut options = test_options(database);
    options.max_connections = 2;
    options.writer_count = 1;
    options.queue_capacity = 1;
    // The tables exist already, so migrations do not count towards the timeout.
    drop(open_store(database).await);
    let migrated = PostgresStore::open(&options).await.unwrap();
    drop(migrated);
    options.acquire_timeout = SHORT_TIMEOUT;
    loop {
        // On a busy machine, connecting may take longer than the timeout.
        match PostgresStore::open(&options).await {
            Ok(store) => return store,
            Err(StoreError::Retry { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn exhausted_pool_returns_saturated() {
    let database = new_database();
    let store = open_with_short_timeout(&database).await;
    let connection = store.list_pool.acquire().await.unwrap();
    let listing = store.list_execution_ids(None, PageLimit::MAX);
    let error = tokio::time::timeout(LONG_TIMEOUT, listing).await.unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.as_saturated(), Some(StoreSaturated(SHORT_TIMEOUT)), "{error:?}");
    assert_eq!(error, StoreError::retry("nothing happened"));
    drop(connection);
    let ids = store.list_execution_ids(None, PageLimit::MAX).await;
    assert!(ids.unwrap().is_empty());
}

#[tokio::test]
async fn full_writer_queue_returns_saturated() {
    let database = new_database();
    let store = Arc::new(open_with_short_timeout(&database).await);
    // The writer connects first, so that connecting does not count towards the timeout.
    while let Err(AppendError::Store(_)) =
        append_one(&*store, TestExecution::new(9).start_request()).await
    {}
    let mut other = connect_raw(&database).await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE execution IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut appends = JoinSet::new();
    let append = |appends: &mut JoinSet<_>, number| {
        let store = Arc::clone(&store);
        appends.spawn(async move {
            append_one(&*store, TestExecution::new(number).start_request()).await
        });
    };
    // The first append waits for the lock, the second for the writer, and the third finds the queue
    // full.
    append(&mut appends, 1);
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'execution'::regclass";
    while lock.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    append(&mut appends, 2);
    append(&mut appends, 3);
    let first = tokio::time::timeout(LONG_TIMEOUT, appends.join_next()).await;
    let append_error = first.unwrap().unwrap().unwrap().unwrap_err();
    let AppendError::Store(error) = append_error else {
        panic!("{append_error:?}");
    };
    assert_eq!(error.as_saturated(), Some(StoreSaturated(SHORT_TIMEOUT)), "{error:?}");
    drop(lock);
    drop(other);
    while let Some(appended) = appends.join_next().await {
        appended.unwrap().unwrap();
    }
}

/// The server accepts connections and never answers.
#[tokio::test]
async fn silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = format!("host=127.0.0.1 port={port} user=u dbname=d sslmode=disable");
    let mut options = PostgresOptions::new(address, test_time("12:00:00"));
    options.acquire_timeout = SHORT_TIMEOUT;
    let opened = tokio::time::timeout(LONG_TIMEOUT, PostgresStore::open(&options)).await;
    let error = opened.unwrap().unwrap_err();
    assert_eq!(error, StoreError::retry("does not answer"), "{error:?}");
    drop(listener);
}
