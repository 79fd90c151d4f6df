//! A log replays to the same bytes on every store, in every time zone and locale, with and without
//! snapshots.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use noetl_api::replay::{ReplayCutoff, ReplayQuery};
use noetl_engine::replay::{LogReader, REPLAY_FOLD_VERSION, ReplayState, fold_records};
use noetl_server::replay::replay_log;
use noetl_server::{CallContext, ControlPlane, Settings, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{
    AppendRequest, ExecutionFacts, ExecutionOrigin, ExecutionView, LogHead, PostgresStore,
    Snapshot, SnapshotKey, SqliteStore, Store,
};
use noetl_testkit::postgres::TestDatabase;
use noetl_types::limits::Priority;
use noetl_types::record::EventRecord;
use noetl_types::{
    Digest, EventType, ExecutionId, ExecutionStatus, ExecutionVersion, Millis, NewEvent,
    OrganizationId, PoolName, TenantId, Timestamp, sha256,
};

/// Later than every id of the corpus, so that all stores have a partition for it.
fn late_time() -> Timestamp {
    Timestamp::parse("2028-06-01T00:00:00Z").unwrap()
}

fn time_at_seconds(count: u64) -> Timestamp {
    late_time().saturating_add(Millis::from_secs(count))
}

fn empty_state(execution_id: ExecutionId) -> ReplayState {
    ReplayState::new(TenantId::default(), OrganizationId::default(), execution_id)
}

/// A corpus log in the order of its seqs. Each event occurs once and has a unique id.
struct CorpusLog {
    name: String,
    id: ExecutionId,
    events: Vec<NewEvent>,
    checksum: Digest,
    /// Checksums of the live state after each event.
    live_checksums: Vec<Digest>,
}

fn load_corpus() -> Vec<CorpusLog> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/logs");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    paths.sort();
    paths
        .iter()
        .zip(1..)
        .map(|(path, number)| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            parse_log(name, &fs::read_to_string(path).unwrap(), number)
        })
        .collect()
}

fn parse_log(name: String, text: &str, number: i64) -> CorpusLog {
    let mut reader = LogReader::default();
    let mut records: Vec<EventRecord> =
        text.lines().filter_map(|line| reader.read(line).unwrap()).collect();
    records.sort_by_key(|record| record.seq);
    records.dedup_by_key(|record| record.seq);
    // All runs of the simulator have the same id.
    let id = ExecutionId::new(500_000_000_000_000_000 + number).unwrap();
    for record in &mut records {
        record.event.execution_id = id;
    }
    let live_checksums: Vec<_> = (1..=records.len())
        .map(|count| {
            let prefix = records[..count].to_vec();
            fold_records(empty_state(id), prefix).unwrap().checksums().whole
        })
        .collect();
    let checksum = *live_checksums.last().unwrap();
    let events = records.into_iter().map(|record| record.event).collect();
    CorpusLog { name, id, events, checksum, live_checksums }
}

/// Appends the parts of a log, each one second after the previous one.
async fn append_parts(store: &dyn Store, id: ExecutionId, parts: &[&[NewEvent]]) {
    let mut head = LogHead::START;
    for (events, second) in parts.iter().zip(1..) {
        let append = AppendRequest {
            execution_id: id,
            expected_head: head,
            now: time_at_seconds(second),
            events: events.to_vec(),
            keep_checksums: false,
            is_projected: true,
            use_outbox: false,
            start: (head == LogHead::START).then(execution_facts),
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
            follow_ups: Vec::new(),
            slots: Vec::new(),
            cache_puts: Vec::new(),
            dedup: None,
            idempotency: None,
        };
        head = store.append_events(vec![append]).await.pop().unwrap().unwrap().head;
    }
}

fn execution_facts() -> ExecutionFacts {
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
        origin: ExecutionOrigin::Projected,
        pool: PoolName::shared(),
        priority: Priority::default(),
        labels: None,
        started_at: late_time(),
    }
}

async fn replay_checksum(log: &dyn Store, id: ExecutionId) -> Digest {
    let folded = replay_log(log, &ReplayQuery::new(id)).await.unwrap();
    assert!(!folded.truncated);
    folded.state.checksums().whole
}

/// Checks that a replay at each event gives the live state after that event.
async fn assert_replay_matches_live(store: &dyn Store, log: &CorpusLog, store_name: &str) {
    for (expected, seq) in log.live_checksums.iter().zip(1..) {
        let query = ReplayQuery { cutoff: ReplayCutoff::Position(seq), ..ReplayQuery::new(log.id) };
        let folded = replay_log(store, &query).await.unwrap();
        let checksum = folded.state.checksums().whole;
        assert_eq!(checksum, *expected, "{} at {seq} on {store_name}", log.name);
    }
}

