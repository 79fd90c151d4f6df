//! Executions through the server from start to end, despite failures.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use noetl_api::command::{
    CommandReport, HeartbeatRequest, HeldLease, LeaseRequest, LeasedCommand, NextLease,
    ReportDisposition, ReportRequest, ReportStatus,
};
use noetl_api::execute::{ExecuteRequest, ExecutionResult};
use noetl_api::execution::{CancelRequest, CancelResponse};
use noetl_server::{CallContext, Clock as _, ControlPlane, Settings, SystemClock};
use noetl_store::prelude::*;
use noetl_store::{LogPageLimit, NewCatalogEntry, SlotState, SqliteStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{
    CatalogId, ErrorCode, EventType, ExecutionId, ExecutionStatus, ExecutionVersion, Json, Millis,
    PlaybookPath, PoolName, TenantId, Timestamp, WorkerId, sha256,
};

/// Long enough for every run of these tests, in milliseconds.
const LONG_WAIT_MS: u64 = 20_000;

struct TestServer {
    store: Arc<dyn Store>,
    services: ControlPlane,
}

async fn start_server() -> TestServer {
    start_server_on(Arc::new(SqliteStore::in_memory().unwrap()), Settings::default()).await
}

async fn start_server_on(store: Arc<dyn Store>, settings: Settings) -> TestServer {
    let services = ControlPlane::open(Arc::clone(&store), Arc::new(SystemClock), settings)
        .await
        .expect("a runtime");
    TestServer { store, services }
}

impl TestServer {
    async fn register_playbook(&self, path: &str, body: &str) {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {path} }}\n{body}"
        );
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(i64::from(path.as_bytes()[2]) + 1).unwrap(),
            tenant_id: TenantId::default(),
            path: PlaybookPath::new(path).unwrap(),
            kind: "playbook".into(),
            content: text.as_str().into(),
            sha256: sha256(&text),
            meta: None,
            now: Timestamp::from_unix_ms(0).unwrap(),
        };
        self.store.register_definition(entry).await.expect("registered");
    }

    async fn execute(&self, path: &str, wait_ms: u64) -> (ExecutionId, Option<ExecutionResult>) {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new(path).unwrap()),
            wait_ms: Some(wait_ms),
            ..ExecuteRequest::default()
        };
        let response = self
            .services
            .executions
            .start(CallContext::server(), request)
            .await
            .expect("started")
            .answer;
        (response.execution_id, response.outcome)
    }

    async fn lease_commands(&self, worker: &str, max: i64, wait_ms: u64) -> Vec<LeasedCommand> {
        let response = self
            .services
            .leases
            .lease_commands(CallContext::server(), lease_request(worker, max, wait_ms))
            .await;
        response.expect("leased").commands
    }

    /// A worker that completes every command with its index and takes the following ones.
    fn spawn_worker(&self, name: &'static str) -> tokio::task::JoinHandle<()> {
        let services = self.services.clone();
        tokio::spawn(async move {
            loop {
                let mut commands = services
                    .leases
                    .lease_commands(CallContext::server(), lease_request(name, 8, 1_000))
                    .await
                    .unwrap()
                    .commands;
                while !commands.is_empty() {
                    let reports = commands.iter().map(completed_report).collect();
                    let request = report_request(name, reports, Some(8));
                    commands = services
                        .reports
                        .process_reports(CallContext::server(), request)
                        .await
                        .unwrap()
                        .commands;
                }
            }
        })
    }
}

fn shared_pool() -> PoolName {
    PoolName::new("shared").unwrap()
}

fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn lease_request(worker: &str, max: i64, wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: worker_id(worker),
        pool: shared_pool(),
        max: LeaseBatchSize::clamped(max),
        wait_ms,
        kinds: None,
        lease_ms: None,
    }
}

fn report_request(worker: &str, reports: Vec<CommandReport>, next: Option<i64>) -> ReportRequest {
    ReportRequest {
        worker_id: worker_id(worker),
        reports,
        lease: next.map(|max| NextLease {
            pool: shared_pool(),
            max: LeaseBatchSize::clamped(max),
            wait_ms: 0,
            kinds: None,
            lease_ms: None,
        }),
        outputs: Vec::new(),
    }
}

