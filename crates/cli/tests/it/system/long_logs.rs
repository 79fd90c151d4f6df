//! Replays a very long log to its end within bounded memory: the log is read in parts, and no part
//! is kept.

use noetl_api::Client;
use noetl_api::client::ClientSettings;
use noetl_api::replay::ReplayQuery;
use noetl_engine::replay::ReplayState;
use noetl_store::{AppendRequest, ExecutionFacts, ExecutionOrigin, ExecutionView, LogHead, Store};
use noetl_types::limits::Priority;
use noetl_types::record::{EventRecord, NewEvent, Seq};
use noetl_types::{
    CommandId, Digest, EventId, EventType, ExecutionId, ExecutionStatus, Json, Millis,
    OrganizationId, PoolName, TenantId, Timestamp,
};
use tokio::time::Instant;

use crate::system::deployment::TestDeployment;
use crate::system::event_logs::open_store;

/// Memory limit of the server in MiB, for any log length.
const MAX_SERVER_MIB: u64 = 256;

const APPEND_BATCH_EVENTS: i64 = 1000;

/// Events of one command: issued, claimed, started, heartbeats, completed.
const EVENTS_PER_COMMAND: i64 = 50;

fn run_id() -> ExecutionId {
    // In the first month of the partitions of a test store.
    ExecutionId::new(noetl_types::id::first_id_at(1_767_571_200_000) + 1).expect("an id")
}

fn fixed_now() -> Timestamp {
    Timestamp::parse("2026-01-05T00:00:00Z").expect("a time")
}

fn log_event(seq: i64, last: i64) -> NewEvent {
    let kind = match (seq, (seq - 2) % EVENTS_PER_COMMAND) {
        (1, _) => EventType::PlaybookStarted,
        (seq, _) if seq == last => EventType::PlaybookCompleted,
        (_, 0) => EventType::CommandIssued,
        (_, 1) => EventType::CommandClaimed,
        (_, 2) => EventType::CommandStarted,
        (_, offset) if offset == EVENTS_PER_COMMAND - 1 => EventType::CommandCompleted,
        (_, _) => EventType::CommandHeartbeat,
    };
    let has_command = seq != 1 && seq != last;
    let command = CommandId::new(1_000_000_000_000 + (seq - 2) / EVENTS_PER_COMMAND).ok();
    NewEvent {
        node_name: Some("work".into()),
        command_id: command.filter(|_| has_command),
        meta: Some(Json::object([("attempt", Json::from(1))])),
        result: has_command
            .then(|| Json::object([("filler", Json::from("x".repeat(100).as_str()))])),
        ..NewEvent::new(
            run_id(),
            EventId::new(run_id().get() + seq).expect("an id"),
            kind,
            fixed_now(),
        )
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
        started_at: fixed_now(),
    }
}

fn append_request(expected: LogHead, events: Vec<NewEvent>) -> AppendRequest {
    AppendRequest {
        execution_id: run_id(),
        expected_head: expected,
        now: fixed_now(),
        events,
        keep_checksums: false,
        is_projected: true,
        use_outbox: false,
        start: (expected == LogHead::START).then(execution_facts),
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
    }
}

/// Writes a log of `events` events and returns the checksum of its replayed state.
async fn write_log(store: &dyn Store, events: i64) -> Digest {
    let mut state = ReplayState::new(TenantId::default(), OrganizationId::default(), run_id());
    let mut head = LogHead::START;
    let mut first = 1;
    while first <= events {
        let last = (first + APPEND_BATCH_EVENTS - 1).min(events);
        let batch: Vec<NewEvent> = (first..=last).map(|seq| log_event(seq, events)).collect();
        for (event, seq) in batch.iter().zip(first..) {
            let record = EventRecord {
                event: event.clone(),
                seq: Seq::new(seq).expect("a position"),
                ingest_time: fixed_now(),
                envelope_checksum: None,
            };
            state.apply(&record).expect("the event applies");
        }
        let appended = store.append_events(vec![append_request(head, batch)]).await.pop();
        head = appended.expect("an answer").expect("appended").head;
        first = last + 1;
    }
    state.checksums().whole
}

async fn check_long_replay(deployment: TestDeployment, events: i64) {
    let start = Instant::now();
    let checksum = write_log(&*open_store(&deployment).await, events).await;
    let write_time = start.elapsed();
    let server = deployment.start_server();
    let initial_memory = server.peak_memory_mib();
    let url = server.url.as_deref().expect("a server");
    let settings =
        ClientSettings { timeout: Millis::from_minutes(10), ..ClientSettings::default() };
    let client = Client::new(url, settings).expect("a client");
    let start = Instant::now();
    let response = client.replay_state(&ReplayQuery::new(run_id())).await;
    let response = response.expect("a state");
    let peak_memory = server.peak_memory_mib();
    println!(
        "{events} events: written in {write_time:?}, replayed in {:?}, {peak_memory} MiB at most, {initial_memory} MiB before",
        start.elapsed()
    );
    assert!(!response.truncated, "the log is replayed to its end");
    assert_eq!(response.state.event_count, events);
    assert_eq!(response.checksum.map(|sum| sum.value), Some(checksum));
    assert!(peak_memory < MAX_SERVER_MIB, "{peak_memory} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_log_is_replayed_within_memory_on_sqlite() {
    check_long_replay(TestDeployment::on_sqlite(), 20_001).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_log_is_replayed_within_memory_on_postgres() {
    check_long_replay(TestDeployment::on_postgres(), 20_001).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a debug build"]
async fn heavy_million_events_are_replayed_within_memory_on_sqlite() {
    check_long_replay(TestDeployment::on_sqlite(), 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes in a debug build"]
async fn heavy_million_events_are_replayed_within_memory_on_postgres() {
    check_long_replay(TestDeployment::on_postgres(), 1_000_000).await;
}