async fn assert_corpus_replays(store: Arc<dyn Store>, logs: &[CorpusLog], store_name: &str) {
    for log in logs {
        let half = log.events.len() / 2;
        let (first, second) = log.events.split_at(half);
        append_parts(&*store, log.id, &[first, second]).await;
        let checksum = replay_checksum(&*store, log.id).await;
        assert_eq!(checksum, log.checksum, "{} on {store_name}", log.name);
        assert_replay_matches_live(&*store, log, store_name).await;
        // Half of the log, selected by seq and by time, is the same prefix.
        let half = i64::try_from(half).unwrap();
        let mut checksums = Vec::new();
        for cutoff in [ReplayCutoff::Position(half), ReplayCutoff::Time(time_at_seconds(1))] {
            let query = ReplayQuery { cutoff, ..ReplayQuery::new(log.id) };
            let folded = replay_log(&*store, &query).await.unwrap();
            assert_eq!(folded.state.version().get(), half, "{}", log.name);
            checksums.push(folded.state.checksums());
        }
        assert_eq!(checksums[0], checksums[1], "{} on {store_name}", log.name);
    }
}

#[tokio::test]
async fn corpus_replays_in_memory() {
    assert_corpus_replays(Arc::new(SqliteStore::in_memory().unwrap()), &load_corpus(), "memory")
        .await;
}

#[tokio::test]
async fn corpus_replays_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let logs = load_corpus();
    let store = SqliteStore::open(&SqliteOptions::new(&path)).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    assert_corpus_replays(Arc::clone(&store), &logs, "SQLite").await;
    // A read-only store gives the same result, during and after writes.
    let reader = SqliteStore::open_read_only(&SqliteOptions::new(&path)).unwrap();
    assert_eq!(replay_checksum(&reader, logs[0].id).await, logs[0].checksum);
    drop(store);
    let reader = SqliteStore::open_read_only(&SqliteOptions::new(&path)).unwrap();
    assert_eq!(replay_checksum(&reader, logs[1].id).await, logs[1].checksum);
}

/// Sessions in New York and Tokyo must see at 12:01Z what was recorded at 12:00Z.
#[tokio::test]
async fn corpus_replays_on_postgres_in_all_zones_and_locales() {
    let logs = load_corpus();
    let zones = ["UTC", "America/New_York", "Asia/Tokyo"];
    // Turkish has its own collation and case mapping.
    for locale in ["C", "tr-TR"] {
        for (index, zone) in zones.into_iter().enumerate() {
            let database = match locale {
                "C" => TestDatabase::new().unwrap(),
                icu => TestDatabase::in_icu_locale(icu).unwrap(),
            };
            let options = PostgresOptions::new(database.connection_config(), late_time())
                .with_time_zone(zone);
            let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&options).await.unwrap());
            let store_name = format!("PostgreSQL in {zone} and {locale}");
            // Every log is replayed in some combinations, and every combination replays some logs.
            let offset = zones.len() * usize::from(locale == "C") + index;
            let selected: Vec<&CorpusLog> = logs.iter().skip(offset).step_by(3).collect();
            for log in &selected {
                let (first, second) = log.events.split_at(1);
                append_parts(&*store, log.id, &[first, second]).await;
                let checksum = replay_checksum(&*store, log.id).await;
                assert_eq!(checksum, log.checksum, "{} on {store_name}", log.name);
                if locale != "C" {
                    assert_replay_matches_live(&*store, log, &store_name).await;
                }
                let query = ReplayQuery {
                    cutoff: ReplayCutoff::Time(time_at_seconds(1)),
                    ..ReplayQuery::new(log.id)
                };
                let folded = replay_log(&*store, &query).await.unwrap();
                assert_eq!(folded.state.version().get(), 1, "{} on {store_name}", log.name);
            }
        }
    }
}

fn build_event(id: ExecutionId, number: i64, event_type: EventType, time: Timestamp) -> NewEvent {
    let event_id = noetl_types::EventId::new(id.get() + number).unwrap();
    NewEvent::new(id, event_id, event_type, time)
}

/// Producer clocks are unreliable. The ingest time selects events, and the selection is always a
/// prefix of the log.
#[tokio::test]
async fn time_selects_log_prefix() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let hour_ago = Timestamp::parse("2028-05-31T23:00:00Z").unwrap();
    let events = [
        build_event(id, 1, EventType::StepEnter, time_at_seconds(100)),
        build_event(id, 2, EventType::CommandIssued, hour_ago),
        build_event(id, 3, EventType::PlaybookCompleted, time_at_seconds(50)),
    ];
    let parts: Vec<&[NewEvent]> = events.chunks(1).collect();
    append_parts(&*store, id, &parts).await;
    for (time, expected) in [
        (hour_ago, 0),
        (late_time(), 0),
        (time_at_seconds(1), 1),
        (time_at_seconds(2), 2),
        (time_at_seconds(3), 3),
        (time_at_seconds(4_000), 3),
    ] {
        let query = ReplayQuery { cutoff: ReplayCutoff::Time(time), ..ReplayQuery::new(id) };
        let folded = replay_log(&*store, &query).await.unwrap();
        assert_eq!(folded.state.version().get(), expected, "at {time}");
    }
}

