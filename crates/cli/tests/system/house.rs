//! A house of processes on one database.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::client::ClientSettings;
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::StatusView;
use noetl_api::{ApiError, Client};
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::{Cluster, Database, Role};
use noetl_types::{ExecutionId, ExecutionStatus, Json, PlaybookPath};

use crate::process::Noetl;

/// Where a house keeps its log.
pub(crate) enum Ground {
    Sqlite,
    Postgres(Database),
}

/// A folder, a database, and what was started on it.
pub(crate) struct House {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ground: Ground,
    lease_secs: u32,
    /// Where the log is streamed to, if it is.
    broker: Option<String>,
}

/// The shortest lease that is allowed: tests wait for it to run out.
const SHORT_LEASE: u32 = 5;

/// How long anything that ends at all may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

impl House {
    fn on(ground: Ground) -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            ground,
            lease_secs: SHORT_LEASE,
            broker: None,
        }
    }

    pub(crate) fn on_sqlite() -> Self {
        Self::on(Ground::Sqlite)
    }

    pub(crate) fn on_postgres() -> Self {
        Self::on(Ground::Postgres(Database::new().expect("a database")))
    }

    /// On tables that another role than the server's owns.
    pub(crate) fn on_two_roles() -> Self {
        let database = Database::with_roles();
        Self::on(Ground::Postgres(database.expect("a database")))
    }

    /// The same for tests in which nobody is to be lost, however busy the machine is.
    pub(crate) fn with_leases_of(self, lease_secs: u32) -> Self {
        Self { lease_secs, ..self }
    }

    /// Servers stream the log, from its first event, to a broker.
    pub(crate) fn streaming_to(self, nats: &Nats) -> Self {
        Self {
            broker: Some(nats.url().to_owned()),
            ..self
        }
    }

    /// On a PostgreSQL that nobody else uses, so that it can be killed.
    pub(crate) fn on_its_own_postgres() -> Self {
        let cluster = Cluster::own(&[], Role::Primary).expect("a cluster");
        Self::on(Ground::Postgres(
            Database::of(&cluster).expect("a database"),
        ))
    }

    /// Kills the database, where it is a program; SQLite is killed with the server.
    pub(crate) async fn kill_database(&self) {
        self.with_cluster(|cluster| cluster.kill().expect("killed"))
            .await;
    }

    pub(crate) async fn start_database(&self) {
        self.with_cluster(|cluster| cluster.start_again().expect("started again"))
            .await;
    }

    async fn with_cluster(&self, act: fn(Cluster)) {
        match &self.ground {
            Ground::Sqlite => {}
            Ground::Postgres(database) => {
                let cluster = database.cluster().clone();
                let acting = tokio::task::spawn_blocking(move || act(cluster));
                acting.await.expect("the cluster does as it is told");
            }
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("noetl.db")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noetl"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("NOETL_DATA_DIR", self.folder.path())
            .env("NOETL_COMMAND_LEASE_SECS", self.lease_secs.to_string())
            .env("NOETL_DEV", "true")
            .env("NOETL_LOG", "warn");
        match &self.ground {
            Ground::Sqlite => {
                let store = format!("sqlite:{}", self.file().display());
                command.env("NOETL_STORE", store);
            }
            Ground::Postgres(database) if database.has_roles() => {
                let [owner, server] = database.configs_of_roles();
                command.env("NOETL_DSN", server);
                command.env("NOETL_OWNER_DSN", owner);
            }
            Ground::Postgres(database) => {
                command.env("NOETL_DSN", database.config());
            }
        }
        if let Some(url) = &self.broker {
            command
                .env("NOETL_NATS_URL", url)
                .env("NOETL_EVENT_STREAM_ENABLED", "true")
                .env("NOETL_EVENT_STREAM_BACKFILL", "true");
        }
        command
    }

    /// What a command says that people give.
    pub(crate) fn says(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().expect("noetl starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {complaint}");
        String::from_utf8(output.stdout).expect("a text")
    }

    pub(crate) fn server(&self) -> Noetl {
        Noetl::serving(self.command().args(["server", "--port", "0"]))
    }

    /// A server with more settings.
    pub(crate) fn server_with(&self, settings: &[(&str, &str)]) -> Noetl {
        let mut command = self.command();
        command.envs(settings.iter().copied());
        Noetl::serving(command.args(["server", "--port", "0"]))
    }

    /// Starts a server again where one was: whoever knew the old one finds it.
    pub(crate) fn server_at(&self, url: &str) -> Noetl {
        let (_, port) = url.rsplit_once(':').expect("an address with a port");
        let port = port.trim_end_matches('/');
        Noetl::serving(self.command().args(["server", "--port", port]))
    }

    pub(crate) fn worker(&self, server: &Noetl, name: &str) -> Noetl {
        self.worker_of_pool(server, name, &[])
    }

    /// A worker with more settings on its command line.
    pub(crate) fn worker_of_pool(&self, server: &Noetl, name: &str, more: &[&str]) -> Noetl {
        Noetl::working(self.worker_command(server, name).args(more))
    }

    /// How a worker is started.
    pub(crate) fn worker_command(&self, server: &Noetl, name: &str) -> Command {
        let url = server.url.as_deref().expect("a server");
        let mut command = self.command();
        // Programs of the test's own come first, such as an engine of containers that is played.
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.programs()).chain(std::env::split_paths(&usual));
        command
            .env("PATH", std::env::join_paths(folders).expect("a path"))
            .env("WORKER_ID", name)
            .env("WORKER_HEARTBEAT_INTERVAL", "1")
            // Steps of tests leave witnesses in folders that the walls would cover.
            .env("NOETL_SANDBOX", "off")
            // What tools talk to in tests is on this machine.
            .env("NOETL_EGRESS_ALLOW", "*")
            .args(["worker", "--server", url]);
        command
    }

    /// Where workers look for programs first.
    pub(crate) fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// A file that steps write to: what really happened, whatever the log says.
    pub(crate) fn witness(&self) -> PathBuf {
        self.folder.path().join("witness")
    }

    /// The lines of that file.
    pub(crate) fn witnessed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.witness()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A caller of a server.
