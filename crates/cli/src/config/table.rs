//! Every setting, in one place: help texts, parsing and `noetl config show` come from here.

mod earlier;
mod limits;
mod switches;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use noetl_server::http::{CertifiedNames, Origins};
use noetl_store::{FeedLimit, Trust};
use noetl_tools::egress::EgressPolicy;
use noetl_tools::walls::SandboxMode;
use noetl_types::{MachineId, PoolName, WorkerId};

use super::setting::{AnySetting, Setting};
use super::{LogFormat, Role, StoreChoice, read};

pub(crate) use earlier::{AUTO_RECREATE, EARLIER, RUNTIME_SWEEP};
pub(crate) use limits::{
    BODY_MAX, CONTAINER_IMAGES, INLINE_MAX, MAX_ATTEMPTS, MAX_LIVE, MCP_SERVERS,
    POSTGRES_MIN_CONNECTIONS, RESULT_MAX, STATEMENT_CACHE, TASK_FILE_SIZE, TASK_MEMORY,
    TASK_PROCESSES,
};
pub(crate) use switches::{DEBUG, DISABLE_METRICS, SQL_CONSOLE, UNSAFE_DURABILITY};

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

pub(crate) static DATA_DIR: Setting<PathBuf> = Setting::absent(
    "NOETL_DATA_DIR",
    "noetl in the data folder of the user",
    read::path,
    "Folder of the embedded database",
)
.flag("data-dir", "DIR", EMBEDDED);

pub(crate) static STORE: Setting<StoreChoice> = Setting::absent(
    "NOETL_STORE",
    "a file in the data folder, or postgres where NOETL_DSN or POSTGRES_HOST is set",
    read::store,
    "Where logs are kept: sqlite:PATH, postgres or memory",
)
.flag("store", "STORE", EMBEDDED);

pub(crate) static HOST: Setting<IpAddr> = Setting::new(
    "NOETL_HOST",
    "127.0.0.1",
    read::address,
    "Address to listen on",
)
.flag("host", "ADDRESS", LISTENING);

pub(crate) static PORT: Setting<u16> = Setting::new(
    "NOETL_PORT",
    "8082",
    read::port,
    "Port to listen on; 0 takes a free one",
)
.flag("port", "PORT", LISTENING);

pub(crate) static INTERNAL_BIND: Setting<SocketAddr> = Setting::absent(
    "NOETL_INTERNAL_BIND",
    "where everything else is",
    read::socket,
    "Address and port of a listener of its own for /api/internal; port 0 takes a free one",
);

pub(crate) static METRICS_BIND: Setting<SocketAddr> = Setting::absent(
    "NOETL_METRICS_BIND",
    "none: /metrics needs a token",
    read::socket,
    "Address and port of a listener for /metrics without a token; port 0 takes a free one",
);

pub(crate) static PUBLIC_URL: Setting<String> = Setting::absent(
    "NOETL_PUBLIC_SERVER_URL",
    "http://localhost:PORT",
    read::url,
    "Address under which others reach the server",
)
.flag("public-url", "URL", LISTENING);

pub(crate) static DEV: Setting<bool> = Setting::absent(
    "NOETL_DEV",
    "true in noetl dev, false in noetl server",
    read::flag,
    "Whether programs of this machine are let in without a token",
);

pub(crate) static BOOTSTRAP_TOKEN: Setting<String> = Setting::absent(
    "NOETL_BOOTSTRAP_TOKEN",
    "made and printed once",
    read::text,
    "First token of a server without any, which may do everything: noetl_<prefix>_<64 hex digits>",
)
.secret();

pub(crate) static TLS_CERT: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CERT",
    "no encryption, so only this machine is let in",
    read::path,
    "File with the certificates of the server in PEM",
)
.flag("tls-cert", "FILE", LISTENING);

pub(crate) static TLS_KEY: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_KEY",
    "none",
    read::path,
    "File with the key of the certificate in PEM",
)
.flag("tls-key", "FILE", LISTENING);

pub(crate) static TLS_CLIENT_CA: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CLIENT_CA",
    "clients need no certificate",
    read::path,
    "File with the authority, in PEM, that must have signed the certificates of clients",
);

