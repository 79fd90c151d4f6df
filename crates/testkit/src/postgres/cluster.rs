//! The cluster: found or started, shared or one's own, and left to its supervisor.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::kill;
use crate::leash::Leash;

const SUPERVISE: &str = include_str!("supervise.sh");

/// A running cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    folder: PathBuf,
    programs: PathBuf,
    keeper: Keeper,
}

/// Whose a cluster is, and what ends it.
#[derive(Debug, Clone)]
enum Keeper {
    /// It is shared by the processes of a test run, and ends with their runner.
    Run,
    /// It is shared by the tests of this process, and ends with it.
    Process(#[expect(dead_code, reason = "it is dropped")] Arc<Leash>),
    /// It is whoever's holds it, and ends with the last who does.
    Holder(#[expect(dead_code, reason = "it is dropped")] Arc<Leash>),
}

/// What a cluster is among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It can be written to.
    Primary,
    /// It is in recovery for ever.
    Standby,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum PostgresMissing {
    /// The programs are not there.
    #[error(
        "PostgreSQL is not installed: neither on the PATH nor below /usr/lib/postgresql; \
         install it with `apt-get install postgresql`"
    )]
    NotInstalled,
    /// The cluster did not start.
    #[error("the cluster in {folder} did not start:\n{log}")]
    NotStarted {
        /// Where it was to be.
        folder: PathBuf,
        /// What its programs said.
        log: String,
    },
    /// A file or a program could not be used.
    #[error("the cluster cannot be set up")]
    Io(#[from] io::Error),
}

impl Cluster {
    /// The cluster of this test run, or else of this process; the first that asks starts it.
    ///
    /// A runner that gives each test a process of its own names its run, and all of them share one
    /// cluster, which lives as long as the runner.
    pub fn shared() -> Result<Self, PostgresMissing> {
        match std::env::var_os("NEXTEST_RUN_ID") {
            Some(run) => Self::of_run(&run.to_string_lossy()),
            None => Self::of_process(),
        }
    }

    fn of_run(run: &str) -> Result<Self, PostgresMissing> {
        let programs = programs().ok_or(PostgresMissing::NotInstalled)?;
        // A socket's path is short, and so is what tells two runs of one moment apart.
        let run: String = run.chars().filter(char::is_ascii_alphanumeric).collect();
        let run = run.get(..20).unwrap_or(&run);
        let folder = std::env::temp_dir().join(format!("noetl-pg-{run}"));
        // One process at a time looks and starts; the lock goes with the file.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.with_extension("lock"))?;
        lock.lock()?;
        let cluster = Self {
            folder,
            programs,
            keeper: Keeper::Run,
        };
        if !cluster.folder.join("ready").exists() {
            let runner = std::os::unix::process::parent_id().to_string();
            // The supervisor outlives this process, so it must hold none of its streams.
            Command::new("setsid")
                .args(["sh", "-c", SUPERVISE, "supervise"])
                .args(cluster.arguments(&runner, &[], Role::Primary))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            cluster.wait()?;
        }
        std::fs::remove_file(cluster.folder.with_extension("lock")).ok();
        Ok(cluster)
    }

    fn of_process() -> Result<Self, PostgresMissing> {
        static OWN: Mutex<Option<Cluster>> = Mutex::new(None);
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = &*own {
            return Ok(cluster.clone());
        }
        let cluster = Self::leashed(&[], Role::Primary, Keeper::Process)?;
        *own = Some(cluster.clone());
        Ok(cluster)
    }

    /// A cluster with settings such as `fsync=off`, for whoever holds it: it goes away with the
    /// last clone of the value, and with the process however that ends.
    pub fn own(settings: &[&str], role: Role) -> Result<Self, PostgresMissing> {
        Self::leashed(settings, role, Keeper::Holder)
    }

