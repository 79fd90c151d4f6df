//! Servers on one store, with a worker that answers everything.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{CommandReport, LeaseRequest, LeasedCommand, ReportRequest, ReportStatus};
use noetl_api::execute::ExecuteRequest;
use noetl_server::{
    Clock as _, LinkSettings, NatsSettings, Runtime, Settings, StreamSettings, SystemClock,
};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{MemoryStore, NewCatalogEntry, PostgresStore, SqliteStore, Store};
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::Database;
use noetl_types::limits::LeaseBatch;
use noetl_types::{
    CatalogId, ExecutionId, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, PoolName,
    TenantId, Timestamp, WorkerId, sha256,
};

/// Long enough that it never decides a test that passes.
pub(crate) const LONG: Duration = Duration::from_mins(5);

/// Two steps, one after the other.
const TWO: &str = "workflow:\n  - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n  - {step: end, tool: {kind: noop}}\n";

/// Servers that share a store.
pub(crate) struct House {
    pub(crate) store: Arc<dyn Store>,
    /// Goes away with the house.
    pub(crate) place: Place,
}

/// Where a store is kept.
pub(crate) enum Place {
    Memory,
    File { _folder: tempfile::TempDir },
    Database(Database),
}

impl House {
    /// A house in memory.
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new()), Place::Memory).await
    }

    /// A house on a file.
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("noetl.db"));
        let store = SqliteStore::open(&options).unwrap();
        let place = Place::File { _folder: folder };
        Self::on(Arc::new(store), place).await
    }

    /// A house on a database.
    pub(crate) async fn postgres() -> Self {
        let database = Database::new().unwrap();
        let options = PostgresOptions::new(database.config(), SystemClock.now());
        let store = PostgresStore::open(&options).await.unwrap();
        Self::on(Arc::new(store), Place::Database(database)).await
    }

    /// A house with the playbook `two`.
    async fn on(store: Arc<dyn Store>, place: Place) -> Self {
        let house = Self { store, place };
        house.register_for(&TenantId::default(), 1).await;
        house
    }

    /// Registers the playbook for a tenant.
    pub(crate) async fn register_for(&self, tenant_id: &TenantId, catalog_id: i64) {
        let text =
            format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: two }}\n{TWO}");
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
        self.store.register(entry).await.expect("registered");
    }

    /// One more server.
    pub(crate) async fn server(&self, settings: Settings) -> Runtime {
        let clock = Arc::new(SystemClock);
        let opened = Runtime::open(Arc::clone(&self.store), clock, settings);
        opened.await.expect("a runtime")
    }
}

/// Settings of a server that never looks for work by itself, so that what it finds it was told of.
pub(crate) fn told_only(nats: &Nats) -> Settings {
    Settings {
        nats: Some(settings_of(nats)),
        sweep: Millis::from_hours(1),
        public_url: Some("http://localhost:1".into()),
        ..Settings::default()
    }
}

/// Settings of a server that streams.
pub(crate) fn streaming(nats: &Nats) -> Settings {
    streaming_by(nats, StreamSettings::default())
}

pub(crate) fn streaming_by(nats: &Nats, stream: StreamSettings) -> Settings {
    Settings {
        nats: Some(NatsSettings {
            stream: Some(stream),
            ..settings_of(nats)
        }),
        ..Settings::default()
    }
}

pub(crate) fn settings_of(nats: &Nats) -> NatsSettings {
    NatsSettings {
        link: LinkSettings {
            url: nats.url().into(),
            name: "test".into(),
            ..LinkSettings::default()
        },
        ..NatsSettings::default()
    }
}

/// A worker that answers every command, until it is dropped.
#[must_use]
pub(crate) struct Worker(tokio::task::JoinHandle<()>);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn work(runtime: &Runtime) -> Worker {
    let runtime = runtime.clone();
    Worker(tokio::spawn(async move {
        while let Ok(leased) = runtime.lease(lease(1_000)).await {
            if leased.commands.is_empty() {
                // A server that is closed answers at once, and then nothing else here waits.
                tokio::task::yield_now().await;
                continue;
            }
            let request = ReportRequest {
                worker_id: WorkerId::new("w").unwrap(),
                reports: leased.commands.iter().map(done).collect(),
                lease: None,
            };
            drop(runtime.report(request).await);
        }
    }))
}

/// Starts a run.
pub(crate) async fn start(runtime: &Runtime) -> ExecutionId {
    start_with(runtime, Json::Null).await
}

/// Starts a run with a payload of its own.
pub(crate) async fn start_with(runtime: &Runtime, filler: Json) -> ExecutionId {
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("two").unwrap()),
        payload: Some(Json::object([("filler", filler)])),
        ..ExecuteRequest::default()
    };
    runtime.execute(request).await.unwrap().execution_id
}

/// Starts runs and waits for the end of all of them.
pub(crate) async fn complete(runtime: &Runtime, count: usize) {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(start(runtime).await);
    }
    for run in runs {
        completed(runtime, run).await;
    }
}

pub(crate) async fn completed(runtime: &Runtime, run: ExecutionId) {
    let wait = async {
        // Another server may drive it to its end, of which nobody here is told.
        let now_and_then = Duration::from_millis(200);
        loop {
            let end = runtime.wait_for_end(run, now_and_then).await;
            if let Some(end) = end.expect("known") {
                return end;
            }
        }
    };
    let end = tokio::time::timeout(LONG, wait).await.expect("it ends");
    assert_eq!(end.status, ExecutionStatus::Completed, "{end:?}");
}

pub(crate) fn lease(wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: WorkerId::new("w").unwrap(),
        pool: PoolName::shared(),
        max: LeaseBatch::clamped(8),
        wait_ms,
        kinds: None,
        lease_ms: None,
    }
}

pub(crate) fn done(command: &LeasedCommand) -> CommandReport {
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

/// Waits until something is so, with much patience.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(LONG, wait).await;
    assert!(waited.is_ok(), "it never happened: {what}");
}
