//! What runs owe and share: waits, children, slots, caches and claims, through the runtime.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{CommandReport, LeaseRequest, LeasedCommand, ReportRequest, ReportStatus};
use noetl_api::execute::{Dedup, ExecuteAnswer, ExecuteRequest, Outcome};
use noetl_api::execution::CancelRequest;
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApproveRequest, SignalRequest};
use noetl_server::{Runtime, RuntimeError, Settings, SystemClock};
use noetl_store::{
    LogPage, MatchKey, MemoryStore, NewCatalogEntry, Slot, SlotChoice, SlotState, Store,
};
use noetl_types::limits::LeaseBatch;
use noetl_types::{
    CatalogId, EventType, ExecutionId, ExecutionStatus, Json, JsonMap, PlaybookPath, PoolName,
    StepName, TenantId, Text, Timestamp, Version, WorkerId, sha256,
};

const LONG: Duration = Duration::from_secs(20);

struct House {
    store: Arc<dyn Store>,
    runtime: Runtime,
}

async fn house() -> House {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let opened = Runtime::open(
        Arc::clone(&store),
        Arc::new(SystemClock),
        Settings::default(),
    );
    let house = House {
        runtime: opened.await.expect("a runtime"),
        store,
    };
    house.worker();
    house
}

impl House {
    async fn register(&self, id: i64, path: &str, body: &str) {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {path} }}\n{body}"
        );
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(id).unwrap(),
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

    /// A worker that answers every command with its step.
    fn worker(&self) {
        let runtime = self.runtime.clone();
        tokio::spawn(async move {
            while let Ok(leased) = runtime.lease(lease()).await {
                if leased.commands.is_empty() {
                    continue;
                }
                let request = ReportRequest {
                    worker_id: WorkerId::new("w").unwrap(),
                    reports: leased.commands.iter().map(done).collect(),
                    lease: None,
                };
                runtime.report(request).await.expect("reported");
            }
        });
    }

    async fn start(&self, path: &str) -> ExecutionId {
        self.execute(wish(path)).await.unwrap().execution_id
    }

    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteAnswer, RuntimeError> {
        self.runtime.execute(request).await
    }

    async fn ended(&self, run: ExecutionId) -> Outcome {
        let end = self.runtime.wait_for_end(run, LONG).await.expect("known");
        end.expect("it ends")
    }

    async fn completed(&self, run: ExecutionId) -> Json {
        let outcome = self.ended(run).await;
        assert_eq!(outcome.status, ExecutionStatus::Completed, "{outcome:?}");
        outcome.result.unwrap_or_default()
    }

    async fn log(&self, run: ExecutionId) -> Vec<EventType> {
        let events = self.store.events(run, Version::EMPTY, LogPage::MAX).await;
        let events = events.expect("events").into_iter();
        events
            .filter_map(|event| event.record.event.event_type.known())
            .collect()
    }

    /// Waits until the log of a run has an event of a type.
    async fn until(&self, run: ExecutionId, kind: EventType) {
        let mut seen = self.log(run).await;
        while !seen.contains(&kind) {
            let version = Version::new(i64::try_from(seen.len()).unwrap()).unwrap();
            self.runtime.wait_for_events(run, version, LONG).await;
            seen = self.log(run).await;
        }
    }

    /// The slots of a key that are held or waited for.
    async fn slots(&self, key: &str) -> Vec<Slot> {
        let choice = SlotChoice::Key {
            tenant_id: TenantId::default(),
            key: MatchKey::of(&format!("={key}").into()),
        };
        let limit = noetl_types::limits::PageLimit::MAX;
        self.store.slots(choice, limit).await.expect("slots")
    }

    /// Waits until somebody of a run waits for a slot.
    async fn waits_for(&self, run: ExecutionId, key: &str) {
        let waits = |slot: &Slot| slot.id.execution_id == run && slot.state == SlotState::Waiting;
        while !self.slots(key).await.iter().any(waits) {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until nobody has slots or waits for them.
    async fn nobody_holds(&self, keys: &[&str]) {
        for key in keys {
            while !self.slots(key).await.is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// The run that another one waits for.
    async fn child_of(&self, run: ExecutionId) -> ExecutionId {
        let limit = noetl_types::limits::PageLimit::MAX;
        loop {
            let children = self.store.open_children(run, None, limit).await.unwrap();
            match children.first() {
                Some(child) => return child.execution_id,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits until nothing is owed any more.
    async fn settled(&self) {
        let later = Timestamp::parse("2199-01-01T00:00:00Z").unwrap();
        let limit = noetl_types::limits::PageLimit::MAX;
        while !self.store.errands(later, limit).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

fn wish(path: &str) -> ExecuteRequest {
    ExecuteRequest {
        path: Some(PlaybookPath::new(path).unwrap()),
        ..ExecuteRequest::default()
    }
}

fn lease() -> LeaseRequest {
    LeaseRequest {
        worker_id: WorkerId::new("w").unwrap(),
        pool: PoolName::new("shared").unwrap(),
        max: LeaseBatch::clamped(8),
        wait_ms: 1_000,
        kinds: None,
        lease_ms: None,
    }
}

fn done(command: &LeasedCommand) -> CommandReport {
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::object([(
            "step",
            Json::from(command.node_name.as_str()),
        )])),
        labels: None,
        onward: None,
        set: JsonMap::new(),
        error: None,
        tasks: Vec::new(),
        task_attempt: 1,
        retries: Vec::new(),
        frame: None,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(command.claimed_at),
        finished_at: None,
    }
}

fn signal(name: &str, key: Option<&str>, payload: i64) -> SignalRequest {
    SignalRequest {
        name: name.into(),
        key: key.map(Text::from),
        payload: Some(Json::object([("n", Json::from(payload))])),
    }
}

fn field(value: &Json, path: &str) -> Json {
    let mut value = value.clone();
    for key in path.split('.') {
        value = value.get(key).cloned().unwrap_or_default();
    }
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep_wakes_up() {
    let house = house().await;
    let body = "workflow:\n  - {step: nap, tool: {kind: sleep, for: 50ms}, next: {arcs: [{step: up}]}}\n  - {step: up, tool: {kind: noop}}\n";
    house.register(1, "nap", body).await;
    let run = house.start("nap").await;
    assert_eq!(field(&house.completed(run).await, "step"), Json::from("up"));
    assert!(house.log(run).await.contains(&EventType::TimerFired));
}

const WAIT: &str = "workflow:\n  - {step: hold, tool: {kind: wait, signal: go, key: k, lookback: 1h, timeout: 1h}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_before_its_wait_and_one_after_it() {
    let house = house().await;
    house.register(1, "hold", WAIT).await;
    let run = house.start("hold").await;
    let other = house.runtime.signal(run, None, signal("go", Some("x"), 1));
    assert!(!other.await.unwrap().delivered);
    let sent = house.runtime.signal(run, None, signal("go", Some("k"), 2));
    assert!(sent.await.unwrap().delivered);
    let result = house.completed(run).await;
    assert_eq!(field(&result, "payload.n"), Json::from(2));
    let reserved = house.runtime.signal(run, None, signal("approval", None, 1));
    assert!(reserved.await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_reaches_those_who_wait_and_those_who_look_back() {
    let house = house().await;
    house.register(1, "hold", WAIT).await;
    let waiting = [house.start("hold").await, house.start("hold").await];
    // They have looked back already, so it is the broadcast that finds them.
    house.settled().await;
    let sent = house
        .runtime
        .broadcast(None, signal("go", Some("k"), 7))
        .await;
    let reached: BTreeSet<ExecutionId> = sent.unwrap().delivered.into_iter().collect();
    assert_eq!(reached, BTreeSet::from(waiting));
    for run in waiting {
        assert_eq!(
            field(&house.completed(run).await, "payload.n"),
            Json::from(7)
        );
    }
    // One that begins to wait later looks back.
    let late = house.start("hold").await;
    assert_eq!(
        field(&house.completed(late).await, "payload.n"),
        Json::from(7)
    );
    house.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_decide() {
    let house = house().await;
    let body = "workflow:\n  - {step: ask, tool: {kind: approval, title: Ship it, quorum: 2}}\n";
    house.register(1, "ask", body).await;
    let run = house.start("ask").await;
    let open = house
        .runtime
        .approvals(ApprovalsQuery::default())
        .await
        .unwrap()
        .approvals;
    assert_eq!((open.len(), open[0].execution_id), (1, run));
    assert_eq!(open[0].title, Some(Json::from("Ship it")));
    let decide = |actor: &'static str| {
        let request = ApproveRequest {
            step: StepName::new("ask").unwrap(),
            index: None,
            decision: "approve".into(),
            comment: None,
            values: None,
        };
        house.runtime.approve(run, actor.into(), request)
    };
    decide("ann").await.unwrap();
    assert!(decide("ann").await.is_err(), "one decision each");
    decide("bob").await.unwrap();
    let result = house.completed(run).await;
    assert_eq!(field(&result, "approved"), Json::from(true));
    assert!(
        house
            .runtime
            .approvals(ApprovalsQuery::default())
            .await
            .unwrap()
            .approvals
            .is_empty()
    );
}

const PARENT: &str = "workflow:\n  - {step: call, tool: {kind: playbook, path: child, return_result: true}, next: {arcs: [{step: failed, when: \"{{ event.name == 'call.error' }}\"}, {step: last}]}}\n  - {step: last, tool: {kind: noop}}\n  - {step: failed, tool: {kind: noop}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_waits_for_its_child() {
    let house = house().await;
    house.register(1, "parent", PARENT).await;
    let one = "workflow:\n  - {step: only, tool: {kind: noop}}\n";
    house.register(2, "child", one).await;
    let run = house.start("parent").await;
    assert_eq!(
        field(&house.completed(run).await, "step"),
        Json::from("last")
    );
    house.settled().await;
    let missing = PARENT.replace("child", "nowhere");
    house.register(3, "lonely", &missing).await;
    let run = house.start("lonely").await;
    assert_eq!(
        field(&house.completed(run).await, "step"),
        Json::from("failed")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_parent_cancels_the_child_that_it_waits_for() {
    let house = house().await;
    house.register(1, "parent", PARENT).await;
    house.register(2, "child", WAIT).await;
    let run = house.start("parent").await;
    let child = house.child_of(run).await;
    let cancel = house.runtime.cancel(run, None, CancelRequest::default());
    assert_eq!(cancel.await.unwrap().cancelled_executions, [run, child]);
    assert_eq!(house.ended(child).await.status, ExecutionStatus::Cancelled);
    let again = house.runtime.cancel(run, None, CancelRequest::default());
    assert_eq!(again.await.unwrap().cancelled_executions, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_cascades_to_the_last_run_below_or_not_at_all() {
    let house = house().await;
    let top = PARENT.replace("child", "middle");
    for (id, path, text) in [(1, "top", &*top), (2, "middle", PARENT), (3, "child", WAIT)] {
        house.register(id, path, text).await;
    }
    let run = house.start("top").await;
    let middle = house.child_of(run).await;
    let lowest = house.child_of(middle).await;
    let cancel = house.runtime.cancel(run, None, CancelRequest::default());
    let cancelled = cancel.await.unwrap().cancelled_executions;
    assert_eq!(cancelled, [run, middle, lowest]);
    house.settled().await;

    let run = house.start("top").await;
    let middle = house.child_of(run).await;
    let lowest = house.child_of(middle).await;
    let alone = CancelRequest {
        cascade: Some(false),
        ..CancelRequest::default()
    };
    let cancel = house.runtime.cancel(run, None, alone);
    assert_eq!(cancel.await.unwrap().cancelled_executions, [run]);
    // What goes on comes to its own end.
    let sent = house
        .runtime
        .signal(lowest, None, signal("go", Some("k"), 1));
    assert!(sent.await.unwrap().delivered);
    assert_eq!(house.ended(middle).await.status, ExecutionStatus::Completed);
    house.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_runs_hold_a_key_than_it_allows() {
    let house = house().await;
    let body = "concurrency: {key: one, limit: 2}\nworkflow:\n  - {step: hold, tool: {kind: wait, signal: go}}\n";
    house.register(1, "few", body).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(house.start("few").await);
    }
    let mut left: BTreeSet<ExecutionId> = runs.iter().copied().collect();
    while !left.is_empty() {
        let mut open = Vec::new();
        for run in &left {
            if house.log(*run).await.contains(&EventType::StepEnter) {
                open.push(*run);
            }
        }
        assert!(open.len() <= 2, "{open:?}");
        for run in open {
            let sent = house.runtime.signal(run, None, signal("go", None, 1));
            if sent.await.is_ok_and(|sent| sent.delivered) {
                house.completed(run).await;
                left.remove(&run);
            }
        }
        tokio::task::yield_now().await;
    }
}

/// The run shares, and so does its entry.
const BOTH: &str = "concurrency: {key: all, limit: 2}\nworkflow:\n  - {step: hold, concurrency: {key: few}, tool: {kind: wait, signal: go}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_shares_gets_its_turn_in_runs_that_share() {
    let house = house().await;
    house.register(1, "both", BOTH).await;
    let mut left = BTreeSet::new();
    for _ in 0..5 {
        left.insert(house.start("both").await);
    }
    while !left.is_empty() {
        let mut open = Vec::new();
        for run in &left {
            if house.log(*run).await.contains(&EventType::StepEnter) {
                open.push(*run);
            }
        }
        assert!(open.len() <= 1, "{open:?}");
        for run in open {
            let sent = house.runtime.signal(run, None, signal("go", None, 1));
            assert!(sent.await.unwrap().delivered);
            house.completed(run).await;
            left.remove(&run);
        }
        tokio::task::yield_now().await;
    }
    house.settled().await;
    house.nobody_holds(&["all", "few"]).await;
}

/// The entry is offered its slot while its run is paused, and asks for it again afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_comes_during_a_pause_is_asked_for_again() {
    let house = house().await;
    house.register(1, "both", BOTH).await;
    let first = house.start("both").await;
    house.until(first, EventType::StepEnter).await;
    let second = house.start("both").await;
    house.waits_for(second, "few").await;
    let steer = noetl_api::execution::SteerRequest::default;
    house.runtime.pause(second, None, steer()).await.unwrap();
    let sent = house.runtime.signal(first, None, signal("go", None, 1));
    assert!(sent.await.unwrap().delivered);
    house.completed(first).await;
    house.settled().await;
    house.nobody_holds(&["few"]).await;
    house.runtime.resume(second, None, steer()).await.unwrap();
    house.until(second, EventType::StepEnter).await;
    let sent = house.runtime.signal(second, None, signal("go", None, 1));
    assert!(sent.await.unwrap().delivered);
    house.completed(second).await;
    house.settled().await;
    house.nobody_holds(&["all", "few"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_leaves_no_wish_behind() {
    let house = house().await;
    house.register(1, "both", BOTH).await;
    let first = house.start("both").await;
    house.until(first, EventType::StepEnter).await;
    let second = house.start("both").await;
    house.waits_for(second, "few").await;
    for run in [second, first] {
        let cancel = house.runtime.cancel(run, None, CancelRequest::default());
        cancel.await.unwrap();
    }
    house.settled().await;
    house.nobody_holds(&["all", "few"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_finds_its_key_taken_is_skipped_or_takes_it() {
    let house = house().await;
    let body = |overlap: &str| {
        format!(
            "concurrency: {{key: k, overlap: {overlap}}}\nworkflow:\n  - {{step: hold, tool: {{kind: wait, signal: go}}}}\n"
        )
    };
    house.register(1, "skip", &body("skip")).await;
    house.register(2, "oust", &body("cancel_previous")).await;
    let first = house.start("skip").await;
    house.until(first, EventType::StepEnter).await;
    let second = house.start("skip").await;
    assert_eq!(house.ended(second).await.status, ExecutionStatus::Cancelled);
    let third = house.start("oust").await;
    assert_eq!(house.ended(first).await.status, ExecutionStatus::Cancelled);
    house.until(third, EventType::StepEnter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_takes_an_earlier_result_over() {
    let house = house().await;
    let body =
        "workflow:\n  - {step: costly, tool: {kind: noop}, spec: {cache: {key: k, ttl: 1h}}}\n";
    house.register(1, "costly", body).await;
    let first = house.start("costly").await;
    let made = house.completed(first).await;
    let second = house.start("costly").await;
    assert_eq!(house.completed(second).await, made);
    assert!(!house.log(second).await.contains(&EventType::CommandIssued));
}

fn delivery(key: &str, payload: i64) -> ExecuteRequest {
    ExecuteRequest {
        payload: Some(Json::object([("n", Json::from(payload))])),
        dedup: Some(Dedup {
            key: key.into(),
            window_secs: None,
        }),
        ..wish("one")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_deliveries_one_starts_a_run() {
    let house = Arc::new(house().await);
    house
        .register(1, "one", "workflow:\n  - {step: a, tool: {kind: noop}}\n")
        .await;
    let long = "k".repeat(20_000);
    let mut racing = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (house, long) = (Arc::clone(&house), long.clone());
        racing.spawn(async move { house.execute(delivery(&long, 1)).await.unwrap() });
    }
    let answers = racing.join_all().await;
    let runs: BTreeSet<ExecutionId> = answers.iter().map(|it| it.execution_id).collect();
    assert_eq!(runs.len(), 1);
    let started = answers.iter().filter(|it| it.status == "started").count();
    assert_eq!(started, 1);
    let run = answers[0].execution_id;
    house.completed(run).await;
    house
        .until(run, EventType::SubscriptionMessageDeduplicated)
        .await;
    let other = house.execute(delivery(&long, 2)).await;
    let code = other.map_err(RuntimeError::into_problem).unwrap_err();
    assert_eq!(code.status, 422);
    // A definition that is not there takes no key.
    let nowhere = ExecuteRequest {
        path: Some(PlaybookPath::new("nowhere").unwrap()),
        ..delivery("free", 1)
    };
    assert!(house.execute(nowhere).await.is_err());
    assert_eq!(
        house.execute(delivery("free", 1)).await.unwrap().status,
        "started"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_a_key_is_answered_alike() {
    let house = house().await;
    house
        .register(1, "one", "workflow:\n  - {step: a, tool: {kind: noop}}\n")
        .await;
    let first = house
        .runtime
        .execute_once(wish("one"), "key")
        .await
        .unwrap();
    let again = house
        .runtime
        .execute_once(wish("one"), "key")
        .await
        .unwrap();
    assert_eq!(first.execution_id, again.execution_id);
    let other = ExecuteRequest {
        payload: Some(Json::object([("n", Json::from(1))])),
        ..wish("one")
    };
    let other = house.runtime.execute_once(other, "key").await;
    assert_eq!(other.unwrap_err().into_problem().status, 422);
}