    fn leashed(
        settings: &[&str],
        role: Role,
        keeper: fn(Arc<Leash>) -> Keeper,
    ) -> Result<Self, PostgresMissing> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let programs = programs().ok_or(PostgresMissing::NotInstalled)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("noetl-pg-own-{}-{count}", std::process::id());
        let mut cluster = Self {
            folder: std::env::temp_dir().join(name),
            programs,
            keeper: Keeper::Run,
        };
        let arguments = cluster.arguments("", settings, role);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        cluster.keeper = keeper(Arc::new(Leash::run(SUPERVISE, &arguments)?));
        cluster.wait()?;
        Ok(cluster)
    }

    /// What the supervisor is told.
    fn arguments(&self, watched: &str, settings: &[&str], role: Role) -> [String; 6] {
        let settings: String = settings.iter().map(|it| format!(" -c {it}")).collect();
        let role = match role {
            Role::Primary => "primary",
            Role::Standby => "standby",
        };
        [
            self.folder.display().to_string(),
            self.programs.display().to_string(),
            watched.to_owned(),
            unprivileged_user().to_owned(),
            settings,
            role.to_owned(),
        ]
    }

    /// The folder that the socket of the cluster is in.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// What a client connects to a database with, as `key=value` pairs.
    pub fn config(&self, database: &str) -> String {
        self.config_as("postgres", database)
    }

    /// The same as somebody else than its superuser.
    pub(super) fn config_as(&self, user: &str, database: &str) -> String {
        let folder = self.folder.display();
        format!("host={folder} user={user} dbname={database}")
    }

    /// Kills every process of the cluster at once, as a power cut of the program would: none gets to
    /// write what it has in memory. The operating system lives on, and with it what was written to a
    /// file, be it on the disk or not.
    ///
    /// A cluster that others use too is not killed.
    pub fn kill(&self) -> io::Result<()> {
        match self.keeper {
            Keeper::Run | Keeper::Process(_) => Err(io::Error::other("others use the cluster")),
            Keeper::Holder(_) => kill::kill_all(&self.data()),
        }
    }

    /// Starts the cluster again after a kill, on the same files and with the same settings; comes
    /// back when it answers.
    pub fn start_again(&self) -> Result<(), PostgresMissing> {
        let mut said = String::new();
        for _ in 0..120 {
            // The settings are those of the last start, which the server has written down. A start
            // may fail because the process that was killed is still to be seen.
            let output = self
                .as_unprivileged_user("pg_ctl")
                .arg("-D")
                .arg(self.data())
                .arg("-l")
                .arg(self.folder.join("server.log"))
                .args(["-w", "-t", "60", "restart"])
                .current_dir("/")
                .stdin(Stdio::null())
                .output()?;
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            match self.psql("postgres", "SELECT 1") {
                Ok(()) => return Ok(()),
                Err(error) => said.push_str(&error.to_string()),
            }
            pause();
        }
        let log = std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        Err(PostgresMissing::NotStarted {
            folder: self.folder.clone(),
            log: format!("{said}\n{log}"),
        })
    }

    fn data(&self) -> PathBuf {
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

    fn wait(&self) -> Result<(), PostgresMissing> {
        for _ in 0..1200 {
            if self.folder.join("ready").exists() {
                return Ok(());
            }
            if self.folder.join("failed").exists() {
                break;
            }
            pause();
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        Err(PostgresMissing::NotStarted {
            folder: self.folder.clone(),
            log,
        })
    }

    /// Runs statements on a database, each in a transaction of its own.
    pub(super) fn psql(&self, database: &str, statement: &str) -> io::Result<()> {
        let output = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.folder)
            .args(["-d", database, "-c", statement])
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}

/// Waits a little for what another process does: there is nothing to be woken by.
pub(super) fn pause() {
    std::thread::park_timeout(Duration::from_millis(50));
}

/// PostgreSQL refuses to run as root.
fn unprivileged_user() -> &'static str {
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0);
    if !is_root {
        return "";
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let has_own_user = users.lines().any(|line| line.starts_with("postgres:"));
    if has_own_user { "postgres" } else { "nobody" }
}

/// The folder with `initdb`, `pg_ctl`, `postgres` and `psql`: of the newest version installed.
fn programs() -> Option<PathBuf> {
    let is_complete = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres", "psql"]
            .iter()
            .all(|program| folder.join(program).exists())
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
