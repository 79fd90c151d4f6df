//! Settings of workers and of the sandbox for tasks.

use std::net::SocketAddr;
use std::path::PathBuf;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::sandbox::SandboxMode;
use noetl_types::{PoolName, WorkerId};

use super::{Role, Setting, WORKING_ROLES, parsers};

pub(crate) static POOL: Setting<PoolName> =
    Setting::new("WORKER_POOL_NAME", "shared", parsers::parse_pool_name, "Pool of the worker")
        .with_flag("pool", "NAME", &[Role::Worker]);

pub(crate) static WORKER_ID: Setting<WorkerId> = Setting::optional(
    "WORKER_ID",
    "host name, process id and a random number",
    parsers::parse_worker_id,
    "Unique name of the worker",
)
.with_flag("id", "NAME", &[Role::Worker]);

pub(crate) static MAX_CONCURRENT_COMMANDS: Setting<u32> = Setting::new(
    "WORKER_MAX_CONCURRENT",
    "32",
    parsers::parse_number::<1, 1024>,
    "Maximum concurrent commands",
)
.with_flag("concurrency", "N", WORKING_ROLES);

pub(crate) static WORKER_HEARTBEAT_SECS: Setting<u32> = Setting::new(
    "WORKER_HEARTBEAT_INTERVAL",
    "15",
    parsers::parse_number::<1, 60>,
    "Seconds between heartbeats of the worker",
);

pub(crate) static WORKER_METRICS_BIND: Setting<SocketAddr> = Setting::optional(
    "WORKER_METRICS_BIND",
    "none; the worker does not listen",
    parsers::parse_socket_address,
    "Address and port of the worker's Prometheus metrics; port 0 selects a free port",
);

pub(crate) static EGRESS: Setting<EgressPolicy> = Setting::optional(
    "NOETL_EGRESS_ALLOW",
    "public addresses only; all addresses in noetl run and noetl dev",
    parsers::parse_egress_policy,
    "Private addresses that tools can connect to: host:port, CIDR, or * for all",
);

pub(crate) static SANDBOX: Setting<SandboxMode> = Setting::optional(
    "NOETL_SANDBOX",
    "best_effort; off in noetl run and noetl dev",
    parsers::parse_sandbox_mode,
    "Sandbox for user code: off, best_effort, or strict, which refuses tasks if a layer is unavailable",
);

pub(crate) static SANDBOX_NETWORK: Setting<bool> = Setting::new(
    "NOETL_SANDBOX_NETWORK",
    "true",
    parsers::parse_bool,
    "Allow network access for sandboxed user code",
);

pub(crate) static SANDBOX_WRITABLE: Setting<Vec<PathBuf>> = Setting::optional(
    "NOETL_SANDBOX_WRITABLE",
    "only their own directory",
    parsers::parse_directories,
    "Directories that sandboxed user code can write to, separated by commas",
);

pub(crate) static FILE_ROOTS: Setting<Vec<PathBuf>> = Setting::optional(
    "NOETL_FILE_ROOTS",
    "anywhere except in the platform's own files",
    parsers::parse_directories,
    "Directories that tasks can use for scripts, databases and mounts, separated by commas",
);
