//! Servers on one database that never poll by themselves, so that they find work only through
//! wakeups.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use noetl_api::command::{
    CommandReport, HeartbeatRequest, HeldLease, LeaseRequest, LeasedCommand, ReportRequest,
    ReportStatus,
};
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::CancelRequest;
use noetl_messaging::nats::NatsConnectionSettings;
use noetl_store::postgres::PostgresOptions;
use noetl_store::prelude::*;
use noetl_store::{NewCatalogEntry, PostgresStore, Store};
use noetl_store_testing::{Fault, FaultyStore, StoreMethod, migrated_database};
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::TestDatabase;
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{
    CatalogId, ExecutionStatus, ExecutionVersion, Json, JsonMap, Millis, PlaybookPath, TenantId,
    Timestamp, WorkerId, sha256,
};

use super::{Duration, ExecutionId, NotifyChannel, Ordering, PoolName, Wakeup, WakeupSet};
use crate::access::CallContext;
use crate::clock::{Clock as _, SystemClock};
use crate::services::ControlPlane;
use crate::services::notifications::NatsSettings;
use crate::settings::Settings;

/// Long enough that a passing test never reaches it.
const TEST_TIMEOUT: Duration = Duration::from_mins(5);

const TWO_STEPS: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: two}\nworkflow:\n  \
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n  \
    - {step: end, tool: {kind: noop}}\n";

/// Repetitions of a test. A single success might be due to polling.
const ROUNDS: usize = 5;

struct TestCluster {
    store: Arc<PostgresStore>,
    database: TestDatabase,
}

impl TestCluster {
    async fn new() -> Self {
        let now = SystemClock.now();
        let database = migrated_database(now).unwrap();
        let options = PostgresOptions::new(database.connection_config(), now);
        let store = PostgresStore::open(&options).await.unwrap();
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(1).unwrap(),
            tenant_id: TenantId::default(),
            path: PlaybookPath::new("two").unwrap(),
            kind: "playbook".into(),
            content: TWO_STEPS.into(),
            sha256: sha256(TWO_STEPS),
            meta: None,
            now: Timestamp::from_unix_ms(0).unwrap(),
        };
        store.register_definition(entry).await.unwrap();
        Self { store: Arc::new(store), database }
    }

    async fn start_server(&self, nats: Option<&NatsServer>) -> ControlPlane {
        open_services(Arc::clone(&self.store) as _, nats).await
    }

    /// Starts a server whose notify channel fails while `is_disconnected` is set.
    async fn start_server_with_faulty_channel(
        &self,
        is_disconnected: &Arc<AtomicBool>,
    ) -> ControlPlane {
        let is_disconnected = Arc::clone(is_disconnected);
        let plan = move |method| match method {
            StoreMethod::OpenNotifyChannel if is_disconnected.load(Ordering::Acquire) => {
                Fault::FailBefore
            }
            _ => Fault::None,
        };
        let store = FaultyStore::with_shared_store(Arc::clone(&self.store), Box::new(plan));
        open_services(Arc::new(store), None).await
    }

    /// Starts two servers with open channels that have exchanged their first wakeups.
    async fn start_connected_pair(&self) -> [ControlPlane; 2] {
        let first = self.start_server(None).await;
        let second = self.start_server(None).await;
        wait_until_connected(&first, &second).await;
        [first, second]
    }

    /// Counts the open notify channels.
    async fn count_channels(&self) -> usize {
        let config = self.database.connection_config();
        let connected = tokio_postgres::connect(&config, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT pid FROM pg_stat_activity
            WHERE application_name = 'noetl_wakeups_noetl' AND datname = current_database()";
        client.query(sql, &[]).await.unwrap().len()
    }

    /// Terminates every notify channel.
    fn terminate_channels(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'noetl_wakeups_noetl' AND datname = current_database()";
        self.database.run_statement(sql).unwrap();
    }
}

