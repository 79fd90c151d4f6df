//! Messages that the broker lost are republished by the current publisher, and broken events do not
//! block others.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use noetl_api::internal::ProjectRequest;
use noetl_server::{CallContext, Clock, ControlPlane, SystemClock};
use noetl_store::{ProjectionScope, QuarantineFilter, SqliteStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_testkit::nats::NatsServer;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Json, Millis, Timestamp};

use crate::nats::broker_proxy::{BrokerProxy, project_large_events};
use crate::nats::cluster::{
    StoreGuard, TestCluster, complete_runs, spawn_worker, streaming_settings_with, wait_until,
};
use crate::nats::stream::{
    LATE_INSERT_SQL, backfill_settings, short_dedup_settings, wait_until_publishing,
};
use crate::nats::stream_reader::{assert_stream_complete, connect_jetstream, read_stream};

/// Projects `count` events into the log, with ids that start at `first`.
async fn project_events(services: &ControlPlane, first: i64, count: i64) {
    let ids: Vec<_> = (first..first + count).collect();
    for chunk in ids.chunks(1_000) {
        let event = |id: &i64| {
            Json::object([
                ("execution_id", Json::from(first)),
                ("event_id", Json::from(*id)),
                ("event_type", Json::from("copied")),
            ])
        };
        let events = chunk.iter().map(event).collect();
        let response = services
            .projection
            .project_events(
                CallContext::server(),
                ProjectRequest::new(events),
                ProjectionScope::ExecutionOwner,
            )
            .await
            .unwrap();
        assert_eq!(response.rejected.len(), 0, "{:?}", response.rejected.first());
    }
}

/// A copy of the broker's data folder.
struct DiskSnapshot(tempfile::TempDir);

impl DiskSnapshot {
    /// Copies the data of a killed broker.
    fn capture(nats: &NatsServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&nats.folder().join("data"), &folder.path().join("data"));
        Self(folder)
    }

    /// Restores the data of a killed broker. As after a power cut, later messages are lost.
    fn restore(&self, nats: &mut NatsServer) {
        nats.wipe_data().unwrap();
        copy_folder(&self.0.path().join("data"), &nats.folder().join("data"));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Waits until the whole log has been published.
async fn wait_until_caught_up(services: &ControlPlane) {
    wait_until_publishing(services).await;
    wait_until("nothing is left to publish", || async {
        services.publishing.stream_status().await.unwrap().lag_events == 0
    })
    .await;
}

/// Messages are restored regardless of how many were published since the last disk sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn republishes_messages_lost_in_power_cut() {
    let mut nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    project_events(&services, 1_000_000, 50).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    nats.kill_server().unwrap();
    let disk = DiskSnapshot::capture(&nats);
    nats.restart_server().unwrap();
    // More than the publisher's first and last look-back window.
    let many = 21_000;
    project_events(&services, 2_000_000, many).await;
    wait_until_caught_up(&services).await;
    nats.kill_server().unwrap();
    disk.restore(&mut nats);
    nats.restart_server().unwrap();
    let restored = u64::try_from(many).unwrap();
    wait_until("all messages were restored", || async {
        services.publishing.stream_status().await.unwrap().restored >= restored
    })
    .await;
    let status = services.publishing.stream_status().await.unwrap();
    assert_eq!((status.restored, status.rebuilds), (restored, 0));
    let context = connect_jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    assert_eq!(stream.cached_info().state.messages, restored + 50);
}

/// Unacknowledged messages may be lost, so the cursor stays before them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursor_waits_for_broker_acks() {
    let nats = NatsServer::start().unwrap();
    let proxy = BrokerProxy::start_before(&nats).await;
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(proxy.streaming_settings(backfill_settings())).await;
    project_events(&services, 1_000_000, 5).await;
    wait_until_caught_up(&services).await;
    let position = async || services.publishing.stream_status().await.unwrap().position;
    let before = position().await;
    proxy.hold_after(5_000);
    project_large_events(&services, 1, 10_000).await;
    wait_until("the publisher has timed out", || async {
        services.publishing.stream_status().await.unwrap().state == "failing"
    })
    .await;
    assert!(proxy.forwarded_bytes() >= 10_000);
    assert_eq!(position().await, before);
    proxy.release();
    wait_until_caught_up(&services).await;
    assert!(position().await > before);
    assert_stream_complete(&nats, &*cluster.store).await;
}

/// Earlier messages are restored even if new ones follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rebuilds_stream_purged_while_publishing() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services =
        cluster.start_server(streaming_settings_with(&nats, short_dedup_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 10).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let context = connect_jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    let runs = tokio::spawn({
        let services = services.clone();
        async move { complete_runs(&services, 50).await }
    });
    stream.purge().await.unwrap();
    runs.await.unwrap();
    assert_stream_complete(&nats, &*cluster.store).await;
    assert!(services.publishing.stream_status().await.unwrap().rebuilds >= 1);
}

