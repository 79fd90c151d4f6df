//! Coordination between runs through the server: waits, children, slots, caches and reserved keys.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{CommandReport, LeaseRequest, LeasedCommand, ReportRequest, ReportStatus};
use noetl_api::execute::{DedupKey, ExecuteRequest, ExecuteResponse, ExecutionResult};
use noetl_api::execution::CancelRequest;
use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApproveRequest, SignalRequest};
use noetl_server::{CallContext, ControlPlane, RuntimeError, Settings, StartRequest, SystemClock};
use noetl_store::{
    ExecutionFilter, LogPageLimit, MatchKey, NewCatalogEntry, Slot, SlotSelector, SlotState,
    SqliteStore, Store,
};
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{
    CatalogId, EventType, ExecutionId, ExecutionStatus, ExecutionVersion, Json, JsonMap,
    PlaybookPath, PoolName, StepName, TenantId, Text, Timestamp, WorkerId, sha256,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

struct TestServer {
    store: Arc<dyn Store>,
    services: ControlPlane,
}

async fn start_server() -> TestServer {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let opened = ControlPlane::open(Arc::clone(&store), Arc::new(SystemClock), Settings::default());
    let server = TestServer { services: opened.await.expect("a runtime"), store };
    server.spawn_worker();
    server
}

impl TestServer {
    async fn register_playbook(&self, id: i64, path: &str, body: &str) {
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
        self.store.register_definition(entry).await.expect("registered");
    }

    /// A worker that completes every command with its step name.
    fn spawn_worker(&self) {
        let services = self.services.clone();
        tokio::spawn(async move {
            while let Ok(leased) =
                services.leases.lease_commands(CallContext::server(), lease_request()).await
            {
                if leased.commands.is_empty() {
                    continue;
                }
                let request = ReportRequest {
                    worker_id: WorkerId::new("w").unwrap(),
                    reports: leased.commands.iter().map(completed_report).collect(),
                    lease: None,
                    outputs: Vec::new(),
                };
                services
                    .reports
                    .process_reports(CallContext::server(), request)
                    .await
                    .expect("reported");
            }
        });
    }

    async fn start_run(&self, path: &str) -> ExecutionId {
        self.execute(execute_request(path)).await.unwrap().execution_id
    }

    async fn execute(&self, request: ExecuteRequest) -> Result<ExecuteResponse, RuntimeError> {
        Ok(self.services.executions.start(CallContext::server(), request).await?.answer)
    }

    async fn wait_for_end(&self, run: ExecutionId) -> ExecutionResult {
        let end = self
            .services
            .executions
            .wait_for_end(CallContext::server(), run, TEST_TIMEOUT)
            .await
            .expect("known");
        end.expect("it ends")
    }

    async fn wait_for_result(&self, run: ExecutionId) -> Json {
        let outcome = self.wait_for_end(run).await;
        assert_eq!(outcome.status, ExecutionStatus::Completed, "{outcome:?}");
        outcome.result.unwrap_or_default()
    }

    async fn event_types(&self, run: ExecutionId) -> Vec<EventType> {
        let events = self.store.read_events(run, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
        let events = events.expect("events").into_iter();
        events.filter_map(|event| event.record.event.event_type.known_type()).collect()
    }

    /// Waits until the log of a run contains an event of this type.
    async fn wait_for_event(&self, run: ExecutionId, event_type: EventType) {
        let mut seen = self.event_types(run).await;
        while !seen.contains(&event_type) {
            let version = ExecutionVersion::new(i64::try_from(seen.len()).unwrap()).unwrap();
            self.services.executions.wait_for_events(run, version, TEST_TIMEOUT).await;
            seen = self.event_types(run).await;
        }
    }

    /// Slots of a key, held and requested.
    async fn list_slots(&self, key: &str) -> Vec<Slot> {
        let selector = SlotSelector::Key {
            tenant_id: TenantId::default(),
            key: MatchKey::from_text(&format!("={key}").into()),
        };
        let limit = noetl_types::limits::PageLimit::MAX;
        self.store.list_slots(selector, limit).await.expect("slots")
    }

    /// Waits until the run requests a slot of the key.
    async fn wait_for_slot_request(&self, run: ExecutionId, key: &str) {
        let waits = |slot: &Slot| slot.id.execution_id == run && slot.state == SlotState::Waiting;
        while !self.list_slots(key).await.iter().any(waits) {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until no slot of the keys is held or requested.
    async fn wait_until_slots_free(&self, keys: &[&str]) {
        for key in keys {
            while !self.list_slots(key).await.is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until a run has a child, and returns its id.
    async fn wait_for_child(&self, run: ExecutionId) -> ExecutionId {
        let children = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: None,
            path: None,
            parent_execution_id: Some(run),
            after: None,
            limit: noetl_types::limits::PageLimit::MAX,
        };
        loop {
            let page = self.store.list_executions(children.clone()).await.unwrap();
            match page.executions.first() {
                Some(child) => return child.execution_id,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits until no follow-ups are pending.
    async fn wait_for_follow_ups(&self) {
        let later = Timestamp::parse("2199-01-01T00:00:00Z").unwrap();
        let limit = noetl_types::limits::PageLimit::MAX;
        while !self.store.list_due_follow_ups(later, limit).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

fn execute_request(path: &str) -> ExecuteRequest {
    ExecuteRequest { path: Some(PlaybookPath::new(path).unwrap()), ..ExecuteRequest::default() }
}

fn lease_request() -> LeaseRequest {
    LeaseRequest {
        worker_id: WorkerId::new("w").unwrap(),
        pool: PoolName::new("shared").unwrap(),
        max: LeaseBatchSize::clamped(8),
        wait_ms: 1_000,
        kinds: None,
        lease_ms: None,
    }
}

fn completed_report(command: &LeasedCommand) -> CommandReport {
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::object([("step", Json::from(command.node_name.as_str()))])),
        labels: None,
        onward: None,
        set: JsonMap::new(),
        error: None,
        tasks: Vec::new(),
        task_attempt: 1,
        retries: Vec::new(),
        retries_before: 0,
        frame: None,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(command.claimed_at),
        finished_at: None,
    }
}

fn signal_request(name: &str, key: Option<&str>, payload: i64) -> SignalRequest {
    SignalRequest {
        name: name.into(),
        key: key.map(Text::from),
        payload: Some(Json::object([("n", Json::from(payload))])),
    }
}

fn json_field(value: &Json, path: &str) -> Json {
    let mut value = value.clone();
    for key in path.split('.') {
        value = value.get(key).cloned().unwrap_or_default();
    }
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleep_step_wakes_up() {
    let server = start_server().await;
    let body = "workflow:\n  - {step: nap, tool: {kind: sleep, for: 50ms}, next: {arcs: [{step: up}]}}\n  - {step: up, tool: {kind: noop}}\n";
    server.register_playbook(1, "nap", body).await;
    let run = server.start_run("nap").await;
    assert_eq!(json_field(&server.wait_for_result(run).await, "step"), Json::from("up"));
    assert!(server.event_types(run).await.contains(&EventType::TimerFired));
}

const WAIT_PLAYBOOK: &str = "workflow:\n  - {step: hold, tool: {kind: wait, signal: go, key: k, lookback: 1h, timeout: 1h}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_is_delivered_before_and_after_wait() {
    let server = start_server().await;
    server.register_playbook(1, "hold", WAIT_PLAYBOOK).await;
    let run = server.start_run("hold").await;
    let other = server.services.executions.send_signal(
        CallContext::server(),
        run,
        None,
        signal_request("go", Some("x"), 1),
    );
    assert!(!other.await.unwrap().delivered);
    let sent = server.services.executions.send_signal(
        CallContext::server(),
        run,
        None,
        signal_request("go", Some("k"), 2),
    );
    assert!(sent.await.unwrap().delivered);
    let result = server.wait_for_result(run).await;
    assert_eq!(json_field(&result, "payload.n"), Json::from(2));
    let reserved = server.services.executions.send_signal(
        CallContext::server(),
        run,
        None,
        signal_request("approval", None, 1),
    );
    assert!(reserved.await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcast_reaches_open_and_later_waits() {
    let server = start_server().await;
    server.register_playbook(1, "hold", WAIT_PLAYBOOK).await;
    let waiting = [server.start_run("hold").await, server.start_run("hold").await];
    // Their lookback is over, so only the broadcast can reach them.
    server.wait_for_follow_ups().await;
    let sent = server
        .services
        .executions
        .broadcast_signal(CallContext::server(), None, signal_request("go", Some("k"), 7))
        .await;
    let reached: BTreeSet<ExecutionId> = sent.unwrap().delivered.into_iter().collect();
    assert_eq!(reached, BTreeSet::from(waiting));
    for run in waiting {
        assert_eq!(json_field(&server.wait_for_result(run).await, "payload.n"), Json::from(7));
    }
    // A later wait finds it by lookback.
    let late = server.start_run("hold").await;
    assert_eq!(json_field(&server.wait_for_result(late).await, "payload.n"), Json::from(7));
    server.wait_for_follow_ups().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_follows_user_decision() {
    let server = start_server().await;
    let body = "workflow:\n  - {step: ask, tool: {kind: approval, title: Ship it, quorum: 2}}\n";
    server.register_playbook(1, "ask", body).await;
    let run = server.start_run("ask").await;
    let open = server
        .services
        .queries
        .list_approvals(CallContext::server(), ApprovalsQuery::default())
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
        server.services.executions.submit_approval(
            CallContext::server(),
            run,
            actor.into(),
            request,
        )
    };
    decide("ann").await.unwrap();
    assert!(decide("ann").await.is_err(), "one decision each");
    decide("bob").await.unwrap();
    let result = server.wait_for_result(run).await;
    assert_eq!(json_field(&result, "approved"), Json::from(true));
    assert!(
        server
            .services
            .queries
            .list_approvals(CallContext::server(), ApprovalsQuery::default())
            .await
            .unwrap()
            .approvals
            .is_empty()
    );
}

const PARENT_PLAYBOOK: &str = "workflow:\n  - {step: call, tool: {kind: playbook, path: child, return_result: true}, next: {arcs: [{step: failed, when: \"{{ event.name == 'call.error' }}\"}, {step: last}]}}\n  - {step: last, tool: {kind: noop}}\n  - {step: failed, tool: {kind: noop}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parent_waits_for_child() {
    let server = start_server().await;
    server.register_playbook(1, "parent", PARENT_PLAYBOOK).await;
    let one = "workflow:\n  - {step: only, tool: {kind: noop}}\n";
    server.register_playbook(2, "child", one).await;
    let run = server.start_run("parent").await;
    assert_eq!(json_field(&server.wait_for_result(run).await, "step"), Json::from("last"));
    server.wait_for_follow_ups().await;
    let missing = PARENT_PLAYBOOK.replace("child", "nowhere");
    server.register_playbook(3, "lonely", &missing).await;
    let run = server.start_run("lonely").await;
    assert_eq!(json_field(&server.wait_for_result(run).await, "step"), Json::from("failed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_parent_cancels_awaited_child() {
    let server = start_server().await;
    server.register_playbook(1, "parent", PARENT_PLAYBOOK).await;
    server.register_playbook(2, "child", WAIT_PLAYBOOK).await;
    let run = server.start_run("parent").await;
    let child = server.wait_for_child(run).await;
    let cancel = server.services.executions.cancel_execution(
        CallContext::server(),
        run,
        None,
        CancelRequest::default(),
    );
    assert_eq!(cancel.await.unwrap().cancelled_executions, [run, child]);
    assert_eq!(server.wait_for_end(child).await.status, ExecutionStatus::Cancelled);
    let again = server.services.executions.cancel_execution(
        CallContext::server(),
        run,
        None,
        CancelRequest::default(),
    );
    assert_eq!(again.await.unwrap().cancelled_executions, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_cascades_to_all_descendants_or_none() {
    let server = start_server().await;
    let top = PARENT_PLAYBOOK.replace("child", "middle");
    for (id, path, text) in
        [(1, "top", &*top), (2, "middle", PARENT_PLAYBOOK), (3, "child", WAIT_PLAYBOOK)]
    {
        server.register_playbook(id, path, text).await;
    }
    let run = server.start_run("top").await;
    let middle = server.wait_for_child(run).await;
    let lowest = server.wait_for_child(middle).await;
    let cancel = server.services.executions.cancel_execution(
        CallContext::server(),
        run,
        None,
        CancelRequest::default(),
    );
    let cancelled = cancel.await.unwrap().cancelled_executions;
    assert_eq!(cancelled, [run, middle, lowest]);
    server.wait_for_follow_ups().await;

    let run = server.start_run("top").await;
    let middle = server.wait_for_child(run).await;
    let lowest = server.wait_for_child(middle).await;
    let without_cascade = CancelRequest { cascade: Some(false), ..CancelRequest::default() };
    let cancel = server.services.executions.cancel_execution(
        CallContext::server(),
        run,
        None,
        without_cascade,
    );
    assert_eq!(cancel.await.unwrap().cancelled_executions, [run]);
    // Runs that were not cancelled complete.
    let sent = server.services.executions.send_signal(
        CallContext::server(),
        lowest,
        None,
        signal_request("go", Some("k"), 1),
    );
    assert!(sent.await.unwrap().delivered);
    assert_eq!(server.wait_for_end(middle).await.status, ExecutionStatus::Completed);
    server.wait_for_follow_ups().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_limit_is_enforced() {
    let server = start_server().await;
    let body = "concurrency: {key: one, limit: 2}\nworkflow:\n  - {step: hold, tool: {kind: wait, signal: go}}\n";
    server.register_playbook(1, "few", body).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(server.start_run("few").await);
    }
    let mut remaining: BTreeSet<ExecutionId> = runs.iter().copied().collect();
    while !remaining.is_empty() {
        let mut open = Vec::new();
        for run in &remaining {
            if server.event_types(*run).await.contains(&EventType::StepEnter) {
                open.push(*run);
            }
        }
        assert!(open.len() <= 2, "{open:?}");
        for run in open {
            let sent = server.services.executions.send_signal(
                CallContext::server(),
                run,
                None,
                signal_request("go", None, 1),
            );
            if sent.await.is_ok_and(|sent| sent.delivered) {
                server.wait_for_result(run).await;
                remaining.remove(&run);
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Both the run and its step have a concurrency limit.
const RUN_AND_STEP_LIMITS: &str = "concurrency: {key: all, limit: 2}\nworkflow:\n  - {step: hold, concurrency: {key: few}, tool: {kind: wait, signal: go}}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_slot_is_granted_in_limited_runs() {
    let server = start_server().await;
    server.register_playbook(1, "both", RUN_AND_STEP_LIMITS).await;
    let mut remaining = BTreeSet::new();
    for _ in 0..5 {
        remaining.insert(server.start_run("both").await);
    }
    while !remaining.is_empty() {
        let mut open = Vec::new();
        for run in &remaining {
            if server.event_types(*run).await.contains(&EventType::StepEnter) {
                open.push(*run);
            }
        }
        assert!(open.len() <= 1, "{open:?}");
        for run in open {
            let sent = server.services.executions.send_signal(
                CallContext::server(),
                run,
                None,
                signal_request("go", None, 1),
            );
            assert!(sent.await.unwrap().delivered);
            server.wait_for_result(run).await;
            remaining.remove(&run);
        }
        tokio::task::yield_now().await;
    }
    server.wait_for_follow_ups().await;
    server.wait_until_slots_free(&["all", "few"]).await;
}

/// The step is offered its slot while its run is paused, and requests it again after resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_offered_during_pause_is_requested_again() {
    let server = start_server().await;
    server.register_playbook(1, "both", RUN_AND_STEP_LIMITS).await;
    let first = server.start_run("both").await;
    server.wait_for_event(first, EventType::StepEnter).await;
    let second = server.start_run("both").await;
    server.wait_for_slot_request(second, "few").await;
    let control_request = noetl_api::execution::ControlRequest::default;
    server
        .services
        .executions
        .pause_execution(CallContext::server(), second, None, control_request())
        .await
        .unwrap();
    let sent = server.services.executions.send_signal(
        CallContext::server(),
        first,
        None,
        signal_request("go", None, 1),
    );
    assert!(sent.await.unwrap().delivered);
    server.wait_for_result(first).await;
    server.wait_for_follow_ups().await;
    server.wait_until_slots_free(&["few"]).await;
    server
        .services
        .executions
        .resume_execution(CallContext::server(), second, None, control_request())
        .await
        .unwrap();
    server.wait_for_event(second, EventType::StepEnter).await;
    let sent = server.services.executions.send_signal(
        CallContext::server(),
        second,
        None,
        signal_request("go", None, 1),
    );
    assert!(sent.await.unwrap().delivered);
    server.wait_for_result(second).await;
    server.wait_for_follow_ups().await;
    server.wait_until_slots_free(&["all", "few"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_run_leaves_no_slot_request() {
    let server = start_server().await;
    server.register_playbook(1, "both", RUN_AND_STEP_LIMITS).await;
    let first = server.start_run("both").await;
    server.wait_for_event(first, EventType::StepEnter).await;
    let second = server.start_run("both").await;
    server.wait_for_slot_request(second, "few").await;
    for run in [second, first] {
        let cancel = server.services.executions.cancel_execution(
            CallContext::server(),
            run,
            None,
            CancelRequest::default(),
        );
        cancel.await.unwrap();
    }
    server.wait_for_follow_ups().await;
    server.wait_until_slots_free(&["all", "few"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlap_policy_skips_or_replaces_runs() {
    let server = start_server().await;
    let body = |overlap: &str| {
        format!(
            "concurrency: {{key: k, overlap: {overlap}}}\nworkflow:\n  - {{step: hold, tool: {{kind: wait, signal: go}}}}\n"
        )
    };
    server.register_playbook(1, "skip", &body("skip")).await;
    server.register_playbook(2, "oust", &body("cancel_previous")).await;
    let first = server.start_run("skip").await;
    server.wait_for_event(first, EventType::StepEnter).await;
    let second = server.start_run("skip").await;
    assert_eq!(server.wait_for_end(second).await.status, ExecutionStatus::Cancelled);
    let third = server.start_run("oust").await;
    assert_eq!(server.wait_for_end(first).await.status, ExecutionStatus::Cancelled);
    server.wait_for_event(third, EventType::StepEnter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_reuses_cached_result() {
    let server = start_server().await;
    let body =
        "workflow:\n  - {step: costly, tool: {kind: noop}, spec: {cache: {key: k, ttl: 1h}}}\n";
    server.register_playbook(1, "costly", body).await;
    let first = server.start_run("costly").await;
    let result = server.wait_for_result(first).await;
    let second = server.start_run("costly").await;
    assert_eq!(server.wait_for_result(second).await, result);
    assert!(!server.event_types(second).await.contains(&EventType::CommandIssued));
}

fn dedup_request(key: &str, payload: i64) -> ExecuteRequest {
    ExecuteRequest {
        payload: Some(Json::object([("n", Json::from(payload))])),
        dedup: Some(DedupKey { key: key.into(), window_secs: None }),
        ..execute_request("one")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_deliveries_start_one_run() {
    let server = Arc::new(start_server().await);
    server.register_playbook(1, "one", "workflow:\n  - {step: a, tool: {kind: noop}}\n").await;
    let long = "k".repeat(20_000);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (server, long) = (Arc::clone(&server), long.clone());
        tasks.spawn(async move { server.execute(dedup_request(&long, 1)).await.unwrap() });
    }
    let responses = tasks.join_all().await;
    let runs: BTreeSet<ExecutionId> =
        responses.iter().map(|response| response.execution_id).collect();
    assert_eq!(runs.len(), 1);
    let started = responses.iter().filter(|response| response.status == "started").count();
    assert_eq!(started, 1);
    let run = responses[0].execution_id;
    server.wait_for_result(run).await;
    server.wait_for_event(run, EventType::SubscriptionMessageDeduplicated).await;
    let other = server.execute(dedup_request(&long, 2)).await;
    let problem = other.map_err(RuntimeError::into_problem).unwrap_err();
    assert_eq!(problem.status, 422);
    // An unknown playbook does not reserve the key.
    let nowhere = ExecuteRequest {
        path: Some(PlaybookPath::new("nowhere").unwrap()),
        ..dedup_request("free", 1)
    };
    assert!(server.execute(nowhere).await.is_err());
    assert_eq!(server.execute(dedup_request("free", 1)).await.unwrap().status, "started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_request_returns_same_answer() {
    let server = start_server().await;
    server.register_playbook(1, "one", "workflow:\n  - {step: a, tool: {kind: noop}}\n").await;
    let first = server
        .services
        .executions
        .start(
            CallContext::server(),
            StartRequest::from(execute_request("one")).with_idempotency_key("key").unwrap(),
        )
        .await
        .unwrap()
        .answer;
    let again = server
        .services
        .executions
        .start(
            CallContext::server(),
            StartRequest::from(execute_request("one")).with_idempotency_key("key").unwrap(),
        )
        .await
        .unwrap()
        .answer;
    assert_eq!(first.execution_id, again.execution_id);
    let other = ExecuteRequest {
        payload: Some(Json::object([("n", Json::from(1))])),
        ..execute_request("one")
    };
    let other = server
        .services
        .executions
        .start(
            CallContext::server(),
            StartRequest::from(other).with_idempotency_key("key").unwrap(),
        )
        .await;
    assert_eq!(other.unwrap_err().into_problem().status, 422);
}