async fn open_services(store: Arc<dyn Store>, nats: Option<&NatsServer>) -> ControlPlane {
    let settings = Settings {
        sweep_interval: Millis::from_hours(1),
        nats: nats.map(|nats| NatsSettings {
            link: NatsConnectionSettings {
                url: nats.url().into(),
                name: "test".into(),
                ..NatsConnectionSettings::default()
            },
            ..NatsSettings::default()
        }),
        ..Settings::default()
    };
    let opened = ControlPlane::open(store, Arc::new(SystemClock), settings).await;
    opened.unwrap()
}

/// Makes the first server aware of the second at once, instead of at its next lease renewal.
async fn wait_until_connected(first: &ControlPlane, second: &ControlPlane) {
    first.infra.ids.renew_lease(first.infra.now()).await.unwrap();
    wait_until("both channels are open", async || {
        is_channel_open(first) && is_channel_open(second)
    })
    .await;
    // Each server asks its peers to rescan, and the last one to connect receives this.
    wait_until("wakeups were exchanged", async || {
        let both_sent = notify_counter(first, "sent") > 0 && notify_counter(second, "sent") > 0;
        both_sent && notify_counter(first, "received") + notify_counter(second, "received") > 0
    })
    .await;
}

fn is_channel_open(services: &ControlPlane) -> bool {
    services.driver.peers.notifier.is_channel_open()
}

/// Value of a notify counter.
fn notify_counter(services: &ControlPlane, what: &str) -> u64 {
    let text = services.infra.metrics.encode_text().unwrap();
    let name = format!("noetl_notify_{what}_total ");
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(&name)).unwrap();
    value.parse().unwrap()
}

/// Waits until a condition holds.
async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
    assert!(waited.is_ok(), "timed out: {what}");
}

async fn start_execution(services: &ControlPlane) -> ExecutionId {
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("two").unwrap()),
        ..ExecuteRequest::default()
    };
    services.executions.start(CallContext::server(), request).await.unwrap().answer.execution_id
}

/// Leases the next command, without a time limit.
async fn lease_command(services: &ControlPlane) -> LeasedCommand {
    let wait = async {
        loop {
            let request = LeaseRequest {
                worker_id: WorkerId::new("w").unwrap(),
                pool: PoolName::shared(),
                max: LeaseBatchSize::clamped(8),
                wait_ms: 30_000,
                kinds: None,
                lease_ms: None,
            };
            let response =
                services.leases.lease_commands(CallContext::server(), request).await.unwrap();
            if let Some(command) = response.commands.into_iter().next() {
                return command;
            }
        }
    };
    let command = tokio::time::timeout(TEST_TIMEOUT, wait).await;
    command.expect("there is a command")
}

/// Starts a worker that waits for a command, and returns once it waits in the matcher.
async fn spawn_waiting_worker(services: &ControlPlane) -> tokio::task::JoinHandle<LeasedCommand> {
    let poller = services.clone();
    let waiting = tokio::spawn(async move { lease_command(&poller).await });
    wait_until("the worker waits", async || {
        services.driver.waiters.matcher.waiting_count(&PoolName::shared()) > 0
    })
    .await;
    waiting
}

