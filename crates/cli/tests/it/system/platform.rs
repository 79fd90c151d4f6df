//! The playbooks that ship with the platform, on a real NATS server with password authentication.
//! Workers publish the outbox and follow the stream through the internal API only.

mod outbox_outage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{Consumer, Info};
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::ProjectRequest;
use noetl_messaging::nats::{NatsConnection, NatsConnectionSettings, StreamSpec};
use noetl_server::http::{HttpSettings, InternalToken, serve_http};
use noetl_server::{
    CallContext, Clock as _, ControlPlane, NatsSettings, Settings, StreamSettings, SystemClock,
};
use noetl_store::postgres::PostgresOptions;
use noetl_store::{
    Execution, MAX_EXACT_PUBLISHED_COUNT, OutboxFilter, OutboxStatus, PostgresStore,
    ProjectionScope, RuntimeKind, RuntimeRegistration, SqliteStore, Store,
};
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::TestDatabase;
use noetl_tools::{Settings as ToolSettings, Toolbox};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ExecutionId, ExecutionVersion, Json, Millis, PlaybookPath, PoolName, RuntimeId, WorkerId,
};
use noetl_worker::Worker;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const INTERNAL_TOKEN: &str = "a token that must not leave the worker";
/// User name of the platform at its broker.
const BROKER_USER: &str = "noetl";
const BROKER_PASSWORD: &str = "broker-password";
/// Upper bound of any wait on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const EVENT_STREAM_PLAN: StreamSpec = StreamSpec {
    name: "noetl_events",
    subjects: &["noetl.events.>"],
    max_age: Duration::from_hours(24),
    duplicate_window: Duration::from_mins(2),
};

/// Server with an outbox, a platform worker, and a broker.
struct TestPlatform {
    store: Arc<dyn Store>,
    runtime: ControlPlane,
    connection: NatsConnection,
    stop: CancellationToken,
    nats: NatsServer,
}

/// Broker and the connection of the test to it.
struct TestBroker {
    nats: NatsServer,
    connection: NatsConnection,
}

/// Starts a broker that accepts only the platform's user.
fn start_broker() -> NatsServer {
    let lines = format!("authorization {{ user: {BROKER_USER}, password: \"{BROKER_PASSWORD}\" }}");
    NatsServer::start_with_config(&lines).expect("a NATS server")
}

fn connection_settings(nats: &NatsServer) -> NatsConnectionSettings {
    NatsConnectionSettings {
        url: nats.url().to_owned(),
        user: Some((BROKER_USER.to_owned(), BROKER_PASSWORD.to_owned())),
        name: "test".to_owned(),
        ..NatsConnectionSettings::default()
    }
}

impl TestBroker {
    /// Starts a broker without a stream.
    async fn start() -> Self {
        let nats = start_broker();
        let connection =
            NatsConnection::connect(connection_settings(&nats)).await.expect("a connection");
        Self { nats, connection }
    }

    /// Starts a broker with the event stream.
    async fn start_with_stream() -> Self {
        let broker = Self::start().await;
        broker.connection.ensure_stream(&EVENT_STREAM_PLAN).await.expect("the stream");
        broker
    }
}

impl TestPlatform {
    async fn open(store: Arc<dyn Store>, publishers: u32, starts_publishers: bool) -> Self {
        let broker = TestBroker::start_with_stream().await;
        let settings = Settings {
            outbox: noetl_server::OutboxSetting::Enabled,
            platform: starts_publishers,
            ..Settings::default()
        };
        Self::open_with(store, publishers, settings, broker).await
    }

    /// Opens a platform whose log is streamed, with a projector that follows the stream.
    async fn open_streaming(store: Arc<dyn Store>) -> Self {
        let broker = TestBroker::start().await;
        let settings = streaming_settings(&broker.nats);
        Self::open_with(store, 2, settings, broker).await
    }

