//! The playbooks that ship with the platform, on a real NATS server that wants a password: the outbox is
//! published, and the stream is followed, by workers that know nothing but the internal API.

mod away;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{Consumer, Info};
use noetl_api::execute::ExecuteRequest;
use noetl_api::internal::ProjectRequest;
use noetl_bus::nats::{Link, LinkSettings, StreamPlan};
use noetl_server::http::{HttpSettings, InternalToken, serve};
use noetl_server::{Clock as _, NatsSettings, Runtime, Settings, StreamSettings, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::{
    CopyScope, MAX_COUNTED, MemoryStore, NewRuntime, OutboxFilter, OutboxStatus, PostgresStore,
    RuntimeKind, Store,
};
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::Database;
use noetl_tools::{Settings as ToolSettings, Toolbox};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ExecutionId, Json, Millis, PlaybookPath, PoolName, RuntimeId, Version, WorkerId,
};
use noetl_worker::Worker;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "a token that must not leave the worker";
/// Who the house is at its broker.
const USER: &str = "house";
const PASSWORD: &str = "a word that the broker knows";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);
const MOMENT: Duration = Duration::from_millis(50);

const EVENTS: StreamPlan = StreamPlan {
    name: "noetl_events",
    subjects: &["noetl.events.>"],
    max_age: Duration::from_hours(24),
    duplicate_window: Duration::from_mins(2),
};

/// A server with an outbox, a worker of the platform, and a broker.
struct Platform {
    store: Arc<dyn Store>,
    runtime: Runtime,
    link: Link,
    stop: CancellationToken,
    nats: Nats,
}

/// A broker that lets nobody in but the house.
fn broker() -> Nats {
    let lines = format!("authorization {{ user: {USER}, password: \"{PASSWORD}\" }}");
    Nats::configured(&lines).expect("a NATS server")
}

fn link_to(nats: &Nats) -> LinkSettings {
    LinkSettings {
        url: nats.url().to_owned(),
        user: Some((USER.to_owned(), PASSWORD.to_owned())),
        name: "test".to_owned(),
        ..LinkSettings::default()
    }
}

impl Platform {
    async fn open(store: Arc<dyn Store>, publishers: u32, starts_itself: bool) -> Self {
        let nats = broker();
        let link = Link::open(link_to(&nats)).await.expect("a link");
        link.ensure(&EVENTS).await.expect("the stream");
        let settings = Settings {
            outbox: true,
            platform: starts_itself,
            ..Settings::default()
        };
        Self::with(store, publishers, settings, (nats, link)).await
    }

    /// The same with a server whose log is streamed, and read models that follow it.
    async fn streaming(store: Arc<dyn Store>) -> Self {
        let nats = broker();
        let link = Link::open(link_to(&nats)).await.expect("a link");
        let settings = streaming(&nats);
        Self::with(store, 2, settings, (nats, link)).await
    }

    async fn with(
        store: Arc<dyn Store>,
        publishers: u32,
        settings: Settings,
        (nats, link): (Nats, Link),
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let runtime = Runtime::open(Arc::clone(&store), clock, settings)
            .await
            .unwrap();
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let http = HttpSettings {
            internal_token: Some(InternalToken::new(TOKEN)),
            ..HttpSettings::default()
        };
        tokio::spawn(serve(runtime.clone(), listener, http, stop.clone()));
        let tools = ToolSettings {
            nats: Some(noetl_tools::NatsSettings {
                url: nats.url().to_owned(),
                user: Some((USER.to_owned(), PASSWORD.to_owned())),
                token: None,
            }),
            ..ToolSettings::default()
        };
        let pool = PoolName::new("system").unwrap();
        let mut settings = noetl_worker::Settings::new(WorkerId::new("w").unwrap(), pool);
        settings.max_concurrent = publishers;
        settings.secrets =
            noetl_worker::OwnSecrets::of("internal", [("token", TOKEN.to_owned()), ("url", url)]);
        let worker = Worker::new(
            Arc::new(runtime.clone()),
            Arc::new(Toolbox::new(tools)),
            settings,
        );
        tokio::spawn(worker.run(stop.clone()));
        Self {
            store,
            runtime,
            link,
            stop,
            nats,
        }
    }

