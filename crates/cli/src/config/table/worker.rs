//! What a worker takes on, and what tasks may reach.

use std::net::SocketAddr;
use std::path::PathBuf;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::walls::SandboxMode;
use noetl_types::{PoolName, WorkerId};

use super::{Role, Setting, WORKING, read};

pub(crate) static POOL: Setting<PoolName> = Setting::new(
    "WORKER_POOL_NAME",
    "shared",
    read::pool,
    "Pool that the worker works for",
)
.flag("pool", "NAME", &[Role::Worker]);

pub(crate) static WORKER_ID: Setting<WorkerId> = Setting::absent(
    "WORKER_ID",
    "the host, the process and a random number",
    read::worker_id,
    "Name of the worker, different from that of every other",
)
.flag("id", "NAME", &[Role::Worker]);

pub(crate) static CONCURRENCY: Setting<u32> = Setting::new(
    "WORKER_MAX_CONCURRENT",
    "32",
    read::number::<1, 1024>,
    "Commands that the worker runs at once",
)
.flag("concurrency", "N", WORKING);

pub(crate) static HEARTBEAT: Setting<u32> = Setting::new(
    "WORKER_HEARTBEAT_INTERVAL",
    "15",
    read::number::<1, 60>,
    "Seconds between the signs of life of the worker",
);

pub(crate) static WORKER_METRICS_BIND: Setting<SocketAddr> = Setting::absent(
    "WORKER_METRICS_BIND",
    "none: a worker listens nowhere",
    read::socket,
    "Address and port where a worker tells its metrics to Prometheus; port 0 takes a free one",
);

pub(crate) static EGRESS: Setting<EgressPolicy> = Setting::absent(
    "NOETL_EGRESS_ALLOW",
    "public addresses; everything in noetl run and noetl dev",
    read::egress,
    "Private addresses that tools may connect to: host:port, CIDR, or * for all",
);

pub(crate) static SANDBOX: Setting<SandboxMode> = Setting::absent(
    "NOETL_SANDBOX",
    "best_effort; off in noetl run and noetl dev",
    read::sandbox,
    "Walls around user code: off, best_effort, or strict, which refuses tasks where one is missing",
);

pub(crate) static SANDBOX_NETWORK: Setting<bool> = Setting::new(
    "NOETL_SANDBOX_NETWORK",
    "true",
    read::flag,
    "Whether user code within the walls has network",
);

pub(crate) static SANDBOX_WRITABLE: Setting<Vec<PathBuf>> = Setting::absent(
    "NOETL_SANDBOX_WRITABLE",
    "none but their own",
    read::folders,
    "Folders that user code within the walls may write to, separated by commas",
);

pub(crate) static FILE_ROOTS: Setting<Vec<PathBuf>> = Setting::absent(
    "NOETL_FILE_ROOTS",
    "anywhere but in places of the platform",
    read::folders,
    "Folders that tasks may have scripts, databases and mounts in, separated by commas",
);
