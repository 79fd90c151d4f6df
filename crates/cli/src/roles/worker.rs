//! A worker, as the configuration wants it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use noetl_api::WorkerApi;
use noetl_tools::egress::{EgressPolicy, EgressRule};
use noetl_tools::walls::{Sandbox, SandboxMode, Standing};
use noetl_tools::{ContainerSettings, NatsSettings, Settings as ToolSettings, Toolbox, Walls};
use noetl_types::{ByteSize, Json, Millis, PoolName, Text, WorkerId};
use noetl_worker::{Settings, Worker};

use super::store::{Extent, secret_places};
use crate::config::table::{
    COMMAND_LEASE, CONCURRENCY, CONTAINER_IMAGES, EGRESS, FILE_ROOTS, HEARTBEAT, INTERNAL_TOKEN,
    INTERNAL_URL, MCP_SERVERS, NATS_PASSWORD, NATS_TOKEN, NATS_URL, NATS_URL_ALIAS, NATS_USER,
    RESULT_MAX, SANDBOX, SANDBOX_NETWORK, SANDBOX_WRITABLE, TASK_FILE_SIZE, TASK_MEMORY,
    TASK_PROCESSES, WORKER_ID,
};
use crate::config::{Config, ConfigError};
use crate::io::Env;

/// The pool that runs the platform's own playbooks.
const SYSTEM_POOL: &str = "system";

/// What a process of a task may have on the smallest and on the largest machine, where nobody says.
const LEAST_MEMORY: ByteSize = ByteSize::from_gib(4);
const MOST_MEMORY: ByteSize = ByteSize::from_gib(32);

/// A worker that is still to be started.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    settings: Settings,
}

impl WorkerPlan {
    /// A worker of a pool.
    pub(crate) fn new(config: &Config, pool: PoolName, env: &Env) -> Result<Self, ConfigError> {
        let hostname = env.get("HOSTNAME").map(Text::from);
        let worker_id = match config.get(&WORKER_ID)? {
            Some(worker_id) => worker_id,
            None => own_name(hostname.as_deref())?,
        };
        let mut settings = Settings::new(worker_id, pool);
        settings.hostname = hostname;
        settings.max_concurrent = config.value(&CONCURRENCY)?;
        settings.result_max = config.value(&RESULT_MAX)?;
        settings.lease = Millis::from_secs(config.value(&COMMAND_LEASE)?.into());
        settings.pool_heartbeat = Millis::from_secs(config.value(&HEARTBEAT)?.into());
        Ok(Self { settings })
    }

    /// The same for a run that this process started: when that ended, nothing of it is wanted.
    #[must_use]
    pub(crate) fn for_one_run(self) -> Self {
        self.draining(Millis::ZERO)
    }

    /// The same with another time for commands under way after the order to stop.
    #[must_use]
    pub(crate) fn draining(mut self, drain: Millis) -> Self {
        self.settings.drain = drain;
        self
    }

    /// The same for a server at an address. A worker of the platform's own pool knows its token, and
    /// where its internal API is.
    pub(crate) fn for_server(mut self, config: &Config, url: &str) -> Result<Self, ConfigError> {
        if self.settings.pool.as_str() == SYSTEM_POOL
            && let Some(token) = config.get(&INTERNAL_TOKEN)?
        {
            let url = config.get(&INTERNAL_URL)?.unwrap_or_else(|| url.to_owned());
            let fields = [("token", token), ("url", url)];
            self.settings.secrets = noetl_worker::OwnSecrets::of("internal", fields);
        }
        Ok(self)
    }

    /// The same, telling the server which walls around tasks do not stand.
    #[must_use]
    pub(crate) fn behind(mut self, standing: &Standing) -> Self {
        self.settings.sandbox = Some(Json::object([
            ("mode", Json::from(standing.mode.as_str())),
            (
                "missing",
                Json::list(standing.lacking().into_iter().map(Json::from)),
            ),
        ]));
        self
    }

    /// Its name.
    pub(crate) fn name(&self) -> &WorkerId {
        &self.settings.worker_id
    }