pub(crate) static MTLS_IDENTITIES: Setting<CertifiedNames> = Setting::absent(
    "NOETL_MTLS_IDENTITIES",
    "certificates stand for nobody",
    read::certified,
    "Whom certificates of clients stand for: NAME=SCOPE+pool:POOL+tenant:TENANT, separated by ; where a \
     name is dns:HOST or a URI",
);

pub(crate) static UNSAFE_PLAINTEXT: Setting<bool> = Setting::new(
    "NOETL_UNSAFE_PLAINTEXT",
    "false",
    read::flag,
    "Lets other machines in without encryption; shows in /readyz",
);

pub(crate) static CORS_ORIGINS: Setting<Origins> = Setting::absent(
    "NOETL_CORS_ORIGINS",
    "none: no page of another origin reads answers",
    read::origins,
    "Origins whose pages may call the server, such as https://app.example.com, separated by commas",
);

pub(crate) static RATE_PER_TOKEN: Setting<u32> = Setting::absent(
    "NOETL_RATE_PER_TOKEN",
    "5000, and 0 on an embedded database",
    read::number::<0, 1_000_000>,
    "Requests in a second for each token; 0 is any number",
);

pub(crate) static HEAD_TIMEOUT: Setting<u32> = Setting::new(
    "NOETL_HTTP_HEAD_SECS",
    "10",
    read::number::<1, 300>,
    "Seconds that a client may take over the head of a request, or be silent between two",
);

pub(crate) static BODY_TIMEOUT: Setting<u32> = Setting::new(
    "NOETL_HTTP_BODY_SECS",
    "30",
    read::number::<1, 600>,
    "Seconds that a client may take over a body, and one more for each MiB of it",
);

pub(crate) static MAX_CONNECTIONS: Setting<u32> = Setting::new(
    "NOETL_HTTP_MAX_CONNECTIONS",
    "10240",
    read::number::<1, 1_000_000>,
    "Connections at once; those beyond are told to come back",
);

pub(crate) static RATE_PER_TENANT: Setting<u32> = Setting::absent(
    "NOETL_RATE_PER_TENANT",
    "5000, and 0 on an embedded database",
    read::number::<0, 1_000_000>,
    "Requests in a second for each tenant; 0 is any number",
);

pub(crate) static DSN: Setting<String> = Setting::absent(
    "NOETL_DSN",
    "made of POSTGRES_*",
    read::text,
    "Address of the PostgreSQL database",
)
.secret();

pub(crate) static OWNER_DSN: Setting<String> = Setting::absent(
    "NOETL_OWNER_DSN",
    "the server's own role owns the tables",
    read::text,
    "Address of the same database for the role that owns the tables; the server's own role can then \
     add to the log and change nothing of it",
)
.secret();

pub(crate) static POSTGRES_HOST: Setting<String> = Setting::new(
    "POSTGRES_HOST",
    "localhost",
    read::text,
    "Host of the PostgreSQL database",
);

pub(crate) static POSTGRES_PORT: Setting<u16> = Setting::new(
    "POSTGRES_PORT",
    "5432",
    read::port,
    "Port of the PostgreSQL database",
);

pub(crate) static POSTGRES_USER: Setting<String> = Setting::new(
    "POSTGRES_USER",
    "noetl",
    read::text,
    "User of the PostgreSQL database",
);

pub(crate) static POSTGRES_PASSWORD: Setting<String> = Setting::absent(
    "POSTGRES_PASSWORD",
    "none",
    read::text,
    "Password of the PostgreSQL database",
)
.secret();

pub(crate) static POSTGRES_DATABASE: Setting<String> = Setting::new(
    "POSTGRES_DATABASE",
    "noetl",
    read::text,
    "Name of the PostgreSQL database",
);

pub(crate) static POSTGRES_MAX_CONNECTIONS: Setting<u32> = Setting::new(
    "POSTGRES_MAX_CONNECTIONS",
    "10",
    read::number::<3, 1000>,
    "Connections to the PostgreSQL database, two of which write",
);

pub(crate) static POSTGRES_ACQUIRE_TIMEOUT: Setting<u32> = Setting::new(
    "POSTGRES_ACQUIRE_TIMEOUT",
    "30",
    read::number::<1, 300>,
    "Seconds that a request waits for a connection to the PostgreSQL database",
);

