//! Settings of the runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use noetl_engine::PlanDefaults;
use noetl_types::{ByteSize, ErrorCode, JsonMap, MachineId, Millis, TenantId, Text};

use crate::crypto::KeyRing;
use crate::error::{Result, RuntimeError};
use crate::services::notifications::NatsSettings;

/// Settings that an operator can change.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent switch that an operator sets"
)]
pub struct Settings {
    /// Name of this process among the servers.
    pub server_name: Text,
    /// URL at which workers and clients reach this server.
    pub public_url: Option<Text>,
    /// Adds a token to the URL in command notifications that authorizes work on that one command,
    /// for workers that send no token.
    pub notify_with_command_token: bool,
    /// Required machine id. If absent, any free one is used.
    pub machine_id: Option<MachineId>,
    /// Lease duration of a command without a heartbeat.
    pub lease_duration: Millis,
    /// Time without a heartbeat after which a worker counts as offline.
    pub worker_offline_after: Millis,
    /// Maximum time that a classic worker can hold a claim, regardless of heartbeats.
    pub max_classic_claim: Millis,
    /// Configured number of shards. Only answers about sharding use it.
    pub shard_count: u32,
    /// Configured index of this server's shard.
    pub shard_index: u32,
    /// Maximum executions cached in memory.
    pub cached_executions: usize,
    /// Maximum active executions per tenant.
    pub max_live_executions: u32,
    /// Maximum active descendants of an execution that no other execution started.
    pub max_live_descendants: u32,
    /// Maximum API tokens per tenant, including recently ended ones.
    pub max_tokens: u32,
    /// Maximum versions of all definitions per tenant.
    pub max_definitions: u32,
    /// Maximum stored broadcast signals per tenant.
    pub max_broadcasts: u32,
    /// Shares of the tenants in a busy server. A tenant without an entry has weight 1.
    pub tenant_weights: BTreeMap<TenantId, u32>,
    /// Defaults for settings that a playbook omits.
    pub defaults: PlanDefaults,
    /// Maximum size of a stored result.
    pub max_result_size: ByteSize,
    /// Enables the metrics endpoint.
    pub metrics: bool,
    /// Minimum number of new events between two snapshots of an execution.
    pub snapshot_min_events: u32,
    /// Monthly log partitions to create in advance, if the store is partitioned.
    pub partitions_ahead: u32,
    /// Use of the outbox.
    pub outbox: OutboxSetting,
    /// Lease duration of an outbox row that a publisher claimed.
    pub outbox_lease: Millis,
    /// Attempts to publish an outbox row before it is dead-lettered.
    pub outbox_max_attempts: u32,
    /// Retention of published outbox rows.
    pub outbox_retention: Millis,
    /// Registers and starts the playbooks that ship with the platform.
    pub platform: bool,
    /// Days after which the daily cleanup deletes the logs of ended executions. 0 disables it.
    pub auto_purge_days: u32,
    /// Days after which commands that have ended are deleted; 0 keeps them.
    pub command_retention_days: u32,
    /// Interval at which the heads of changed logs are anchored. 0 disables it.
    pub anchor_interval: Millis,
    /// File outside of the database to which the chain of anchors is copied.
    pub anchor_file: Option<PathBuf>,
    /// Interval at which the whole store is verified. 0 disables it.
    pub verify_interval: Millis,
    /// Interval of the sweep for expired leases, due timers and work left by other servers, for
    /// which no notification may have arrived.
    pub sweep_interval: Millis,
    /// Keys that encrypt secrets. Without them no secrets can be stored.
    pub keys: Option<Arc<KeyRing>>,
    /// Requires the audit entry to be written before a secret is handed out.
    pub secret_audit_required: bool,
    /// Environment that playbooks can read.
    pub env: JsonMap,
    /// NATS settings. If absent, NATS is not used.
    pub nats: Option<NatsSettings>,
    /// URL of the OpenTelemetry collector that receives traces of executions.
    pub trace_endpoint: Option<Text>,
}

/// Use of the outbox. All processes of an installation must agree, since the rows of events that a
/// process without the outbox appends would be missing. The database records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxSetting {
    /// As the database records it. Records no outbox if it records nothing.
    AsInstalled,
    Enabled,
    Disabled,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_name: "noetl-control-plane".into(),
            public_url: None,
            notify_with_command_token: false,
            machine_id: None,
            lease_duration: Millis::from_secs(30),
            worker_offline_after: Millis::from_secs(60),
            max_classic_claim: Millis::from_secs(1800),
            shard_count: 1,
            shard_index: 0,
            cached_executions: 20_000,
            max_live_executions: 100_000,
            max_live_descendants: 10_000,
            max_tokens: 10_000,
            max_definitions: 20_000,
            max_broadcasts: 100_000,
            tenant_weights: BTreeMap::new(),
            defaults: PlanDefaults::default(),
            max_result_size: ByteSize::from_mib(64),
            metrics: true,
            snapshot_min_events: 500,
            partitions_ahead: 3,
            outbox: OutboxSetting::AsInstalled,
            outbox_lease: Millis::from_secs(60),
            outbox_max_attempts: 20,
            outbox_retention: Millis::from_secs(24 * 3600),
            platform: false,
            auto_purge_days: 0,
            command_retention_days: 0,
            anchor_interval: Millis::ZERO,
            anchor_file: None,
            verify_interval: Millis::ZERO,
            sweep_interval: Millis::from_secs(1),
            keys: None,
            secret_audit_required: true,
            env: JsonMap::new(),
            nats: None,
            trace_endpoint: None,
        }
    }
}

impl Settings {
    /// Returns the keys that encrypt secrets.
    pub(crate) fn encryption_keys(&self) -> Result<&KeyRing> {
        self.keys.as_deref().ok_or_else(|| {
            let text = "this server has no encryption key, so it cannot store secrets; start it \
                with NOETL_ENCRYPTION_KEY";
            RuntimeError::refused(ErrorCode::NotReady, text)
        })
    }
}
