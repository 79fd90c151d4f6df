//! The event stream contains every event of the log, despite failures.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, StorageType};
use noetl_api::health::HealthStatus;
use noetl_server::{AuthContext, CallContext, ControlPlane, StreamSettings};
use noetl_store::{LogEpoch, QuarantineFilter, StreamOwner};
use noetl_testkit::nats::NatsServer;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Json, Millis, Seq, TenantId, Text, json};

use crate::nats::broker_proxy::{BrokerProxy, project_large_events};
use crate::nats::cluster::{
    StoreGuard, TestCluster, complete_runs, spawn_worker, start_run, start_run_for,
    start_run_with_payload, streaming_settings, streaming_settings_with, wait_until,
    wait_until_completed,
};
use crate::nats::stream_reader::{
    assert_reference_to, assert_stream_complete, connect_jetstream, expected_messages, read_stream,
};

/// Runs a test on every store.
macro_rules! on_every_store {
    ($name:ident) => {
        mod $name {
            use crate::nats::cluster::TestCluster;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                super::$name(TestCluster::new().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(TestCluster::on_sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(TestCluster::on_postgres().await).await;
            }
        }
    };
}

/// Stream settings with backfill and a short duplicate window.
pub(crate) fn short_dedup_settings() -> StreamSettings {
    StreamSettings {
        backfill: true,
        duplicate_window: Millis::from_secs(1),
        ..StreamSettings::default()
    }
}

pub(crate) fn backfill_settings() -> StreamSettings {
    StreamSettings { backfill: true, ..StreamSettings::default() }
}

/// Waits until this server is the publisher.
pub(crate) async fn wait_until_publishing(services: &ControlPlane) {
    wait_until("a server publishes", || async {
        let status = services.publishing.stream_status().await.unwrap();
        status.state == "publishing"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_stream_starts_now_or_at_first_event() {
    for backfill in [false, true] {
        let nats = NatsServer::start().unwrap();
        let cluster = TestCluster::new().await;
        let before = cluster.start_server(noetl_server::Settings::default()).await;
        let worker = spawn_worker(&before);
        complete_runs(&before, 2).await;
        drop(worker);
        before.close(Duration::from_secs(30)).await;
        let old = expected_messages(&*cluster.store).await;
        let settings = StreamSettings { backfill, ..StreamSettings::default() };
        let services = cluster.start_server(streaming_settings_with(&nats, settings)).await;
        let _worker = spawn_worker(&services);
        wait_until_publishing(&services).await;
        complete_runs(&services, 2).await;
        let all = expected_messages(&*cluster.store).await;
        let expected = if backfill { all.len() } else { all.len() - old.len() };
        wait_until("all messages are in the stream", || async {
            read_stream(&nats).await.1 >= u64::try_from(expected).unwrap()
        })
        .await;
        let (found, count) = read_stream(&nats).await;
        assert_eq!((found.len(), count), (expected, expected as u64));
        assert!(backfill || old.keys().all(|id| !found.contains_key(id)));
    }
}

on_every_store!(one_server_publishes_and_next_takes_over);
async fn one_server_publishes_and_next_takes_over(cluster: TestCluster) {
    let nats = NatsServer::start().unwrap();
    let first = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let worker = spawn_worker(&first);
    wait_until_publishing(&first).await;
    let second = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&second);
    complete_runs(&first, 20).await;
    complete_runs(&second, 20).await;
    wait_until("the second server is on standby", || async {
        second.publishing.stream_status().await.unwrap().state == "standby"
    })
    .await;
    assert_eq!(second.publishing.stream_status().await.unwrap().published, 0);
    let epoch = second.publishing.stream_status().await.unwrap().epoch;
    drop(worker);
    first.close(Duration::from_secs(30)).await;
    complete_runs(&second, 20).await;
    let count = assert_stream_complete(&nats, &*cluster.store).await;
    let all = u64::try_from(expected_messages(&*cluster.store).await.len()).unwrap();
    assert_eq!(count, all, "there are no duplicates");
    assert!(second.publishing.stream_status().await.unwrap().epoch > epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher_waits_for_late_commit() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::on_postgres().await;
    let StoreGuard::Database(database) = &cluster.store_guard else {
        return;
    };
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 1).await;
    let published = assert_stream_complete(&nats, &*cluster.store).await;
    let (writer, connection) =
        tokio_postgres::connect(&database.connection_config(), tokio_postgres::NoTls)
            .await
            .unwrap();
    tokio::spawn(connection);
    // A writer gets its position in the log and does not commit.
    writer.batch_execute("BEGIN").await.unwrap();
    writer.batch_execute(LATE_INSERT_SQL).await.unwrap();
    complete_runs(&services, 5).await;
    wait_until("the log is reported as held back", || async {
        services.publishing.stream_status().await.unwrap().horizon_age_ms > 0
    })
    .await;
    assert_eq!(read_stream(&nats).await.1, published, "nothing overtakes it");
    writer.batch_execute("COMMIT").await.unwrap();
    wait_until("the log is no longer held back", || async {
        let lag = cluster.store.feed_lag(FeedPosition::default()).await.unwrap();
        lag.held_back_since.is_none()
    })
    .await;
    let all = expected_messages(&*cluster.store).await;
    assert!(all.keys().any(|id| id.ends_with(":999")), "{:?}", all.keys());
    assert_stream_complete(&nats, &*cluster.store).await;
}

/// Inserts another event within an open transaction.
pub(crate) const LATE_INSERT_SQL: &str = "INSERT INTO noetl.event
    (execution_id, event_id, seq, event_type, status, tenant_id, organization_id, event_time,
     created_at, ingest_time, schema_version, chain)
    SELECT execution_id, event_id + 1, 999, event_type, status, tenant_id, organization_id,
     event_time, created_at, ingest_time, schema_version, chain
    FROM noetl.event ORDER BY event_id DESC LIMIT 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_publisher_cannot_move_cursor() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 3).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let status = services.publishing.stream_status().await.unwrap();
    let stale = StreamOwner {
        name: Text::from("event_stream_tailer"),
        epoch: status.epoch.unwrap() - 1,
        now: noetl_types::Timestamp::from_unix_ms(0).unwrap(),
    };
    let restart =
        noetl_store::CursorMove::Restart { to: FeedPosition::default(), stream_created_at: None };
    assert!(!cluster.store.move_stream_cursor(stale, restart).await.unwrap());
}

on_every_store!(late_broker_receives_everything);
async fn late_broker_receives_everything(cluster: TestCluster) {
    check_late_broker(cluster, backfill_settings()).await;
}

on_every_store!(late_broker_receives_events_since_first_start);
/// The stream starts at the first start of the server, not when the broker becomes available.
async fn late_broker_receives_events_since_first_start(cluster: TestCluster) {
    check_late_broker(cluster, StreamSettings::default()).await;
}

async fn check_late_broker(cluster: TestCluster, settings: StreamSettings) {
    let mut nats = NatsServer::start().unwrap();
    nats.kill_server().unwrap();
    let services = cluster.start_server(streaming_settings_with(&nats, settings)).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 30).await;
    let ready = services.system_status.check_health().await;
    assert_eq!(&*ready.status, "ok", "runs continue without the broker");
    wait_until("all events are reported as lag", || async {
        let status = services.publishing.stream_status().await.unwrap();
        let events = cluster.store.feed_lag(FeedPosition::default()).await.unwrap();
        status.lag_events > 0 && status.lag_events == events.events
    })
    .await;
    let status = services.publishing.stream_status().await.unwrap();
    assert_eq!(&*status.state, "failing");
    let ready = services.system_status.check_readiness().await;
    assert_eq!(ready.status, HealthStatus::Degraded, "{ready:?}");
    for check in ["nats", "stream"] {
        assert_eq!(ready.checks[&Text::from(check)], HealthStatus::Degraded);
    }
    nats.restart_server().unwrap();
    assert_stream_complete(&nats, &*cluster.store).await;
    wait_until_publishing(&services).await;
    wait_until("nothing is left to publish", || async {
        services.publishing.stream_status().await.unwrap().lag_events == 0
    })
    .await;
}

