//! The runtime on every store: executions run from beginning to end, whatever happens in between.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use noetl_api::command::{
    CommandReport, HeartbeatRequest, HeldLease, LeaseRequest, LeasedCommand, NextLease,
    ReportRequest, ReportStatus, ReportVerdict,
};
use noetl_api::execute::{ExecuteRequest, Outcome};
use noetl_api::execution::CancelRequest;
use noetl_server::{Clock as _, Runtime, Settings, SystemClock};
use noetl_store::faulty::{Fault, FaultyStore, Method};
use noetl_store::{Commons as _, LogPage, MemoryStore, NewCatalogEntry, SlotState, Store};
use noetl_types::limits::LeaseBatch;
use noetl_types::{
    CatalogId, ErrorCode, EventType, ExecutionId, ExecutionStatus, Json, Millis, PlaybookPath,
    PoolName, TenantId, Timestamp, Version, WorkerId, sha256,
};

/// Long enough for anything that ends at all.
const LONG: u64 = 20_000;

struct House {
    store: Arc<dyn Store>,
    runtime: Runtime,
}

async fn house() -> House {
    house_on(Arc::new(MemoryStore::new()), Settings::default()).await
}

async fn house_on(store: Arc<dyn Store>, settings: Settings) -> House {
    let runtime = Runtime::open(Arc::clone(&store), Arc::new(SystemClock), settings)
        .await
        .expect("a runtime");
    House { store, runtime }
}

impl House {
    async fn register(&self, path: &str, body: &str) {
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
        self.store.register(entry).await.expect("registered");
    }

    async fn execute(&self, path: &str, wait_ms: u64) -> (ExecutionId, Option<Outcome>) {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new(path).unwrap()),
            wait_ms: Some(wait_ms),
            ..ExecuteRequest::default()
        };
        let answer = self.runtime.execute(request).await.expect("started");
        (answer.execution_id, answer.outcome)
    }

    async fn lease(&self, worker: &str, max: i64, wait_ms: u64) -> Vec<LeasedCommand> {
        let answer = self.runtime.lease(lease(worker, max, wait_ms)).await;
        answer.expect("leased").commands
    }

    /// A worker that answers every command with its index, and takes what follows.
    fn worker(&self, name: &'static str) -> tokio::task::JoinHandle<()> {
        let runtime = self.runtime.clone();
        tokio::spawn(async move {
            loop {
                let mut commands = runtime.lease(lease(name, 8, 1_000)).await.unwrap().commands;
                while !commands.is_empty() {
                    let reports = commands.iter().map(done).collect();
                    let request = report(name, reports, Some(8));
                    commands = runtime.report(request).await.unwrap().commands;
                }
            }
        })
    }
}

fn pool() -> PoolName {
    PoolName::new("shared").unwrap()
}

fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn lease(worker: &str, max: i64, wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: worker_id(worker),
        pool: pool(),
        max: LeaseBatch::clamped(max),
        wait_ms,
        kinds: None,
        lease_ms: None,
    }
}

fn report(worker: &str, reports: Vec<CommandReport>, next: Option<i64>) -> ReportRequest {
    ReportRequest {
        worker_id: worker_id(worker),
        reports,
        lease: next.map(|max| NextLease {
            pool: pool(),
            max: LeaseBatch::clamped(max),
            wait_ms: 0,
            kinds: None,
            lease_ms: None,
        }),
    }
}

fn done(command: &LeasedCommand) -> CommandReport {
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

const ONE: &str = "workflow:\n  - {step: start, tool: {kind: noop}}\n";
const LINE: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: c}]}}
  - {step: c, tool: {kind: noop}}
