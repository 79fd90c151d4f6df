//! Worker and tools with the settings of the configuration.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use noetl_api::WorkerApi;
use noetl_tools::egress::{EgressPolicy, EgressRule};
use noetl_tools::sandbox::{SandboxMode, SandboxSettings, SandboxStatus};
use noetl_tools::{
    ContainerSettings, NatsSettings, ProcessLimits, Settings as ToolSettings, Toolbox,
};
use noetl_types::{ByteSize, Json, Millis, PoolName, Text, WorkerId};
use noetl_worker::{Worker, WorkerSettings};

use super::store::{SecretPathScope, secret_paths};
use crate::config::table::{
    COMMAND_LEASE_SECS, CONTAINER_IMAGES, EGRESS, FILE_ROOTS, INTERNAL_TOKEN, INTERNAL_URL,
    MAX_CONCURRENT_COMMANDS, MCP_SERVERS, NATS_PASSWORD, NATS_TOKEN, NATS_URL, NATS_URL_ALIAS,
    NATS_USER, RESULT_MAX, SANDBOX, SANDBOX_NETWORK, SANDBOX_WRITABLE, TASK_FILE_SIZE, TASK_MEMORY,
    TASK_PROCESSES, WORKER_HEARTBEAT_SECS, WORKER_ID,
};
use crate::config::{Config, ConfigError};
use crate::io::Env;

/// Pool that runs the platform's own playbooks.
const SYSTEM_POOL: &str = "system";

/// Bounds of the default memory limit of a task process.
const MIN_TASK_MEMORY: ByteSize = ByteSize::from_gib(4);
const MAX_TASK_MEMORY: ByteSize = ByteSize::from_gib(32);

/// Settings of a worker that is not started yet.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    settings: WorkerSettings,
}

impl WorkerPlan {
    /// Settings of a worker of a pool.
    pub(crate) fn new(config: &Config, pool: PoolName, env: &Env) -> Result<Self, ConfigError> {
        let hostname = env.get("HOSTNAME").map(Text::from);
        let worker_id = match config.get(&WORKER_ID)? {
            Some(worker_id) => worker_id,
            None => default_worker_id(hostname.as_deref())?,
        };
        let mut settings = WorkerSettings::new(worker_id, pool);
        settings.hostname = hostname;
        settings.max_concurrent = config.value(&MAX_CONCURRENT_COMMANDS)?;
        settings.max_result_size = config.value(&RESULT_MAX)?;
        settings.lease_duration = Millis::from_secs(config.value(&COMMAND_LEASE_SECS)?.into());
        settings.pool_heartbeat_interval =
            Millis::from_secs(config.value(&WORKER_HEARTBEAT_SECS)?.into());
        Ok(Self { settings })
    }

    /// Worker of a single local run. It stops without draining, since nothing is needed after the
    /// run ends.
    #[must_use]
    pub(crate) fn for_single_run(self) -> Self {
        self.with_drain_timeout(Millis::ZERO)
    }

    /// Sets the time for running commands to finish after a stop request.
    #[must_use]
    pub(crate) fn with_drain_timeout(mut self, timeout: Millis) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// Adds the settings for a server. A worker of the platform's own pool gets the internal token
    /// and the address of the internal API.
    pub(crate) fn for_server(mut self, config: &Config, url: &str) -> Result<Self, ConfigError> {
        if self.settings.pool.as_str() == SYSTEM_POOL
            && let Some(token) = config.get(&INTERNAL_TOKEN)?
        {
            let url = config.get(&INTERNAL_URL)?.unwrap_or_else(|| url.to_owned());
            let fields = [("token", token), ("url", url)];
            self.settings.secrets = noetl_worker::WorkerSecrets::single_secret("internal", fields);
        }
        Ok(self)
    }

    /// Reports inactive sandbox layers to the server.
    #[must_use]
    pub(crate) fn with_sandbox_status(mut self, status: &SandboxStatus) -> Self {
        self.settings.sandbox = Some(Json::object([
            ("mode", Json::from(status.mode.as_str())),
            ("missing", Json::list(status.describe_inactive().into_iter().map(Json::from))),
        ]));
        self
    }

    pub(crate) fn worker_id(&self) -> &WorkerId {
        &self.settings.worker_id
    }

    pub(crate) fn pool(&self) -> &PoolName {
        &self.settings.pool
    }

    /// Builds the worker.
    pub(crate) fn build_worker(self, api: Arc<dyn WorkerApi>, toolbox: Arc<Toolbox>) -> Worker {
        Worker::new(api, toolbox, self.settings)
    }
}

