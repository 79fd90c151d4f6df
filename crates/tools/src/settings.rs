//! What the operator decides about tools.
//!
//! Settings are plain values: whoever configures the worker reads files and the environment, and
//! hands the outcome in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use noetl_types::ByteSize;

use crate::egress::EgressPolicy;

/// Variables of the worker that its tools may see; all others stay private.
pub const ENVIRONMENT_ALLOW_LIST: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "VIRTUAL_ENV",
    "PYENV_ROOT",
    "PYENV_VERSION",
];

/// Where programs are looked for when the worker itself has no `PATH`.
const FALLBACK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How tools may use the machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Warm interpreters.
    pub python: PythonSettings,
    /// Where tools may connect to.
    pub egress: EgressPolicy,
    /// Limits of the processes that tools start.
    pub walls: Walls,
    /// What is kept of each of a process's outputs.
    pub output_cap: ByteSize,
    /// The largest body or result that a tool takes in.
    pub payload_cap: ByteSize,
    /// Where private folders are made; `None` is the system's folder for temporary files.
    pub scratch: Option<PathBuf>,
    /// Folders that scripts may be read from; `None` is anywhere.
    pub file_roots: Option<Vec<PathBuf>>,
    /// The environment of processes, before the task's own `env`.
    pub environment: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            python: PythonSettings::default(),
            egress: EgressPolicy::Anywhere,
            walls: Walls::default(),
            output_cap: ByteSize::from_mib(1),
            payload_cap: ByteSize::from_mib(64),
            scratch: None,
            file_roots: None,
            environment: BTreeMap::from([("PATH".to_owned(), FALLBACK_PATH.to_owned())]),
        }
    }
}

impl Settings {
    /// The same settings with those variables of the worker that tools may see: the allow-list,
    /// the locale, and the names that the operator adds.
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
        more: &[String],
    ) -> Self {
        let allowed = |name: &String| {
            ENVIRONMENT_ALLOW_LIST.contains(&name.as_str())
                || name.starts_with("LC_")
                || more.contains(name)
        };
        let variables = variables.into_iter().filter(|(name, _)| allowed(name));
        self.environment.extend(variables);
        self
    }
}

/// Warm interpreters.
#[derive(Debug, Clone)]
pub struct PythonSettings {
    /// The interpreter of tasks that name none.
    pub interpreter: String,
    /// Interpreters at once, busy and idle together; further calls wait.
    pub pool_size: usize,
    /// Calls after which an interpreter is replaced.
    pub max_calls: u32,
    /// Resident memory after which an interpreter is replaced.
    pub max_memory: ByteSize,
    /// How long an interpreter waits for its next call before it ends.
    pub idle: Duration,
}

impl Default for PythonSettings {
    fn default() -> Self {
        Self {
            interpreter: "python3".to_owned(),
            pool_size: 16,
            max_calls: 10_000,
            max_memory: ByteSize::from_mib(512),
            idle: Duration::from_mins(1),
        }
    }
}

/// Limits of each process that a tool starts; `None` leaves the worker's own.
///
/// The limit of processes counts all of the user's, as the kernel does, so it is wide by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walls {
    /// Address space.
    pub memory: Option<ByteSize>,
    /// Seconds on a processor.
    pub cpu_seconds: Option<u64>,
    /// Processes and threads of the user.
    pub processes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// The largest file that is written.
    pub file_size: Option<ByteSize>,
}

impl Default for Walls {
    fn default() -> Self {
        Self {
            memory: Some(ByteSize::from_gib(32)),
            cpu_seconds: None,
            processes: Some(16_384),
            open_files: Some(4096),
            file_size: Some(ByteSize::from_gib(16)),
        }
    }
}
