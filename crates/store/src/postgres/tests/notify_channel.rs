//! Servers on one database notify each other.

use noetl_types::{ExecutionId, PoolName};

use super::{connect_raw, new_database, open_store, test_options};
use crate::prelude::*;
use crate::{LogChange, NotifyChannel, PostgresStore, Wakeup};

async fn open_channel(store: &PostgresStore) -> Box<dyn NotifyChannel> {
    store.open_notify_channel().await.unwrap().expect("notifications are supported")
}

fn test_wakeup(number: i64) -> Wakeup {
    let mut wakeup = Wakeup::default();
    wakeup.add_queue(PoolName::shared(), 1);
    wakeup.add_execution(ExecutionId::new(number).unwrap(), LogChange::End);
    wakeup
}

#[tokio::test]
async fn notifications_reach_other_servers() {
    let database = new_database();
    let store = open_store(&database).await;
    let (mut first, mut second) = (open_channel(&store).await, open_channel(&store).await);
    first.notify(&test_wakeup(1)).await.unwrap();
    assert_eq!(second.recv().await.unwrap(), test_wakeup(1));
    // Notifications arrive in commit order, so the channel's own notification would have arrived
    // first.
    second.notify(&test_wakeup(2)).await.unwrap();
    assert_eq!(first.recv().await.unwrap(), test_wakeup(2));
    second.notify(&Wakeup::WAKE_ALL).await.unwrap();
    assert_eq!(first.recv().await.unwrap(), Wakeup::WAKE_ALL);
    // An empty wakeup sends no notification.
    second.notify(&Wakeup::default()).await.unwrap();
    second.notify(&test_wakeup(3)).await.unwrap();
    assert_eq!(first.recv().await.unwrap(), test_wakeup(3));
}

#[tokio::test]
async fn other_schema_receives_no_notifications() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut options = test_options(&database);
    options.schema = "another".to_owned();
    let other_store = PostgresStore::open(&options).await.unwrap();
    let mut channel = open_channel(&store).await;
    let (mut other_receiver, mut other_sender) =
        (open_channel(&other_store).await, open_channel(&other_store).await);
    channel.notify(&test_wakeup(1)).await.unwrap();
    other_sender.notify(&test_wakeup(2)).await.unwrap();
    assert_eq!(other_receiver.recv().await.unwrap(), test_wakeup(2));
}

#[tokio::test]
async fn broken_channel_returns_error() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut channel = open_channel(&store).await;
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'noetl_wakeups_noetl' AND datname = current_database()";
    let ended = connect_raw(&database).await.query(sql, &[]).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert!(channel.recv().await.is_err());
    assert!(channel.notify(&test_wakeup(1)).await.is_err());
    let (mut first, mut second) = (open_channel(&store).await, open_channel(&store).await);
    first.notify(&test_wakeup(2)).await.unwrap();
    assert_eq!(second.recv().await.unwrap(), test_wakeup(2));
}
