//! What a server is among others, and how it keeps runs going.

use noetl_types::MachineId;

use super::{Setting, read};

pub(crate) static SERVER_NAME: Setting<String> = Setting::new(
    "NOETL_SERVER_NAME",
    "noetl-control-plane",
    read::text,
    "Name of the server in logs and events",
);

pub(crate) static MACHINE_ID: Setting<MachineId> = Setting::absent(
    "NOETL_SERVER_MACHINE_ID",
    "leased from the store",
    read::machine_id,
    "Number, 0 to 1023, that no other server has: part of every id that it makes",
);

pub(crate) static COMMAND_LEASE: Setting<u32> = Setting::new(
    "NOETL_COMMAND_LEASE_SECS",
    "30",
    read::number::<5, 3600>,
    "Seconds after which a command is given to another worker unless its worker speaks up",
);

pub(crate) static OFFLINE_AFTER: Setting<u32> = Setting::new(
    "NOETL_RUNTIME_OFFLINE_SECONDS",
    "60",
    read::number::<5, 86_400>,
    "Seconds of silence after which a worker counts as gone",
);

pub(crate) static CLASSIC_CLAIM_MAX: Setting<u32> = Setting::new(
    "NOETL_CLASSIC_CLAIM_MAX_SECS",
    "1800",
    read::number::<30, 86_400>,
    "Seconds that a command may be a worker's that claimed it by name, however often it speaks up",
);

pub(crate) static SHARDS: Setting<String> = Setting::absent(
    "NOETL_SHARDS",
    "one database",
    read::text,
    "Several databases to share the work; this version works with one and refuses to start",
)
.secret();

pub(crate) static CLUSTER_DSN: Setting<String> = Setting::absent(
    "NOETL_CLUSTER_DSN",
    "one database",
    read::text,
    "The database of what several databases share; this version works with one and refuses to start",
)
.secret();

pub(crate) static SHARD_COUNT: Setting<u32> = Setting::new(
    "NOETL_SHARD_COUNT",
    "1",
    read::number::<1, 1024>,
    "Shards that answers about placement count, where the caller names no number",
);

pub(crate) static SHARD_INDEX: Setting<u32> = Setting::new(
    "NOETL_SHARD_INDEX",
    "0",
    read::number::<0, 1023>,
    "Shard that answers about placement call this server's own",
);

pub(crate) static SNAPSHOT_EVERY: Setting<u32> = Setting::new(
    "NOETL_SNAPSHOT_EVERY",
    "500",
    read::number::<50, 100_000>,
    "Events after which the state of a run is stored beside its log",
);

pub(crate) static AUTO_PURGE: Setting<u32> = Setting::new(
    "NOETL_AUTO_PURGE_DAYS",
    "0",
    read::number::<0, 36_500>,
    "Days after which the daily cleanup drops the logs of ended runs; 0 keeps them",
);
