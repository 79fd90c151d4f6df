//! A deployment of NoETL processes on one database, and an HTTP client for its servers.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::client::ClientSettings;
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::ExecutionStatusView;
use noetl_api::{ApiError, Client};
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::{ClusterRole, PostgresCluster, TestDatabase};
use noetl_types::{ExecutionId, ExecutionStatus, Json, PlaybookPath};

use crate::system::process::NoetlProcess;

/// Database that stores the log of a deployment.
pub(crate) enum StoreBackend {
    Sqlite,
    Postgres(TestDatabase),
}

/// Directory and database of a deployment. Starts its servers and workers.
pub(crate) struct TestDeployment {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) backend: StoreBackend,
    lease_secs: u32,
    /// URL of the broker that the log is streamed to.
    broker_url: Option<String>,
}

/// Shortest permitted lease, because tests wait for it to expire.
const SHORT_LEASE_SECS: u32 = 5;

/// Upper bound of any wait on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

impl TestDeployment {
    fn with_backend(backend: StoreBackend) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            backend,
            lease_secs: SHORT_LEASE_SECS,
            broker_url: None,
        }
    }

    pub(crate) fn on_sqlite() -> Self {
        Self::with_backend(StoreBackend::Sqlite)
    }

    pub(crate) fn on_postgres() -> Self {
        Self::with_backend(StoreBackend::Postgres(TestDatabase::new().expect("a database")))
    }

    /// Uses tables that are owned by a different role than the server's.
    pub(crate) fn on_postgres_with_roles() -> Self {
        let database = TestDatabase::with_roles();
        Self::with_backend(StoreBackend::Postgres(database.expect("a database")))
    }

    /// Sets a lease that does not expire even on a busy machine, for tests without lost workers.
    pub(crate) fn with_lease_secs(self, lease_secs: u32) -> Self {
        Self { lease_secs, ..self }
    }

    /// Streams the log to a broker, from the first event on.
    pub(crate) fn with_event_stream(self, nats: &NatsServer) -> Self {
        Self { broker_url: Some(nats.url().to_owned()), ..self }
    }

    /// Uses a PostgreSQL cluster that no other test uses, so that it can be killed.
    pub(crate) fn on_dedicated_postgres() -> Self {
        let cluster = PostgresCluster::start_private(&[], ClusterRole::Primary).expect("a cluster");
        Self::with_backend(StoreBackend::Postgres(
            TestDatabase::in_cluster(&cluster).expect("a database"),
        ))
    }

    /// Kills the PostgreSQL process. SQLite is killed together with the server.
    pub(crate) async fn kill_database(&self) {
        self.with_cluster(|cluster| cluster.kill_cluster().expect("killed")).await;
    }

    pub(crate) async fn start_database(&self) {
        self.with_cluster(|cluster| cluster.restart_after_kill().expect("started again")).await;
    }

    async fn with_cluster(&self, action: fn(PostgresCluster)) {
        match &self.backend {
            StoreBackend::Sqlite => {}
            StoreBackend::Postgres(database) => {
                let cluster = database.cluster().clone();
                let task = tokio::task::spawn_blocking(move || action(cluster));
                task.await.expect("the cluster task ends");
            }
        }
    }

    pub(crate) fn database_file(&self) -> PathBuf {
        self.dir.path().join("noetl.db")
    }

    pub(crate) fn noetl_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noetl"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("NOETL_DATA_DIR", self.dir.path())
            .env("NOETL_COMMAND_LEASE_SECS", self.lease_secs.to_string())
            .env("NOETL_DEV", "true")
            .env("NOETL_LOG", "warn");
        match &self.backend {
            StoreBackend::Sqlite => {
                let store = format!("sqlite:{}", self.database_file().display());
                command.env("NOETL_STORE", store);
            }
            StoreBackend::Postgres(database) if database.has_roles() => {
                let [owner, server] = database.role_configs();
                command.env("NOETL_DSN", server);
                command.env("NOETL_OWNER_DSN", owner);
            }
            StoreBackend::Postgres(database) => {
                command.env("NOETL_DSN", database.connection_config());
            }
        }
        if let Some(url) = &self.broker_url {
            command
                .env("NOETL_NATS_URL", url)
                .env("NOETL_UNSAFE_NATS", "true")
                .env("NOETL_EVENT_STREAM_ENABLED", "true")
                .env("NOETL_EVENT_STREAM_BACKFILL", "true");
        }
        command
    }

    /// Runs a command that must succeed and returns its standard output.
    pub(crate) fn run_command(&self, args: &[&str]) -> String {
        let output = self.noetl_command().args(args).output().expect("noetl starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).expect("a text")
    }

    pub(crate) fn start_server(&self) -> NoetlProcess {
        NoetlProcess::start_server(self.noetl_command().args(["server", "--port", "0"]))
    }

    /// Starts a server with additional settings.
    pub(crate) fn start_server_with_env(&self, settings: &[(&str, &str)]) -> NoetlProcess {
        let mut command = self.noetl_command();
        command.envs(settings.iter().copied());
        NoetlProcess::start_server(command.args(["server", "--port", "0"]))
    }

    /// Starts a server at the address of an earlier one, so that its workers and clients reconnect.
    pub(crate) fn restart_server_at(&self, url: &str) -> NoetlProcess {
        let (_, port) = url.rsplit_once(':').expect("an address with a port");
        let port = port.trim_end_matches('/');
        NoetlProcess::start_server(self.noetl_command().args(["server", "--port", port]))
    }

    pub(crate) fn start_worker(&self, server: &NoetlProcess, name: &str) -> NoetlProcess {
        self.start_worker_with_args(server, name, &[])
    }

    /// Starts a worker with additional command line arguments.
    pub(crate) fn start_worker_with_args(
        &self,
        server: &NoetlProcess,
        name: &str,
        args: &[&str],
    ) -> NoetlProcess {
        NoetlProcess::start_worker(self.worker_command(server, name).args(args))
    }

    pub(crate) fn worker_command(&self, server: &NoetlProcess, name: &str) -> Command {
        let url = server.url.as_deref().expect("a server");
        let mut command = self.noetl_command();
        // Programs of the test come first on the PATH, such as a fake container engine.
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(self.bin_dir()).chain(std::env::split_paths(&search_path));
        command
            .env("PATH", std::env::join_paths(dirs).expect("a path"))
            .env("WORKER_ID", name)
            .env("WORKER_HEARTBEAT_INTERVAL", "1")
            // Steps of tests write effects files to directories that the sandbox would hide.
            .env("NOETL_SANDBOX", "off")
            // Tools of tests connect to services on this machine.
            .env("NOETL_EGRESS_ALLOW", "*")
            .args(["worker", "--server", url]);
        command
    }

    /// First directory on the PATH of workers.
    pub(crate) fn bin_dir(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    /// File that steps append to. It records side effects independently of the log.
    pub(crate) fn effects_file(&self) -> PathBuf {
        self.dir.path().join("effects")
    }

    /// Lines of the effects file.
    pub(crate) fn effects_lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.effects_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// API client of one server.
pub(crate) struct TestClient(pub(crate) Client);

impl TestClient {
    pub(crate) fn connect(server: &NoetlProcess) -> Self {
        let url = server.url.as_deref().expect("a server");
        Self(Client::new(url, ClientSettings::default()).expect("a client"))
    }

    pub(crate) async fn register_playbook(&self, name: &str, body: &str) {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name} }}\n{body}"
        );
        let request = RegisterRequest { content, resource_type: None, dry_run: false };
        self.0.catalog_register(&request).await.expect("registered");
    }

    /// Starts a run. `Ok` means that the run is durable.
    pub(crate) async fn start(&self, name: &str, payload: Json) -> Result<ExecutionId, ApiError> {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new(name).unwrap()),
            payload: Some(payload),
            ..ExecuteRequest::default()
        };
        Ok(self.0.execute_playbook(&request).await?.execution_id)
    }

    /// Returns the status of a run. Retries while the server has lost its database.
    pub(crate) async fn run_status(&self, run: ExecutionId) -> ExecutionStatusView {
        let polling = async {
            loop {
                match self.0.get_execution_status(run).await {
                    Ok(status) => return status,
                    Err(error) if error.is_retryable() => {}
                    Err(error) => panic!("{run} was started: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(WAIT_TIMEOUT, polling).await;
        result.expect("the server responds")
    }

    /// Waits until the status of a run meets a condition.
    pub(crate) async fn wait_for_status(
        &self,
        run: ExecutionId,
        condition: impl Fn(&ExecutionStatusView) -> bool,
    ) {
        let polling = async {
            loop {
                if condition(&self.run_status(run).await) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(WAIT_TIMEOUT, polling).await;
        assert!(result.is_ok(), "timed out: {:?}", self.run_status(run).await);
    }

    pub(crate) async fn assert_completed(&self, runs: &[ExecutionId]) {
        for run in runs {
            self.wait_for_status(*run, |status| status.completed || status.failed).await;
            let status = self.run_status(*run).await;
            assert_eq!(status.status, ExecutionStatus::Completed, "{status:?}");
        }
    }
}

/// Waits until a condition outside of the server is met.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let result = tokio::time::timeout(WAIT_TIMEOUT, polling).await;
    assert!(result.is_ok(), "{what}: timed out");
}
