//! Servers on one database hear each other.

use noetl_testkit::postgres::Database;
use noetl_types::{ExecutionId, PoolName};

use super::{open, options, raw};
use crate::{Growth, Hints, Line, PostgresStore, Store as _};

async fn line(store: &PostgresStore) -> Box<dyn Line> {
    store.line().await.unwrap().expect("it can be shared")
}

fn hints(number: i64) -> Hints {
    let mut hints = Hints::default();
    hints.left(PoolName::shared(), 1);
    hints.grew(ExecutionId::new(number).unwrap(), Growth::End);
    hints
}

#[tokio::test]
async fn others_hear_what_one_tells() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let (mut first, mut second) = (line(&store).await, line(&store).await);
    first.tell(&hints(1)).await.unwrap();
    assert_eq!(second.hear().await.unwrap(), hints(1));
    // Notifications come in the order of their commits, so its own would have come before.
    second.tell(&hints(2)).await.unwrap();
    assert_eq!(first.hear().await.unwrap(), hints(2));
    second.tell(&Hints::EVERYTHING).await.unwrap();
    assert_eq!(first.hear().await.unwrap(), Hints::EVERYTHING);
    // There is nothing to tell, and nobody is woken.
    second.tell(&Hints::default()).await.unwrap();
    second.tell(&hints(3)).await.unwrap();
    assert_eq!(first.hear().await.unwrap(), hints(3));
}

#[tokio::test]
async fn another_installation_in_the_same_database_hears_nothing() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut options = options(&database);
    options.schema = "another".to_owned();
    let another = PostgresStore::open(&options).await.unwrap();
    let mut here = line(&store).await;
    let (mut there, mut beside) = (line(&another).await, line(&another).await);
    here.tell(&hints(1)).await.unwrap();
    beside.tell(&hints(2)).await.unwrap();
    assert_eq!(there.hear().await.unwrap(), hints(2));
}

#[tokio::test]
async fn a_line_that_is_cut_says_so() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut cut = line(&store).await;
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'noetl_hints_noetl' AND datname = current_database()";
    let ended = raw(&database).await.query(sql, &[]).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert!(cut.hear().await.is_err());
    assert!(cut.tell(&hints(1)).await.is_err());
    let (mut first, mut second) = (line(&store).await, line(&store).await);
    first.tell(&hints(2)).await.unwrap();
    assert_eq!(second.hear().await.unwrap(), hints(2));
}
