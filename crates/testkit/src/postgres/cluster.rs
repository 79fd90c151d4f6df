//! PostgreSQL clusters: shared or private, each run by a supervisor process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::kill;
use crate::supervised_process::SupervisedProcess;

const SUPERVISE_SCRIPT: &str = include_str!("supervise.sh");

#[derive(Debug, Clone)]
pub struct PostgresCluster {
    folder: PathBuf,
    programs: PathBuf,
    owner: ClusterOwner,
}

/// Owner of a cluster. The cluster ends with its owner.
#[derive(Debug, Clone)]
enum ClusterOwner {
    /// The processes of a test run share it, and it ends with their runner.
    TestRun,
    /// The tests of this process share it, and it ends with the process.
    Process(#[expect(dead_code, reason = "it is dropped")] Arc<SupervisedProcess>),
    /// The holders of the value own it, and it ends with the last clone.
    Value(#[expect(dead_code, reason = "it is dropped")] Arc<SupervisedProcess>),
}

/// Replication role of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterRole {
    /// Accepts writes.
    Primary,
    /// Stays in recovery.
    Standby,
}

/// Reason for which no cluster is available.
#[derive(Debug, thiserror::Error)]
pub enum PostgresMissing {
    /// The programs are not installed.
    #[error(
        "PostgreSQL is not installed: neither on the PATH nor below /usr/lib/postgresql; \
         install it with `apt-get install postgresql`"
    )]
    NotInstalled,
    #[error("the cluster in {folder} did not start:\n{log}")]
    NotStarted {
        folder: PathBuf,
        /// Output of its programs.
        log: String,
    },
    /// A file or a program could not be used.
    #[error("the cluster cannot be set up")]
    Io(#[from] io::Error),
}

impl PostgresCluster {
    /// Returns the cluster of this test run, or of this process. The first caller starts it.
    ///
    /// A runner that starts a process per test names its run, and all of them share one cluster,
    /// which runs as long as the runner.
    pub fn shared() -> Result<Self, PostgresMissing> {
        match std::env::var_os("NEXTEST_RUN_ID") {
            Some(run) => Self::for_test_run(&run.to_string_lossy()),
            None => Self::for_process(),
        }
    }

    fn for_test_run(run: &str) -> Result<Self, PostgresMissing> {
        let programs = find_programs().ok_or(PostgresMissing::NotInstalled)?;
        // The path of a socket must be short. The first 20 characters distinguish concurrent runs.
        let run: String = run.chars().filter(char::is_ascii_alphanumeric).collect();
        let run = run.get(..20).unwrap_or(&run);
        let folder = std::env::temp_dir().join(format!("noetl-pg-{run}"));
        // One process at a time checks and starts. The lock is released with the file.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.with_extension("lock"))?;
        lock.lock()?;
        let cluster = Self { folder, programs, owner: ClusterOwner::TestRun };
        if !cluster.folder.join("ready").exists() {
            let runner = std::os::unix::process::parent_id().to_string();
            // The supervisor outlives this process, so it must not hold any of its streams.
            Command::new("setsid")
                .args(["sh", "-c", SUPERVISE_SCRIPT, "supervise"])
                .args(cluster.supervisor_arguments(&runner, &[], ClusterRole::Primary))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            cluster.wait_until_ready()?;
        }
        std::fs::remove_file(cluster.folder.with_extension("lock")).ok();
        Ok(cluster)
    }

    fn for_process() -> Result<Self, PostgresMissing> {
        static PROCESS_CLUSTER: Mutex<Option<PostgresCluster>> = Mutex::new(None);
        let mut shared = PROCESS_CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = &*shared {
            return Ok(cluster.clone());
        }
        let cluster = Self::start_supervised(&[], ClusterRole::Primary, ClusterOwner::Process)?;
        *shared = Some(cluster.clone());
        Ok(cluster)
    }

    /// Starts a private cluster with settings such as `fsync=off`. It is removed with the last
    /// clone of the value, and when the process ends in any way.
    pub fn start_private(settings: &[&str], role: ClusterRole) -> Result<Self, PostgresMissing> {
        Self::start_supervised(settings, role, ClusterOwner::Value)
    }