    /// Puts events of others into the log, and so into the outbox.
    async fn fill(&self, events: u64) {
        self.fill_from(0, events).await;
    }

    /// The same from a number on, so that they are other ones.
    async fn fill_from(&self, start: u64, events: u64) {
        let made = noetl_types::Timestamp::parse("2026-01-05T00:00:00Z").unwrap();
        let first = (made.as_unix_ms() - 1_704_067_200_000) << 22;
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
        for part in numbers.chunks(1000) {
            let events = part.iter().map(|number| event(*number)).collect();
            let answer = self
                .runtime
                .project(ProjectRequest { events }, CopyScope::OfExecution)
                .await
                .unwrap();
            assert_eq!(answer.projected, part.len() as u64, "{answer:?}");
        }
    }

    async fn count(&self, status: OutboxStatus) -> u64 {
        let facts = self.store.outbox_facts().await.unwrap();
        facts.rows.get(&status).copied().unwrap_or(0)
    }

    /// Waits until nothing is left to be published.
    async fn drained(&self) {
        let drained = async {
            while self
                .store
                .outbox_facts()
                .await
                .unwrap()
                .oldest_unpublished
                .is_some()
            {
                tokio::time::sleep(MOMENT).await;
            }
        };
        tokio::time::timeout(PATIENCE, drained)
            .await
            .expect("all is published in time");
    }

    async fn start_publisher(&self) -> ExecutionId {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new("system/outbox_publisher").unwrap()),
            ..ExecuteRequest::default()
        };
        self.runtime.execute(request).await.unwrap().execution_id
    }

    async fn close(self) {
        self.stop.cancel();
        self.runtime.close(PATIENCE).await;
    }
}

/// Settings of a server whose log is streamed from its first event on.
fn streaming(nats: &Nats) -> Settings {
    Settings {
        platform: true,
        nats: Some(NatsSettings {
            link: link_to(nats),
            stream: Some(StreamSettings {
                backfill: true,
                ..StreamSettings::default()
            }),
            ..NatsSettings::default()
        }),
        ..Settings::default()
    }
}

/// What somebody makes of events that come in any order: those of each execution in theirs.
fn in_order(seen: &BTreeMap<(i64, i64), u32>) -> BTreeMap<i64, i64> {
    let mut applied: BTreeMap<i64, i64> = BTreeMap::new();
    for (execution, seq) in seen.keys() {
        let at = applied.entry(*execution).or_default();
        assert_eq!(*seq, *at + 1, "execution {execution} has a gap");
        *at = *seq;
    }
    applied
}

/// Racing publishers over many rows: each event is published, and none twice; none is missing in the
/// order of its execution.
async fn race(store: Arc<dyn Store>, events: u64) {
    let platform = Platform::open(store, 16, false).await;
    platform.runtime.register_shipped().await.unwrap();
    platform.fill(events).await;
    assert_eq!(platform.count(OutboxStatus::Pending).await, events);
    // Whoever listens sees each publication, whatever the stream makes of its id.
    let mut heard = platform.link.listen("noetl.events.>").await.unwrap();
    let listener = tokio::spawn(async move {
        let mut seen: BTreeMap<(i64, i64), u32> = BTreeMap::new();
        while (seen.len() as u64) < events {
            let body = heard.next().await.expect("a message");
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let key = |name: &str| body[name].as_i64().unwrap();
            *seen.entry((key("execution_id"), key("seq"))).or_default() += 1;
        }
        seen
    });
    for _ in 0..16 {
        platform.start_publisher().await;
    }
    platform.drained().await;
    let seen = tokio::time::timeout(PATIENCE, listener)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seen.len() as u64, events);
    assert!(
        seen.values().all(|times| *times == 1),
        "an event was published twice"
    );
    let applied: i64 = in_order(&seen).values().sum();
    assert_eq!(u64::try_from(applied).unwrap(), events);
    // Many are not counted one by one; nothing else is left.
    let counted = platform.count(OutboxStatus::Published).await;
    assert!(
        counted >= events.min(MAX_COUNTED.into()),
        "{counted} of {events}"
    );
    let stream = platform.link.stream("noetl_events").await.unwrap().unwrap();
    assert_eq!(stream.messages, events);
    let filter = OutboxFilter {
        status: None,
        after: None,
        limit: PageLimit::MAX,
    };
    let rows = platform.store.outbox(filter).await.unwrap();
    assert!(
        rows.iter().all(|row| row.attempts == 1),
        "a row was claimed twice"
    );
    platform.close().await;
}