";
const LOOP: &str = "workflow:
  - step: start
    tool: {kind: noop}
    loop: {in: 100, iterator: n, spec: {mode: parallel, max_in_flight: 20}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_one_step_ends() {
    let house = house().await;
    house.register("one", ONE).await;
    let _worker = house.worker("w1");
    let (_, outcome) = house.execute("one", LONG).await;
    let outcome = outcome.expect("it ended");
    assert_eq!(outcome.status, ExecutionStatus::Completed);
    assert_eq!(outcome.result, Some(Json::object([("index", Json::Null)])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_follow_each_other_and_loops_join() {
    let house = house().await;
    house.register("line", LINE).await;
    let _workers = [house.worker("w1"), house.worker("w2")];
    let (_, outcome) = house.execute("line", LONG).await;
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parallel_loop_gives_all_its_results() {
    let house = house().await;
    house.register("loop", LOOP).await;
    let _workers = [house.worker("w1"), house.worker("w2")];
    let (_, outcome) = house.execute("loop", LONG).await;
    let result = outcome.unwrap().result.unwrap();
    let results = result.get("results").and_then(Json::as_list).unwrap();
    let indices = results
        .iter()
        .map(|item| item.get("index").unwrap().as_u64().unwrap());
    assert_eq!(indices.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_brings_the_next_command() {
    let house = house().await;
    house.register("line", LINE).await;
    house.execute("line", 0).await;
    let mut commands = house.lease("w1", 1, 0).await;
    for next in ["b", "c"] {
        let request = report("w1", vec![done(&commands[0])], Some(1));
        let answer = house.runtime.report(request).await.unwrap();
        assert_eq!(answer.results[0].status, ReportVerdict::Accepted);
        commands = answer.commands;
        assert_eq!(commands[0].node_name.as_str(), next);
        assert_eq!(commands[0].attempt, 1);
    }
    assert_eq!(house.lease("w2", 1, 0).await, [], "it is leased already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_report_twice_counts_once() {
    let house = house().await;
    house.register("line", LINE).await;
    house.execute("line", 0).await;
    let command = house.lease("w1", 1, 0).await.remove(0);
    let reports = vec![done(&command), done(&command)];
    let answer = house
        .runtime
        .report(report("w1", reports, None))
        .await
        .unwrap();
    let verdicts: Vec<_> = answer.results.iter().map(|result| result.status).collect();
    assert_eq!(
        verdicts,
        [ReportVerdict::Accepted, ReportVerdict::Duplicate]
    );
}

/// The state of a run forgets the commands of a loop that is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_comes_again_after_its_loop_is_known() {
    let house = house().await;
    let body = "workflow:
  - step: start
    tool: {kind: noop}
    loop: {in: 3, iterator: n, spec: {mode: parallel}}
    next: {arcs: [{step: b}]}
  - {step: b, tool: {kind: noop}}
";
    house.register("forgets", body).await;
    house.execute("forgets", 0).await;
    let commands = house.lease("w1", 3, 0).await;
    assert_eq!(commands.len(), 3);
    for verdict in [ReportVerdict::Accepted, ReportVerdict::Duplicate] {
        for command in &commands {
            let request = report("w1", vec![done(command)], None);
            let answer = house.runtime.report(request).await.unwrap();
            assert_eq!(answer.results[0].status, verdict);
        }
    }
    let failed = CommandReport {
        status: ReportStatus::Failed,
        ..done(&commands[0])
    };
    let other = report("w1", vec![failed], None);
    let answer = house.runtime.report(other).await.unwrap();
    assert_eq!(answer.results[0].status, ReportVerdict::Ignored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_fenced_off() {
    let house = house().await;
    house.register("one", ONE).await;
    house.execute("one", 0).await;
    let command = house.lease("w1", 1, 0).await.remove(0);
    let forged = CommandReport {
        lease_token: noetl_api::LeaseToken::from_bytes([9; 16]),
        ..done(&command)
    };
    let answer = house
        .runtime
        .report(report("w2", vec![forged], None))
        .await
        .unwrap();
    assert_eq!(answer.results[0].status, ReportVerdict::Ignored);
    assert_eq!(answer.results[0].code, Some(ErrorCode::NotLeaseHolder));
    let answer = house
        .runtime
        .report(report("w1", vec![done(&command)], None))
        .await
        .unwrap();
    assert_eq!(answer.results[0].status, ReportVerdict::Accepted);
}

/// A run that is to begin later is there, and begins on whichever server is there by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_begins_at_its_time_on_another_server() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = house_on(Arc::clone(&store), Settings::default()).await;
    first
        .register("one", "workflow:\n  - {step: a, tool: {kind: noop}}\n")
        .await;
    let start_at = SystemClock.now().saturating_add(Millis::from_ms(300));
    let wish = |start_at| ExecuteRequest {
        path: Some(PlaybookPath::new("one").unwrap()),
        start_at: Some(start_at),
        ..ExecuteRequest::default()
    };
    let begun = first
        .runtime
        .execute(wish(start_at))
        .await
        .expect("started");
    assert_eq!(begun.commands_generated, 0);
    let hour = Millis::from_secs(3600);
    let later = wish(start_at.saturating_add(hour));
    let later = first.runtime.execute(later).await.expect("started");
    drop(first);
    let second = house_on(Arc::clone(&store), Settings::default()).await;
    let working = second.worker("w1");
    let patience = Duration::from_millis(LONG);
    let end = second.runtime.wait_for_end(begun.execution_id, patience);
    let end = end.await.expect("known").expect("it ends");
    assert_eq!(end.status, ExecutionStatus::Completed);
    let log = store.events(begun.execution_id, Version::EMPTY, LogPage::MAX);
    let log = log.await.expect("a log");
    let entered = log.iter().map(|event| &event.record.event);
    let mut entered =
        entered.filter(|event| event.event_type.known() == Some(EventType::StepEnter));
    assert!(entered.all(|event| event.event_time >= start_at));
    // The other one waits, and can be called off.
    let row = store.execution(later.execution_id).await.unwrap().unwrap();
    assert_eq!(row.view.status, ExecutionStatus::Pending);
    let cancel = CancelRequest::default();
    let cancelled = second.runtime.cancel(later.execution_id, None, cancel);
    assert_eq!(
        cancelled.await.unwrap().cancelled_executions,
        [later.execution_id]
    );
    working.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_withdraws_what_is_leased() {
    let house = house().await;
    house.register("one", ONE).await;
    let (execution_id, _) = house.execute("one", 0).await;
    let command = house.lease("w1", 1, 0).await.remove(0);
    let cancel = || {
        house
            .runtime
            .cancel(execution_id, None, CancelRequest::default())
    };
    assert_eq!(cancel().await.unwrap().cancelled_executions, [execution_id]);
    assert_eq!(cancel().await.unwrap().cancelled_executions, [], "again");
    let kept = house
        .runtime
        .keep(HeartbeatRequest {
            worker_id: worker_id("w1"),
            leases: vec![HeldLease {
                execution_id,
                command_id: command.command_id,
                lease_token: command.lease_token,
                attempt: command.attempt,
            }],
            extend_ms: None,
        })
        .await
        .unwrap();
    assert_eq!(kept.leases[0].cancel, Some(true));
    let late = house
        .runtime
        .report(report("w1", vec![done(&command)], None))
        .await
        .unwrap();
    assert_eq!(late.results[0].status, ReportVerdict::Ignored);
    assert_eq!(late.results[0].code, Some(ErrorCode::AlreadyTerminal));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_a_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = house_on(Arc::clone(&store), Settings::default()).await;
    let second = house_on(store, Settings::default()).await;
    first.register("line", LINE).await;
    first.register("loop", LOOP).await;
    let (execution_id, _) = first.execute("line", 0).await;
    // Each report goes to the other server than the one before.
    for house in [&second, &first, &second] {
        let command = house.lease("w1", 1, LONG).await.remove(0);
        let answer = house
            .runtime
            .report(report("w1", vec![done(&command)], None))
            .await
            .unwrap();
        assert_eq!(answer.results[0].status, ReportVerdict::Accepted);
    }
    let outcome = first
        .runtime
        .wait_for_end(execution_id, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_reports_is_handed_out_again() {
    let settings = Settings {
        lease: Millis::from_ms(50),
        ..Settings::default()
    };
    let house = house_on(Arc::new(MemoryStore::new()), settings).await;
    house.register("one", ONE).await;
    let (execution_id, _) = house.execute("one", 0).await;
    let lost = house.lease("w1", 1, 0).await.remove(0);
    let again = house.lease("w2", 1, LONG).await.remove(0);
    assert_eq!(again.command_id, lost.command_id);
    assert_eq!(again.attempt, 2);
    let late = house
        .runtime
        .report(report("w1", vec![done(&lost)], None))
        .await
        .unwrap();
    assert_eq!(late.results[0].status, ReportVerdict::Ignored);
    let done = house
        .runtime
        .report(report("w2", vec![done(&again)], None))
        .await
        .unwrap();
    assert_eq!(done.results[0].status, ReportVerdict::Accepted);
    let outcome = house
        .runtime
        .wait_for_end(execution_id, Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

/// Two looks into the store at once pass over what the other has its hands on, and both would
/// believe that nothing is left for those who wait.
#[tokio::test]
async fn one_look_into_the_queue_at_a_time() {
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let plan = Box::new(move |method| {
        if method != Method::Lease {
            return Fault::None;
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Fault::Delay(100)
    });
    let store = Arc::new(FaultyStore::new(MemoryStore::new(), plan));
    let house = house_on(store, Settings::default()).await;
    house.register("one", ONE).await;
    house.execute("one", 0).await;
    let (first, second) = tokio::join!(house.lease("w1", 2, 0), house.lease("w2", 2, 0));
    assert_eq!((first.len(), second.len()), (1, 0));
    assert_eq!(
        looks.load(Ordering::Relaxed),
        1,
        "the second knows what the first has found"
    );
}

/// A store that fails once, when a test says so.
fn failing_once(
    memory: &Arc<MemoryStore>,
    method: Method,
    fault: Fault,
) -> (Arc<dyn Store>, Arc<AtomicU32>) {
    let armed = Arc::new(AtomicU32::new(0));
    let due = Arc::clone(&armed);
    let plan = Box::new(move |asked| {
        let is_due = asked == method
            && due
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok_and(|left| left == 1);
        if is_due { fault } else { Fault::None }
    });
    let store = FaultyStore::sharing(Arc::clone(memory), plan);
    (Arc::new(store), armed)
}

/// Whoever is refused gives up, so a server that does not know where a log stands refuses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_catch_up_refuses_nothing() {
    let memory = Arc::new(MemoryStore::new());
    let first = house_on(Arc::clone(&memory) as _, Settings::default()).await;
    let (store, armed) = failing_once(&memory, Method::Events, Fault::Before);
    let second = house_on(store, Settings::default()).await;
    first.register("line", LINE).await;
    second.execute("line", 0).await;
    let start = first.lease("w1", 1, LONG).await.remove(0);
    let request = report("w1", vec![done(&start)], Some(1));
    let next = first.runtime.report(request).await.unwrap().commands;
    armed.store(1, Ordering::Relaxed);
    let send = || report("w1", vec![done(&next[0])], None);
    let unsure = second.runtime.report(send()).await.unwrap();
    assert_eq!(unsure.results[0].code, Some(ErrorCode::StoreUnavailable));
    let sure = second.runtime.report(send()).await.unwrap();
    assert_eq!(sure.results[0].status, ReportVerdict::Accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_birth_that_meets_a_conflict_is_tried_again() {
    let memory = Arc::new(MemoryStore::new());
    let (store, armed) = failing_once(&memory, Method::Append, Fault::Conflict);
    let house = house_on(store, Settings::default()).await;
    house.register("one", ONE).await;
    armed.store(1, Ordering::Relaxed);
    house.execute("one", 0).await;
    assert_eq!(house.lease("w1", 1, LONG).await.len(), 1);
}

/// The server that sees a child end may have an old picture of the parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_ends_elsewhere_is_heard_of() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = house_on(Arc::clone(&store), Settings::default()).await;
    let second = house_on(store, Settings::default()).await;
    let body = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: call}]}}
  - {step: call, tool: {kind: playbook, path: one, return_result: true}}
";
    first.register("one", ONE).await;
    first.register("parent", body).await;
    let (parent, _) = second.execute("parent", 0).await;
    for house in [&first, &second] {
        let command = house.lease("w1", 1, LONG).await.remove(0);
        let request = report("w1", vec![done(&command)], None);
        house.runtime.report(request).await.unwrap();
    }
    let patience = Duration::from_secs(20);
    let outcome = second.runtime.wait_for_end(parent, patience).await.unwrap();
    assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
}

/// A run that is passed over as soon as it has its slot never had it before it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_with_its_slot_gives_it_back() {
    let house = house().await;
    let body = "concurrency: {key: k}
workflow:
  - {step: start, when: \"{{ false }}\", tool: {kind: noop}}
";
    house.register("skips", body).await;
    for _ in 0..2 {
        let (_, outcome) = house.execute("skips", LONG).await;
        assert_eq!(outcome.unwrap().status, ExecutionStatus::Completed);
    }
}

/// Waits until nothing is owed any more.
async fn settled(memory: &MemoryStore) {
    let limit = noetl_types::limits::PageLimit::MAX;
    while !memory
        .errands(Timestamp::MAX, limit)
        .await
        .unwrap()
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
}

/// A commit whose answer is lost is decided again, and then the run has the slot already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_is_told_twice_is_kept() {
    let memory = Arc::new(MemoryStore::new());
    let (store, armed) = failing_once(&memory, Method::Append, Fault::After);
    let house = house_on(store, Settings::default()).await;
    let body = "concurrency: {key: k}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n";
    house.register("shares", body).await;
    armed.store(2, Ordering::Relaxed);
    house.execute("shares", 0).await;
    // A worker that waited already would have its command born claimed in the append whose answer
    // is lost, and learn of it only when that lease has passed.
    settled(&memory).await;
    let command = house.lease("w1", 1, LONG).await;
    assert_eq!(command.len(), 1);
    house.execute("shares", 0).await;
    settled(&memory).await;
    let limit = noetl_types::limits::PageLimit::MAX;
    let choice = noetl_store::SlotChoice::Key {
        tenant_id: TenantId::default(),
        key: noetl_store::MatchKey::of(&"=k".into()),
    };
    let slots = memory.slots(choice, limit).await.unwrap();
    let states: Vec<_> = slots.iter().map(|slot| slot.state).collect();
    assert!(
        matches!(states[..], [SlotState::Held { .. }, SlotState::Waiting]),
        "{states:?}"
    );
}