on_every_store!(loses_nothing_when_broker_and_publishers_are_killed);
async fn loses_nothing_when_broker_and_publishers_are_killed(cluster: TestCluster) {
    let mut nats = NatsServer::start().unwrap();
    for _ in 0..3 {
        let services =
            cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
        let worker = spawn_worker(&services);
        let runs = tokio::spawn({
            let services = services.clone();
            async move { complete_runs(&services, 60).await }
        });
        wait_until_publishing(&services).await;
        nats.kill_server().unwrap();
        nats.restart_server().unwrap();
        runs.await.unwrap();
        drop(worker);
        // Closes while it publishes; its lease expires or is released.
        services.close(Duration::ZERO).await;
    }
    let last = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&last);
    complete_runs(&last, 5).await;
    assert_stream_complete(&nats, &*cluster.store).await;
}

on_every_store!(loses_nothing_when_broker_dies_before_acks);
/// Some messages are acknowledged. The acknowledgements of others are lost with the broker.
async fn loses_nothing_when_broker_dies_before_acks(cluster: TestCluster) {
    let mut nats = NatsServer::start().unwrap();
    let proxy = BrokerProxy::start_before(&nats).await;
    let before = cluster.start_server(noetl_server::Settings::default()).await;
    let worker = spawn_worker(&before);
    complete_runs(&before, 60).await;
    drop(worker);
    before.close(Duration::from_secs(30)).await;
    proxy.hold_after(30_000);
    let _services = cluster.start_server(proxy.streaming_settings(backfill_settings())).await;
    wait_until("the broker received a part of it", || async { proxy.forwarded_bytes() >= 30_000 })
        .await;
    nats.kill_server().unwrap();
    proxy.release();
    nats.restart_server().unwrap();
    assert_stream_complete(&nats, &*cluster.store).await;
}