async fn complete_command(services: &ControlPlane, command: &LeasedCommand) {
    let report = CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::Null),
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
    };
    let request = ReportRequest {
        worker_id: WorkerId::new("w").unwrap(),
        reports: vec![report],
        lease: None,
        outputs: Vec::new(),
    };
    services.reports.process_reports(CallContext::server(), request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_worker_receives_command_of_other_server() {
    let cluster = TestCluster::new().await;
    let [first, second] = cluster.start_connected_pair().await;
    for (here, there) in [(&first, &second), (&second, &first)] {
        let worker = spawn_waiting_worker(there).await;
        let execution_id = start_execution(here).await;
        let command = worker.await.unwrap();
        assert_eq!(command.execution_id, execution_id);
        complete_command(there, &command).await;
        let command = lease_command(there).await;
        complete_command(there, &command).await;
    }
    assert!(notify_counter(&first, "sent") > 1 && notify_counter(&second, "received") > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_receives_events_of_other_server() {
    let cluster = TestCluster::new().await;
    let [first, second] = cluster.start_connected_pair().await;
    for _ in 0..ROUNDS {
        let execution_id = start_execution(&first).await;
        let command = lease_command(&first).await;
        let mut follower = second
            .queries
            .follow_log(CallContext::server(), execution_id, ExecutionVersion::EMPTY)
            .await
            .unwrap();
        assert!(!follower.next(TEST_TIMEOUT).await.unwrap().unwrap().is_empty());
        let next = tokio::spawn(async move {
            let events = tokio::time::timeout(TEST_TIMEOUT, follower.next(TEST_TIMEOUT * 2)).await;
            events.expect("a wakeup arrives").unwrap().unwrap()
        });
        wait_until("it is followed", async || {
            second.driver.waiters.followers.has_followers(execution_id)
        })
        .await;
        complete_command(&first, &command).await;
        assert!(!next.await.unwrap().is_empty());
        let command = lease_command(&first).await;
        complete_command(&first, &command).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_receives_end_from_other_server() {
    let cluster = TestCluster::new().await;
    let [first, second] = cluster.start_connected_pair().await;
    for _ in 0..ROUNDS {
        let execution_id = start_execution(&first).await;
        let waiter = first.clone();
        let end = tokio::spawn(async move {
            let end = tokio::time::timeout(
                TEST_TIMEOUT,
                waiter.executions.wait_for_end(
                    CallContext::server(),
                    execution_id,
                    TEST_TIMEOUT * 2,
                ),
            )
            .await;
            end.expect("a wakeup arrives").unwrap().unwrap()
        });
        wait_until("it is waited for", async || {
            first.driver.waiters.followers.has_followers(execution_id)
        })
        .await;
        for _ in 0..2 {
            let command = lease_command(&second).await;
            complete_command(&second, &command).await;
        }
        assert_eq!(end.await.unwrap().status, ExecutionStatus::Completed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feed_reader_is_woken_by_other_server() {
    let cluster = TestCluster::new().await;
    let [first, second] = cluster.start_connected_pair().await;
    let mut append_count = second.driver.waiters.subscribe_log_growth();
    append_count.mark_unchanged();
    start_execution(&first).await;
    let changed = tokio::time::timeout(TEST_TIMEOUT, append_count.changed()).await;
    changed.expect("a wakeup arrives").unwrap();
}

/// Events committed while one of two servers has no channel are found after it reconnects.
async fn check_channel_loss_recovery(is_on_worker_side: bool) {
    let cluster = TestCluster::new().await;
    let is_disconnected = Arc::new(AtomicBool::new(false));
    let healthy = cluster.start_server(None).await;
    let faulty = cluster.start_server_with_faulty_channel(&is_disconnected).await;
    wait_until_connected(&healthy, &faulty).await;
    let (here, there) = if is_on_worker_side { (&healthy, &faulty) } else { (&faulty, &healthy) };
    is_disconnected.store(true, Ordering::Release);
    cluster.terminate_channels();
    wait_until("the channel is closed", async || !is_channel_open(&faulty)).await;
    // The other server has reconnected and handled all consequences.
    wait_until("the other channel is open", async || cluster.count_channels().await == 1).await;
    let worker = spawn_waiting_worker(there).await;
    let execution_id = start_execution(here).await;
    is_disconnected.store(false, Ordering::Release);
    assert_eq!(worker.await.unwrap().execution_id, execution_id);
    wait_until("the channel is open again", async || is_channel_open(&faulty)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_rescans_after_channel_loss() {
    check_channel_loss_recovery(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sender_requests_rescan_after_channel_loss() {
    check_channel_loss_recovery(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_server_opens_no_channel() {
    let cluster = TestCluster::new().await;
    let alone = cluster.start_server(None).await;
    let execution_id = start_execution(&alone).await;
    for _ in 0..2 {
        let command = lease_command(&alone).await;
        complete_command(&alone, &command).await;
    }
    let end = alone
        .executions
        .wait_for_end(CallContext::server(), execution_id, TEST_TIMEOUT)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(end.status, ExecutionStatus::Completed);
    assert!(!is_channel_open(&alone));
    assert_eq!((notify_counter(&alone, "sent"), cluster.count_channels().await), (0, 0));
    let text = alone.infra.metrics.encode_text().unwrap();
    let mut samples = text.lines();
    let is_channel_metric = |line: &str| line.starts_with("noetl_notify_up");
    assert!(!samples.any(is_channel_metric), "{text}");

    let other = cluster.start_server(None).await;
    wait_until_connected(&alone, &other).await;
    assert_eq!(cluster.count_channels().await, 2);
    other.close(TEST_TIMEOUT).await;
    alone.infra.ids.renew_lease(alone.infra.now()).await.unwrap();
    wait_until("the channel is closed", async || cluster.count_channels().await == 0).await;
    assert!(!is_channel_open(&alone));
}

/// Collects wakeups until one reports that the log of the execution has grown.
async fn collect_wakeups(
    channel: &mut Box<dyn NotifyChannel>,
    execution_id: ExecutionId,
) -> Wakeup {
    let mut all = Wakeup::default();
    loop {
        let wakeups = tokio::time::timeout(TEST_TIMEOUT, channel.recv()).await;
        all.merge(wakeups.expect("a wakeup arrives").unwrap());
        if matches!(&all.executions, WakeupSet::Only(executions) if executions.contains_key(&execution_id))
        {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_replaces_queue_wakeups() {
    let cluster = TestCluster::new().await;
    let nats = NatsServer::start().unwrap();
    let first = cluster.start_server(Some(&nats)).await;
    let second = cluster.start_server(None).await;
    wait_until_connected(&first, &second).await;
    wait_until("NATS is reached", async || first.publishing.is_nats_connected() == Some(true))
        .await;
    let mut channel = cluster.store.open_notify_channel().await.unwrap().unwrap();
    let execution_id = start_execution(&first).await;
    assert!(collect_wakeups(&mut channel, execution_id).await.queues.is_empty());
    let execution_id = start_execution(&second).await;
    let queues = collect_wakeups(&mut channel, execution_id).await.queues;
    assert_eq!(queues, WakeupSet::Only([(PoolName::shared(), 1)].into()));
}

/// A worker whose renewal is held by one server learns of a cancel through another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_on_another_server_answers_held_renewal() {
    let cluster = TestCluster::new().await;
    let [first, second] = cluster.start_connected_pair().await;
    let execution_id = start_execution(&first).await;
    let command = lease_command(&first).await;
    let request = HeartbeatRequest {
        worker_id: WorkerId::new("w").unwrap(),
        leases: vec![HeldLease {
            execution_id,
            command_id: command.command_id,
            lease_token: command.lease_token,
            attempt: command.attempt,
        }],
        extend_ms: Some(3_600_000),
        wait_ms: 30_000,
    };
    let services = first.clone();
    let held = tokio::spawn(async move {
        services.leases.renew_leases(CallContext::server(), request).await.unwrap()
    });
    wait_until("the lease is renewed", async || {
        let row = first.infra.store.find_command(command.command_id).await.unwrap().unwrap();
        row.lease.unwrap().until > command.lease_until
    })
    .await;
    let cancel = CancelRequest::default();
    let cancelled =
        second.executions.cancel_execution(CallContext::server(), execution_id, None, cancel);
    cancelled.await.unwrap();
    let answer = tokio::time::timeout(TEST_TIMEOUT, held).await.unwrap().unwrap();
    assert_eq!(answer.leases[0].cancel, Some(true));
}