pub(crate) static POSTGRES_SSLMODE: Setting<Trust> = Setting::absent(
    "POSTGRES_SSLMODE",
    "verify-full; prefer for a server on this machine",
    read::ssl_mode,
    "Encryption of the way to PostgreSQL, where NOETL_DSN does not say: disable, prefer, require, \
     verify-ca or verify-full",
);

pub(crate) static POSTGRES_SSLROOTCERT: Setting<PathBuf> = Setting::absent(
    "POSTGRES_SSLROOTCERT",
    "what the machine trusts",
    read::path,
    "File with the authorities, in PEM, that signed the certificate of the PostgreSQL server",
);

pub(crate) static SCHEMA: Setting<String> = Setting::new(
    "NOETL_SCHEMA",
    "noetl",
    read::identifier,
    "Schema of the tables in the PostgreSQL database",
);

pub(crate) static PARTITIONS_AHEAD: Setting<u32> = Setting::new(
    "NOETL_PARTITIONS_AHEAD_MONTHS",
    "3",
    read::number::<1, 24>,
    "Months of the log that are prepared ahead of time (PostgreSQL)",
);

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

pub(crate) static INTERNAL_TOKEN: Setting<String> = Setting::absent(
    "NOETL_INTERNAL_API_TOKEN",
    "none; the internal API is closed",
    read::text,
    "Token of the internal API, which publishes, copies and purges; workers of pool system show it",
)
.secret();

pub(crate) static ENCRYPTION_KEY: Setting<String> = Setting::absent(
    "NOETL_ENCRYPTION_KEY",
    "for a database in a file, made once beside it",
    read::text,
    "Key that secrets are sealed under: base64 of 32 bytes",
)
.secret();

pub(crate) static ENCRYPTION_KEYS_OLD: Setting<String> = Setting::absent(
    "NOETL_ENCRYPTION_KEYS_OLD",
    "none",
    read::text,
    "Earlier keys, with commas between them: they still open what they sealed",
)
.secret();

pub(crate) static SECRET_AUDIT_REQUIRED: Setting<bool> = Setting::new(
    "NOETL_SECRET_AUDIT_REQUIRED",
    "true",
    read::flag,
    "Whether a secret is handed out only once the trail tells of it",
);

pub(crate) static OUTBOX: Setting<bool> = Setting::absent(
    "NOETL_OUTBOX_ENABLED",
    "true where NOETL_INTERNAL_API_TOKEN is set",
    read::flag,
    "Whether each event waits in the outbox for a publisher",
);

pub(crate) static OUTBOX_LEASE: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_LEASE_SECS",
    "60",
    read::number::<5, 3600>,
    "Seconds after which a claimed row of the outbox is given to another publisher",
);

pub(crate) static OUTBOX_MAX_ATTEMPTS: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_MAX_ATTEMPTS",
    "20",
    read::number::<1, 1000>,
    "How often a row of the outbox is tried before it waits for an operator",
);

pub(crate) static OUTBOX_KEEP: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_KEEP_HOURS",
    "24",
    read::number::<1, 8760>,
    "Hours that published rows of the outbox are kept",
);

pub(crate) static AUTO_PURGE: Setting<u32> = Setting::new(
    "NOETL_AUTO_PURGE_DAYS",
    "0",
    read::number::<0, 36_500>,
    "Days after which the daily cleanup drops the logs of ended runs; 0 keeps them",
);

pub(crate) static THREADS: Setting<u32> = Setting::absent(
    "NOETL_WORKERS",
    "the number of cores",
    read::number::<1, 1024>,
    "Threads of the process",
);

pub(crate) static LOG: Setting<String> = Setting::new(
    "NOETL_LOG",
    "info",
    read::log_filter,
    "What is logged: a level, or a filter such as info,noetl_server=debug",
)
.flag("log", "FILTER", LASTING);

pub(crate) static LOG_FORMAT: Setting<LogFormat> = Setting::new(
    "NOETL_LOG_FORMAT",
    "auto",
    read::log_format,
    "Form of log lines: text, json, or auto, which is text on a terminal",
)
.flag("log-format", "FORM", LASTING);

