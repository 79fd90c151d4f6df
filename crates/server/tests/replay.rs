//! The same log gives the same bytes: on every store, in every zone and locale, with a snapshot and
//! without.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use noetl_api::replay::{Cut, ReplayQuery};
use noetl_engine::replay::{LogReader, REPLAY_FOLD_VERSION, ReplayState, fold};
use noetl_server::replay::replay;
use noetl_server::{Runtime, Settings, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{
    Append, ExecutionFacts, ExecutionView, Head, MemoryStore, Origin, PostgresStore, Snapshot,
    SnapshotKey, SqliteStore, Store,
};
use noetl_testkit::postgres::Database;
use noetl_types::limits::Priority;
use noetl_types::record::EventRecord;
use noetl_types::{
    Digest, EventType, ExecutionId, ExecutionStatus, Millis, NewEvent, OrganizationId, PoolName,
    TenantId, Timestamp, Version, sha256,
};

/// Behind every id of the corpus, so that every store has a place for it.
fn late() -> Timestamp {
    Timestamp::parse("2028-06-01T00:00:00Z").unwrap()
}

fn seconds(count: u64) -> Timestamp {
    late().saturating_add(Millis::from_secs(count))
}

fn empty(execution_id: ExecutionId) -> ReplayState {
    ReplayState::new(TenantId::default(), OrganizationId::default(), execution_id)
}

/// A log of the corpus in the order of its places, each event once, under an id of its own.
struct Log {
    name: String,
    id: ExecutionId,
    events: Vec<NewEvent>,
    checksum: Digest,
    /// That of what a reader saw after each of its events.
    live: Vec<Digest>,
}

fn corpus() -> Vec<Log> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/logs");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    paths.sort();
    paths
        .iter()
        .zip(1..)
        .map(|(path, number)| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            log(name, &fs::read_to_string(path).unwrap(), number)
        })
        .collect()
}

fn log(name: String, text: &str, number: i64) -> Log {
    let mut reader = LogReader::default();
    let mut records: Vec<EventRecord> = text
        .lines()
        .filter_map(|line| reader.read(line).unwrap())
        .collect();
    records.sort_by_key(|record| record.seq);
    records.dedup_by_key(|record| record.seq);
    // Runs of the simulator all have the same id.
    let id = ExecutionId::new(500_000_000_000_000_000 + number).unwrap();
    for record in &mut records {
        record.event.execution_id = id;
    }
    let live: Vec<_> = (1..=records.len())
        .map(|count| {
            let seen = records[..count].to_vec();
            fold(empty(id), seen).unwrap().checksums().whole
        })
        .collect();
    let checksum = *live.last().unwrap();
    let events = records.into_iter().map(|record| record.event).collect();
    Log {
        name,
        id,
        events,
        checksum,
        live,
    }
}

/// Appends the parts of a log, each in a second of its own.
async fn fill(store: &dyn Store, id: ExecutionId, parts: &[&[NewEvent]]) {
    let mut head = Head::START;
    for (events, second) in parts.iter().zip(1..) {
        let append = Append {
            execution_id: id,
            expected: head,
            now: seconds(second),
            events: events.to_vec(),
            keep_checksums: false,
            is_copy: true,
            outbox: false,
            start: (head == Head::START).then(facts),
            view: ExecutionView {
                status: ExecutionStatus::Running,
                paused: false,
                last_node_name: None,
                ended_at: None,
                error: None,
            },
            fences: Vec::new(),
            commands: Vec::new(),
            timers: Vec::new(),
            results: Vec::new(),
            waits: Vec::new(),
            errands: Vec::new(),
            slots: Vec::new(),
            cached: Vec::new(),
            dedup: None,
            idempotency: None,
        };
        head = store
            .append(vec![append])
            .await
            .pop()
            .unwrap()
            .unwrap()
            .head;
    }
}

fn facts() -> ExecutionFacts {
    ExecutionFacts {
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        catalog_id: None,
        path: None,
        playbook_version: None,
        definition_sha256: None,
        parent_execution_id: None,
        root_execution_id: None,
        forked_from: None,
        origin: Origin::Projected,
        pool: PoolName::shared(),
        priority: Priority::default(),
        labels: None,
        started_at: late(),
    }
}

async fn whole(log: &dyn Store, id: ExecutionId) -> Digest {
    let folded = replay(log, &ReplayQuery::new(id)).await.unwrap();
    assert!(!folded.truncated);
    folded.state.checksums().whole
}

/// What is replayed at each place of a log is what was seen live there.
async fn is_as_it_was_live(store: &dyn Store, log: &Log, place: &str) {
    for (seen, seq) in log.live.iter().zip(1..) {
        let query = ReplayQuery {
            cut: Cut::Position(seq),
            ..ReplayQuery::new(log.id)
        };
        let folded = replay(store, &query).await.unwrap();
        let sum = folded.state.checksums().whole;
        assert_eq!(sum, *seen, "{} at {seq} on {place}", log.name);
    }
}