/// Such a row can only be written by another program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quarantines_unreadable_event() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::on_postgres().await;
    let StoreGuard::Database(database) = &cluster.store_guard else {
        return;
    };
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 1).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let invalid_sql = LATE_INSERT_SQL.replace("999", "-5");
    database.run_statement(&invalid_sql).unwrap();
    complete_runs(&services, 5).await;
    wait_until("the unreadable event is skipped", || async {
        let status = services.publishing.stream_status().await.unwrap();
        let lag = cluster.store.feed_lag(FeedPosition::default()).await.unwrap();
        let is_caught_up = lag.held_back_since.is_none() && status.lag_events == 0;
        is_caught_up && read_stream(&nats).await.1 + 1 == lag.events
    })
    .await;
    let filter =
        QuarantineFilter { source: Some("stream".into()), after: None, limit: PageLimit::MAX };
    let quarantined = cluster.store.list_quarantined_items(filter).await.unwrap();
    let [item] = &*quarantined else {
        panic!("{quarantined:?}");
    };
    assert_eq!(item.code, "unreadable");
    assert!(item.message.contains("seq"), "{item:?}");
    assert_eq!(services.publishing.stream_status().await.unwrap().undeliverable, 1);
}

/// Comparing a long stream with the log takes longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_lease_while_comparing_stream_and_log() {
    let nats = NatsServer::start().unwrap();
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let open = async |store: Arc<dyn Store>, clock: Arc<dyn Clock>| {
        let settings = streaming_settings_with(&nats, short_dedup_settings());
        ControlPlane::open(store, clock, settings).await.unwrap()
    };
    let first = open(store.clone(), Arc::new(SystemClock)).await;
    project_events(&first, 1_000_000, 9_000).await;
    wait_until_caught_up(&first).await;
    first.close(Duration::from_secs(30)).await;
    let context = connect_jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    stream.delete_message(8_500).await.unwrap();
    // Every read of the log takes longer than a cursor takeover.
    let clock = Arc::new(SkewedClock::default());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let plan = {
        let (clock, calls) = (Arc::clone(&clock), Arc::clone(&calls));
        move |method| {
            calls.lock().unwrap().push(method);
            if method == StoreMethod::ReadFeedMessages {
                clock.0.fetch_add(20, Ordering::Relaxed);
            }
            Fault::None
        }
    };
    let slow = FaultyStore::with_shared_store(store, Box::new(plan));
    let second = open(Arc::new(slow), clock).await;
    wait_until("the lost message is restored", || async {
        second.publishing.stream_status().await.unwrap().restored == 1
    })
    .await;
    wait_until_publishing(&second).await;
    let calls = calls.lock().unwrap();
    let (mut reads, mut reads_since_renewal) = (0, 0);
    for method in &*calls {
        match method {
            StoreMethod::ReadFeedMessages => {
                (reads, reads_since_renewal) = (reads + 1, reads_since_renewal + 1);
            }
            StoreMethod::RenewStreamLease | StoreMethod::LeaseStream => reads_since_renewal = 0,
            _ => {}
        }
        assert!(
            reads_since_renewal <= 2,
            "read {reads_since_renewal} times without renewing the lease"
        );
    }
    assert!(reads >= 9, "{reads}");
}

/// A clock that can be moved ahead.
#[derive(Default)]
struct SkewedClock(AtomicU64);

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let skew = Millis::from_secs(self.0.load(Ordering::Relaxed));
        SystemClock.now().saturating_add(skew)
    }
}

/// A panic ends one publishing turn, not the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panicking_log_read_is_retried() {
    let nats = NatsServer::start().unwrap();
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let should_panic = Arc::new(AtomicBool::new(false));
    let plan = {
        let should_panic = Arc::clone(&should_panic);
        move |method| {
            let is_read = method == StoreMethod::ReadFeedMessages;
            assert!(!is_read || !should_panic.swap(false, Ordering::Relaxed), "panic on purpose");
            Fault::None
        }
    };
    let faulty = Arc::new(FaultyStore::with_shared_store(Arc::clone(&store), Box::new(plan)));
    let settings = streaming_settings_with(&nats, backfill_settings());
    let services = ControlPlane::open(faulty, Arc::new(SystemClock), settings).await.unwrap();
    project_events(&services, 1_000_000, 5).await;
    wait_until_caught_up(&services).await;
    should_panic.store(true, Ordering::Relaxed);
    project_events(&services, 2_000_000, 5).await;
    wait_until("the read panics", || async { !should_panic.load(Ordering::Relaxed) }).await;
    project_events(&services, 3_000_000, 5).await;
    wait_until_caught_up(&services).await;
    assert_stream_complete(&nats, &*store).await;
}

/// Under load one transaction has thousands of events. The look-back is counted in events, since
/// message ids are read only for the last messages of the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sixty thousand events take a minute"]
async fn heavy_restarted_broker_receives_no_duplicates() {
    let mut nats = NatsServer::start().unwrap();
    let cluster = TestCluster::on_postgres().await;
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let many = 60_000;
    project_events(&services, 1_000_000, many).await;
    wait_until_caught_up(&services).await;
    nats.kill_server().unwrap();
    nats.restart_server().unwrap();
    project_events(&services, 2_000_000, 5).await;
    let all = u64::try_from(many).unwrap() + 5;
    wait_until("all events are published", || async {
        services.publishing.stream_status().await.unwrap().published >= all
    })
    .await;
    wait_until_caught_up(&services).await;
    let status = services.publishing.stream_status().await.unwrap();
    assert_eq!((status.published, status.duplicates), (all, 0));
    assert_eq!((status.restored, status.rebuilds), (0, 0));
}