pub(crate) static TRACES: Setting<String> = Setting::absent(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "none: no traces are sent",
    read::url,
    "Address of an OpenTelemetry collector that takes traces of runs by OTLP over HTTP",
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

pub(crate) static NATS_URL: Setting<String> = Setting::absent(
    "NOETL_NATS_URL",
    "none: nobody is told of work by NATS",
    read::nats_url,
    "Address of the NATS server: nats:// or tls://, several separated by commas",
)
.secret();

pub(crate) static NATS_URL_ALIAS: Setting<String> = Setting::absent(
    "NATS_URL",
    "what NOETL_NATS_URL says",
    read::nats_url,
    "The same by its other name; NOETL_NATS_URL goes first",
)
.secret();

pub(crate) static NATS_USER: Setting<String> =
    Setting::absent("NATS_USER", "none", read::text, "User at the NATS server");

pub(crate) static NATS_PASSWORD: Setting<String> = Setting::absent(
    "NATS_PASSWORD",
    "none",
    read::text,
    "Password at the NATS server",
)
.secret();

pub(crate) static NATS_TOKEN: Setting<String> = Setting::absent(
    "NATS_TOKEN",
    "none",
    read::text,
    "Token for the NATS server",
)
.secret();

pub(crate) static NATS_BARE_SUBJECT: Setting<bool> = Setting::new(
    "NOETL_NATS_BARE_SUBJECT",
    "false",
    read::flag,
    "Whether commands of the pool 'shared' are also told on noetl.commands alone",
);

pub(crate) static NOTIFY_CAPABILITY: Setting<bool> = Setting::absent(
    "NOETL_NOTIFY_CAPABILITY",
    "true where callers need a token",
    read::flag,
    "Whether the address in a notice lets its bearer work on that command without a token",
);

pub(crate) static STREAM_ENABLED: Setting<bool> = Setting::new(
    "NOETL_EVENT_STREAM_ENABLED",
    "false",
    read::flag,
    "Whether every event is published to the stream noetl_events",
);

pub(crate) static STREAM_BATCH: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_BATCH",
    "500",
    // No read of the log gives more.
    read::number::<1, { FeedLimit::MAX.get() }>,
    "Events that are read together, and between two moves of the cursor",
);

pub(crate) static STREAM_POLL: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_POLL_MS",
    "500",
    read::number::<10, 60_000>,
    "Milliseconds between two looks for new events when nobody tells of them",
);

pub(crate) static STREAM_BACKFILL: Setting<bool> = Setting::new(
    "NOETL_EVENT_STREAM_BACKFILL",
    "false",
    read::flag,
    "Whether a new stream begins with the first event of the log, not with the next one",
);

pub(crate) static STREAM_DEDUP: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_DEDUP_SECS",
    "120",
    read::number::<1, 86_400>,
    "Seconds for which a new stream knows a message that it has already",
);

pub(crate) static STREAM_RETENTION: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_RETENTION_SECS",
    "86400",
    read::number::<60, 31_536_000>,
    "Seconds for which a new stream keeps a message",
);

pub(crate) static SERVER_URL: Setting<String> = Setting::new(
    "NOETL_SERVER_URL",
    "http://localhost:8082",
    read::url,
    "Address of the server",
)
.flag(
    "server",
    "URL",
    &[Role::Worker, Role::Client, Role::Operator],
);

pub(crate) static INTERNAL_URL: Setting<String> = Setting::absent(
    "NOETL_INTERNAL_URL",
    "what NOETL_SERVER_URL says",
    read::url,
    "Address of the internal API for workers of pool system and for operators, where it has a listener of \
     its own",
);

pub(crate) static PROFILE: Setting<String> = Setting::absent(
    "NOETL_PROFILE",
    "the one that is in use, if any",
    read::text,
    "Profile that names the server; see noetl profile",
)
.flag("profile", "NAME", &[Role::Client, Role::Operator]);

pub(crate) static TOKEN: Setting<String> = Setting::absent(
    "NOETL_TOKEN",
    "none",
    read::text,
    "Token that workers and commands show to the server",
)
.secret();

pub(crate) static TLS_CA: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CA",
    "what the machine trusts",
    read::path,
    "File with the authority, in PEM, that signed the certificate of the server",
);

pub(crate) static TLS_CLIENT_CERT: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CLIENT_CERT",
    "none",
    read::path,
    "File with the certificate, in PEM, that workers and commands show to the server",
);

pub(crate) static TLS_CLIENT_KEY: Setting<PathBuf> = Setting::absent(
    "NOETL_TLS_CLIENT_KEY",
    "none",
    read::path,
    "File with the key of that certificate in PEM",
);

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