    async fn open_with(
        store: Arc<dyn Store>,
        publishers: u32,
        settings: Settings,
        broker: TestBroker,
    ) -> Self {
        let TestBroker { nats, connection } = broker;
        let clock = Arc::new(SystemClock);
        let runtime = ControlPlane::open(Arc::clone(&store), clock, settings).await.unwrap();
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let http = HttpSettings {
            internal_token: Some(InternalToken::new(INTERNAL_TOKEN)),
            ..HttpSettings::default()
        };
        tokio::spawn(serve_http(runtime.clone(), listener, http, stop.clone()));
        let tools = ToolSettings {
            nats: Some(noetl_tools::NatsSettings {
                url: nats.url().to_owned(),
                user: Some((BROKER_USER.to_owned(), BROKER_PASSWORD.to_owned())),
                token: None,
            }),
            ..ToolSettings::default()
        };
        let pool = PoolName::new("system").unwrap();
        let mut settings = noetl_worker::WorkerSettings::new(WorkerId::new("w").unwrap(), pool);
        settings.max_concurrent = publishers;
        settings.secrets = noetl_worker::WorkerSecrets::single_secret(
            "internal",
            [("token", INTERNAL_TOKEN.to_owned()), ("url", url)],
        );
        let worker =
            Worker::new(Arc::new(runtime.worker_api()), Arc::new(Toolbox::new(tools)), settings);
        tokio::spawn(worker.run(stop.clone()));
        Self { store, runtime, connection, stop, nats }
    }

    /// Projects external events into the log, and thus into the outbox.
    async fn fill_outbox(&self, events: u64) {
        self.fill_outbox_from(0, events).await;
    }

    /// Projects external events numbered from `start`, to make them distinct from earlier ones.
    async fn fill_outbox_from(&self, start: u64, events: u64) {
        let time = noetl_types::Timestamp::parse("2026-01-05T00:00:00Z").unwrap();
        let first = (time.as_unix_ms() - 1_704_067_200_000) << 22;
        let id = |number: u64| Json::from(first + i64::try_from(number).unwrap());
        let event = |number: u64| {
            Json::object([
                ("execution_id", id(number / 100)),
                ("event_id", id(1_000_000 + number)),
                ("event_type", Json::from("step.enter")),
                ("context", Json::object([("n", Json::from(number))])),
            ])
        };
        let numbers: Vec<u64> = (start..start + events).collect();
        for chunk in numbers.chunks(1000) {
            let events = chunk.iter().map(|number| event(*number)).collect();
            let response = self
                .runtime
                .projection
                .project_events(
                    CallContext::server(),
                    ProjectRequest::new(events),
                    ProjectionScope::ExecutionOwner,
                )
                .await
                .unwrap();
            assert_eq!(response.projected, chunk.len() as u64, "{response:?}");
        }
    }

    async fn count_rows(&self, status: OutboxStatus) -> u64 {
        let stats = self.store.outbox_stats().await.unwrap();
        stats.rows.get(&status).copied().unwrap_or(0)
    }

    /// Waits until the outbox has no unpublished row.
    async fn wait_until_published(&self) {
        let drained = async {
            while self.store.outbox_stats().await.unwrap().oldest_unpublished.is_some() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, drained).await.expect("everything is published in time");
    }