async fn holds_the_corpus(store: Arc<dyn Store>, logs: &[Log], place: &str) {
    for log in logs {
        let half = log.events.len() / 2;
        let (first, second) = log.events.split_at(half);
        fill(&*store, log.id, &[first, second]).await;
        let sum = whole(&*store, log.id).await;
        assert_eq!(sum, log.checksum, "{} on {place}", log.name);
        is_as_it_was_live(&*store, log, place).await;
        // Half of it, by place and by time, is the same prefix.
        let half = i64::try_from(half).unwrap();
        let mut sums = Vec::new();
        for cut in [Cut::Position(half), Cut::Time(seconds(1))] {
            let query = ReplayQuery {
                cut,
                ..ReplayQuery::new(log.id)
            };
            let folded = replay(&*store, &query).await.unwrap();
            assert_eq!(folded.state.version().get(), half, "{}", log.name);
            sums.push(folded.state.checksums());
        }
        assert_eq!(sums[0], sums[1], "{} on {place}", log.name);
    }
}

#[tokio::test]
async fn the_corpus_in_memory() {
    holds_the_corpus(Arc::new(MemoryStore::new()), &corpus(), "memory").await;
}

#[tokio::test]
async fn the_corpus_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let logs = corpus();
    let store = SqliteStore::open(&SqliteOptions::new(&path)).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    holds_the_corpus(Arc::clone(&store), &logs, "SQLite").await;
    // Whoever only looks sees the same, beside the writer and after it.
    let reader = SqliteStore::open_to_read(&SqliteOptions::new(&path)).unwrap();
    assert_eq!(whole(&reader, logs[0].id).await, logs[0].checksum);
    drop(store);
    let reader = SqliteStore::open_to_read(&SqliteOptions::new(&path)).unwrap();
    assert_eq!(whole(&reader, logs[1].id).await, logs[1].checksum);
}

/// A session in New York must see at 12:01Z what was recorded at 12:00Z, as one in Tokyo does.
#[tokio::test]
async fn y3_the_corpus_on_postgres_in_three_zones_and_two_locales() {
    let logs = corpus();
    let zones = ["UTC", "America/New_York", "Asia/Tokyo"];
    // Turkish has its own order of letters, and its own capitals of some.
    for locale in ["C", "tr-TR"] {
        for (at, zone) in zones.into_iter().enumerate() {
            let database = match locale {
                "C" => Database::new().unwrap(),
                icu => Database::in_icu_locale(icu).unwrap(),
            };
            let options = PostgresOptions::new(database.config(), late()).in_time_zone(zone);
            let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&options).await.unwrap());
            let place = format!("PostgreSQL in {zone} and {locale}");
            // Every log is folded in some of them, and some logs in each.
            let part = zones.len() * usize::from(locale == "C") + at;
            let some: Vec<&Log> = logs.iter().skip(part).step_by(3).collect();
            for log in &some {
                let (first, second) = log.events.split_at(1);
                fill(&*store, log.id, &[first, second]).await;
                let sum = whole(&*store, log.id).await;
                assert_eq!(sum, log.checksum, "{} on {place}", log.name);
                if locale != "C" {
                    is_as_it_was_live(&*store, log, &place).await;
                }
                let query = ReplayQuery {
                    cut: Cut::Time(seconds(1)),
                    ..ReplayQuery::new(log.id)
                };
                let folded = replay(&*store, &query).await.unwrap();
                assert_eq!(folded.state.version().get(), 1, "{} on {place}", log.name);
            }
        }
    }
}

fn event(id: ExecutionId, number: i64, kind: EventType, time: Timestamp) -> NewEvent {
    let event_id = noetl_types::EventId::new(id.get() + number).unwrap();
    NewEvent::new(id, event_id, kind, time)
}

/// Clocks of producers run as they like: what counts is when the store took an event, and what is cut
/// off is always the end of the log.
#[tokio::test]
async fn y4_a_time_cuts_off_the_end_of_a_log() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let hour_ago = Timestamp::parse("2028-05-31T23:00:00Z").unwrap();
    let events = [
        event(id, 1, EventType::StepEnter, seconds(100)),
        event(id, 2, EventType::CommandIssued, hour_ago),
        event(id, 3, EventType::PlaybookCompleted, seconds(50)),
    ];
    let parts: Vec<&[NewEvent]> = events.chunks(1).collect();
    fill(&*store, id, &parts).await;
    for (time, wanted) in [
        (hour_ago, 0),
        (late(), 0),
        (seconds(1), 1),
        (seconds(2), 2),
        (seconds(3), 3),
        (seconds(4_000), 3),
    ] {
        let query = ReplayQuery {
            cut: Cut::Time(time),
            ..ReplayQuery::new(id)
        };
        let folded = replay(&*store, &query).await.unwrap();
        assert_eq!(folded.state.version().get(), wanted, "at {time}");
    }
}

