//! A cluster of servers on one store, and a worker that completes every command.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{CommandReport, LeaseRequest, LeasedCommand, ReportRequest, ReportStatus};
use noetl_api::execute::ExecuteRequest;
use noetl_server::{
    CallContext, Clock as _, ControlPlane, NatsConnectionSettings, NatsSettings, Settings,
    StreamSettings, SystemClock,
};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{NewCatalogEntry, PostgresStore, SqliteStore, Store};
use noetl_store_testing::migrated_database;
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::TestDatabase;
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{
    CatalogId, ExecutionId, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, PoolName,
    TenantId, Timestamp, WorkerId, sha256,
};

/// Long enough that a passing test never reaches it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(5);

const TWO_STEPS: &str = "workflow:\n  - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n  - {step: end, tool: {kind: noop}}\n";

pub(crate) struct TestCluster {
    pub(crate) store: Arc<dyn Store>,
    /// Storage that is deleted with the cluster.
    pub(crate) store_guard: StoreGuard,
}

/// Owner of the storage of a store.
pub(crate) enum StoreGuard {
    Memory,
    TempFile { _folder: tempfile::TempDir },
    Database(TestDatabase),
}

impl TestCluster {
    pub(crate) async fn new() -> Self {
        Self::with_store(Arc::new(SqliteStore::in_memory().unwrap()), StoreGuard::Memory).await
    }

    pub(crate) async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("noetl.db"));
        let store = SqliteStore::open(&options).unwrap();
        let store_guard = StoreGuard::TempFile { _folder: folder };
        Self::with_store(Arc::new(store), store_guard).await
    }

    pub(crate) async fn on_postgres() -> Self {
        let now = SystemClock.now();
        let database = migrated_database(now).unwrap();
        let options = PostgresOptions::new(database.connection_config(), now);
        let store = PostgresStore::open(&options).await.unwrap();
        Self::with_store(Arc::new(store), StoreGuard::Database(database)).await
    }

    /// Registers the playbook `two`.
    async fn with_store(store: Arc<dyn Store>, store_guard: StoreGuard) -> Self {
        let cluster = Self { store, store_guard };
        cluster.register_playbook_for(&TenantId::default(), 1).await;
        cluster
    }

    pub(crate) async fn register_playbook_for(&self, tenant_id: &TenantId, catalog_id: i64) {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: two }}\n{TWO_STEPS}"
        );
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(catalog_id).unwrap(),
            tenant_id: tenant_id.clone(),
            path: PlaybookPath::new("two").unwrap(),
            kind: "playbook".into(),
            content: text.as_str().into(),
            sha256: sha256(&text),
            meta: None,
            now: Timestamp::from_unix_ms(0).unwrap(),
        };
        self.store.register_definition(entry).await.expect("registered");
    }

    pub(crate) async fn start_server(&self, settings: Settings) -> ControlPlane {
        let clock = Arc::new(SystemClock);
        let opened = ControlPlane::open(Arc::clone(&self.store), clock, settings);
        opened.await.expect("a runtime")
    }
}

/// Settings of a server that never polls by itself, so that it finds work only through
/// notifications.
pub(crate) fn notification_only_settings(nats: &NatsServer) -> Settings {
    Settings {
        nats: Some(nats_settings(nats)),
        sweep_interval: Millis::from_hours(1),
        public_url: Some("http://localhost:1".into()),
        ..Settings::default()
    }
}

pub(crate) fn streaming_settings(nats: &NatsServer) -> Settings {
    streaming_settings_with(nats, StreamSettings::default())
}

pub(crate) fn streaming_settings_with(nats: &NatsServer, stream: StreamSettings) -> Settings {
    Settings {
        nats: Some(NatsSettings { stream: Some(stream), ..nats_settings(nats) }),
        ..Settings::default()
    }
}

pub(crate) fn nats_settings(nats: &NatsServer) -> NatsSettings {
    NatsSettings {
        link: NatsConnectionSettings {
            url: nats.url().into(),
            name: "test".into(),
            ..NatsConnectionSettings::default()
        },
        ..NatsSettings::default()
    }
}

/// A worker that completes every command until it is dropped.
#[must_use]
pub(crate) struct TestWorker(tokio::task::JoinHandle<()>);

impl Drop for TestWorker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn spawn_worker(services: &ControlPlane) -> TestWorker {
    let services = services.clone();
    TestWorker(tokio::spawn(async move {
        while let Ok(leased) =
            services.leases.lease_commands(CallContext::server(), lease_request(1_000)).await
        {
            if leased.commands.is_empty() {
                // A closed server answers at once, and nothing else in this loop yields.
                tokio::task::yield_now().await;
                continue;
            }
            let request = ReportRequest {
                worker_id: WorkerId::new("w").unwrap(),
                reports: leased.commands.iter().map(completed_report).collect(),
                lease: None,
                outputs: Vec::new(),
            };
            drop(services.reports.process_reports(CallContext::server(), request).await);
        }
    }))
}

pub(crate) async fn start_run(services: &ControlPlane) -> ExecutionId {
    start_run_with_payload(services, Json::Null).await
}

pub(crate) async fn start_run_with_payload(services: &ControlPlane, filler: Json) -> ExecutionId {
    start_run_for(CallContext::server(), services, filler).await
}

pub(crate) async fn start_run_for(
    ctx: &CallContext,
    services: &ControlPlane,
    filler: Json,
) -> ExecutionId {
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("two").unwrap()),
        payload: Some(Json::object([("filler", filler)])),
        ..ExecuteRequest::default()
    };
    services.executions.start(ctx, request).await.unwrap().answer.execution_id
}

/// Starts runs and waits until all have completed.
pub(crate) async fn complete_runs(services: &ControlPlane, count: usize) {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(start_run(services).await);
    }
    for run in runs {
        wait_until_completed(services, run).await;
    }
}

pub(crate) async fn wait_until_completed(services: &ControlPlane, run: ExecutionId) {
    let wait = async {
        // Another server may complete the run without notifying this one.
        let poll_interval = Duration::from_millis(200);
        loop {
            let end =
                services.executions.wait_for_end(CallContext::server(), run, poll_interval).await;
            if let Some(end) = end.expect("known") {
                return end;
            }
        }
    };
    let end = tokio::time::timeout(TEST_TIMEOUT, wait).await.expect("it ends");
    assert_eq!(end.status, ExecutionStatus::Completed, "{end:?}");
}

pub(crate) fn lease_request(wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: WorkerId::new("w").unwrap(),
        pool: PoolName::shared(),
        max: LeaseBatchSize::clamped(8),
        wait_ms,
        kinds: None,
        lease_ms: None,
    }
}

pub(crate) fn completed_report(command: &LeasedCommand) -> CommandReport {
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::from(command.node_name.as_str())),
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

/// Waits until a condition holds.
pub(crate) async fn wait_until<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
    assert!(waited.is_ok(), "timed out: {what}");
}