fn completed_report(command: &LeasedCommand) -> CommandReport {
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::object([("index", Json::from(command.meta.index))])),
        labels: None,
        onward: None,
        set: noetl_types::JsonMap::new(),
        error: None,
        tasks: Vec::new(),
        frame: None,
        task_attempt: 1,
        retries: Vec::new(),
        retries_before: 0,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(command.claimed_at),
        finished_at: None,
    }
}

const ONE_STEP: &str = "workflow:\n  - {step: start, tool: {kind: noop}}\n";
const SEQUENTIAL_STEPS: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: c}]}}
  - {step: c, tool: {kind: noop}}
";
const PARALLEL_LOOP: &str = "workflow:
  - step: start
    tool: {kind: noop}
    loop: {in: 100, iterator: n, spec: {mode: parallel, max_in_flight: 20}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_step_run_completes() {
    let server = start_server().await;
    server.register_playbook("one", ONE_STEP).await;
    let _worker = server.spawn_worker("w1");
    let (_, outcome) = server.execute("one", LONG_WAIT_MS).await;
    let outcome = outcome.expect("it ended");
    assert_eq!(outcome.status, ExecutionStatus::Completed);
    assert_eq!(outcome.result, Some(Json::object([("index", Json::Null)])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_run_in_order_and_loops_join() {
    let server = start_server().await;
    server.register_playbook("line", SEQUENTIAL_STEPS).await;
    let _workers = [server.spawn_worker("w1"), server.spawn_worker("w2")];
    let (_, outcome) = server.execute("line", LONG_WAIT_MS).await;
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_loop_collects_all_results() {
    let server = start_server().await;
    server.register_playbook("loop", PARALLEL_LOOP).await;
    let _workers = [server.spawn_worker("w1"), server.spawn_worker("w2")];
    let (_, outcome) = server.execute("loop", LONG_WAIT_MS).await;
    let result = outcome.unwrap().result.unwrap();
    let results = result.get("results").and_then(Json::as_list).unwrap();
    let indices = results.iter().map(|item| item.get("index").unwrap().as_u64().unwrap());
    assert_eq!(indices.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_returns_next_command() {
    let server = start_server().await;
    server.register_playbook("line", SEQUENTIAL_STEPS).await;
    server.execute("line", 0).await;
    let mut commands = server.lease_commands("w1", 1, 0).await;
    for next in ["b", "c"] {
        let request = report_request("w1", vec![completed_report(&commands[0])], Some(1));
        let response =
            server.services.reports.process_reports(CallContext::server(), request).await.unwrap();
        assert_eq!(response.results[0].status, ReportDisposition::Accepted);
        commands = response.commands;
        assert_eq!(commands[0].node_name.as_str(), next);
        assert_eq!(commands[0].attempt, 1);
    }
    assert_eq!(server.lease_commands("w2", 1, 0).await, [], "it is leased already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_report_counts_once() {
    let server = start_server().await;
    server.register_playbook("line", SEQUENTIAL_STEPS).await;
    server.execute("line", 0).await;
    let command = server.lease_commands("w1", 1, 0).await.remove(0);
    let reports = vec![completed_report(&command), completed_report(&command)];
    let response = server
        .services
        .reports
        .process_reports(CallContext::server(), report_request("w1", reports, None))
        .await
        .unwrap();
    let statuses: Vec<_> = response.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [ReportDisposition::Accepted, ReportDisposition::Duplicate]);
}

/// The run's state drops the commands of a finished loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_report_after_loop_end_is_duplicate() {
    let server = start_server().await;
    let body = "workflow:
  - step: start
    tool: {kind: noop}
    loop: {in: 3, iterator: n, spec: {mode: parallel}}
    next: {arcs: [{step: b}]}
  - {step: b, tool: {kind: noop}}
";
    server.register_playbook("forgets", body).await;
    server.execute("forgets", 0).await;
    let commands = server.lease_commands("w1", 3, 0).await;
    assert_eq!(commands.len(), 3);
    for status in [ReportDisposition::Accepted, ReportDisposition::Duplicate] {
        for command in &commands {
            let request = report_request("w1", vec![completed_report(command)], None);
            let response = server
                .services
                .reports
                .process_reports(CallContext::server(), request)
                .await
                .unwrap();
            assert_eq!(response.results[0].status, status);
        }
    }
    let failed = CommandReport { status: ReportStatus::Failed, ..completed_report(&commands[0]) };
    let other = report_request("w1", vec![failed], None);
    let response =
        server.services.reports.process_reports(CallContext::server(), other).await.unwrap();
    assert_eq!(response.results[0].status, ReportDisposition::Ignored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_report_without_lease() {
    let server = start_server().await;
    server.register_playbook("one", ONE_STEP).await;
    server.execute("one", 0).await;
    let command = server.lease_commands("w1", 1, 0).await.remove(0);
    let forged = CommandReport {
        lease_token: noetl_types::LeaseToken::from_bytes([9; 16]),
        ..completed_report(&command)
    };
    let response = server
        .services
        .reports
        .process_reports(CallContext::server(), report_request("w2", vec![forged], None))
        .await
        .unwrap();
    assert_eq!(response.results[0].status, ReportDisposition::Ignored);
    assert_eq!(response.results[0].code, Some(ErrorCode::NotLeaseHolder));
    let response = server
        .services
        .reports
        .process_reports(
            CallContext::server(),
            report_request("w1", vec![completed_report(&command)], None),
        )
        .await
        .unwrap();
    assert_eq!(response.results[0].status, ReportDisposition::Accepted);
}

/// A delayed run is stored, and starts on any server that is running at its start time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_run_starts_on_other_server() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let first = start_server_on(Arc::clone(&store), Settings::default()).await;
    first.register_playbook("one", "workflow:\n  - {step: a, tool: {kind: noop}}\n").await;
    let start_at = SystemClock.now().saturating_add(Millis::from_ms(300));
    let delayed = |start_at| ExecuteRequest {
        path: Some(PlaybookPath::new("one").unwrap()),
        start_at: Some(start_at),
        ..ExecuteRequest::default()
    };
    let started = first
        .services
        .executions
        .start(CallContext::server(), delayed(start_at))
        .await
        .expect("started")
        .answer;
    assert_eq!(started.commands_generated, 0);
    let hour = Millis::from_secs(3600);
    let later = delayed(start_at.saturating_add(hour));
    let later = first
        .services
        .executions
        .start(CallContext::server(), later)
        .await
        .expect("started")
        .answer;
    drop(first);
    let second = start_server_on(Arc::clone(&store), Settings::default()).await;
    let worker = second.spawn_worker("w1");
    let timeout = Duration::from_millis(LONG_WAIT_MS);
    let end = second.services.executions.wait_for_end(
        CallContext::server(),
        started.execution_id,
        timeout,
    );
    let end = end.await.expect("known").expect("it ends");
    assert_eq!(end.status, ExecutionStatus::Completed);
    let log = store.read_events(started.execution_id, ExecutionVersion::EMPTY, LogPageLimit::MAX);
    let log = log.await.expect("a log");
    let entered = log.iter().map(|event| &event.record.event);
    let mut entered =
        entered.filter(|event| event.event_type.known_type() == Some(EventType::StepEnter));
    assert!(entered.all(|event| event.event_time >= start_at));
    // The other run is pending and can be cancelled.
    let row = store.find_execution(later.execution_id).await.unwrap().unwrap();
    assert_eq!(row.view.status, ExecutionStatus::Pending);
    let cancel = CancelRequest::default();
    let cancelled = second.services.executions.cancel_execution(
        CallContext::server(),
        later.execution_id,
        None,
        cancel,
    );
    assert_eq!(cancelled.await.unwrap().cancelled_executions, [later.execution_id]);
    worker.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_revokes_leases() {
    let server = start_server().await;
    server.register_playbook("one", ONE_STEP).await;
    let (execution_id, _) = server.execute("one", 0).await;
    let command = server.lease_commands("w1", 1, 0).await.remove(0);
    let cancel = || {
        server.services.executions.cancel_execution(
            CallContext::server(),
            execution_id,
            None,
            CancelRequest::default(),
        )
    };
    assert_eq!(cancel().await.unwrap().cancelled_executions, [execution_id]);
    assert_eq!(cancel().await.unwrap().cancelled_executions, [], "again");
    let renewed = server
        .services
        .leases
        .renew_leases(
            CallContext::server(),
            HeartbeatRequest {
                worker_id: worker_id("w1"),
                leases: vec![HeldLease {
                    execution_id,
                    command_id: command.command_id,
                    lease_token: command.lease_token,
                    attempt: command.attempt,
                }],
                extend_ms: None,
                wait_ms: 0,
            },
        )
        .await
        .unwrap();
    assert_eq!(renewed.leases[0].cancel, Some(true));
    let late = server
        .services
        .reports
        .process_reports(
            CallContext::server(),
            report_request("w1", vec![completed_report(&command)], None),
        )
        .await
        .unwrap();
    assert_eq!(late.results[0].status, ReportDisposition::Ignored);
    assert_eq!(late.results[0].code, Some(ErrorCode::AlreadyTerminal));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_a_store() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let first = start_server_on(Arc::clone(&store), Settings::default()).await;
    let second = start_server_on(store, Settings::default()).await;
    first.register_playbook("line", SEQUENTIAL_STEPS).await;
    first.register_playbook("loop", PARALLEL_LOOP).await;
    let (execution_id, _) = first.execute("line", 0).await;
    // Each report goes to the server that did not receive the previous one.
    for server in [&second, &first, &second] {
        let command = server.lease_commands("w1", 1, LONG_WAIT_MS).await.remove(0);
        let response = server
            .services
            .reports
            .process_reports(
                CallContext::server(),
                report_request("w1", vec![completed_report(&command)], None),
            )
            .await
            .unwrap();
        assert_eq!(response.results[0].status, ReportDisposition::Accepted);
    }
    let outcome = first
        .services
        .executions
        .wait_for_end(CallContext::server(), execution_id, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_lease_is_granted_again() {
    let settings = Settings { lease_duration: Millis::from_ms(50), ..Settings::default() };
    let server = start_server_on(Arc::new(SqliteStore::in_memory().unwrap()), settings).await;
    server.register_playbook("one", ONE_STEP).await;
    let (execution_id, _) = server.execute("one", 0).await;
    let lost = server.lease_commands("w1", 1, 0).await.remove(0);
    let again = server.lease_commands("w2", 1, LONG_WAIT_MS).await.remove(0);
    assert_eq!(again.command_id, lost.command_id);
    assert_eq!(again.attempt, 2);
    let late = server
        .services
        .reports
        .process_reports(
            CallContext::server(),
            report_request("w1", vec![completed_report(&lost)], None),
        )
        .await
        .unwrap();
    assert_eq!(late.results[0].status, ReportDisposition::Ignored);
    let done = server
        .services
        .reports
        .process_reports(
            CallContext::server(),
            report_request("w2", vec![completed_report(&again)], None),
        )
        .await
        .unwrap();
    assert_eq!(done.results[0].status, ReportDisposition::Accepted);
    let outcome = server
        .services
        .executions
        .wait_for_end(CallContext::server(), execution_id, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

/// Two concurrent polls skip rows that the other one has locked, so both could conclude that
/// nothing is left for waiting workers.
#[tokio::test]
async fn concurrent_polls_do_not_miss_commands() {
    let lease_calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&lease_calls);
    let plan = Box::new(move |method| {
        if method != StoreMethod::LeaseCommands {
            return Fault::None;
        }
        counter.fetch_add(1, Ordering::Relaxed);
        Fault::Yield(100)
    });
    let store = Arc::new(FaultyStore::new(SqliteStore::in_memory().unwrap(), plan));
    let server = start_server_on(store, Settings::default()).await;
    server.register_playbook("one", ONE_STEP).await;
    server.execute("one", 0).await;
    let (first, second) =
        tokio::join!(server.lease_commands("w1", 2, 0), server.lease_commands("w2", 2, 0));
    assert_eq!((first.len(), second.len()), (1, 0));
    assert_eq!(
        lease_calls.load(Ordering::Relaxed),
        1,
        "the second poll uses the result of the first"
    );
}

/// A store that fails once, when armed.
fn store_failing_once(
    memory: &Arc<SqliteStore>,
    method: StoreMethod,
    fault: Fault,
) -> (Arc<dyn Store>, Arc<AtomicU32>) {
    let armed = Arc::new(AtomicU32::new(0));
    let countdown = Arc::clone(&armed);
    let plan = Box::new(move |called| {
        let is_due = called == method
            && countdown
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1))
                .is_ok_and(|count| count == 1);
        if is_due { fault } else { Fault::None }
    });
    let store = FaultyStore::with_shared_store(Arc::clone(memory), plan);
    (Arc::new(store), armed)
}

/// A rejected worker drops its result, so a server that cannot read the log must not reject it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_cannot_catch_up_rejects_nothing() {
    let memory = Arc::new(SqliteStore::in_memory().unwrap());
    let first = start_server_on(Arc::clone(&memory) as _, Settings::default()).await;
    let (store, armed) = store_failing_once(&memory, StoreMethod::ReadEvents, Fault::FailBefore);
    let second = start_server_on(store, Settings::default()).await;
    first.register_playbook("line", SEQUENTIAL_STEPS).await;
    second.execute("line", 0).await;
    let start = first.lease_commands("w1", 1, LONG_WAIT_MS).await.remove(0);
    let request = report_request("w1", vec![completed_report(&start)], Some(1));
    let next = first
        .services
        .reports
        .process_reports(CallContext::server(), request)
        .await
        .unwrap()
        .commands;
    armed.store(1, Ordering::Relaxed);
    let send = || report_request("w1", vec![completed_report(&next[0])], None);
    let unsure =
        second.services.reports.process_reports(CallContext::server(), send()).await.unwrap();
    assert_eq!(unsure.results[0].code, Some(ErrorCode::StoreUnavailable));
    let sure =
        second.services.reports.process_reports(CallContext::server(), send()).await.unwrap();
    assert_eq!(sure.results[0].status, ReportDisposition::Accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_is_retried_after_conflict() {
    let memory = Arc::new(SqliteStore::in_memory().unwrap());
    let (store, armed) = store_failing_once(&memory, StoreMethod::AppendEvents, Fault::Conflict);
    let server = start_server_on(store, Settings::default()).await;
    server.register_playbook("one", ONE_STEP).await;
    armed.store(1, Ordering::Relaxed);
    server.execute("one", 0).await;
    assert_eq!(server.lease_commands("w1", 1, LONG_WAIT_MS).await.len(), 1);
}

/// The server that handles the end of a child may have an outdated state of the parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parent_receives_child_end_from_other_server() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let first = start_server_on(Arc::clone(&store), Settings::default()).await;
    let second = start_server_on(store, Settings::default()).await;
    let body = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: call}]}}
  - {step: call, tool: {kind: playbook, path: one, return_result: true}}
";
    first.register_playbook("one", ONE_STEP).await;
    first.register_playbook("parent", body).await;
    let (parent, _) = second.execute("parent", 0).await;
    for server in [&first, &second] {
        let command = server.lease_commands("w1", 1, LONG_WAIT_MS).await.remove(0);
        let request = report_request("w1", vec![completed_report(&command)], None);
        server.services.reports.process_reports(CallContext::server(), request).await.unwrap();
    }
    let timeout = Duration::from_secs(20);
    let outcome = second
        .services
        .executions
        .wait_for_end(CallContext::server(), parent, timeout)
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

/// A run that is skipped when it gets its slot must release that slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_run_releases_its_slot() {
    let server = start_server().await;
    let body = "concurrency: {key: k}
workflow:
  - {step: start, when: \"{{ false }}\", tool: {kind: noop}}
";
    server.register_playbook("skips", body).await;
    for _ in 0..2 {
        let (_, outcome) = server.execute("skips", LONG_WAIT_MS).await;
        assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
    }
}

/// Waits until no follow-ups are pending.
async fn wait_for_follow_ups(memory: &SqliteStore) {
    let limit = noetl_types::limits::PageLimit::MAX;
    while !memory.list_due_follow_ups(Timestamp::MAX, limit).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// After a commit with a lost answer the grant is decided again, although the run already has the
/// slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_delivered_twice_is_kept() {
    let memory = Arc::new(SqliteStore::in_memory().unwrap());
    let (store, armed) = store_failing_once(&memory, StoreMethod::AppendEvents, Fault::FailAfter);
    let server = start_server_on(store, Settings::default()).await;
    let body = "concurrency: {key: k}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n";
    server.register_playbook("shares", body).await;
    armed.store(2, Ordering::Relaxed);
    server.execute("shares", 0).await;
    // A waiting worker would get its command by eager lease in the append whose answer is lost, and
    // would receive it only after that lease expired.
    wait_for_follow_ups(&memory).await;
    let command = server.lease_commands("w1", 1, LONG_WAIT_MS).await;
    assert_eq!(command.len(), 1);
    server.execute("shares", 0).await;
    wait_for_follow_ups(&memory).await;
    let limit = noetl_types::limits::PageLimit::MAX;
    let selector = noetl_store::SlotSelector::Key {
        tenant_id: TenantId::default(),
        key: noetl_store::MatchKey::from_text(&"=k".into()),
    };
    let slots = memory.list_slots(selector, limit).await.unwrap();
    let states: Vec<_> = slots.iter().map(|slot| slot.state).collect();
    assert!(matches!(states[..], [SlotState::Held { .. }, SlotState::Waiting]), "{states:?}");
}

fn held_renewal(command: &LeasedCommand, wait_ms: u64) -> HeartbeatRequest {
    HeartbeatRequest {
        worker_id: worker_id("w1"),
        leases: vec![HeldLease {
            execution_id: command.execution_id,
            command_id: command.command_id,
            lease_token: command.lease_token,
            attempt: command.attempt,
        }],
        extend_ms: Some(3_600_000),
        wait_ms,
    }
}

async fn cancel(server: &TestServer, execution_id: ExecutionId) -> CancelResponse {
    let request = CancelRequest::default();
    let executions = &server.services.executions;
    executions.cancel_execution(CallContext::server(), execution_id, None, request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_answers_held_renewal() {
    let server = start_server().await;
    server.register_playbook("one", ONE_STEP).await;
    let (execution_id, _) = server.execute("one", 0).await;
    let command = server.lease_commands("w1", 1, 0).await.remove(0);
    let (services, request) = (server.services.clone(), held_renewal(&command, LONG_WAIT_MS));
    let held = tokio::spawn(async move {
        services.leases.renew_leases(CallContext::server(), request).await.unwrap()
    });
    // The lease is renewed before the answer is held.
    loop {
        let row = server.store.find_command(command.command_id).await.unwrap().unwrap();
        if row.lease.unwrap().until > command.lease_until {
            break;
        }
        tokio::task::yield_now().await;
    }
    cancel(&server, execution_id).await;
    assert_eq!(held.await.unwrap().leases[0].cancel, Some(true));
}

const CLEANED_UP: &str = r#"
executor: { spec: { final_step: clean_up } }
workflow:
  - { step: start, tool: { kind: shell, command: work } }
  - { step: clean_up, tool: { kind: shell, command: "clean up {{ event.payload.status }}" } }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_runs_final_step_and_second_cancel_ends_it() {
    let server = start_server().await;
    server.register_playbook("two", CLEANED_UP).await;
    let status = async |execution_id| {
        server.store.find_execution(execution_id).await.unwrap().unwrap().view.status
    };
    let (first, _) = server.execute("two", 0).await;
    let work = server.lease_commands("w1", 1, 0).await.remove(0);
    assert_eq!(cancel(&server, first).await.status, "cancelling");
    assert_eq!(status(first).await, ExecutionStatus::Running);
    let renewed =
        server.services.leases.renew_leases(CallContext::server(), held_renewal(&work, 0));
    assert_eq!(renewed.await.unwrap().leases[0].cancel, Some(true));
    let clean_up = server.lease_commands("w1", 1, 0).await.remove(0);
    assert_eq!(clean_up.node_name.as_str(), "clean_up");
    let request = report_request("w1", vec![completed_report(&clean_up)], None);
    server.services.reports.process_reports(CallContext::server(), request).await.unwrap();
    assert_eq!(status(first).await, ExecutionStatus::Cancelled);

    let (second, _) = server.execute("two", 0).await;
    assert_eq!(cancel(&server, second).await.status, "cancelling");
    assert_eq!(cancel(&server, second).await.status, "cancelled");
    assert_eq!(status(second).await, ExecutionStatus::Cancelled);
    assert_eq!(server.lease_commands("w1", 1, 0).await, []);
}

/// The deadline of the final step is a timer in the store, so another server enforces it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadline_of_final_step_survives_its_server() {
    let server = start_server().await;
    let body = CLEANED_UP.replace("final_step:", "final_step_timeout: 200ms, final_step:");
    server.register_playbook("two", &body).await;
    let (execution_id, _) = server.execute("two", 0).await;
    assert_eq!(cancel(&server, execution_id).await.status, "cancelling");
    server.services.close(Duration::from_secs(5)).await;
    let next = start_server_on(Arc::clone(&server.store), Settings::default()).await;
    let mut status = ExecutionStatus::Running;
    while !status.is_terminal() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        status = next.store.find_execution(execution_id).await.unwrap().unwrap().view.status;
    }
    assert_eq!(status, ExecutionStatus::Cancelled);
}
