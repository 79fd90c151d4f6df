//! Worker and tools with the settings of the configuration.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use noetl_api::WorkerApi;
use noetl_tools::egress::{EgressPolicy, EgressRule};
use noetl_tools::sandbox::{SandboxMode, SandboxSettings, SandboxStatus};
use noetl_tools::{
    ContainerSettings, NatsSettings, ProcessLimits, Settings as ToolSettings, Toolbox,
};
use noetl_types::{ByteSize, Json, Millis, PoolName, Text, WorkerId};
use noetl_worker::{Worker, WorkerError, WorkerSecrets, WorkerSettings};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::store::{SecretPathScope, secret_paths};
use crate::config::table::{
    COMMAND_LEASE_SECS, CONTAINER_IMAGES, EGRESS, FILE_ROOTS, INTERNAL_TOKEN, INTERNAL_URL,
    MAX_CONCURRENT_COMMANDS, MCP_SERVERS, NATS_PASSWORD, NATS_TOKEN, NATS_URL, NATS_URL_ALIAS,
    NATS_USER, RESULT_MAX, SANDBOX, SANDBOX_NETWORK, SANDBOX_READABLE, SANDBOX_USER,
    SANDBOX_WRITABLE, TASK_FILE_SIZE, TASK_MEMORY, TASK_PROCESSES, WORKER_HEARTBEAT_SECS,
    WORKER_ID,
};
use crate::config::{Config, invalid_value_error};
use crate::error::{Error, Result};
use crate::io::Env;

/// Pool that runs the platform's own playbooks.
const SYSTEM_POOL: &str = "system";

/// Bounds of the default memory limit of a task process.
const MIN_TASK_MEMORY: ByteSize = ByteSize::from_gib(4);
const MAX_TASK_MEMORY: ByteSize = ByteSize::from_gib(32);

/// Settings of a worker of a pool.
pub(crate) fn worker_settings(
    config: &Config,
    pool: PoolName,
    env: &Env,
) -> Result<WorkerSettings> {
    let hostname = env.get("HOSTNAME").map(Text::from);
    let worker_id = match config.get(&WORKER_ID)? {
        Some(worker_id) => worker_id,
        None => default_worker_id(hostname.as_deref())?,
    };
    let mut settings = WorkerSettings::new(worker_id, pool);
    settings.hostname = hostname;
    settings.max_concurrent = config.value(&MAX_CONCURRENT_COMMANDS)?;
    settings.max_result_size = config.value(&RESULT_MAX)?;
    if config.is_given(&COMMAND_LEASE_SECS) {
        let secs = config.value(&COMMAND_LEASE_SECS)?;
        settings.lease_duration = Some(Millis::from_secs(secs.into()));
    }
    settings.pool_heartbeat_interval =
        Millis::from_secs(config.value(&WORKER_HEARTBEAT_SECS)?.into());
    Ok(settings)
}

/// Secrets of a worker. A worker of the platform's own pool gets the internal token and the address
/// of the internal API.
pub(crate) fn worker_secrets(
    config: &Config,
    pool: &PoolName,
    server: &str,
) -> Result<WorkerSecrets> {
    match config.get(&INTERNAL_TOKEN)? {
        Some(token) if pool.as_str() == SYSTEM_POOL => {
            let url = config.get(&INTERNAL_URL)?.unwrap_or_else(|| server.to_owned());
            Ok(WorkerSecrets::single_secret("internal", [("token", token), ("url", url)]))
        }
        Some(_) | None => Ok(WorkerSecrets::default()),
    }
}

/// Report of inactive sandbox layers for the server.
pub(crate) fn sandbox_report(status: &SandboxStatus) -> Json {
    let missing = status.describe_inactive().into_iter().map(Json::from);
    Json::object([("mode", Json::from(status.mode.as_str())), ("missing", Json::list(missing))])
}

/// A worker in this process.
pub(crate) struct InProcessWorker {
    pub(crate) task: JoinHandle<Result<(), WorkerError>>,
    pub(crate) stop: CancellationToken,
}

impl InProcessWorker {
    /// Starts a worker of a pool. Running commands get `drain_timeout` to finish after a stop
    /// request.
    pub(crate) fn start(
        api: Arc<dyn WorkerApi>,
        pool: PoolName,
        drain_timeout: Millis,
        config: &Config,
        env: &Env,
    ) -> Result<Self> {
        let mut settings = worker_settings(config, pool, env)?;
        settings.drain_timeout = drain_timeout;
        let platform = PlatformToolSettings::default();
        let toolbox = build_toolbox(config, env, CodeTrust::Trusted, platform)?;
        let stop = CancellationToken::new();
        let worker = Worker::new(api, toolbox, settings);
        Ok(Self { task: tokio::spawn(worker.run(stop.clone())), stop })
    }
}

/// Error of a component that ended although it should have continued.
pub(crate) fn component_end_error<E: Into<Error>>(
    what: &str,
    result: Result<Result<(), E>, JoinError>,
) -> Error {
    match result {
        Ok(Ok(())) => Error::failed(format!("the {what} stopped unexpectedly"))
            .with_help("it may have been drained with 'noetl worker drain'; start it again"),
        Ok(Err(error)) => error.into(),
        Err(_) => Error::failed(format!("the {what} has crashed"))
            .with_help("see its log for the cause; start it again"),
    }
}

/// Unique name for a worker.
fn default_worker_id(hostname: Option<&str>) -> Result<WorkerId> {
    let host = hostname.unwrap_or("worker");
    let name = format!("{host}-{}-{}", std::process::id(), random_suffix());
    WorkerId::new(name)
        .map_err(|error| invalid_value_error("HOSTNAME", hostname, &error.to_string()))
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
    pub(crate) fn from_config(config: &Config, pool: &PoolName, server: &str) -> Result<Self> {
        if pool.as_str() != SYSTEM_POOL {
            return Ok(Self::default());
        }
        let url = config.get(&NATS_URL)?.or(config.get(&NATS_URL_ALIAS)?);
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
fn sandbox_settings(config: &Config, trust: CodeTrust) -> Result<SandboxSettings> {
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
        readable: config.get(&SANDBOX_READABLE)?.unwrap_or_default(),
        user: config.value(&SANDBOX_USER)?,
    })
}

/// Resource limits of task processes.
fn task_limits(config: &Config, trust: CodeTrust) -> Result<ProcessLimits> {
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
fn build_toolbox(
    config: &Config,
    env: &Env,
    trust: CodeTrust,
    platform: PlatformToolSettings,
) -> Result<Arc<Toolbox>> {
    Ok(Arc::new(Toolbox::new(tool_settings(config, env, trust, platform)?)))
}

/// Settings of the tools of a worker.
pub(crate) fn tool_settings(
    config: &Config,
    env: &Env,
    trust: CodeTrust,
    platform: PlatformToolSettings,
) -> Result<ToolSettings> {
    let mut egress = config.get(&EGRESS)?.unwrap_or_else(|| trust.default_egress());
    if let EgressPolicy::Public { allow } = &mut egress {
        allow.extend(platform.allowed_egress);
    }
    if let Some(dir) = env.get("VIRTUAL_ENV")
        && !Path::new(dir).join("bin/python").is_file()
    {
        let fault =
            "has no program bin/python; create it with 'python3 -m venv', or unset the variable";
        return Err(invalid_value_error("VIRTUAL_ENV", Some(dir), fault));
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
    Ok(settings.with_environment(variables, &[]))
}

#[cfg(test)]
mod tests;
