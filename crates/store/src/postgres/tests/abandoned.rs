//! What nobody waits for any more keeps nobody waiting.

use std::pin::pin;

use noetl_testkit::postgres::Database;
use tokio_postgres::Client;

use super::{open, options, raw};
use crate::StoreError;
use crate::postgres::pool::{Plans, Pool, Pooled};

/// Longer than any test takes.
const SLEEP: &str = "SELECT pg_sleep(1000000)::text";

/// How somebody leaves a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Statement,
    Rows,
    Transaction,
    Hand,
}

async fn process(client: &mut Pooled<'_>) -> i32 {
    let rows = client.rows("SELECT pg_backend_pid()", &[]).await.unwrap();
    rows[0].get(0)
}

async fn sleep(client: &mut Pooled<'_>, left: Left) -> Result<(), StoreError> {
    match left {
        Left::Statement => client.rows(SLEEP, &[]).await.map(drop),
        Left::Rows => client.each(SLEEP, &[], |_| Ok(true)).await,
        Left::Transaction => {
            let transaction = client.transaction().await?;
            transaction.batch_execute(SLEEP).await.unwrap();
            Ok(())
        }
        Left::Hand => {
            client.client()?.batch_execute(SLEEP).await.unwrap();
            Ok(())
        }
    }
}

async fn is_asleep(watcher: &Client, process: i32) -> bool {
    let sql = "SELECT EXISTS (
        SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep')";
    watcher.query_one(sql, &[&process]).await.unwrap().get(0)
}

/// The statement is ended on the server, and its connection is not for the next one.
#[tokio::test]
async fn who_comes_after_somebody_who_left_gets_an_answer() {
    let database = Database::new().unwrap();
    drop(open(&database).await);
    let mut options = options(&database);
    options.connections = 1;
    let pool = Pool::new(&options, Plans::Once).unwrap();
    let watcher = raw(&database).await;
    for left in [Left::Statement, Left::Rows, Left::Transaction, Left::Hand] {
        let mut client = pool.get().await.unwrap();
        let asleep = process(&mut client).await;
        client.rows("SET statement_timeout = 0", &[]).await.unwrap();
        {
            let mut sleeping = pin!(sleep(&mut client, left));
            loop {
                tokio::select! {
                    biased;
                    woken = &mut sleeping => panic!("{left:?}: {woken:?}"),
                    is_asleep = is_asleep(&watcher, asleep) => if is_asleep { break },
                }
            }
        }
        drop(client);
        let mut next = pool.get().await.unwrap();
        assert_ne!(process(&mut next).await, asleep, "{left:?}");
        drop(next);
        // Nobody else ends it: it has no limit of time.
        while is_asleep(&watcher, asleep).await {
            tokio::task::yield_now().await;
        }
    }
}

/// Whoever has an answer leaves the connection to the next one, whatever the answer is.
#[tokio::test]
async fn a_connection_whose_user_was_answered_goes_back() {
    let database = Database::new().unwrap();
    drop(open(&database).await);
    let mut options = options(&database);
    options.connections = 1;
    let pool = Pool::new(&options, Plans::Once).unwrap();
    let mut client = pool.get().await.unwrap();
    let first = process(&mut client).await;
    client.rows("SELECT 1 / 0", &[]).await.unwrap_err();
    client.rows("SELECT nothing", &[]).await.unwrap_err();
    let stopped = client.each("SELECT generate_series(1, 9)", &[], |_| Ok(false));
    stopped.await.unwrap();
    client.moment().await.unwrap().commit().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("SELECT 1 / 0").await.unwrap_err();
    transaction.rollback().await.unwrap();
    client.client().unwrap().batch_execute("").await.unwrap();
    client.done();
    drop(client);
    let mut next = pool.get().await.unwrap();
    assert_eq!(process(&mut next).await, first);
}