fn key() -> SnapshotKey {
    SnapshotKey {
        kind: "replay_state".into(),
        fold_version: REPLAY_FOLD_VERSION,
    }
}

async fn runtime(store: &Arc<dyn Store>) -> Runtime {
    let settings = Settings {
        snapshot_every: 20,
        ..Settings::default()
    };
    let opened = Runtime::open(Arc::clone(store), Arc::new(SystemClock), settings);
    opened.await.unwrap()
}

fn heartbeats(id: ExecutionId, count: i64) -> Vec<NewEvent> {
    (1..=count)
        .map(|number| event(id, number, EventType::CommandHeartbeat, late()))
        .collect()
}

/// The first reader of a long log leaves a snapshot; the next ones go on from it, and see the same.
#[tokio::test]
async fn snapshots_are_left_and_used() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    fill(&*store, id, &[&heartbeats(id, 60)]).await;
    let runtime = runtime(&store).await;
    let query = ReplayQuery {
        cut: Cut::Position(40),
        ..ReplayQuery::new(id)
    };
    let first = runtime.replay_state(query.clone()).await.unwrap();
    assert_eq!(first.replay_snapshot, None);
    let end = Version::new(60).unwrap();
    while store
        .as_ref()
        .snapshot(id, &key(), end)
        .await
        .unwrap()
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    let again = runtime.replay_state(query).await.unwrap();
    let seed = again.replay_snapshot.clone().unwrap();
    assert_eq!(seed.version, 40);
    assert_eq!(&*seed.aggregate_type, "replay_state");
    assert_eq!(*seed.aggregate_id, format!("execution/{id}/all"));
    assert_eq!((again.checksum, again.state), (first.checksum, first.state));
    // One that lies behind the cut is of no use to it.
    let before = ReplayQuery {
        cut: Cut::Position(39),
        ..ReplayQuery::new(id)
    };
    let before = runtime.replay_state(before).await.unwrap();
    assert_eq!(
        (before.replay_snapshot, before.state.event_count),
        (None, 39)
    );
    let whole = runtime.replay_state(ReplayQuery::new(id)).await.unwrap();
    assert_eq!(whole.replay_snapshot.unwrap().version, 40);
    assert_eq!(whole.state.event_count, 60);
}

/// Whoever reads a long log leaves states on the way to its end too, so that those who look at an
/// earlier moment for the first time need not begin with the first event.
#[tokio::test]
async fn states_on_the_way_are_left_for_earlier_moments() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = heartbeats(id, 7_000);
    let parts: Vec<&[NewEvent]> = events.chunks(1_000).collect();
    fill(&*store, id, &parts).await;
    let runtime = runtime(&store).await;
    runtime.replay_state(ReplayQuery::new(id)).await.unwrap();
    // Everything that was begun is finished by then.
    runtime.close(std::time::Duration::from_mins(1)).await;
    for (place, seed) in [
        (1_999, None),
        (3_900, Some(2_000)),
        (5_999, Some(4_000)),
        (6_500, Some(6_000)),
        (7_000, Some(7_000)),
    ] {
        let query = ReplayQuery {
            cut: Cut::Position(place),
            ..ReplayQuery::new(id)
        };
        let folded = replay(&*store, &query).await.unwrap();
        assert_eq!(folded.seed.as_ref().map(|it| it.version), seed, "{place}");
        let mut all = empty(id);
        let page = noetl_store::LogPage::clamped(u32::try_from(place).unwrap());
        let mut after = Version::EMPTY;
        while all.version().get() < place {
            for event in store.events(id, after, page).await.unwrap() {
                if all.version().get() < place {
                    all.apply(&event.record).unwrap();
                }
            }
            after = all.version();
        }
        assert_eq!(folded.state.checksums(), all.checksums(), "{place}");
    }
}

/// A snapshot that is not what it was is passed over.
#[tokio::test]
async fn damaged_snapshots_are_passed_over() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let other = ExecutionId::new(500_000_000_000_000_900).unwrap();
    let (bytes, checksum) = empty(other).to_snapshot().unwrap();
    for (state, checksum) in [
        (b"{}".to_vec(), sha256(b"something else")),
        (b"{}".to_vec(), sha256(b"{}")),
        (bytes, checksum),
    ] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        fill(&*store, id, &[&heartbeats(id, 10)]).await;
        let head = Head {
            version: Version::new(5).unwrap(),
            ..Head::START
        };
        let snapshot = Snapshot {
            execution_id: id,
            key: key(),
            head,
            state,
            checksum,
        };
        store.write_snapshot(snapshot).await.unwrap();
        let folded = replay(&*store, &ReplayQuery::new(id)).await.unwrap();
        assert!(folded.seed.is_none());
        assert_eq!(folded.state.version().get(), 10);
    }
}
