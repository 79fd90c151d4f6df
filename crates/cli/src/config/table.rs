//! Every setting, in one place: help texts, parsing and `noetl config show` come from here. Each room of the
//! house has its own file.

mod client;
mod cluster;
mod database;
mod doors;
mod earlier;
mod limits;
mod outlets;
mod process;
mod secrets;
mod switches;
mod worker;

use super::setting::{AnySetting, Setting};
use super::{LogFormat, Role, StoreChoice, read};

pub(crate) use client::*;
pub(crate) use cluster::*;
pub(crate) use database::*;
pub(crate) use doors::*;
pub(crate) use earlier::*;
pub(crate) use limits::*;
pub(crate) use outlets::*;
pub(crate) use process::*;
pub(crate) use secrets::*;
pub(crate) use switches::*;
pub(crate) use worker::*;

const EMBEDDED: &[Role] = &[
    Role::Run,
    Role::Dev,
    Role::Server,
    Role::Client,
    Role::Database,
];
const LISTENING: &[Role] = &[Role::Dev, Role::Server];
const WORKING: &[Role] = &[Role::Worker, Role::Dev, Role::Run];
const LASTING: &[Role] = &[Role::Dev, Role::Server, Role::Worker];

/// Every setting, in the order in which they are shown.
pub(crate) static TABLE: [&dyn AnySetting; 104] = [
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
    &HEAD_TIMEOUT,
    &BODY_TIMEOUT,
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
    &POSTGRES_ACQUIRE_TIMEOUT,
    &POSTGRES_SSLMODE,
    &POSTGRES_SSLROOTCERT,
    &SCHEMA,
    &STATEMENT_CACHE,
    &PARTITIONS_AHEAD,
    &SERVER_NAME,
    &MACHINE_ID,
    &COMMAND_LEASE,
    &OFFLINE_AFTER,
    &CLASSIC_CLAIM_MAX,
    &MAX_ATTEMPTS,
    &RUNTIME_SWEEP,
    &AUTO_RECREATE,
    &SHARDS,
    &CLUSTER_DSN,
    &SHARD_COUNT,
    &SHARD_INDEX,
    &SNAPSHOT_EVERY,
    &INTERNAL_TOKEN,
    &ENCRYPTION_KEY,
    &ENCRYPTION_KEYS_OLD,
    &SECRET_AUDIT_REQUIRED,
    &OUTBOX,
    &OUTBOX_LEASE,
    &OUTBOX_MAX_ATTEMPTS,
    &OUTBOX_KEEP,
    &AUTO_PURGE,
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
    &NOTIFY_CAPABILITY,
    &STREAM_ENABLED,
    &STREAM_BATCH,
    &STREAM_POLL,
    &STREAM_BACKFILL,
    &STREAM_DEDUP,
    &STREAM_RETENTION,
    &SERVER_URL,
    &INTERNAL_URL,
    &PROFILE,
    &TOKEN,
    &TLS_CA,
    &TLS_CLIENT_CERT,
    &TLS_CLIENT_KEY,
    &POOL,
    &WORKER_ID,
    &CONCURRENCY,
    &HEARTBEAT,
    &WORKER_METRICS_BIND,
];
