//! A very long log is replayed to its end within the memory that its state takes: it is read in parts,
//! and no part of it is kept.

use noetl_api::Client;
use noetl_api::client::ClientSettings;
use noetl_api::replay::ReplayQuery;
use noetl_engine::replay::ReplayState;
use noetl_store::{Append, ExecutionFacts, ExecutionView, Head, Origin, Store};
use noetl_types::limits::Priority;
use noetl_types::record::{EventRecord, NewEvent, Seq};
use noetl_types::{
    CommandId, Digest, EventId, EventType, ExecutionId, ExecutionStatus, Json, Millis,
    OrganizationId, PoolName, TenantId, Timestamp,
};
use tokio::time::Instant;

use crate::house::House;
use crate::logs::store;

/// What a server may use, in MiB, whatever the length of a log.
const MEMORY: u64 = 256;

/// Events that are appended together.
const PART: i64 = 1000;

/// Events of one command: it is issued, claimed, started, kept by heartbeats, and done.
const OF_COMMAND: i64 = 50;

fn run() -> ExecutionId {
    // In the month in which the store of a test begins.
    ExecutionId::new(noetl_types::id::first_id_at(1_767_571_200_000) + 1).expect("an id")
}

fn now() -> Timestamp {
    Timestamp::parse("2026-01-05T00:00:00Z").expect("a time")
}

fn event(seq: i64, last: i64) -> NewEvent {
    let kind = match (seq, (seq - 2) % OF_COMMAND) {
        (1, _) => EventType::PlaybookStarted,
        (seq, _) if seq == last => EventType::PlaybookCompleted,
        (_, 0) => EventType::CommandIssued,
        (_, 1) => EventType::CommandClaimed,
        (_, 2) => EventType::CommandStarted,
        (_, at) if at == OF_COMMAND - 1 => EventType::CommandCompleted,
        (_, _) => EventType::CommandHeartbeat,
    };
    let is_of_command = seq != 1 && seq != last;
    let command = CommandId::new(1_000_000_000_000 + (seq - 2) / OF_COMMAND).ok();
    NewEvent {
        node_name: Some("work".into()),
        command_id: command.filter(|_| is_of_command),
        meta: Some(Json::object([("attempt", Json::from(1))])),
        result: is_of_command
            .then(|| Json::object([("filler", Json::from("x".repeat(100).as_str()))])),
        ..NewEvent::new(
            run(),
            EventId::new(run().get() + seq).expect("an id"),
            kind,
            now(),
        )
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
        started_at: now(),
    }
}

fn part(expected: Head, events: Vec<NewEvent>) -> Append {
    Append {
        execution_id: run(),
        expected,
        now: now(),
        events,
        keep_checksums: false,
        is_copy: true,
        outbox: false,
        start: (expected == Head::START).then(facts),
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
    }
}

/// Writes a log of so many events; gives what it must fold to.
async fn fill(store: &dyn Store, events: i64) -> Digest {
    let mut folded = ReplayState::new(TenantId::default(), OrganizationId::default(), run());
    let mut head = Head::START;
    let mut first = 1;
    while first <= events {
        let last = (first + PART - 1).min(events);
        let some: Vec<NewEvent> = (first..=last).map(|seq| event(seq, events)).collect();
        for (event, seq) in some.iter().zip(first..) {
            let record = EventRecord {
                event: event.clone(),
                seq: Seq::new(seq).expect("a place"),
                ingest_time: now(),
                envelope_checksum: None,
            };
            folded.apply(&record).expect("it folds");
        }
        let appended = store.append(vec![part(head, some)]).await.pop();
        head = appended.expect("an answer").expect("appended").head;
        first = last + 1;
    }
    folded.checksums().whole
}

async fn long(house: House, events: i64) {
    let begun = Instant::now();
    let checksum = fill(&*store(&house).await, events).await;
    let filled = begun.elapsed();
    let server = house.server();
    let at_rest = server.resident_mib();
    let url = server.url.as_deref().expect("a server");
    let patient = ClientSettings {
        timeout: Millis::from_minutes(10),
        ..ClientSettings::default()
    };
    let client = Client::new(url, patient).expect("a client");
    let begun = Instant::now();
    let answer = client.replay_state(&ReplayQuery::new(run())).await;
    let answer = answer.expect("a state");
    let used = server.resident_mib();
    println!(
        "{events} events: written in {filled:?}, replayed in {:?}, {used} MiB at most, {at_rest} MiB before",
        begun.elapsed()
    );
    assert!(!answer.truncated, "it is folded to its end");
    assert_eq!(answer.state.event_count, events);
    assert_eq!(answer.checksum.map(|sum| sum.value), Some(checksum));
    assert!(used < MEMORY, "{used} MiB");
}

/// Promise 20.
#[tokio::test(flavor = "multi_thread")]
async fn y2_a_long_log_is_replayed_within_memory_on_sqlite() {
    long(House::on_sqlite(), 20_001).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn y2_a_long_log_is_replayed_within_memory_on_postgres() {
    long(House::on_postgres(), 20_001).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a build for tests"]
async fn heavy_y2_a_million_events_are_replayed_within_memory_on_sqlite() {
    long(House::on_sqlite(), 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a build for tests"]
async fn heavy_y2_a_million_events_are_replayed_within_memory_on_postgres() {
    long(House::on_postgres(), 1_000_000).await;
}
