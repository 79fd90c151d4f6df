//! What an operator may choose about driving executions.

use std::sync::Arc;

use noetl_engine::Defaults;
use noetl_types::{ByteSize, JsonMap, MachineId, Millis, Text};

use super::messaging::NatsSettings;
use crate::vault::KeyRing;

/// How executions are driven.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that an operator sets"
)]
pub struct Settings {
    /// The name of this process among servers.
    pub server_name: Text,
    /// Where workers and people reach it.
    pub public_url: Option<Text>,
    /// Whether the address in a notice of a command lets its bearer work on that command, for workers
    /// that show no token.
    pub notify_capability: bool,
    /// The machine id that it must have; any free one where absent.
    pub machine_id: Option<MachineId>,
    /// How long a command is a worker's before it must say that it lives.
    pub lease: Millis,
    /// After how long a silence a worker counts as gone.
    pub worker_offline: Millis,
    /// How long a command may be a worker's that claimed it by name, however often it is heard of.
    pub classic_claim_max: Millis,
    /// How many shards this server is told that there are. Only answers about placement follow it.
    pub shard_count: u32,
    /// Which of them it is told to be.
    pub shard_index: u32,
    /// How many executions are kept in memory.
    pub cached_executions: usize,
    /// How many executions of a tenant may go on at once.
    pub max_live_executions: u32,
    /// What holds where a playbook does not say.
    pub defaults: Defaults,
    /// The largest result that is kept.
    pub result_max: ByteSize,
    /// Whether what is counted is told.
    pub metrics: bool,
    /// How many events a log grows by, at least, before its state is stored beside it.
    pub snapshot_every: u32,
    /// Months of the log that are prepared ahead of time, where it has months.
    pub partitions_ahead: u32,
    /// Whether each event gets a row of the outbox, for publishers to take.
    pub outbox: bool,
    /// How long a row of the outbox is a publisher's.
    pub outbox_lease: Millis,
    /// How often a row is tried before it is dead.
    pub outbox_max_attempts: u32,
    /// How long rows are kept that are published.
    pub outbox_keep: Millis,
    /// Whether the playbooks that ship with the platform are registered and started here.
    pub platform: bool,
    /// Days after which the daily cleanup drops the logs of ended runs; 0 keeps them.
    pub auto_purge_days: u32,
    /// How often the store is asked for what has run out, has come due or was written by others, of
    /// which nobody may have told.
    pub sweep: Millis,
    /// The keys that secrets are sealed under; without them none are kept.
    pub keys: Option<Arc<KeyRing>>,
    /// Whether a secret is handed out only once the trail tells of it.
    pub secret_audit_required: bool,
    /// The environment that playbooks may read.
    pub env: JsonMap,
    /// How other processes are reached by NATS; not at all where absent.
    pub nats: Option<NatsSettings>,
    /// The address of a collector of OpenTelemetry that takes the traces of runs.
    pub traces: Option<Text>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_name: "noetl-control-plane".into(),
            public_url: None,
            notify_capability: false,
            machine_id: None,
            lease: Millis::from_secs(30),
            worker_offline: Millis::from_secs(60),
            classic_claim_max: Millis::from_secs(1800),
            shard_count: 1,
            shard_index: 0,
            cached_executions: 20_000,
            max_live_executions: 100_000,
            defaults: Defaults::default(),
            result_max: ByteSize::from_mib(64),
            metrics: true,
            snapshot_every: 500,
            partitions_ahead: 3,
            outbox: false,
            outbox_lease: Millis::from_secs(60),
            outbox_max_attempts: 20,
            outbox_keep: Millis::from_secs(24 * 3600),
            platform: false,
            auto_purge_days: 0,
            sweep: Millis::from_secs(1),
            keys: None,
            secret_audit_required: true,
            env: JsonMap::new(),
            nats: None,
            traces: None,
        }
    }
}
