//! Settings of servers in a cluster, and of execution.

use noetl_types::MachineId;

use super::{Setting, parsers};

pub(crate) static SERVER_NAME: Setting<String> = Setting::new(
    "NOETL_SERVER_NAME",
    "noetl-control-plane",
    parsers::parse_text,
    "Name of the server in logs and events",
);

pub(crate) static MACHINE_ID: Setting<MachineId> = Setting::optional(
    "NOETL_SERVER_MACHINE_ID",
    "leased from the store",
    parsers::parse_machine_id,
    "Number from 0 to 1023, unique among servers; part of every id that the server generates",
);

pub(crate) static COMMAND_LEASE_SECS: Setting<u32> = Setting::new(
    "NOETL_COMMAND_LEASE_SECS",
    "30",
    parsers::parse_number::<5, 3600>,
    "Seconds until the lease of a command expires if its worker does not renew it",
);

pub(crate) static WORKER_OFFLINE_SECS: Setting<u32> = Setting::new(
    "NOETL_RUNTIME_OFFLINE_SECONDS",
    "60",
    parsers::parse_number::<5, 86_400>,
    "Seconds without a heartbeat after which a worker counts as offline",
);

pub(crate) static CLASSIC_CLAIM_MAX_SECS: Setting<u32> = Setting::new(
    "NOETL_CLASSIC_CLAIM_MAX_SECS",
    "1800",
    parsers::parse_number::<30, 86_400>,
    "Maximum seconds that a worker can hold a command that it claimed by name, including renewals",
);

pub(crate) static SHARDS: Setting<String> = Setting::optional(
    "NOETL_SHARDS",
    "one database",
    parsers::parse_text,
    "Databases of several shards; this version supports one database and refuses to start",
)
.mark_secret();

pub(crate) static CLUSTER_DSN: Setting<String> = Setting::optional(
    "NOETL_CLUSTER_DSN",
    "one database",
    parsers::parse_text,
    "Database of data shared between shards; this version supports one database and refuses to start",
)
.mark_secret();

pub(crate) static SHARD_COUNT: Setting<u32> = Setting::new(
    "NOETL_SHARD_COUNT",
    "1",
    parsers::parse_number::<1, 1024>,
    "Default number of shards in responses about shard placement",
);

pub(crate) static SHARD_INDEX: Setting<u32> = Setting::new(
    "NOETL_SHARD_INDEX",
    "0",
    parsers::parse_number::<0, 1023>,
    "Shard of this server in responses about shard placement",
);

pub(crate) static SNAPSHOT_INTERVAL_EVENTS: Setting<u32> = Setting::new(
    "NOETL_SNAPSHOT_EVERY",
    "500",
    parsers::parse_number::<50, 100_000>,
    "Number of events after which a snapshot of a run is stored",
);

pub(crate) static AUTO_PURGE_DAYS: Setting<u32> = Setting::new(
    "NOETL_AUTO_PURGE_DAYS",
    "0",
    parsers::parse_number::<0, 36_500>,
    "Days after which the daily cleanup deletes the logs of ended runs; 0 keeps them",
);