fn snapshot_key() -> SnapshotKey {
    SnapshotKey { kind: "replay_state".into(), fold_version: REPLAY_FOLD_VERSION }
}

async fn open_services(store: &Arc<dyn Store>) -> ControlPlane {
    let settings = Settings { snapshot_min_events: 20, ..Settings::default() };
    let opened = ControlPlane::open(Arc::clone(store), Arc::new(SystemClock), settings);
    opened.await.unwrap()
}

fn heartbeat_events(id: ExecutionId, count: i64) -> Vec<NewEvent> {
    (1..=count)
        .map(|number| build_event(id, number, EventType::CommandHeartbeat, late_time()))
        .collect()
}

/// The first replay of a long log writes a snapshot. Later ones start from it and give the same
/// result.
#[tokio::test]
async fn replay_writes_and_uses_snapshots() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    append_parts(&*store, id, &[&heartbeat_events(id, 60)]).await;
    let services = open_services(&store).await;
    let query = ReplayQuery { cutoff: ReplayCutoff::Position(40), ..ReplayQuery::new(id) };
    let first = services.queries.replay_state(CallContext::server(), query.clone()).await.unwrap();
    assert_eq!(first.replay_snapshot, None);
    let end = ExecutionVersion::new(60).unwrap();
    while store.as_ref().find_snapshot(id, &snapshot_key(), end).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let again = services.queries.replay_state(CallContext::server(), query).await.unwrap();
    let seed = again.replay_snapshot.clone().unwrap();
    assert_eq!(seed.version, 40);
    assert_eq!(&*seed.aggregate_type, "replay_state");
    assert_eq!(*seed.aggregate_id, format!("execution/{id}/all"));
    assert_eq!((again.checksum, again.state), (first.checksum, first.state));
    // A snapshot after the requested position is not used.
    let before = ReplayQuery { cutoff: ReplayCutoff::Position(39), ..ReplayQuery::new(id) };
    let before = services.queries.replay_state(CallContext::server(), before).await.unwrap();
    assert_eq!((before.replay_snapshot, before.state.event_count), (None, 39));
    let whole =
        services.queries.replay_state(CallContext::server(), ReplayQuery::new(id)).await.unwrap();
    assert_eq!(whole.replay_snapshot.unwrap().version, 40);
    assert_eq!(whole.state.event_count, 60);
}

/// A replay of a long log also writes intermediate states, so that a first replay of an earlier
/// position need not start at the first event.
#[tokio::test]
async fn replay_writes_intermediate_snapshots() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let events = heartbeat_events(id, 7_000);
    let parts: Vec<&[NewEvent]> = events.chunks(1_000).collect();
    append_parts(&*store, id, &parts).await;
    let services = open_services(&store).await;
    services.queries.replay_state(CallContext::server(), ReplayQuery::new(id)).await.unwrap();
    // All background writes are complete after this.
    services.close(std::time::Duration::from_mins(1)).await;
    for (position, seed) in [
        (1_999, None),
        (3_900, Some(2_000)),
        (5_999, Some(4_000)),
        (6_500, Some(6_000)),
        (7_000, Some(7_000)),
    ] {
        let query =
            ReplayQuery { cutoff: ReplayCutoff::Position(position), ..ReplayQuery::new(id) };
        let folded = replay_log(&*store, &query).await.unwrap();
        assert_eq!(folded.seed.as_ref().map(|snapshot| snapshot.version), seed, "{position}");
        let mut all = empty_state(id);
        let page = noetl_store::LogPageLimit::clamped(u32::try_from(position).unwrap());
        let mut after = ExecutionVersion::EMPTY;
        while all.version().get() < position {
            for event in store.read_events(id, after, page).await.unwrap() {
                if all.version().get() < position {
                    all.apply(&event.record).unwrap();
                }
            }
            after = all.version();
        }
        assert_eq!(folded.state.checksums(), all.checksums(), "{position}");
    }
}

#[tokio::test]
async fn damaged_snapshots_are_skipped() {
    let id = ExecutionId::new(500_000_000_000_000_000).unwrap();
    let other = ExecutionId::new(500_000_000_000_000_900).unwrap();
    let (bytes, checksum) = empty_state(other).to_snapshot().unwrap();
    for (state, checksum) in [
        (b"{}".to_vec(), sha256(b"something else")),
        (b"{}".to_vec(), sha256(b"{}")),
        (bytes, checksum),
    ] {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
        append_parts(&*store, id, &[&heartbeat_events(id, 10)]).await;
        let head = LogHead { version: ExecutionVersion::new(5).unwrap(), ..LogHead::START };
        let snapshot = Snapshot { execution_id: id, key: snapshot_key(), head, state, checksum };
        store.write_snapshot(snapshot).await.unwrap();
        let folded = replay_log(&*store, &ReplayQuery::new(id)).await.unwrap();
        assert!(folded.seed.is_none());
        assert_eq!(folded.state.version().get(), 10);
    }
}