async fn postgres() -> (Arc<dyn Store>, Database) {
    let database = Database::new().expect("a database");
    let options = PostgresOptions::new(database.config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.expect("a store");
    (Arc::new(store), database)
}

/// Hole O6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_publishers_publish_each_event_once() {
    let (store, _database) = postgres().await;
    race(store, 5_000).await;
}

#[ignore = "a hundred thousand rows take minutes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_racing_publishers_publish_each_of_many_events_once() {
    let (store, _database) = postgres().await;
    race(store, 100_000).await;
}

/// The server starts a publisher by itself, it comes to rest, and its token is in no log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_is_published_by_itself_and_the_token_stays_where_it_is() {
    let platform = Platform::open(Arc::new(MemoryStore::new()), 2, true).await;
    platform.fill(250).await;
    platform.drained().await;
    let stream = platform.link.stream("noetl_events").await.unwrap().unwrap();
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
            let runs = platform
                .store
                .executions(filter.clone())
                .await
                .unwrap()
                .executions;
            if !runs.is_empty() && runs.iter().all(|run| run.view.status.is_terminal()) {
                return runs;
            }
            tokio::time::sleep(MOMENT).await;
        }
    };
    let runs = tokio::time::timeout(PATIENCE, ended)
        .await
        .expect("publishers end");
    for run in &runs {
        assert_eq!(
            run.view.status.as_str(),
            "COMPLETED",
            "{:?}",
            run.view.error
        );
        let page = noetl_store::LogPage::MAX;
        let log = platform
            .store
            .events(run.execution_id, Version::EMPTY, page)
            .await
            .unwrap();
        for event in &log {
            let text = serde_json::to_string(&event.record).unwrap();
            assert!(!text.contains(TOKEN), "{text}");
            assert!(!text.contains(PASSWORD), "{text}");
        }
    }
    // What publishes does not publish itself, or it would never come to rest.
    assert_eq!(platform.count(OutboxStatus::Published).await, 250);
    platform.close().await;
}

/// The stream and a publisher of the outbox side by side: whoever is first, an event has one body and is
/// there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_outlets_on_one_broker_publish_the_same() {
    const FILLED: u64 = 300;
    let nats = broker();
    let link = Link::open(link_to(&nats)).await.expect("a link");
    let settings = Settings {
        outbox: true,
        platform: false,
        ..streaming(&nats)
    };
    let store = Arc::new(MemoryStore::new());
    let platform = Platform::with(store, 2, settings, (nats, link)).await;
    platform.runtime.register_shipped().await.unwrap();
    let mut heard = platform.link.listen("noetl.events.>").await.unwrap();
    let listener = tokio::spawn(async move {
        // Each event of the others is told twice, whatever the stream makes of its id.
        let mut bodies: BTreeMap<(i64, i64), Vec<Vec<u8>>> = BTreeMap::new();
        let is_enough = |bodies: &BTreeMap<_, Vec<Vec<u8>>>| {
            let twice = bodies.values().filter(|told| told.len() >= 2).count();
            twice as u64 >= FILLED
        };
        while !is_enough(&bodies) {
            let body = heard.next().await.expect("a message");
            let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let key = |name: &str| event[name].as_i64().unwrap();
            let told = bodies.entry((key("execution_id"), key("seq"))).or_default();
            told.push(body.to_vec());
        }
        bodies
    });
    platform.fill(FILLED).await;
    platform.start_publisher().await;
    platform.drained().await;
    let bodies = tokio::time::timeout(PATIENCE, listener)
        .await
        .expect("both publish")
        .unwrap();
    for (event, told) in &bodies {
        assert!(told.windows(2).all(|two| two[0] == two[1]), "{event:?}");
    }
    let stream = platform.link.stream("noetl_events").await.unwrap().unwrap();
    let ids = platform
        .link
        .message_ids("noetl_events", stream.first, stream.last);
    assert_eq!(ids.await.unwrap().len() as u64, stream.messages);
    platform.close().await;
}