    /// Its pool.
    pub(crate) fn pool(&self) -> &PoolName {
        &self.settings.pool
    }

    /// The worker.
    pub(crate) fn start(self, api: Arc<dyn WorkerApi>, toolbox: Arc<Toolbox>) -> Worker {
        Worker::new(api, toolbox, self.settings)
    }
}

/// A name that no other worker has.
fn own_name(hostname: Option<&str>) -> Result<WorkerId, ConfigError> {
    let host = hostname.unwrap_or("worker");
    let name = format!("{host}-{}-{}", std::process::id(), chance());
    WorkerId::new(name).map_err(|error| ConfigError::Invalid {
        place: "HOSTNAME".to_owned(),
        value: hostname.map(str::to_owned),
        fault: error.to_string(),
    })
}

/// Eight letters that nobody else has: the seed of the standard library's maps is random.
pub(super) fn chance() -> String {
    let number = RandomState::new().build_hasher().finish();
    format!("{:08x}", number & 0xffff_ffff)
}

/// What the tools of the platform's own pool have, and those of no other.
#[derive(Debug, Default)]
pub(crate) struct OfPlatform {
    /// Where they may connect to in any case: to their server, and to its internal API.
    always: Vec<EgressRule>,
    /// The NATS server of tasks that name none.
    nats: Option<NatsSettings>,
}

impl OfPlatform {
    /// What a worker of a pool has for a server.
    pub(crate) fn of(config: &Config, pool: &PoolName, server: &str) -> Result<Self, ConfigError> {
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
        let mut always = place_of(server);
        if let Some(internal) = config.get(&INTERNAL_URL)? {
            always.extend(place_of(&internal));
        }
        Ok(Self {
            always,
            nats: url.map(|url| NatsSettings { url, user, token }),
        })
    }
}

/// The host and the port of an address.
fn place_of(url: &str) -> Vec<EgressRule> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split('/').next().unwrap_or(rest);
    let port = if scheme == "https" { 443 } else { 80 };
    let end = authority.rsplit(':').next().unwrap_or_default();
    let place = if end.parse::<u16>().is_ok() {
        authority.to_owned()
    } else {
        format!("{authority}:{port}")
    };
    match EgressPolicy::parse(&place) {
        Ok(EgressPolicy::Public { allow }) => allow,
        Ok(EgressPolicy::Anywhere) | Err(_) => Vec::new(),
    }
}

/// Whose code a worker runs. What that may do follows from it, unless the user says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// That of whoever started the process, on their own machine.
    Own,
    /// That of everybody who may register a playbook at a server.
    Others,
}

impl Code {
    fn egress(self) -> EgressPolicy {
        match self {
            Self::Own => EgressPolicy::Anywhere,
            Self::Others => EgressPolicy::Public { allow: Vec::new() },
        }
    }

    /// How much each process may have. Addresses are counted, of which some programs reserve far more
    /// than they use: so nobody's own code is held to what the machine has, and that of others is
    /// given enough for an interpreter with its libraries on a small one.
    fn memory(self) -> Option<ByteSize> {
        match self {
            Self::Own => None,
            Self::Others => {
                memory_of_machine().map(|memory| memory.clamp(LEAST_MEMORY, MOST_MEMORY))
            }
        }
    }

    fn sandbox(self) -> SandboxMode {
        match self {
            Self::Own => SandboxMode::Off,
            Self::Others => SandboxMode::BestEffort,
        }
    }
}

/// What the operator wants of the walls around user code.
pub(crate) fn sandbox(config: &Config, code: Code) -> Result<Sandbox, ConfigError> {
    let mode = config.get(&SANDBOX)?.unwrap_or(code.sandbox());
    let extent = match mode {
        SandboxMode::Off => Extent::Files,
        SandboxMode::BestEffort | SandboxMode::Strict => Extent::Whole,
    };
    Ok(Sandbox {
        mode,
        is_offline: !config.value(&SANDBOX_NETWORK)?,
        launcher: std::env::current_exe().ok(),
        hidden: secret_places(config, extent)?,
        writable: config.get(&SANDBOX_WRITABLE)?.unwrap_or_default(),
    })
}