/// Unique name for a worker.
fn default_worker_id(hostname: Option<&str>) -> Result<WorkerId, ConfigError> {
    let host = hostname.unwrap_or("worker");
    let name = format!("{host}-{}-{}", std::process::id(), random_suffix());
    WorkerId::new(name).map_err(|error| ConfigError::InvalidValue {
        place: "HOSTNAME".to_owned(),
        value: hostname.map(str::to_owned),
        fault: error.to_string(),
    })
}

/// Eight random hexadecimal digits. The hash seed of the standard library is random.
pub(super) fn random_suffix() -> String {
    let number = RandomState::new().build_hasher().finish();
    format!("{:08x}", number & 0xffff_ffff)
}

/// Settings for the tools of the platform's own pool.
#[derive(Debug, Default)]
pub(crate) struct PlatformToolSettings {
    /// Addresses that are always allowed: the server and its internal API.
    allowed_egress: Vec<EgressRule>,
    /// NATS server of tasks that name none.
    nats: Option<NatsSettings>,
}

impl PlatformToolSettings {
    /// Settings for a worker of a pool. Empty for other pools than the platform's.
    pub(crate) fn from_config(
        config: &Config,
        pool: &PoolName,
        server: &str,
    ) -> Result<Self, ConfigError> {
        if pool.as_str() != SYSTEM_POOL {
            return Ok(Self::default());
        }
        let url = match config.get(&NATS_URL)? {
            Some(url) => Some(url),
            None => config.get(&NATS_URL_ALIAS)?,
        };
        let password = config.get(&NATS_PASSWORD)?.unwrap_or_default();
        let user = config.get(&NATS_USER)?.map(|user| (user, password));
        let token = config.get(&NATS_TOKEN)?;
        let mut allowed_egress = egress_rules_for(server);
        if let Some(internal) = config.get(&INTERNAL_URL)? {
            allowed_egress.extend(egress_rules_for(&internal));
        }
        Ok(Self { allowed_egress, nats: url.map(|url| NatsSettings { url, user, token }) })
    }
}

/// Egress rules for the host and port of a URL.
fn egress_rules_for(url: &str) -> Vec<EgressRule> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split('/').next().unwrap_or(rest);
    let port = if scheme == "https" { 443 } else { 80 };
    let last_part = authority.rsplit(':').next().unwrap_or_default();
    let host_and_port = if last_part.parse::<u16>().is_ok() {
        authority.to_owned()
    } else {
        format!("{authority}:{port}")
    };
    match EgressPolicy::parse(&host_and_port) {
        Ok(EgressPolicy::Public { allow }) => allow,
        Ok(EgressPolicy::Anywhere) | Err(_) => Vec::new(),
    }
}

/// Trust in the code that a worker runs. Determines the default limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeTrust {
    /// Code of the user who started the process, on their own machine.
    Trusted,
    /// Code of anyone who can register a playbook on a server.
    Untrusted,
}

impl CodeTrust {
    fn default_egress(self) -> EgressPolicy {
        match self {
            Self::Trusted => EgressPolicy::Anywhere,
            Self::Untrusted => EgressPolicy::Public { allow: Vec::new() },
        }
    }

    /// Memory limit per process. The limit counts address space, of which some programs reserve far
    /// more than they use. So trusted code has no machine-dependent limit, and untrusted code gets
    /// at least enough for an interpreter with libraries.
    fn default_memory(self) -> Option<ByteSize> {
        match self {
            Self::Trusted => None,
            Self::Untrusted => {
                machine_memory().map(|memory| memory.clamp(MIN_TASK_MEMORY, MAX_TASK_MEMORY))
            }
        }
    }

    fn default_sandbox_mode(self) -> SandboxMode {
        match self {
            Self::Trusted => SandboxMode::Off,
            Self::Untrusted => SandboxMode::BestEffort,
        }
    }
}

/// Sandbox settings for user code.
pub(crate) fn sandbox_settings(
    config: &Config,
    trust: CodeTrust,
) -> Result<SandboxSettings, ConfigError> {
    let mode = config.get(&SANDBOX)?.unwrap_or(trust.default_sandbox_mode());
    let scope = match mode {
        SandboxMode::Off => SecretPathScope::Files,
        SandboxMode::BestEffort | SandboxMode::Strict => SecretPathScope::Directory,
    };
    Ok(SandboxSettings {
        mode,
        is_offline: !config.value(&SANDBOX_NETWORK)?,
        launcher: std::env::current_exe().ok(),
        hidden: secret_paths(config, scope)?,
        writable: config.get(&SANDBOX_WRITABLE)?.unwrap_or_default(),
    })
}

