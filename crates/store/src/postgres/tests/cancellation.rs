//! Cancelled calls do not block later ones.

use std::pin::pin;

use tokio_postgres::Client;

use super::{connect_raw, new_database, open_store, test_options};
use crate::StoreError;
use crate::postgres::pool::{ConnectionPool, PooledConnection};
use crate::sql::PlanMode;

/// Sleeps longer than any test takes.
const SLEEP_SQL: &str = "SELECT pg_sleep(1000000)::text";

/// The call during which a caller is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CancelPoint {
    Statement,
    Rows,
    Transaction,
    RawClient,
}

async fn backend_pid(client: &mut PooledConnection<'_>) -> i32 {
    let rows = client.query_rows("SELECT pg_backend_pid()", &[]).await.unwrap();
    rows[0].get(0)
}

async fn run_sleep(
    client: &mut PooledConnection<'_>,
    cancel_point: CancelPoint,
) -> Result<(), StoreError> {
    match cancel_point {
        CancelPoint::Statement => client.query_rows(SLEEP_SQL, &[]).await.map(drop),
        CancelPoint::Rows => client.query_each(SLEEP_SQL, &[], |_| Ok(true)).await,
        CancelPoint::Transaction => {
            let transaction = client.begin_transaction().await?;
            transaction.batch_execute(SLEEP_SQL).await.unwrap();
            Ok(())
        }
        CancelPoint::RawClient => {
            client.client()?.batch_execute(SLEEP_SQL).await.unwrap();
            Ok(())
        }
    }
}

async fn is_sleeping(watcher: &Client, pid: i32) -> bool {
    let sql = "SELECT EXISTS (
        SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep')";
    watcher.query_one(sql, &[&pid]).await.unwrap().get(0)
}

/// The statement is ended on the server, and its connection is not reused.
#[tokio::test]
async fn cancelled_call_does_not_block_next() {
    let database = new_database();
    drop(open_store(&database).await);
    let mut options = test_options(&database);
    options.max_connections = 1;
    let pool = ConnectionPool::new(&options, PlanMode::Generic).unwrap();
    let watcher = connect_raw(&database).await;
    for cancel_point in [
        CancelPoint::Statement,
        CancelPoint::Rows,
        CancelPoint::Transaction,
        CancelPoint::RawClient,
    ] {
        let mut client = pool.acquire().await.unwrap();
        let pid = backend_pid(&mut client).await;
        client.query_rows("SET statement_timeout = 0", &[]).await.unwrap();
        {
            let mut sleeping = pin!(run_sleep(&mut client, cancel_point));
            loop {
                tokio::select! {
                    biased;
                    result = &mut sleeping => panic!("{cancel_point:?}: {result:?}"),
                    is_asleep = is_sleeping(&watcher, pid) => if is_asleep { break },
                }
            }
        }
        drop(client);
        let mut next = pool.acquire().await.unwrap();
        assert_ne!(backend_pid(&mut next).await, pid, "{cancel_point:?}");
        drop(next);
        // The statement has no timeout, so only the cancellation ends it.
        while is_sleeping(&watcher, pid).await {
            tokio::task::yield_now().await;
        }
    }
}

/// A connection is reused after any answer, including errors.
#[tokio::test]
async fn connection_is_reused_after_answer() {
    let database = new_database();
    drop(open_store(&database).await);
    let mut options = test_options(&database);
    options.max_connections = 1;
    let pool = ConnectionPool::new(&options, PlanMode::Generic).unwrap();
    let mut client = pool.acquire().await.unwrap();
    let first = backend_pid(&mut client).await;
    client.query_rows("SELECT 1 / 0", &[]).await.unwrap_err();
    client.query_rows("SELECT nothing", &[]).await.unwrap_err();
    let stopped = client.query_each("SELECT generate_series(1, 9)", &[], |_| Ok(false));
    stopped.await.unwrap();
    client.begin_read_snapshot().await.unwrap().commit().await.unwrap();
    let transaction = client.begin_transaction().await.unwrap();
    transaction.batch_execute("SELECT 1 / 0").await.unwrap_err();
    transaction.rollback().await.unwrap();
    client.client().unwrap().batch_execute("").await.unwrap();
    client.mark_idle();
    drop(client);
    let mut next = pool.acquire().await.unwrap();
    assert_eq!(backend_pid(&mut next).await, first);
}
