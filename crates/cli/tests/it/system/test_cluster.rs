//! A cluster of running servers and workers, and the test cases that run on it.
//!
//! A case is written once and runs on both backends: one server with one worker on SQLite, and two
//! servers with three workers on PostgreSQL. The cases of a cluster run concurrently, like the runs
//! of many users, so each case has separate playbooks and effects files.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::{EventView, ExecutionStatusView};
use noetl_api::query::EventsQuery;
use noetl_testkit::postgres::TestDatabase;
use noetl_types::json::parse;
use noetl_types::limits::PageLimit;
use noetl_types::{EventName, EventType, ExecutionId, ExecutionStatus, Json, PlaybookPath};
use tokio::task::JoinSet;

use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::event_logs::assert_log_valid;
use crate::system::process::NoetlProcess;
use crate::system::raw_http::{FakeServices, JsonResponse, get_json, post_json};

/// Running servers and workers, with the services that tasks of test cases use.
pub(crate) struct TestCluster {
    pub(crate) deployment: TestDeployment,
    pub(crate) servers: Vec<NoetlProcess>,
    workers: Vec<NoetlProcess>,
    clients: Vec<TestClient>,
    request_count: AtomicUsize,
    /// PostgreSQL database for tasks of playbooks, independent of the backend of the servers.
    pub(crate) task_database: TestDatabase,
    pub(crate) services: FakeServices,
}

impl TestCluster {
    /// Starts one server and one worker on SQLite.
    pub(crate) async fn on_sqlite(lease_secs: u32) -> Arc<Self> {
        let deployment = TestDeployment::on_sqlite().with_lease_secs(lease_secs);
        Self::start_processes(deployment, 1, 1).await
    }

    /// Starts two servers and three workers on PostgreSQL.
    pub(crate) async fn on_postgres(lease_secs: u32) -> Arc<Self> {
        let deployment = TestDeployment::on_postgres().with_lease_secs(lease_secs);
        Self::start_processes(deployment, 2, 3).await
    }

    async fn start_processes(
        deployment: TestDeployment,
        servers: usize,
        workers: usize,
    ) -> Arc<Self> {
        std::fs::create_dir(deployment.bin_dir()).expect("a directory");
        let servers: Vec<NoetlProcess> = (0..servers).map(|_| deployment.start_server()).collect();
        let worker = |number: usize| {
            let name = format!("w{number}");
            deployment.start_worker(&servers[number % servers.len()], &name)
        };
        let workers = (0..workers).map(worker).collect();
        Arc::new(Self {
            clients: servers.iter().map(TestClient::connect).collect(),
            servers,
            workers,
            request_count: AtomicUsize::new(0),
            task_database: TestDatabase::new().expect("a database"),
            services: FakeServices::open().await,
            deployment,
        })
    }

    /// Returns the client of the next server, in turn.
    pub(crate) fn next_client(&self) -> &TestClient {
        let count = self.request_count.fetch_add(1, Ordering::Relaxed);
        &self.clients[count % self.clients.len()]
    }

    /// Path of a file of a case in the directory of the deployment.
    pub(crate) fn file_path(&self, name: &str) -> PathBuf {
        self.deployment.dir.path().join(name)
    }

    pub(crate) fn read_lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file_path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Registers a test playbook and returns its catalog path.
    pub(crate) async fn register_playbook(&self, name: &str) -> PlaybookPath {
        register_playbook_file(self.next_client(), name).await
    }

    /// Registers and starts a test playbook.
    pub(crate) async fn start(&self, name: &str, payload: &str) -> ExecutionId {
        let path = self.register_playbook(name).await;
        self.start_with_request(ExecuteRequest {
            path: Some(path),
            payload: Some(parse_json(payload)),
            ..ExecuteRequest::default()
        })
        .await
    }

    pub(crate) async fn start_with_request(&self, request: ExecuteRequest) -> ExecutionId {
        let started = self.next_client().0.execute_playbook(&request).await;
        started.expect("started").execution_id
    }

    pub(crate) async fn wait_for_end(&self, run: ExecutionId) -> ExecutionStatusView {
        let client = self.next_client();
        client
            .wait_for_status(run, |status| status.completed || status.failed || status.is_cancelled)
            .await;
        client.run_status(run).await
    }

    /// Waits until a run completes and returns its result.
    pub(crate) async fn wait_for_result(&self, run: ExecutionId) -> Json {
        let status = self.wait_for_end(run).await;
        assert_eq!(status.status, ExecutionStatus::Completed, "{status:?}");
        status.result.unwrap_or_default()
    }

    /// Runs a playbook that must fail and returns the error.
    pub(crate) async fn run_failing(&self, name: &str, payload: &str) -> (ExecutionId, String) {
        let run = self.start(name, payload).await;
        let status = self.wait_for_end(run).await;
        assert_eq!(status.status, ExecutionStatus::Failed, "{status:?}");
        (run, status.error.expect("a reason").to_string())
    }