    fn start_supervised(
        settings: &[&str],
        role: ClusterRole,
        owner: fn(Arc<SupervisedProcess>) -> ClusterOwner,
    ) -> Result<Self, PostgresMissing> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let programs = find_programs().ok_or(PostgresMissing::NotInstalled)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("noetl-pg-own-{}-{count}", std::process::id());
        let mut cluster = Self {
            folder: std::env::temp_dir().join(name),
            programs,
            owner: ClusterOwner::TestRun,
        };
        let arguments = cluster.supervisor_arguments("", settings, role);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        cluster.owner = owner(Arc::new(SupervisedProcess::run(SUPERVISE_SCRIPT, &arguments)?));
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Returns the arguments of the supervisor script.
    fn supervisor_arguments(
        &self,
        watched_pid: &str,
        settings: &[&str],
        role: ClusterRole,
    ) -> [String; 6] {
        let settings: String = settings.iter().map(|setting| format!(" -c {setting}")).collect();
        let role = match role {
            ClusterRole::Primary => "primary",
            ClusterRole::Standby => "standby",
        };
        [
            self.folder.display().to_string(),
            self.programs.display().to_string(),
            watched_pid.to_owned(),
            unprivileged_user().to_owned(),
            settings,
            role.to_owned(),
        ]
    }

    /// Folder of the cluster's socket.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// Connection settings for a database, as `key=value` pairs.
    pub fn connection_config(&self, database: &str) -> String {
        self.connection_config_as("postgres", database)
    }

    /// Connection settings for a database as another user than the superuser.
    pub(super) fn connection_config_as(&self, user: &str, database: &str) -> String {
        let folder = self.folder.display();
        format!("host={folder} user={user} dbname={database}")
    }

    /// Kills every process of the cluster at once, as a crash of the program does: no process
    /// writes what it has in memory. The operating system keeps running, so data written to files
    /// is kept even if it is not on the disk yet.
    ///
    /// A shared cluster is not killed.
    pub fn kill_cluster(&self) -> io::Result<()> {
        match self.owner {
            ClusterOwner::TestRun | ClusterOwner::Process(_) => {
                Err(io::Error::other("the cluster is shared"))
            }
            ClusterOwner::Value(_) => kill::kill_all(&self.data_folder()),
        }
    }

    /// Starts the cluster again after a kill, with the same files and settings, and waits until it
    /// responds.
    pub fn restart_after_kill(&self) -> Result<(), PostgresMissing> {
        let mut output_text = String::new();
        for _ in 0..120 {
            // The server has stored the settings of its last start. A start may fail while the
            // killed process still exists.
            let output = self
                .as_unprivileged_user("pg_ctl")
                .arg("-D")
                .arg(self.data_folder())
                .arg("-l")
                .arg(self.folder.join("server.log"))
                .args(["-w", "-t", "60", "restart"])
                .current_dir("/")
                .stdin(Stdio::null())
                .output()?;
            output_text = String::from_utf8_lossy(&output.stderr).into_owned();
            match self.run_psql("postgres", "SELECT 1") {
                Ok(()) => return Ok(()),
                Err(error) => output_text.push_str(&error.to_string()),
            }
            poll_pause();
        }
        let log = std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        Err(PostgresMissing::NotStarted {
            folder: self.folder.clone(),
            log: format!("{output_text}\n{log}"),
        })
    }

    fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn as_unprivileged_user(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let user = unprivileged_user();
        if user.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", user, "--"]).arg(program);
        command
    }

    fn wait_until_ready(&self) -> Result<(), PostgresMissing> {
        for _ in 0..1200 {
            if self.folder.join("ready").exists() {
                return Ok(());
            }
            if self.folder.join("failed").exists() {
                break;
            }
            poll_pause();
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        Err(PostgresMissing::NotStarted { folder: self.folder.clone(), log })
    }

    /// Runs statements on a database, each in a separate transaction.
    pub(super) fn run_psql(&self, database: &str, statement: &str) -> io::Result<()> {
        let output = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.folder)
            .args(["-d", database, "-c", statement])
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// Waits briefly for another process. Its progress has to be polled.
pub(super) fn poll_pause() {
    std::thread::park_timeout(Duration::from_millis(50));
}

/// Returns the user to run as, since PostgreSQL refuses to run as root. Empty for the current user.
fn unprivileged_user() -> &'static str {
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    if !is_root {
        return "";
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let has_postgres_user = users.lines().any(|line| line.starts_with("postgres:"));
    if has_postgres_user { "postgres" } else { "nobody" }
}

/// Finds the folder with `initdb`, `pg_ctl`, `postgres` and `psql` of the newest installed version.
fn find_programs() -> Option<PathBuf> {
    let is_complete = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres", "psql"].iter().all(|program| folder.join(program).exists())
    };
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    let installed = versions.into_iter().rev().map(|(_, folder)| folder);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = std::env::split_paths(&path).collect();
    installed.chain(on_path).find(is_complete)
}