/// The limits of the processes of tasks.
fn limits(config: &Config, code: Code) -> Result<Walls, ConfigError> {
    let usual = Walls::default();
    let memory = match config.get(&TASK_MEMORY)? {
        Some(memory) => Some(memory),
        None => code.memory().or(usual.memory),
    };
    Ok(Walls {
        memory,
        processes: Some(config.value(&TASK_PROCESSES)?.into()),
        file_size: Some(config.value(&TASK_FILE_SIZE)?),
        ..usual
    })
}

/// The memory of this machine, where it says so.
fn memory_of_machine() -> Option<ByteSize> {
    let facts = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = facts
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?
        .trim()
        .strip_suffix("kB")?;
    Some(ByteSize::from_kib(kib.trim().parse().ok()?))
}

/// The tools of a worker.
pub(crate) fn toolbox(
    config: &Config,
    env: &Env,
    code: Code,
    platform: OfPlatform,
) -> Result<Arc<Toolbox>, ConfigError> {
    let mut egress = config.get(&EGRESS)?.unwrap_or_else(|| code.egress());
    if let EgressPolicy::Public { allow } = &mut egress {
        allow.extend(platform.always);
    }
    let variables = env
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = ToolSettings {
        egress,
        nats: platform.nats,
        sandbox: sandbox(config, code)?,
        walls: limits(config, code)?,
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

    use noetl_tools::{Call, CancellationToken, ToolKind};
    use noetl_types::{JsonMap, TaskError, TaskErrorKind};

    use super::*;
    use crate::config::Given;

    #[test]
    fn a_server_is_reached_at_its_port() {
        let allowed = |url: &str| format!("{:?}", place_of(url));
        assert!(allowed("http://noetl-server:8082").contains("noetl-server"));
        assert!(allowed("http://noetl-server:8082").contains("8082"));
        assert!(allowed("https://noetl.example/base").contains("443"));
        assert!(allowed("http://10.0.0.7").contains("80"));
    }

    /// What a task gets that asks for a file, from a worker with some settings.
    async fn opens(settings: &[(&str, String)], code: Code, file: &Path) -> Option<TaskErrorKind> {
        let variables = settings.iter().map(|(name, value)| (*name, &**value));
        let env: Env = variables.collect();
        let config = Config::load(&Given::default(), &env).unwrap();
        let toolbox = toolbox(&config, &env, code, OfPlatform::default()).unwrap();
        let file = file.display().to_string();
        let config = JsonMap::from([
            ("database".into(), Json::from(file)),
            ("query".into(), Json::from("SELECT 1")),
        ]);
        let call = call(ToolKind::Sqlite, config);
        let outcome = toolbox.call(call, CancellationToken::new()).await;
        outcome.error.map(|error| error.kind)
    }

    fn call(kind: ToolKind, config: JsonMap) -> Call {
        Call {
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

    /// What a task fails with, from a worker with some settings.
    async fn fails(settings: &[(&str, &str)], kind: ToolKind, config: &str) -> TaskError {
        let env: Env = settings
            .iter()
            .copied()
            .chain([("PATH", "/usr/bin:/bin")])
            .collect();
        let loaded = Config::load(&Given::default(), &env).unwrap();
        let toolbox = toolbox(&loaded, &env, Code::Own, OfPlatform::default()).unwrap();
        let config = noetl_types::json::parse(config.as_bytes()).unwrap();
        let outcome = toolbox
            .call(
                call(kind, config.as_map().unwrap().clone()),
                CancellationToken::new(),
            )
            .await;
        toolbox.shutdown().await;
        outcome.error.unwrap()
    }

    #[tokio::test]
    async fn the_limits_of_tasks_are_the_operators() {
        let limits = [
            ("NOETL_TASK_MEMORY", "512MiB"),
            ("NOETL_TASK_FILE_SIZE", "1MiB"),
        ];
        for (kind, config) in [
            (
                ToolKind::Python,
                r#"{"code": "result = bytearray(2 << 30)"}"#,
            ),
            (
                ToolKind::Shell,
                r#"{"command": "python3 -c 'bytearray(2 << 30)'"}"#,
            ),
        ] {
            let error = fails(&limits, kind, config).await;
            let limit = "may have 512MiB of memory (NOETL_TASK_MEMORY)";
            assert!(error.message.ends_with(limit), "{}", error.message);
        }
        let write = r#"{"command": "head -c 2000000 /dev/zero > large"}"#;
        let error = fails(&limits, ToolKind::Shell, write).await;
        let limit = "may have 1MiB (NOETL_TASK_FILE_SIZE)";
        assert!(error.message.ends_with(limit), "{}", error.message);
        let big = r#"{"image": "alpine", "resources": {"memory": "1Gi"}}"#;
        let error = fails(&limits, ToolKind::Container, big).await;
        assert!(
            error
                .message
                .contains("512MiB are allowed (NOETL_TASK_MEMORY)"),
            "{}",
            error.message
        );
    }

    #[test]
    fn what_nobody_sets_is_bounded_by_the_machine() {
        let env: Env = std::iter::empty::<(&str, &str)>().collect();
        let config = Config::load(&Given::default(), &env).unwrap();
        assert_eq!(limits(&config, Code::Own).unwrap(), Walls::default());
        let others = limits(&config, Code::Others).unwrap().memory.unwrap();
        assert!((LEAST_MEMORY..=MOST_MEMORY).contains(&others), "{others}");
    }

    #[tokio::test]
    async fn images_and_servers_are_those_that_the_operator_names() {
        let images = [(
            "NOETL_CONTAINER_IMAGES",
            "alpine:3,registry.example.com/team/*",
        )];
        for image in ["alpine:latest", "registry.example.com/other/tool"] {
            let config = format!(r#"{{"image": "{image}"}}"#);
            let error = fails(&images, ToolKind::Container, &config).await;
            assert_eq!(error.kind, TaskErrorKind::Auth, "{}", error.message);
            assert!(error.message.contains("NOETL_CONTAINER_IMAGES"));
        }
        // Nobody listens there any more, and that is as far as a name that is known gets.
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = format!(
            "other=http://localhost/mcp, here=http://{}/mcp",
            gone.local_addr().unwrap()
        );
        drop(gone);
        let servers = [("NOETL_MCP_SERVERS", &*servers)];
        let ask = |server: &str| format!(r#"{{"server": "{server}", "method": "tools/list"}}"#);
        let error = fails(&servers, ToolKind::Mcp, &ask("here")).await;
        assert_eq!(error.kind, TaskErrorKind::Connection, "{}", error.message);
        let error = fails(&servers, ToolKind::Mcp, &ask("there")).await;
        assert_eq!(error.kind, TaskErrorKind::NotFound, "{}", error.message);
        assert!(error.message.contains("NOETL_MCP_SERVERS"));
    }

    #[tokio::test]
    async fn tasks_open_files_but_not_those_of_the_platform() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |name: &str| path(name).display().to_string();
        for name in ["data", "open"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let data = ("NOETL_DATA_DIR", text("data"));
        let shut = Some(TaskErrorKind::Auth);
        for code in [Code::Own, Code::Others] {
            let settings = [
                data.clone(),
                ("NOETL_STORE", format!("sqlite:{}", text("my.db"))),
            ];
            for own in ["data/noetl.db", "data/noetl.key", "my.db", "my.key"] {
                assert_eq!(opens(&settings, code, &path(own)).await, shut, "{own}");
            }
            assert_eq!(opens(&settings, code, &path("other.db")).await, None);
            let settings = [data.clone(), ("NOETL_FILE_ROOTS", text("open"))];
            assert_eq!(opens(&settings, code, &path("open/a.db")).await, None);
            assert_eq!(opens(&settings, code, &path("other.db")).await, shut);
        }
        // Who runs their own playbooks may keep files beside the log; behind walls its folder is shut.
        let beside = path("data/mine.db");
        let data = [data];
        assert_eq!(opens(&data, Code::Own, &beside).await, None);
        assert_eq!(opens(&data, Code::Others, &beside).await, shut);
    }
}
