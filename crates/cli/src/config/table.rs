//! All settings. Flags, help texts, parsing and `noetl config show` are generated from this table.
//! Each topic has its own file.

mod client;
mod cluster;
mod database;
mod limits;
mod listeners;
mod obsolete;
mod process;
mod publishing;
mod secrets;
mod switches;
mod worker;

use super::setting::{AnySetting, Setting};
use super::{LogFormat, Role, StoreChoice, parsers};

pub(crate) use client::*;
pub(crate) use cluster::*;
pub(crate) use database::*;
pub(crate) use limits::*;
pub(crate) use listeners::*;
pub(crate) use obsolete::*;
pub(crate) use process::*;
pub(crate) use publishing::*;
pub(crate) use secrets::*;
pub(crate) use switches::*;
pub(crate) use worker::*;

const LOCAL_STORE_ROLES: &[Role] =
    &[Role::Run, Role::Dev, Role::Server, Role::Client, Role::Database];
const LISTENING_ROLES: &[Role] = &[Role::Dev, Role::Server];
const WORKING_ROLES: &[Role] = &[Role::Worker, Role::Dev, Role::Run];
const LONG_RUNNING_ROLES: &[Role] = &[Role::Dev, Role::Server, Role::Worker];

/// All settings, in the order in which they are shown.
pub(crate) static SETTINGS_TABLE: [&dyn AnySetting; 104] = [
    &DATA_DIR,
    &STORE,
    &HOST,
    &PORT,
    &INTERNAL_BIND,
    &METRICS_BIND,
    &PUBLIC_URL,
    &DEV,
    &BOOTSTRAP_TOKEN,
    &TLS_CERT,
    &TLS_KEY,
    &TLS_CLIENT_CA,
    &MTLS_IDENTITIES,
    &UNSAFE_PLAINTEXT,
    &CORS_ORIGINS,
    &UNSAFE_DURABILITY,
    &SQL_CONSOLE,
    &RATE_PER_TOKEN,
    &RATE_PER_TENANT,
    &HEAD_TIMEOUT_SECS,
    &BODY_TIMEOUT_SECS,
    &MAX_CONNECTIONS,
    &BODY_MAX,
    &INLINE_MAX,
    &RESULT_MAX,
    &MAX_LIVE,
    &DSN,
    &OWNER_DSN,
    &POSTGRES_HOST,
    &POSTGRES_PORT,
    &POSTGRES_USER,
    &POSTGRES_PASSWORD,
    &POSTGRES_DATABASE,
    &POSTGRES_MAX_CONNECTIONS,
    &POSTGRES_MIN_CONNECTIONS,
    &POSTGRES_ACQUIRE_TIMEOUT_SECS,
    &POSTGRES_SSLMODE,
    &POSTGRES_SSLROOTCERT,
    &SCHEMA,
    &STATEMENT_CACHE,
    &PARTITIONS_AHEAD_MONTHS,
    &SERVER_NAME,
    &MACHINE_ID,
    &COMMAND_LEASE_SECS,
    &WORKER_OFFLINE_SECS,
    &CLASSIC_CLAIM_MAX_SECS,
    &MAX_ATTEMPTS,
    &RUNTIME_SWEEP,
    &AUTO_RECREATE,
    &SHARDS,
    &CLUSTER_DSN,
    &SHARD_COUNT,
    &SHARD_INDEX,
    &SNAPSHOT_INTERVAL_EVENTS,
    &INTERNAL_TOKEN,
    &ENCRYPTION_KEY,
    &ENCRYPTION_KEYS_OLD,
    &SECRET_AUDIT_REQUIRED,
    &OUTBOX_ENABLED,
    &OUTBOX_LEASE_SECS,
    &OUTBOX_MAX_ATTEMPTS,
    &OUTBOX_KEEP_HOURS,
    &AUTO_PURGE_DAYS,
    &THREADS,
    &DISABLE_METRICS,
    &DEBUG,
    &LOG,
    &LOG_FORMAT,
    &TRACES,
    &EGRESS,
    &SANDBOX,
    &SANDBOX_NETWORK,
    &SANDBOX_WRITABLE,
    &FILE_ROOTS,
    &TASK_MEMORY,
    &TASK_PROCESSES,
    &TASK_FILE_SIZE,
    &CONTAINER_IMAGES,
    &MCP_SERVERS,
    &NATS_URL,
    &NATS_URL_ALIAS,
    &NATS_USER,
    &NATS_PASSWORD,
    &NATS_TOKEN,
    &NATS_BARE_SUBJECT,
    &NATS_COMMAND_TOKENS,
    &STREAM_ENABLED,
    &STREAM_BATCH,
    &STREAM_POLL_MS,
    &STREAM_BACKFILL,
    &STREAM_DEDUP_SECS,
    &STREAM_RETENTION_SECS,
    &SERVER_URL,
    &INTERNAL_URL,
    &PROFILE,
    &TOKEN,
    &TLS_CA,
    &TLS_CLIENT_CERT,
    &TLS_CLIENT_KEY,
    &POOL,
    &WORKER_ID,
    &MAX_CONCURRENT_COMMANDS,
    &WORKER_HEARTBEAT_SECS,
    &WORKER_METRICS_BIND,
];
