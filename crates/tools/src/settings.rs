//! What the operator decides about tools.
//!
//! Settings are plain values: whoever configures the worker reads files and the environment, and
//! hands the outcome in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use noetl_types::ByteSize;

use crate::egress::EgressPolicy;
use crate::walls::Sandbox;

/// What is kept of an output of a process at most, whatever the operator says.
pub const LARGEST_OUTPUT: ByteSize = ByteSize::from_mib(8);

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

/// Variables of the worker that tell the program that runs containers where its engine is.
const CONTAINER_ENGINE_VARIABLES: [&str; 7] = [
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
    "XDG_RUNTIME_DIR",
];

/// Where programs are looked for when the worker itself has no `PATH`.
const FALLBACK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How tools may use the machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Warm interpreters.
    pub python: PythonSettings,
    /// Connections to PostgreSQL servers.
    pub postgres: PostgresSettings,
    /// Where tools may connect to.
    pub egress: EgressPolicy,
    /// Limits of the processes that tools start.
    pub walls: Walls,
    /// The walls around user code that only the kernel can raise.
    pub sandbox: Sandbox,
    /// What is kept of each of a process's outputs; never more than [`LARGEST_OUTPUT`].
    pub output_cap: ByteSize,
    /// The largest body or result that a tool takes in.
    pub payload_cap: ByteSize,
    /// Where private folders are made; `None` is the system's folder for temporary files.
    pub scratch: Option<PathBuf>,
    /// Folders that scripts are read from, databases are opened in and containers get folders of;
    /// `None` is anywhere. What the sandbox hides is closed either way.
    pub file_roots: Option<Vec<PathBuf>>,
    /// The environment of processes, before the task's own `env`.
    pub environment: BTreeMap<String, String>,
    /// Containers.
    pub container: ContainerSettings,
    /// The addresses of MCP servers, by the names that playbooks use.
    pub mcp_servers: BTreeMap<String, String>,
    /// The NATS server of tasks that name none. It is the operator's own, so give it to nobody but
    /// the playbooks of the house.
    pub nats: Option<NatsSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            python: PythonSettings::default(),
            postgres: PostgresSettings::default(),
            egress: EgressPolicy::Anywhere,
            walls: Walls::default(),
            sandbox: Sandbox::default(),
            output_cap: ByteSize::from_mib(1),
            payload_cap: ByteSize::from_mib(64),
            scratch: None,
            file_roots: None,
            environment: BTreeMap::from([("PATH".to_owned(), FALLBACK_PATH.to_owned())]),
            container: ContainerSettings::default(),
            mcp_servers: BTreeMap::new(),
            nats: None,
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
        for (name, value) in variables {
            if allowed(&name) {
                self.environment.insert(name, value);
            } else if CONTAINER_ENGINE_VARIABLES.contains(&name.as_str()) {
                self.container.environment.insert(name, value);
            }
        }
        self
    }
}

/// A NATS server of the operator, and who tools are there. No task ever sees any of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// `nats://` or `tls://`; of several separated by commas the first.
    pub url: String,
    /// A user with a password.
    pub user: Option<(String, String)>,
    /// A token.
    pub token: Option<String>,
}

/// It may hold a password, so nothing of it is shown.
impl fmt::Debug for NatsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSettings").finish_non_exhaustive()
    }
}

/// Containers.
#[derive(Debug, Clone, Default)]
pub struct ContainerSettings {
    /// The program that runs them; `None` looks for `docker` and then `podman`.
    pub engine: Option<String>,
    /// What that program sees besides the environment of all processes, and no other.
    pub environment: BTreeMap<String, String>,
    /// Images that tasks may use; `None` is all. A star at the end stands for any rest.
    pub images: Option<Vec<String>>,
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

/// Connections to PostgreSQL servers.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// Connections at once to one database; further tasks wait. A task may ask for fewer.
    pub pool_size: usize,
    /// How long a connection waits for its next task before it is closed.
    pub idle: Duration,
    /// How long a server may take to answer, where the task says nothing else.
    pub connect_timeout: Duration,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            pool_size: 16,
            idle: Duration::from_mins(1),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// Limits of each process that a tool starts; `None` leaves the worker's own.
///
/// The limit of processes counts all of the user's, as the kernel does, so it is wide by default.
/// Memory is counted as addresses, of which some runtimes reserve far more than they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walls {
    /// Address space.
    pub memory: Option<ByteSize>,
    /// Seconds on a processor; `None` is what all processors together can give within the time of
    /// the call.
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
            file_size: Some(ByteSize::from_gib(4)),
        }
    }
}

impl Walls {
    /// Seconds on a processor for a call that has so much time.
    pub(crate) fn cpu_seconds_within(&self, timeout: Duration) -> u64 {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = u64::try_from(processors).unwrap_or(u64::MAX);
        // A call gets a little over its time, so that its timeout is what it fails with.
        let most = timeout
            .as_secs()
            .saturating_add(2)
            .saturating_mul(processors);
        self.cpu_seconds.unwrap_or(most)
    }
}
