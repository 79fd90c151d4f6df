//! The broker is unavailable, and the outbox keeps its rows until it returns.

use std::sync::Arc;

use noetl_api::execute::ExecuteRequest;
use noetl_server::{CallContext, Settings};
use noetl_store::{OutboxFilter, OutboxStatus, SqliteStore};
use noetl_types::limits::PageLimit;
use noetl_types::{Json, Millis, PlaybookPath};

use super::{TestBroker, TestPlatform, WAIT_TIMEOUT};

impl TestPlatform {
    /// Runs a publisher, which must complete.
    async fn run_publisher<const N: usize>(&self, workload: [(&'static str, Json); N]) {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
            payload: Some(Json::object(workload)),
            ..ExecuteRequest::default()
        };
        let id = self
            .runtime
            .executions
            .start(CallContext::server(), request)
            .await
            .unwrap()
            .answer
            .execution_id;
        let end = self
            .runtime
            .executions
            .wait_for_end(CallContext::server(), id, WAIT_TIMEOUT)
            .await
            .unwrap();
        let end = end.expect("it ends");
        assert_eq!(end.status.as_str(), "COMPLETED", "{:?}", end.error);
    }

    /// Highest number of claims of any row.
    async fn max_attempts(&self) -> u32 {
        let filter = OutboxFilter { status: None, after: None, limit: PageLimit::MAX };
        let rows = self.store.list_outbox_rows(filter).await.unwrap();
        rows.iter().map(|row| row.attempts).max().unwrap_or(0)
    }
}

/// Publishers run while the broker is unavailable: no row spends attempts, and all rows are
/// published when the broker returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_outage_costs_no_attempts() {
    const FILLED: u64 = 250;
    let mut platform =
        TestPlatform::open(Arc::new(SqliteStore::in_memory().unwrap()), 2, false).await;
    platform.runtime.system_playbooks.register_system_playbooks().await.unwrap();
    platform.fill_outbox(FILLED).await;
    platform.nats.kill_server().expect("killed");
    // More publishers than a row has attempts.
    for _ in 0..25 {
        let workload = [("looks", Json::from(2)), ("pause", Json::from(0))];
        platform.run_publisher(workload).await;
    }
    assert_eq!(platform.max_attempts().await, 0);
    assert_eq!(platform.count_rows(OutboxStatus::Pending).await, FILLED);
    platform.nats.restart_server().expect("back");
    // Any answer, even an error, proves that the broker is available.
    let missing_stream = [("stream", Json::from("there_is_none"))];
    platform.run_publisher(missing_stream).await;
    platform.wait_until_published().await;
    assert_eq!(platform.max_attempts().await, 1);
    let stream = platform.connection.stream_info("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, FILLED);
    platform.close().await;
}

/// The broker disconnects in the middle of a batch: the remaining rows return to the queue when
/// their lease expires, and no row fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_loss_mid_batch_fails_no_row() {
    const FILLED: u64 = 500;
    let broker = TestBroker::start_with_stream().await;
    let settings = Settings {
        outbox: noetl_server::OutboxSetting::Enabled,
        outbox_lease: Millis::from_secs(1),
        ..Settings::default()
    };
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let mut platform = TestPlatform::open_with(store, 2, settings, broker).await;
    platform.runtime.system_playbooks.register_system_playbooks().await.unwrap();
    platform.fill_outbox(FILLED).await;
    let mut subscription = platform.connection.subscribe("noetl.events.>").await.unwrap();
    let run = platform.start_publisher().await;
    subscription.next().await.expect("a message");
    platform.nats.kill_server().expect("killed");
    let end = platform
        .runtime
        .executions
        .wait_for_end(CallContext::server(), run, WAIT_TIMEOUT)
        .await
        .unwrap();
    let end = end.expect("it ends");
    assert_eq!(end.status.as_str(), "COMPLETED", "{:?}", end.error);
    assert_eq!(platform.count_rows(OutboxStatus::Failed).await, 0);
    platform.nats.restart_server().expect("back");
    let published = async {
        let stats = async || platform.store.outbox_stats().await.unwrap();
        while stats().await.oldest_unpublished.is_some() {
            platform.run_publisher([]).await;
        }
    };
    let published = tokio::time::timeout(WAIT_TIMEOUT, published).await;
    assert!(published.is_ok(), "everything is published in time");
    let attempts = platform.max_attempts().await;
    assert!(attempts <= 2, "{attempts}");
    let stream = platform.connection.stream_info("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, FILLED);
    platform.close().await;
}
