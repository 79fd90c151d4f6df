//! The cluster: found or started, shared, and left to its supervisor.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const SUPERVISE: &str = include_str!("supervise.sh");

/// A running cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    folder: PathBuf,
    programs: PathBuf,
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
    /// The cluster of this test run; the first process that asks starts it.
    pub fn shared() -> Result<Self, PostgresMissing> {
        let programs = programs().ok_or(PostgresMissing::NotInstalled)?;
        let runner = std::os::unix::process::parent_id();
        let folder = std::env::temp_dir().join(format!("noetl-pg-{runner}-{}", birth(runner)?));
        // One process at a time looks and starts; the lock goes with the file.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.with_extension("lock"))?;
        lock.lock()?;
        let cluster = Self { folder, programs };
        if !cluster.folder.join("ready").exists() {
            cluster.start(runner)?;
        }
        std::fs::remove_file(cluster.folder.with_extension("lock")).ok();
        Ok(cluster)
    }

    /// The folder that the socket of the cluster is in.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    fn start(&self, runner: u32) -> Result<(), PostgresMissing> {
        // The supervisor outlives this process, so it must hold none of its streams.
        Command::new("setsid")
            .args(["sh", "-c", SUPERVISE, "supervise"])
            .arg(&self.folder)
            .arg(&self.programs)
            .arg(runner.to_string())
            .arg(unprivileged_user())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
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

/// Waits a little for a file that another process makes: there is nothing to be woken by.
fn pause() {
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

/// When a process was started: its number alone may be used again.
fn birth(process: u32) -> io::Result<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold anything; the start is the 20th field behind it.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let start = behind_name.split_whitespace().nth(19).unwrap_or_default();
    Ok(start.to_owned())
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