/// The cleanup that ships runs on a worker of the platform, by the internal API alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cleanup_runs_and_tells_what_went() {
    let platform = Platform::open(Arc::new(MemoryStore::new()), 2, false).await;
    platform.runtime.register_shipped().await.unwrap();
    let now = SystemClock.now();
    for (number, name, minutes) in [(1, "silent", 61), (2, "heard of", 59)] {
        let pool = NewRuntime {
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
    let run = platform.runtime.execute(request).await.unwrap();
    let ended = async {
        loop {
            let row = platform
                .store
                .execution(run.execution_id)
                .await
                .unwrap()
                .unwrap();
            if row.view.status.is_terminal() {
                return row;
            }
            tokio::time::sleep(MOMENT).await;
        }
    };
    let row = tokio::time::timeout(PATIENCE, ended)
        .await
        .expect("it ends");
    assert_eq!(
        row.view.status.as_str(),
        "COMPLETED",
        "{:?}",
        row.view.error
    );
    let pools = platform.store.runtimes(RuntimeKind::WorkerPool);
    let pools: Vec<_> = pools.await.unwrap().into_iter().map(|it| it.name).collect();
    assert!(pools.contains(&"heard of".into()), "{pools:?}");
    assert!(!pools.contains(&"silent".into()), "{pools:?}");
    // First it tells what would go, then what went.
    let log = platform
        .store
        .events(run.execution_id, Version::EMPTY, noetl_store::LogPage::MAX)
        .await
        .unwrap();
    let log: Vec<_> = log
        .iter()
        .map(|it| serde_json::to_string(&it.record).unwrap())
        .collect();
    for told in [true, false] {
        let is_told = |text: &String| {
            text.contains("\"runtime_purged\":1") && text.contains(&format!("\"dry_run\":{told}"))
        };
        assert!(log.iter().any(is_told), "{told}: {log:?}");
    }
    platform.close().await;
}

/// What the broker knows of who reads the stream for the projector.
async fn follower(context: &Context) -> Option<Info> {
    let stream = context.get_stream("noetl_events").await.ok()?;
    let consumer: Consumer<Config> = stream.get_consumer("noetl_projector").await.ok()?;
    Some(consumer.cached_info().clone())
}

/// Waits until the broker says so of who reads the stream.
async fn until_follower(context: &Context, what: &str, is_so: impl Fn(&Info) -> bool) {
    let mut last = None;
    let wait = async {
        loop {
            last = follower(context).await;
            if last.as_ref().is_some_and(&is_so) {
                return;
            }
            tokio::time::sleep(MOMENT).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "{what}: {last:?}");
}

/// The server makes the consumer and starts the projector, which advances what the stream tells of,
/// acknowledges that, and gives back what cannot be advanced, without any harm to the rest. Two servers
/// have one projector.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_models_follow_the_stream_by_themselves() {
    let platform = Platform::streaming(Arc::new(MemoryStore::new())).await;
    let second = Runtime::open(
        Arc::clone(&platform.store),
        Arc::new(SystemClock),
        streaming(&platform.nats),
    );
    let second = second.await.unwrap();
    platform.fill(250).await;
    let options = async_nats::ConnectOptions::new();
    let options = options.user_and_password(USER.to_owned(), PASSWORD.to_owned());
    let client = options.connect(platform.nats.url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    until_follower(&context, "all events are followed", |info| {
        info.ack_floor.stream_sequence >= 250
    })
    .await;
    // Others say something that is about nothing, and of a run that nobody knows.
    let say = async |body: &'static str| {
        let said = context.publish("noetl.events.other", body.into()).await;
        said.unwrap().await.unwrap().sequence
    };
    say("no event").await;
    let unknown = say(r#"{"execution_id": 4711}"#).await;
    until_follower(&context, "only the unknown run comes back", |info| {
        info.delivered.stream_sequence >= unknown
            && info.ack_floor.stream_sequence == unknown - 1
            && info.num_ack_pending == 1
    })
    .await;
    platform.fill_from(1_000, 250).await;
    until_follower(&context, "the rest goes on", |info| {
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
    let runs = platform.store.executions(filter).await.unwrap().executions;
    assert_eq!(runs.len(), 1, "one for both servers: {runs:?}");
    second.close(PATIENCE).await;
    platform.close().await;
}
