//! The broker is away, and the outbox waits for it.

use std::sync::Arc;

use noetl_api::execute::ExecuteRequest;
use noetl_bus::nats::Link;
use noetl_server::Settings;
use noetl_store::{MemoryStore, OutboxFilter, OutboxStatus};
use noetl_types::limits::PageLimit;
use noetl_types::{Json, Millis, PlaybookPath};

use super::{EVENTS, PATIENCE, Platform, broker, link_to};

impl Platform {
    /// Runs a publisher to its end, which is a good one.
    async fn publish_with<const N: usize>(&self, workload: [(&'static str, Json); N]) {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
            payload: Some(Json::object(workload)),
            ..ExecuteRequest::default()
        };
        let id = self.runtime.execute(request).await.unwrap().execution_id;
        let end = self.runtime.wait_for_end(id, PATIENCE).await.unwrap();
        let end = end.expect("it ends");
        assert_eq!(end.status.as_str(), "COMPLETED", "{:?}", end.error);
    }

    /// How often a row was claimed at most.
    async fn most_attempts(&self) -> u32 {
        let filter = OutboxFilter {
            status: None,
            after: None,
            limit: PageLimit::MAX,
        };
        let rows = self.store.outbox(filter).await.unwrap();
        rows.iter().map(|row| row.attempts).max().unwrap_or(0)
    }
}

/// The broker is away while publishers come and go: no row spends attempts on it, and all are published
/// when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_away_costs_no_attempts() {
    const FILLED: u64 = 250;
    let mut platform = Platform::open(Arc::new(MemoryStore::new()), 2, false).await;
    platform.runtime.register_shipped().await.unwrap();
    platform.fill(FILLED).await;
    platform.nats.kill().expect("killed");
    // More often than a row may be tried.
    for _ in 0..25 {
        let impatient = [("looks", Json::from(2)), ("pause", Json::from(0))];
        platform.publish_with(impatient).await;
    }
    assert_eq!(platform.most_attempts().await, 0);
    assert_eq!(platform.count(OutboxStatus::Pending).await, FILLED);
    platform.nats.restart().expect("back");
    // Whatever it answers, it is there.
    let other = [("stream", Json::from("there_is_none"))];
    platform.publish_with(other).await;
    platform.drained().await;
    assert_eq!(platform.most_attempts().await, 1);
    let stream = platform.link.stream("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, FILLED);
    platform.close().await;
}

/// The broker goes away in the middle of a batch: what is left of it comes back with its lease, and no row
/// has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_away_in_mid_batch_fails_no_row() {
    const FILLED: u64 = 500;
    let nats = broker();
    let link = Link::open(link_to(&nats)).await.expect("a link");
    link.ensure(&EVENTS).await.expect("the stream");
    let settings = Settings {
        outbox: true,
        outbox_lease: Millis::from_secs(1),
        ..Settings::default()
    };
    let store = Arc::new(MemoryStore::new());
    let mut platform = Platform::with(store, 2, settings, (nats, link)).await;
    platform.runtime.register_shipped().await.unwrap();
    platform.fill(FILLED).await;
    let mut heard = platform.link.listen("noetl.events.>").await.unwrap();
    let run = platform.start_publisher().await;
    heard.next().await.expect("a message");
    platform.nats.kill().expect("killed");
    let end = platform.runtime.wait_for_end(run, PATIENCE).await.unwrap();
    let end = end.expect("it ends");
    assert_eq!(end.status.as_str(), "COMPLETED", "{:?}", end.error);
    assert_eq!(platform.count(OutboxStatus::Failed).await, 0);
    platform.nats.restart().expect("back");
    let published = async {
        let facts = async || platform.store.outbox_facts().await.unwrap();
        while facts().await.oldest_unpublished.is_some() {
            platform.publish_with([]).await;
        }
    };
    let published = tokio::time::timeout(PATIENCE, published).await;
    assert!(published.is_ok(), "all is published in time");
    let attempts = platform.most_attempts().await;
    assert!(attempts <= 2, "{attempts}");
    let stream = platform.link.stream("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, FILLED);
    platform.close().await;
}