pub(crate) struct Caller(pub(crate) Client);

impl Caller {
    pub(crate) fn of(server: &Noetl) -> Self {
        let url = server.url.as_deref().expect("a server");
        Self(Client::new(url, ClientSettings::default()).expect("a client"))
    }

    pub(crate) async fn register(&self, name: &str, body: &str) {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name} }}\n{body}"
        );
        let request = RegisterRequest {
            content,
            resource_type: None,
            dry_run: false,
        };
        self.0.catalog_register(&request).await.expect("registered");
    }

    /// Starts a run; an answer means that it is there for good.
    pub(crate) async fn start(&self, name: &str, payload: Json) -> Result<ExecutionId, ApiError> {
        let request = ExecuteRequest {
            path: Some(PlaybookPath::new(name).unwrap()),
            payload: Some(payload),
            ..ExecuteRequest::default()
        };
        Ok(self.0.execute(&request).await?.execution_id)
    }

    /// Where a run is. A server that has lost its database says so, and to ask later.
    pub(crate) async fn status(&self, run: ExecutionId) -> StatusView {
        let asking = async {
            loop {
                match self.0.status(run).await {
                    Ok(status) => return status,
                    Err(error) if error.is_retryable() => {}
                    Err(error) => panic!("{run} was started: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let told = tokio::time::timeout(PATIENCE, asking).await;
        told.expect("the server answers in the end")
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, run: ExecutionId, is_so: impl Fn(&StatusView) -> bool) {
        let looking = async {
            loop {
                if is_so(&self.status(run).await) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        assert!(
            found.is_ok(),
            "it never came to be: {:?}",
            self.status(run).await
        );
    }

    pub(crate) async fn completed(&self, runs: &[ExecutionId]) {
        for run in runs {
            self.until(*run, |status| status.completed || status.failed)
                .await;
            let status = self.status(*run).await;
            assert_eq!(status.status, ExecutionStatus::Completed, "{status:?}");
        }
    }
}

/// Waits until something outside is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looking).await;
    assert!(found.is_ok(), "{what}: it never came to be");
}
