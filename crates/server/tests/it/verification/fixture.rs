//! Databases with runs, and SQL that changes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::command::{
    CommandReport, LeaseRequest, LeasedCommand, NextLease, ReportRequest, ReportStatus,
};
use noetl_api::execute::ExecuteRequest;
use noetl_server::verification::{OutsideAnchor, Problem, ProblemKind, VerifyReport, VerifyScope};
use noetl_server::{CallContext, Clock as _, ControlPlane, Settings, SystemClock};
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{NewCatalogEntry, PostgresStore, SqliteStore, Store};
use noetl_testkit::postgres::TestDatabase;
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{
    CatalogId, ExecutionId, FeedPosition, Json, JsonMap, PlaybookPath, PoolName, TenantId,
    Timestamp, WorkerId, sha256,
};

/// Steps, a timer and a wait.
const PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: demo, path: demo }
executor: { spec: { timeout: 1h } }
workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: c}]}}
  - {step: c, tool: {kind: noop}, next: {arcs: [{step: held}]}}
  - {step: held, tool: {kind: wait, signal: go}, next: {arcs: [{step: last}]}}
  - {step: last, tool: {kind: noop}}
";

/// Commands of a run before it waits.
pub(crate) const COMMANDS_UNTIL_WAIT: usize = 3;

enum Backend {
    Sqlite { file: PathBuf, _folder: tempfile::TempDir },
    Postgres(TestDatabase),
}

/// A database, and a server on it.
pub(crate) struct TestStore {
    backend: Backend,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) files: tempfile::TempDir,
}

impl TestStore {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("noetl.db");
        let store = SqliteStore::open(&SqliteOptions::new(&file)).unwrap();
        let backend = Backend::Sqlite { file, _folder: folder };
        Self { backend, store: Arc::new(store), files: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn postgres() -> Self {
        let database = TestDatabase::new().unwrap();
        let options = PostgresOptions::new(database.connection_config(), SystemClock.now());
        let store = PostgresStore::open(&options).await.unwrap();
        let files = tempfile::tempdir().unwrap();
        Self { backend: Backend::Postgres(database), store: Arc::new(store), files }
    }

    /// Changes the database as an attacker does.
    pub(crate) fn attack(&self, sql: &str) {
        match &self.backend {
            Backend::Sqlite { .. } => self.sqlite_connection().execute_batch(sql).unwrap(),
            Backend::Postgres(database) => {
                database.run_statement(&format!("SET search_path TO noetl; {sql}")).unwrap();
            }
        }
    }

    /// Opens another connection to the database file.
    pub(crate) fn sqlite_connection(&self) -> rusqlite::Connection {
        let Backend::Sqlite { file, .. } = &self.backend else {
            panic!("the database is not a file");
        };
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.backend, Backend::Postgres(_))
    }

    /// Path of the anchor file.
    pub(crate) fn anchor_file(&self) -> PathBuf {
        self.files.path().join("anchors")
    }

    pub(crate) async fn open_server(&self) -> ControlPlane {
        let settings = Settings {
            snapshot_min_events: 5,
            anchor_file: Some(self.anchor_file()),
            ..Settings::default()
        };
        ControlPlane::open(Arc::clone(&self.store), Arc::new(SystemClock), settings).await.unwrap()
    }

    /// Waits until transactions of other tests in the same cluster no longer hold back the feed.
    pub(crate) async fn wait_for_feed(&self) {
        while self.store.feed_lag(FeedPosition::default()).await.unwrap().held_back_since.is_some()
        {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn register_playbook(&self) {
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(11).unwrap(),
            tenant_id: TenantId::default(),
            path: PlaybookPath::new("demo").unwrap(),
            kind: "playbook".into(),
            content: PLAYBOOK.into(),
            sha256: sha256(PLAYBOOK),
            meta: None,
            now: Timestamp::from_unix_ms(0).unwrap(),
        };
        self.store.register_definition(entry).await.unwrap();
    }

    /// Verifies the store as another process does, without caches.
    pub(crate) async fn verify(
        &self,
        scope: VerifyScope,
        outside: &OutsideAnchor,
    ) -> (VerifyReport, Vec<Problem>) {
        let clock = Arc::new(SystemClock);
        let services =
            ControlPlane::open_read_only(Arc::clone(&self.store), clock, Settings::default());
        let mut problems = Vec::new();
        let report = services.verification.verify_store(scope, outside, &mut problems);
        let report = report.await.unwrap();
        assert_eq!(report.counts.problems, problems.len() as u64);
        (report, problems)
    }

    pub(crate) async fn assert_intact(&self, outside: &OutsideAnchor) -> VerifyReport {
        let (report, problems) = self.verify(VerifyScope::All, outside).await;
        assert_eq!(problems, []);
        assert_eq!(report.counts.unfolded, 0);
        report
    }

    /// Checks that a verification of all finds exactly one problem.
    pub(crate) async fn assert_finds(
        &self,
        outside: &OutsideAnchor,
        kind: ProblemKind,
        text: &str,
    ) -> Problem {
        let (_, problems) = self.verify(VerifyScope::All, outside).await;
        let found = problems.iter().find(|it| it.kind == kind && it.message.contains(text));
        let Some(found) = found else {
            panic!("no problem {kind:?} with '{text}' in {problems:#?}");
        };
        found.clone()
    }
}

/// Starts a run.
pub(crate) async fn start_run(services: &ControlPlane) -> ExecutionId {
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("demo").unwrap()),
        labels: Some(Json::object([("team", Json::from("a"))])),
        ..ExecuteRequest::default()
    };
    let started = services.executions.start(CallContext::server(), request).await.unwrap();
    started.answer.execution_id
}

fn worker_id() -> WorkerId {
    WorkerId::new("w").unwrap()
}

/// Completes the given number of commands, one after the other. The first result is stored outside
/// of the log.
pub(crate) async fn complete_commands(services: &ControlPlane, count: usize) {
    let request = LeaseRequest {
        worker_id: worker_id(),
        pool: PoolName::shared(),
        max: LeaseBatchSize::clamped(1),
        wait_ms: 0,
        kinds: None,
        lease_ms: None,
    };
    let leased = services.leases.lease_commands(CallContext::server(), request).await;
    let mut commands = leased.unwrap().commands;
    for number in 0..count {
        let is_last = number + 1 == count;
        let text = if number == 0 { "x".repeat(100_000) } else { "x".to_owned() };
        let request = ReportRequest {
            worker_id: worker_id(),
            reports: vec![completed_report(&commands[0], &text)],
            lease: (!is_last).then(|| NextLease {
                pool: PoolName::shared(),
                max: LeaseBatchSize::clamped(1),
                wait_ms: 0,
                kinds: None,
                lease_ms: None,
            }),
            outputs: Vec::new(),
        };
        let reported = services.reports.process_reports(CallContext::server(), request).await;
        commands = reported.unwrap().commands;
    }
}

fn completed_report(command: &LeasedCommand, text: &str) -> CommandReport {
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::object([("text", Json::from(text))])),
        labels: None,
        onward: None,
        set: JsonMap::new(),
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

/// Starts runs that wait for a signal, and one whose second command is open.
pub(crate) async fn create_runs(services: &ControlPlane, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(start_run(services).await);
        complete_commands(services, COMMANDS_UNTIL_WAIT).await;
    }
    ids
}