on_every_store!(wiped_stream_is_rebuilt_from_log);
async fn wiped_stream_is_rebuilt_from_log(cluster: TestCluster) {
    let mut nats = NatsServer::start().unwrap();
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 30).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    nats.kill_server().unwrap();
    nats.wipe_data().unwrap();
    nats.restart_server().unwrap();
    complete_runs(&services, 30).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    assert!(services.publishing.stream_status().await.unwrap().rebuilds >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_or_purged_stream_is_rebuilt() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services =
        cluster.start_server(streaming_settings_with(&nats, short_dedup_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 10).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let context = connect_jetstream(&nats).await;
    context.delete_stream("noetl_events").await.unwrap();
    assert_stream_complete(&nats, &*cluster.store).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    stream.purge().await.unwrap();
    assert_stream_complete(&nats, &*cluster.store).await;
    // While the broker remembers the ids of the lost messages, it is asked with single messages.
    let status = services.publishing.stream_status().await.unwrap();
    assert!(status.duplicates <= 30, "{}", status.duplicates);
}

/// The newest message of the stream is an event that the log does not have, as after the restore of
/// a backup. The broker knows the ids of the next events already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_behind_its_stream_starts_new_epoch() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let first = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let worker = spawn_worker(&first);
    complete_runs(&first, 3).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    drop(worker);
    first.close(Duration::from_secs(30)).await;
    let run = expected_messages(&*cluster.store).await.into_keys().next_back().unwrap();
    let run = run.split(':').nth(1).unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", &*format!("1:{run}:1000"));
    let context = connect_jetstream(&nats).await;
    let body = r#"{"event_id":1000}"#.into();
    let sent = context.publish_with_headers("noetl.events.step.enter", headers, body).await;
    sent.unwrap().await.unwrap();

    let second = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    wait_until("a new log epoch starts", || async {
        cluster.store.log_epoch().await.unwrap() != LogEpoch::FIRST
    })
    .await;
    let epoch = cluster.store.log_epoch().await.unwrap();
    assert_stream_complete(&nats, &*cluster.store).await;
    // The next turn finds an event that the log has.
    second.close(Duration::from_secs(30)).await;
    let third = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&third);
    complete_runs(&third, 1).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    assert_eq!(cluster.store.log_epoch().await.unwrap(), epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_message_is_republished_by_next_publisher() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let first = cluster.start_server(streaming_settings_with(&nats, short_dedup_settings())).await;
    let worker = spawn_worker(&first);
    complete_runs(&first, 5).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    drop(worker);
    first.close(Duration::from_secs(30)).await;
    let context = connect_jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    for sequence in [3, 7, 20] {
        stream.delete_message(sequence).await.unwrap();
    }
    let second = cluster.start_server(streaming_settings_with(&nats, short_dedup_settings())).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    assert!(second.publishing.stream_status().await.unwrap().restored >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rebuild_request_rebuilds_stream() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services =
        cluster.start_server(streaming_settings_with(&nats, short_dedup_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 5).await;
    let count = assert_stream_complete(&nats, &*cluster.store).await;
    let other = cluster.start_server(streaming_settings_with(&nats, short_dedup_settings())).await;
    other.publishing.request_stream_rebuild().await.unwrap();
    wait_until("everything was published once more", || async {
        let published = services.publishing.stream_status().await.unwrap().published;
        published + other.publishing.stream_status().await.unwrap().published >= 2 * count
    })
    .await;
    assert_stream_complete(&nats, &*cluster.store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_event_is_published_by_reference() {
    let nats = NatsServer::start_with_config("max_payload: 8192").unwrap();
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    let run = start_run_with_payload(&services, Json::from("x".repeat(20_000))).await;
    wait_until_completed(&services, run).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let (found, _) = read_stream(&nats).await;
    let (subject, reference) = &found[&format!("1:{run}:1")];
    assert_eq!(subject, "noetl.events.playbook.started");
    let whole =
        services.publishing.streamed_event(CallContext::server(), run, Seq::FIRST).await.unwrap();
    assert!(whole.len() > 20_000);
    assert_reference_to(reference, &whole);
    let parsed = json::parse(reference).unwrap();
    let path = format!("/api/stream/events/{run}/1");
    assert_eq!(parsed.get("ref"), Some(&Json::from(path)));
    assert_eq!(parsed.get("execution_id"), Some(&Json::from(run.get())));
    assert!(services.publishing.stream_status().await.unwrap().by_reference > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quarantines_event_that_broker_rejects() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let context = connect_jetstream(&nats).await;
    let tiny = Config {
        name: "noetl_events".into(),
        subjects: vec!["noetl.events.>".into()],
        storage: StorageType::File,
        max_message_size: 150,
        ..Config::default()
    };
    context.create_stream(tiny.clone()).await.unwrap();
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 1).await;
    let rejected = expected_messages(&*cluster.store).await;
    wait_until("all events are quarantined", || async {
        let status = services.publishing.stream_status().await.unwrap();
        status.undeliverable >= u64::try_from(rejected.len()).unwrap() && status.lag_events == 0
    })
    .await;
    let filter =
        QuarantineFilter { source: Some("stream".into()), after: None, limit: PageLimit::MAX };
    let quarantined = cluster.store.list_quarantined_items(filter).await.unwrap();
    assert_eq!(quarantined.len(), rejected.len());
    assert!(quarantined.iter().all(|item| rejected.contains_key(item.raw.as_str())));
    let unlimited = Config { max_message_size: -1, ..tiny };
    context.update_stream(unlimited).await.unwrap();
    complete_runs(&services, 1).await;
    let all = expected_messages(&*cluster.store).await;
    wait_until("the other events are published", || async {
        let (found, _) = read_stream(&nats).await;
        all.keys().filter(|id| !rejected.contains_key(*id)).all(|id| found.contains_key(id))
    })
    .await;
}

/// While the broker acknowledges nothing, only a few messages are in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_events_are_published_in_small_batches() {
    let nats = NatsServer::start_with_config("max_payload: 4194304").unwrap();
    let proxy = BrokerProxy::start_before(&nats).await;
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(proxy.streaming_settings(backfill_settings())).await;
    wait_until_publishing(&services).await;
    proxy.hold_after(100_000);
    project_large_events(&services, 6, 2_500_000).await;
    wait_until("the publisher has timed out", || async {
        services.publishing.stream_status().await.unwrap().state == "failing"
    })
    .await;
    let sent = proxy.forwarded_bytes();
    assert!((2_500_000..6_000_000).contains(&sent), "{sent}");
    proxy.release();
    assert_stream_complete(&nats, &*cluster.store).await;
}

/// A backlog is published batch after batch. Only a publisher without backlog waits for the next
/// poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_batch_is_followed_immediately() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let before = cluster.start_server(noetl_server::Settings::default()).await;
    let worker = spawn_worker(&before);
    complete_runs(&before, 2).await;
    drop(worker);
    before.close(Duration::from_secs(30)).await;
    let settings =
        StreamSettings { batch: 1, poll_interval: Millis::from_hours(1), ..backfill_settings() };
    let _services = cluster.start_server(streaming_settings_with(&nats, settings)).await;
    assert_stream_complete(&nats, &*cluster.store).await;
}

/// An existing stream with other settings is used, and the differences are reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_stream_configuration_differences() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let config = Config {
        name: "noetl_events".into(),
        subjects: vec!["noetl.events.>".into()],
        storage: StorageType::Memory,
        duplicate_window: Duration::from_mins(1),
        ..Config::default()
    };
    let context = connect_jetstream(&nats).await;
    context.create_stream(config).await.unwrap();
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    wait_until_publishing(&services).await;
    let problem = services.publishing.stream_status().await.unwrap().problem.unwrap();
    let expected = "it is stored in memory and lost when the broker stops; \
        its max age is unlimited instead of 1d; its duplicate window is 1m instead of 2m";
    assert_eq!(problem, expected);
    let ready = services.system_status.check_readiness().await;
    assert_eq!(ready.checks.get("stream"), Some(&HealthStatus::Degraded), "{ready:?}");
    services.close(Duration::from_secs(30)).await;
    context.delete_stream("noetl_events").await.unwrap();
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    wait_until_publishing(&services).await;
    assert_eq!(services.publishing.stream_status().await.unwrap().problem, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feed_page_continues_where_last_ended() {
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(noetl_server::Settings::default()).await;
    let _worker = spawn_worker(&services);
    complete_runs(&services, 3).await;
    let all = expected_messages(&*cluster.store).await;
    let limit = noetl_store::FeedLimit::clamped(7);
    let (mut after, mut seen) = (FeedPosition::default(), 0);
    loop {
        let feed = services
            .publishing
            .read_feed(CallContext::server(), after, limit, Duration::ZERO)
            .await
            .unwrap();
        seen += feed.events.len();
        after = feed.next;
        if !feed.is_full {
            break;
        }
    }
    assert_eq!(seen, all.len());
    let waiting = tokio::spawn({
        let services = services.clone();
        async move {
            services
                .publishing
                .read_feed(CallContext::server(), after, limit, Duration::from_mins(5))
                .await
                .unwrap()
        }
    });
    complete_runs(&services, 1).await;
    let feed = waiting.await.unwrap();
    let event_type = feed.events[0].get("event_type");
    assert_eq!(event_type, Some(&Json::from("playbook.started")));
    assert_eq!(&*services.publishing.stream_status().await.unwrap().state, "off");
}

/// A reader that was offline for longer than the broker's retention finds a gap, and reads the
/// missing events from the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_messages_are_readable_from_log() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let settings = StreamSettings { retention: Millis::from_secs(1), ..short_dedup_settings() };
    let services = cluster.start_server(streaming_settings_with(&nats, settings)).await;
    let _worker = spawn_worker(&services);
    let run = start_run(&services).await;
    wait_until_completed(&services, run).await;
    wait_until("all messages were published and have expired", || async {
        let context = connect_jetstream(&nats).await;
        let Ok(stream) = context.get_stream("noetl_events").await else {
            return false;
        };
        let state = &stream.cached_info().state;
        let lag = services.publishing.stream_status().await.unwrap().lag_events;
        state.last_sequence > 0 && state.messages == 0 && lag == 0
    })
    .await;
    for (id, (_, body)) in expected_messages(&*cluster.store).await {
        let (_, seq) = id.rsplit_once(':').unwrap();
        let seq = Seq::new(seq.parse().unwrap()).unwrap();
        assert_eq!(
            services.publishing.streamed_event(CallContext::server(), run, seq).await.unwrap(),
            body
        );
    }
}

/// The kill test with as many runs as on a busy day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten thousand runs take minutes"]
async fn heavy_ten_thousand_runs_with_repeated_broker_kills() {
    let mut nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(streaming_settings(&nats)).await;
    let _worker = spawn_worker(&services);
    wait_until_publishing(&services).await;
    for _ in 0..20 {
        let runs = tokio::spawn({
            let services = services.clone();
            async move { complete_runs(&services, 500).await }
        });
        nats.kill_server().unwrap();
        nats.restart_server().unwrap();
        runs.await.unwrap();
    }
    assert_stream_complete(&nats, &*cluster.store).await;
}

/// Events of other tenants are published under their own subjects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_events_of_every_tenant() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let acme = TenantId::new("acme").unwrap();
    cluster.register_playbook_for(&acme, 2).await;
    let services = cluster.start_server(streaming_settings_with(&nats, backfill_settings())).await;
    let _worker = spawn_worker(&services);
    let ctx = CallContext::from(AuthContext { tenant_id: acme, ..AuthContext::default() });
    let run = start_run_for(&ctx, &services, Json::Null).await;
    complete_runs(&services, 2).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let (found, _) = read_stream(&nats).await;
    let (subject, _) = &found[&format!("1:{run}:1")];
    assert_eq!(subject, "noetl.t.acme.events.playbook.started");
}