/// Resource limits of task processes.
fn task_limits(config: &Config, trust: CodeTrust) -> Result<ProcessLimits, ConfigError> {
    let default = ProcessLimits::default();
    let memory = match config.get(&TASK_MEMORY)? {
        Some(memory) => Some(memory),
        None => trust.default_memory().or(default.memory),
    };
    Ok(ProcessLimits {
        memory,
        processes: Some(config.value(&TASK_PROCESSES)?.into()),
        file_size: Some(config.value(&TASK_FILE_SIZE)?),
        ..default
    })
}

/// Memory of this machine, if available.
fn machine_memory() -> Option<ByteSize> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?
        .trim()
        .strip_suffix("kB")?;
    Some(ByteSize::from_kib(kib.trim().parse().ok()?))
}

/// Builds the tools of a worker.
pub(crate) fn build_toolbox(
    config: &Config,
    env: &Env,
    trust: CodeTrust,
    platform: PlatformToolSettings,
) -> Result<Arc<Toolbox>, ConfigError> {
    let mut egress = config.get(&EGRESS)?.unwrap_or_else(|| trust.default_egress());
    if let EgressPolicy::Public { allow } = &mut egress {
        allow.extend(platform.allowed_egress);
    }
    let variables = env.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = ToolSettings {
        egress,
        nats: platform.nats,
        sandbox: sandbox_settings(config, trust)?,
        process_limits: task_limits(config, trust)?,
        file_roots: config.get(&FILE_ROOTS)?,
        payload_cap: config.value(&RESULT_MAX)?,
        mcp_servers: config.get(&MCP_SERVERS)?.unwrap_or_default(),
        container: ContainerSettings {
            images: config.get(&CONTAINER_IMAGES)?,
            ..ContainerSettings::default()
        },
        ..ToolSettings::default()
    };
    let settings = settings.with_environment(variables, &[]);
    Ok(Arc::new(Toolbox::new(settings)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use noetl_tools::{CancellationToken, ToolCall, ToolKind};
    use noetl_types::{JsonMap, TaskError, TaskErrorKind};

    use super::*;
    use crate::config::GivenSettings;

    #[test]
    fn egress_allows_server_port() {
        let allowed = |url: &str| format!("{:?}", egress_rules_for(url));
        assert!(allowed("http://noetl-server:8082").contains("noetl-server"));
        assert!(allowed("http://noetl-server:8082").contains("8082"));
        assert!(allowed("https://noetl.example/base").contains("443"));
        assert!(allowed("http://10.0.0.7").contains("80"));
    }

    /// Opens a file from a task of a worker with these settings. Returns the error kind.
    async fn open_file_as_task(
        settings: &[(&str, String)],
        trust: CodeTrust,
        file: &Path,
    ) -> Option<TaskErrorKind> {
        let variables = settings.iter().map(|(name, value)| (*name, &**value));
        let env: Env = variables.collect();
        let config = Config::load(&GivenSettings::default(), &env).unwrap();
        let toolbox = build_toolbox(&config, &env, trust, PlatformToolSettings::default()).unwrap();
        let file = file.display().to_string();
        let config = JsonMap::from([
            ("database".into(), Json::from(file)),
            ("query".into(), Json::from("SELECT 1")),
        ]);
        let call = sample_call(ToolKind::Sqlite, config);
        let outcome = toolbox.call(call, CancellationToken::new()).await;
        outcome.error.map(|error| error.kind)
    }

    fn sample_call(kind: ToolKind, config: JsonMap) -> ToolCall {
        ToolCall {
            kind,
            config,
            input: JsonMap::new(),
            execution_id: "1".into(),
            command: "2".into(),
            step: "s".into(),
            label: "s".into(),
            idempotency_key: "k".into(),
            attempt: 1,
            timeout: std::time::Duration::from_mins(1),
            context: Json::empty_map(),
            variables: Json::Null,
        }
    }

    /// Runs a failing task on a worker with these settings and returns its error.
    async fn run_failing_task(
        settings: &[(&str, &str)],
        kind: ToolKind,
        config: &str,
    ) -> TaskError {
        let env: Env = settings.iter().copied().chain([("PATH", "/usr/bin:/bin")]).collect();
        let loaded = Config::load(&GivenSettings::default(), &env).unwrap();
        let toolbox =
            build_toolbox(&loaded, &env, CodeTrust::Trusted, PlatformToolSettings::default())
                .unwrap();
        let config = noetl_types::json::parse(config.as_bytes()).unwrap();
        let outcome = toolbox
            .call(sample_call(kind, config.as_map().unwrap().clone()), CancellationToken::new())
            .await;
        toolbox.shutdown().await;
        outcome.error.unwrap()
    }

    #[tokio::test]
    async fn task_limits_come_from_settings() {
        let limits = [("NOETL_TASK_MEMORY", "512MiB"), ("NOETL_TASK_FILE_SIZE", "1MiB")];
        for (kind, config) in [
            (ToolKind::Python, r#"{"code": "result = bytearray(2 << 30)"}"#),
            (ToolKind::Shell, r#"{"command": "python3 -c 'bytearray(2 << 30)'"}"#),
        ] {
            let error = run_failing_task(&limits, kind, config).await;
            let limit = "may use 512MiB of memory (NOETL_TASK_MEMORY)";
            assert!(error.message.ends_with(limit), "{}", error.message);
        }
        let write = r#"{"command": "head -c 2000000 /dev/zero > large"}"#;
        let error = run_failing_task(&limits, ToolKind::Shell, write).await;
        let limit = "may be up to 1MiB (NOETL_TASK_FILE_SIZE)";
        assert!(error.message.ends_with(limit), "{}", error.message);
        let oversized = r#"{"image": "alpine", "resources": {"memory": "1Gi"}}"#;
        let error = run_failing_task(&limits, ToolKind::Container, oversized).await;
        assert!(
            error.message.contains("the limit is 512MiB (NOETL_TASK_MEMORY)"),
            "{}",
            error.message
        );
    }

    #[test]
    fn default_memory_limit_depends_on_machine() {
        let env: Env = std::iter::empty::<(&str, &str)>().collect();
        let config = Config::load(&GivenSettings::default(), &env).unwrap();
        assert_eq!(task_limits(&config, CodeTrust::Trusted).unwrap(), ProcessLimits::default());
        let memory = task_limits(&config, CodeTrust::Untrusted).unwrap().memory.unwrap();
        assert!((MIN_TASK_MEMORY..=MAX_TASK_MEMORY).contains(&memory), "{memory}");
    }

    #[tokio::test]
    async fn images_and_mcp_servers_are_allow_listed() {
        let images = [("NOETL_CONTAINER_IMAGES", "alpine:3,registry.example.com/team/*")];
        for image in ["alpine:latest", "registry.example.com/other/tool"] {
            let config = format!(r#"{{"image": "{image}"}}"#);
            let error = run_failing_task(&images, ToolKind::Container, &config).await;
            assert_eq!(error.kind, TaskErrorKind::Auth, "{}", error.message);
            assert!(error.message.contains("NOETL_CONTAINER_IMAGES"));
        }
        // The port is closed, so a known name fails with a connection error.
        let closed_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = format!(
            "other=http://localhost/mcp, here=http://{}/mcp",
            closed_listener.local_addr().unwrap()
        );
        drop(closed_listener);
        let servers = [("NOETL_MCP_SERVERS", &*servers)];
        let list_tools =
            |server: &str| format!(r#"{{"server": "{server}", "method": "tools/list"}}"#);
        let error = run_failing_task(&servers, ToolKind::Mcp, &list_tools("here")).await;
        assert_eq!(error.kind, TaskErrorKind::Connection, "{}", error.message);
        let error = run_failing_task(&servers, ToolKind::Mcp, &list_tools("there")).await;
        assert_eq!(error.kind, TaskErrorKind::NotFound, "{}", error.message);
        assert!(error.message.contains("NOETL_MCP_SERVERS"));
    }

    #[tokio::test]
    async fn tasks_cannot_open_platform_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let text = |name: &str| path(name).display().to_string();
        for name in ["data", "open"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let data = ("NOETL_DATA_DIR", text("data"));
        let denied = Some(TaskErrorKind::Auth);
        for trust in [CodeTrust::Trusted, CodeTrust::Untrusted] {
            let settings = [data.clone(), ("NOETL_STORE", format!("sqlite:{}", text("my.db")))];
            for file in ["data/noetl.db", "data/noetl.key", "my.db", "my.key"] {
                assert_eq!(
                    open_file_as_task(&settings, trust, &path(file)).await,
                    denied,
                    "{file}"
                );
            }
            assert_eq!(open_file_as_task(&settings, trust, &path("other.db")).await, None);
            let settings = [data.clone(), ("NOETL_FILE_ROOTS", text("open"))];
            assert_eq!(open_file_as_task(&settings, trust, &path("open/a.db")).await, None);
            assert_eq!(open_file_as_task(&settings, trust, &path("other.db")).await, denied);
        }
        // Local runs may store files next to the database. Tasks of shared workers cannot access that directory.
        let user_file = path("data/mine.db");
        let data = [data];
        assert_eq!(open_file_as_task(&data, CodeTrust::Trusted, &user_file).await, None);
        assert_eq!(open_file_as_task(&data, CodeTrust::Untrusted, &user_file).await, denied);
    }
}