    async fn start_publisher(&self) -> ExecutionId {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
            ..ExecuteRequest::default()
        };
        self.runtime
            .executions
            .start(CallContext::server(), request)
            .await
            .unwrap()
            .answer
            .execution_id
    }

    /// Waits until a run has ended and returns its row.
    async fn wait_for_execution_end(&self, id: ExecutionId) -> Execution {
        let ended = async {
            loop {
                let row = self.store.find_execution(id).await.unwrap().unwrap();
                if row.view.status.is_terminal() {
                    return row;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, ended).await.expect("it ends")
    }

    async fn close(self) {
        self.stop.cancel();
        self.runtime.close(WAIT_TIMEOUT).await;
    }
}

/// Settings of a server that streams its log from the first event on.
fn streaming_settings(nats: &NatsServer) -> Settings {
    Settings {
        platform: true,
        nats: Some(NatsSettings {
            link: connection_settings(nats),
            stream: Some(StreamSettings { backfill: true, ..StreamSettings::default() }),
            ..NatsSettings::default()
        }),
        ..Settings::default()
    }
}

/// Asserts that the events of each execution have no gap, and returns its last `seq`.
fn applied_positions(received: &BTreeMap<(i64, i64), u32>) -> BTreeMap<i64, i64> {
    let mut applied: BTreeMap<i64, i64> = BTreeMap::new();
    for (execution, seq) in received.keys() {
        let last = applied.entry(*execution).or_default();
        assert_eq!(*seq, *last + 1, "execution {execution} has a gap");
        *last = *seq;
    }
    applied
}

/// Lets publishers compete for many rows. Each event is published once, and no execution has a gap.
async fn check_racing_publishers(store: Arc<dyn Store>, events: u64) {
    let platform = TestPlatform::open(store, 16, false).await;
    platform.runtime.system_playbooks.register_system_playbooks().await.unwrap();
    platform.fill_outbox(events).await;
    assert_eq!(platform.count_rows(OutboxStatus::Pending).await, events);
    // A core subscription receives each publication, including those that the stream deduplicates.
    let mut subscription = platform.connection.subscribe("noetl.events.>").await.unwrap();
    let listener = tokio::spawn(async move {
        let mut received: BTreeMap<(i64, i64), u32> = BTreeMap::new();
        while (received.len() as u64) < events {
            let body = subscription.next().await.expect("a message");
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let key = |name: &str| body[name].as_i64().unwrap();
            *received.entry((key("execution_id"), key("seq"))).or_default() += 1;
        }
        received
    });
    for _ in 0..16 {
        platform.start_publisher().await;
    }
    platform.wait_until_published().await;
    let received = tokio::time::timeout(WAIT_TIMEOUT, listener).await.unwrap().unwrap();
    assert_eq!(received.len() as u64, events);
    assert!(received.values().all(|count| *count == 1), "an event was published twice");
    let applied: i64 = applied_positions(&received).values().sum();
    assert_eq!(u64::try_from(applied).unwrap(), events);
    // The count of published rows is capped. No row in another state is left.
    let counted = platform.count_rows(OutboxStatus::Published).await;
    assert!(counted >= events.min(MAX_EXACT_PUBLISHED_COUNT.into()), "{counted} of {events}");
    let stream = platform.connection.stream_info("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, events);
    let filter = OutboxFilter { status: None, after: None, limit: PageLimit::MAX };
    let rows = platform.store.list_outbox_rows(filter).await.unwrap();
    assert!(rows.iter().all(|row| row.attempts == 1), "a row was claimed twice");
    platform.close().await;
}

async fn open_postgres() -> (Arc<dyn Store>, TestDatabase) {
    let database = TestDatabase::new().expect("a database");
    let options = PostgresOptions::new(database.connection_config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.expect("a store");
    (Arc::new(store), database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_publishers_publish_each_event_once() {
    let (store, _database) = open_postgres().await;
    check_racing_publishers(store, 5_000).await;
}

#[ignore = "a hundred thousand rows take minutes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_racing_publishers_publish_each_of_many_events_once() {
    let (store, _database) = open_postgres().await;
    check_racing_publishers(store, 100_000).await;
}

/// The server starts a publisher automatically, the publisher ends, and no log contains its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outbox_is_published_without_leaking_the_token() {
    let platform = TestPlatform::open(Arc::new(SqliteStore::in_memory().unwrap()), 2, true).await;
    platform.fill_outbox(250).await;
    platform.wait_until_published().await;
    let stream = platform.connection.stream_info("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, 250);
    let filter = noetl_store::ExecutionFilter {
        tenant_id: noetl_types::TenantId::default(),
        status: None,
        path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
        parent_execution_id: None,
        after: None,
        limit: PageLimit::MAX,
    };
    let ended = async {
        loop {
            let runs = platform.store.list_executions(filter.clone()).await.unwrap().executions;
            if !runs.is_empty() && runs.iter().all(|run| run.view.status.is_terminal()) {
                return runs;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let runs = tokio::time::timeout(WAIT_TIMEOUT, ended).await.expect("publishers end");
    for run in &runs {
        assert_eq!(run.view.status.as_str(), "COMPLETED", "{:?}", run.view.error);
        let page = noetl_store::LogPageLimit::MAX;
        let log = platform
            .store
            .read_events(run.execution_id, ExecutionVersion::EMPTY, page)
            .await
            .unwrap();
        for event in &log {
            let text = serde_json::to_string(&event.record).unwrap();
            assert!(!text.contains(INTERNAL_TOKEN), "{text}");
            assert!(!text.contains(BROKER_PASSWORD), "{text}");
        }
    }
    // The events of the publisher are not published, or it would never end.
    assert_eq!(platform.count_rows(OutboxStatus::Published).await, 250);
    platform.close().await;
}

/// The stream and an outbox publisher run concurrently. In any order, an event has one body and is
/// stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_and_outbox_publish_equal_events() {
    const FILLED: u64 = 300;
    let broker = TestBroker::start().await;
    let settings = Settings {
        outbox: noetl_server::OutboxSetting::Enabled,
        platform: false,
        ..streaming_settings(&broker.nats)
    };
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let platform = TestPlatform::open_with(store, 2, settings, broker).await;
    platform.runtime.system_playbooks.register_system_playbooks().await.unwrap();
    let mut subscription = platform.connection.subscribe("noetl.events.>").await.unwrap();
    let listener = tokio::spawn(async move {
        // Each projected event is published twice, and the stream deduplicates it by its id.
        let mut bodies: BTreeMap<(i64, i64), Vec<Vec<u8>>> = BTreeMap::new();
        let is_enough = |bodies: &BTreeMap<_, Vec<Vec<u8>>>| {
            let twice = bodies.values().filter(|copies| copies.len() >= 2).count();
            twice as u64 >= FILLED
        };
        while !is_enough(&bodies) {
            let body = subscription.next().await.expect("a message");
            let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let key = |name: &str| event[name].as_i64().unwrap();
            let copies = bodies.entry((key("execution_id"), key("seq"))).or_default();
            copies.push(body.to_vec());
        }
        bodies
    });
    platform.fill_outbox(FILLED).await;
    platform.start_publisher().await;
    platform.wait_until_published().await;
    let bodies = tokio::time::timeout(WAIT_TIMEOUT, listener).await.expect("both publish").unwrap();
    for (event, copies) in &bodies {
        assert!(copies.windows(2).all(|pair| pair[0] == pair[1]), "{event:?}");
    }
    let stream = platform.connection.stream_info("noetl_events").await.unwrap().unwrap();
    let ids = platform
        .connection
        .message_ids("noetl_events", stream.first_sequence, stream.last_sequence);
    assert_eq!(ids.await.unwrap().len() as u64, stream.messages);
    platform.close().await;
}

/// The shipped cleanup playbook runs on a platform worker through the internal API only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cleanup_playbook_reports_purged_runtimes() {
    let platform = TestPlatform::open(Arc::new(SqliteStore::in_memory().unwrap()), 2, false).await;
    platform.runtime.system_playbooks.register_system_playbooks().await.unwrap();
    let now = SystemClock.now();
    for (number, name, minutes) in [(1, "silent", 61), (2, "active", 59)] {
        let pool = RuntimeRegistration {
            runtime_id: RuntimeId::new(number).unwrap(),
            kind: RuntimeKind::WorkerPool,
            name: name.into(),
            uri: None,
            detail: None,
            now: now.saturating_sub(Millis::from_minutes(minutes)),
        };
        platform.store.register_runtime(pool).await.unwrap();
    }
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("system/scheduled_cleanup").unwrap()),
        wait_ms: Some(30_000),
        ..ExecuteRequest::default()
    };
    let run =
        platform.runtime.executions.start(CallContext::server(), request).await.unwrap().answer;
    let row = platform.wait_for_execution_end(run.execution_id).await;
    assert_eq!(row.view.status.as_str(), "COMPLETED", "{:?}", row.view.error);
    let pools = platform.store.list_runtimes(RuntimeKind::WorkerPool);
    let pools: Vec<_> = pools.await.unwrap().into_iter().map(|runtime| runtime.name).collect();
    assert!(pools.contains(&"active".into()), "{pools:?}");
    assert!(!pools.contains(&"silent".into()), "{pools:?}");
    // It reports a dry run first, and then the actual purge.
    let log = platform
        .store
        .read_events(run.execution_id, ExecutionVersion::EMPTY, noetl_store::LogPageLimit::MAX)
        .await
        .unwrap();
    let log: Vec<_> =
        log.iter().map(|event| serde_json::to_string(&event.record).unwrap()).collect();
    for dry_run in [true, false] {
        let is_reported = |text: &String| {
            text.contains("\"runtime_purged\":1")
                && text.contains(&format!("\"dry_run\":{dry_run}"))
        };
        assert!(log.iter().any(is_reported), "{dry_run}: {log:?}");
    }
    platform.close().await;
}

/// Returns the broker's state of the projector's consumer.
async fn projector_consumer(context: &Context) -> Option<Info> {
    let stream = context.get_stream("noetl_events").await.ok()?;
    let consumer: Consumer<Config> = stream.get_consumer("noetl_projector").await.ok()?;
    Some(consumer.cached_info().clone())
}

/// Waits until the projector's consumer meets a condition.
async fn wait_for_consumer(context: &Context, what: &str, condition: impl Fn(&Info) -> bool) {
    let mut last = None;
    let wait = async {
        loop {
            last = projector_consumer(context).await;
            if last.as_ref().is_some_and(&condition) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let result = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
    assert!(result.is_ok(), "{what}: {last:?}");
}

/// The server creates the consumer and starts the projector. The projector applies and acknowledges
/// the events of the stream, and returns events that it cannot apply without blocking the others.
/// Two servers share one projector.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn projector_follows_the_stream() {
    let platform = TestPlatform::open_streaming(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let second = ControlPlane::open(
        Arc::clone(&platform.store),
        Arc::new(SystemClock),
        streaming_settings(&platform.nats),
    );
    let second = second.await.unwrap();
    platform.fill_outbox(250).await;
    let options = async_nats::ConnectOptions::new();
    let options = options.user_and_password(BROKER_USER.to_owned(), BROKER_PASSWORD.to_owned());
    let client = options.connect(platform.nats.url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    wait_for_consumer(&context, "all events are followed", |info| {
        info.ack_floor.stream_sequence >= 250
    })
    .await;
    // Messages that are not an event, or belong to an unknown run.
    let publish = async |body: &'static str| {
        let published = context.publish("noetl.events.other", body.into()).await;
        published.unwrap().await.unwrap().sequence
    };
    publish("no event").await;
    let unknown = publish(r#"{"execution_id": 4711}"#).await;
    wait_for_consumer(&context, "only the unknown run comes back", |info| {
        info.delivered.stream_sequence >= unknown
            && info.ack_floor.stream_sequence == unknown - 1
            && info.num_ack_pending == 1
    })
    .await;
    platform.fill_outbox_from(1_000, 250).await;
    wait_for_consumer(&context, "later events are delivered", |info| {
        info.delivered.stream_sequence >= unknown + 250
            && info.num_pending == 0
            && info.num_ack_pending == 1
    })
    .await;
    let filter = noetl_store::ExecutionFilter {
        tenant_id: noetl_types::TenantId::default(),
        status: None,
        path: Some(PlaybookPath::new("system/projector").unwrap()),
        parent_execution_id: None,
        after: None,
        limit: PageLimit::MAX,
    };
    let runs = platform.store.list_executions(filter).await.unwrap().executions;
    assert_eq!(runs.len(), 1, "one for both servers: {runs:?}");
    second.close(WAIT_TIMEOUT).await;
    platform.close().await;
}