    /// Returns the events of one type in the log of a run.
    pub(crate) async fn fetch_events(&self, run: ExecutionId, kind: EventType) -> Vec<EventView> {
        let query = EventsQuery {
            event_type: Some(EventName::from(kind)),
            limit: PageLimit::clamped(500),
            ..EventsQuery::default()
        };
        let page = self.next_client().0.list_events(run, &query).await;
        page.expect("events").events
    }

    /// Waits until a command is issued for a step that waits for an external event.
    pub(crate) async fn wait_until_issued(&self, run: ExecutionId, step: &str) {
        let polling = async {
            loop {
                let issued = self.fetch_events(run, EventType::CommandIssued).await;
                if issued.iter().any(|event| event.node_name.as_deref() == Some(step)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(Duration::from_mins(1), polling).await;
        assert!(result.is_ok(), "{step} is never reached");
    }

    pub(crate) async fn post_json(&self, path: &str, body: &str) -> JsonResponse {
        post_json(self.next_client().0.base_url(), path, &parse_json(body)).await
    }

    pub(crate) async fn get_json(&self, path: &str) -> JsonResponse {
        get_json(self.next_client().0.base_url(), path).await
    }

    /// Sends a signal to a run. Returns true if a step was waiting for it.
    pub(crate) async fn send_signal(&self, run: ExecutionId, body: &str) -> bool {
        let response = self.post_json(&format!("/api/executions/{run}/signal"), body).await;
        let delivered = response.expect_ok().get("delivered").and_then(Json::as_bool);
        delivered.expect("a delivered flag")
    }

    pub(crate) async fn send_decision(&self, run: ExecutionId, body: &str) -> JsonResponse {
        self.post_json(&format!("/api/executions/{run}/approve"), body).await
    }

    /// Ends all processes and verifies the logs of these runs.
    pub(crate) async fn close_and_verify(self: Arc<Self>, runs: &[ExecutionId]) {
        let Self { deployment, servers, workers, task_database, .. } =
            Arc::into_inner(self).expect("no case runs any more");
        drop((workers, servers));
        for run in runs {
            assert_log_valid(&deployment, *run).await;
        }
        drop(task_database);
    }
}

/// Directory of the test playbooks.
pub(crate) const PLAYBOOK_DIR: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/system/playbooks");

/// Registers a test playbook. Its catalog path is its name in that directory.
pub(crate) async fn register_playbook_file(client: &TestClient, name: &str) -> PlaybookPath {
    let content = std::fs::read_to_string(format!("{PLAYBOOK_DIR}/{name}.yaml"));
    let request = RegisterRequest {
        content: content.unwrap_or_else(|error| panic!("{name}: {error}")),
        resource_type: None,
        dry_run: false,
    };
    let registered = client.0.catalog_register(&request).await;
    registered.unwrap_or_else(|error| panic!("{name}: {error}"));
    PlaybookPath::new(name).expect("a path")
}

pub(crate) fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Formats a text as a JSON string.
pub(crate) fn to_json_string(text: impl std::fmt::Display) -> String {
    Json::from(text.to_string()).to_string()
}

/// Runs that a case started and that have ended.
pub(crate) type EndedRuns = Vec<ExecutionId>;

/// Cases that run concurrently on one cluster. Each returns the runs whose logs are verified.
pub(crate) struct ConcurrentCases {
    cluster: Arc<TestCluster>,
    running: JoinSet<(&'static str, EndedRuns)>,
    names: std::collections::BTreeMap<tokio::task::Id, &'static str>,
}

impl ConcurrentCases {
    pub(crate) fn new(cluster: Arc<TestCluster>) -> Self {
        Self { cluster, running: JoinSet::new(), names: std::collections::BTreeMap::new() }
    }

    pub(crate) fn spawn_case<F>(&mut self, name: &'static str, case: fn(Arc<TestCluster>) -> F)
    where
        F: Future<Output = EndedRuns> + Send + 'static,
    {
        let case = case(Arc::clone(&self.cluster));
        let handle = self.running.spawn(async move { (name, case.await) });
        self.names.insert(handle.id(), name);
    }

    /// Waits for all cases, reports the failed ones, and verifies the logs.
    pub(crate) async fn assert_all_pass(mut self) {
        let mut runs = Vec::new();
        let mut failed = Vec::new();
        while let Some(result) = self.running.join_next().await {
            match result {
                Ok((_, case_runs)) => runs.extend(case_runs),
                Err(error) => failed.push(self.names[&error.id()]),
            }
        }
        assert!(failed.is_empty(), "these cases failed: {failed:?}");
        self.cluster.close_and_verify(&runs).await;
    }
}

/// Waits until a file of the cluster has at least `lines` lines.
pub(crate) async fn wait_for_lines(cluster: &TestCluster, file: &str, lines: usize) {
    wait_until(file, || cluster.read_lines(file).len() >= lines).await;
}
