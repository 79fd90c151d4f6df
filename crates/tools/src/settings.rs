//! Tool settings that the operator chooses.
//!
//! Settings are plain values. The caller that configures the worker reads files and the environment
//! and passes the result in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use noetl_types::ByteSize;

use crate::egress::EgressPolicy;
use crate::sandbox::SandboxSettings;

/// Upper bound on the captured output of a process, regardless of the operator's setting.
pub const MAX_OUTPUT_SIZE: ByteSize = ByteSize::from_mib(8);

/// Environment variables of the worker that are passed to tools. All others stay private.
pub const ENVIRONMENT_ALLOW_LIST: [&str; 13] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "VIRTUAL_ENV", "PYENV_ROOT", "PYENV_VERSION",
];

/// Environment variables of the worker that locate the container engine for its client.
const CONTAINER_ENGINE_VARIABLES: [&str; 7] = [
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST", "XDG_RUNTIME_DIR",
];

/// Search path for programs if the worker itself has no `PATH`.
const FALLBACK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Python interpreter without a virtual environment.
const DEFAULT_INTERPRETER: &str = "python3";

#[derive(Debug, Clone)]
pub struct Settings {
    pub python: PythonSettings,
    pub postgres: PostgresSettings,
    pub egress: EgressPolicy,
    /// Limits of the processes that tools start.
    pub process_limits: ProcessLimits,
    /// Kernel-enforced sandbox around user code.
    pub sandbox: SandboxSettings,
    /// Captured bytes per process output, at most [`MAX_OUTPUT_SIZE`].
    pub output_cap: ByteSize,
    /// Maximum size of a body or result that a tool accepts.
    pub payload_cap: ByteSize,
    /// Parent of private directories; `None` selects the system's directory for temporary files.
    pub scratch: Option<PathBuf>,
    /// Directories from which scripts are read, in which databases are opened and from which
    /// containers mount; `None` allows any. Paths that the sandbox hides are denied in both cases.
    pub file_roots: Option<Vec<PathBuf>>,
    /// Environment of processes, before the task's own `env`.
    pub environment: BTreeMap<String, String>,
    pub container: ContainerSettings,
    /// Addresses of MCP servers, by the names that playbooks use.
    pub mcp_servers: BTreeMap<String, String>,
    /// NATS server for tasks that do not specify one. It is the operator's own server, so set it
    /// only for toolboxes that run the platform's own playbooks.
    pub nats: Option<NatsSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            python: PythonSettings::default(),
            postgres: PostgresSettings::default(),
            egress: EgressPolicy::Anywhere,
            process_limits: ProcessLimits::default(),
            sandbox: SandboxSettings::default(),
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
    /// Adds the environment variables of the worker that tools may see: the allow-list, the locale
    /// variables, and the names that the operator adds.
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
        extra_names: &[String],
    ) -> Self {
        let allowed = |name: &String| {
            ENVIRONMENT_ALLOW_LIST.contains(&name.as_str())
                || name.starts_with("LC_")
                || extra_names.contains(name)
        };
        for (name, value) in variables {
            if allowed(&name) {
                self.environment.insert(name, value);
            } else if CONTAINER_ENGINE_VARIABLES.contains(&name.as_str()) {
                self.container.environment.insert(name, value);
            }
        }
        if let Some(environment) = self.environment.get("VIRTUAL_ENV")
            && self.python.interpreter == DEFAULT_INTERPRETER
        {
            self.python.interpreter = format!("{environment}/bin/python");
        }
        self
    }
}

/// The operator's NATS server and the identity that tools use there. Tasks have no access to these
/// values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// `nats://` or `tls://`. If it is a comma-separated list, the first entry is used.
    pub url: String,
    pub user: Option<(String, String)>,
    pub token: Option<String>,
}

/// Prints no fields, since the value may contain a password.
impl fmt::Debug for NatsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSettings").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Default)]
pub struct ContainerSettings {
    /// Program that runs them; `None` looks for `docker` and then `podman`.
    pub engine: Option<String>,
    /// Variables that this program gets in addition to the environment of all processes. No other
    /// process gets them.
    pub environment: BTreeMap<String, String>,
    /// Images that tasks may use; `None` allows all. A trailing `*` matches any suffix.
    pub images: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
pub struct PythonSettings {
    /// Interpreter for tasks that do not specify one.
    pub interpreter: String,
    /// Maximum number of calls at the same time. Further calls wait.
    pub pool_size: usize,
    /// Time without calls after which a warm interpreter is ended.
    pub idle: Duration,
}

impl Default for PythonSettings {
    fn default() -> Self {
        Self {
            interpreter: DEFAULT_INTERPRETER.to_owned(),
            pool_size: 16,
            idle: Duration::from_mins(1),
        }
    }
}

#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// Maximum number of connections to one database. Further tasks wait. A task may request fewer.
    pub pool_size: usize,
    /// Idle time after which a connection is closed.
    pub idle: Duration,
    /// Connect timeout, unless the task sets one.
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

/// Limits of each process that a tool starts; `None` keeps the worker's own limit.
///
/// The kernel counts all processes of the user against the process limit, so it is high by default.
/// Memory is counted as address space, of which some runtimes reserve far more than they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    pub memory: Option<ByteSize>,
    /// CPU seconds; `None` allows what all processors together can provide within the timeout of
    /// the call.
    pub cpu_seconds: Option<u64>,
    /// Maximum number of processes and threads of the user.
    pub processes: Option<u64>,
    pub open_files: Option<u64>,
    pub file_size: Option<ByteSize>,
}

impl Default for ProcessLimits {
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

impl ProcessLimits {
    /// CPU seconds for a call with this timeout.
    pub(crate) fn cpu_seconds_for(&self, timeout: Duration) -> u64 {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = u64::try_from(processors).unwrap_or(u64::MAX);
        // The limit is slightly above the timeout, so that a call fails with the timeout.
        let max_seconds = timeout.as_secs().saturating_add(2).saturating_mul(processors);
        self.cpu_seconds.unwrap_or(max_seconds)
    }
}
