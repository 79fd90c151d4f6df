//! All settings. Flags, help texts, parsing and `noetl config show` are generated from this table.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use noetl_server::http::{AllowedOrigins, CertificateIdentities};
use noetl_store::{FeedLimit, TlsVerification};
use noetl_tools::egress::EgressPolicy;
use noetl_tools::sandbox::SandboxMode;
use noetl_types::{ByteSize, MachineId, PoolName, TenantId, WorkerId};

use super::parsers::{
    parse_bool, parse_directories, parse_egress_policy, parse_from_str, parse_http_url,
    parse_identifier, parse_images, parse_ip_address, parse_log_filter, parse_log_format,
    parse_machine_id, parse_named_urls, parse_nats_url, parse_number, parse_path, parse_port,
    parse_sandbox_mode, parse_size, parse_socket_address, parse_ssl_mode, parse_store,
    parse_task_user, parse_tenant_weights, parse_text,
};
use super::setting::{AnySetting, Setting, SettingInfo, fixed, optional};
use super::{LogFormat, Role, StoreChoice};

const LOCAL_STORE_ROLES: &[Role] =
    &[Role::Run, Role::Dev, Role::Server, Role::Client, Role::Database];
const LISTENING_ROLES: &[Role] = &[Role::Dev, Role::Server];
const WORKING_ROLES: &[Role] = &[Role::Worker, Role::Dev, Role::Run];
const LONG_RUNNING_ROLES: &[Role] = &[Role::Dev, Role::Server, Role::Worker];

/// Obsolete settings. A value other than the former default causes a warning.
pub(crate) static OBSOLETE_SETTINGS: [&SettingInfo; 2] = [&RUNTIME_SWEEP.info, &AUTO_RECREATE.info];

/// Declares the settings, and the table of them in the order in which they are shown.
macro_rules! settings {
    ($($name:ident: $type:ty = $setting:expr;)*) => {
        $(pub(crate) static $name: Setting<$type> = $setting;)*

        /// All settings, in the order in which they are shown.
        pub(crate) static SETTINGS_TABLE: &[&dyn AnySetting] = &[$(&$name),*];
    };
}

// Each setting: the variable, the default value (or a description of the behavior without a value),
// the parser and the description.
settings! {
    // Storage and listeners.
    DATA_DIR: PathBuf = optional("NOETL_DATA_DIR", "noetl in the user's data directory", parse_path,
        "Directory of the embedded database").flag("data-dir", "DIR", LOCAL_STORE_ROLES);
    STORE: StoreChoice = optional("NOETL_STORE",
        "a file in the data directory, or postgres if NOETL_DSN or POSTGRES_HOST is set",
        parse_store,
        "Storage for logs: sqlite:PATH, postgres or memory")
        .flag("store", "STORE", LOCAL_STORE_ROLES);
    HOST: IpAddr = fixed("NOETL_HOST", "127.0.0.1", parse_ip_address,
        "Address to listen on").flag("host", "ADDRESS", LISTENING_ROLES);
    PORT: u16 = fixed("NOETL_PORT", "8082", parse_port,
        "Port to listen on; 0 selects a free port").flag("port", "PORT", LISTENING_ROLES);
    INTERNAL_BIND: SocketAddr = optional("NOETL_INTERNAL_BIND", "the main listener",
        parse_socket_address,
        "Address and port of a separate listener for /api/internal; port 0 selects a free port");
    METRICS_BIND: SocketAddr = optional("NOETL_METRICS_BIND", "none; /metrics requires a token",
        parse_socket_address,
        "Address and port of a listener for /metrics without a token; port 0 selects a free port");
    PUBLIC_URL: String = optional("NOETL_PUBLIC_SERVER_URL", "http://localhost:PORT",
        parse_http_url, "Public address of the server").flag("public-url", "URL", LISTENING_ROLES);
    DEV: bool = optional("NOETL_DEV", "true in noetl dev, false in noetl server", parse_bool,
        "Allow local clients without a token");
    BOOTSTRAP_TOKEN: String = optional("NOETL_BOOTSTRAP_TOKEN", "generated and printed once",
        parse_text,
        "First token of a server without tokens, with full access: noetl_<prefix>_<64 hex digits>")
        .secret();

    // TLS and request limits.
    TLS_CERT: PathBuf = optional("NOETL_TLS_CERT", "no encryption; only local clients are accepted",
        parse_path,
        "PEM file with the server's certificates").flag("tls-cert", "FILE", LISTENING_ROLES);
    TLS_KEY: PathBuf = optional("NOETL_TLS_KEY", "none", parse_path,
        "PEM file with the key of the certificate").flag("tls-key", "FILE", LISTENING_ROLES);
    TLS_CLIENT_CA: PathBuf = optional("NOETL_TLS_CLIENT_CA", "client certificates are not required",
        parse_path, "PEM file with the authority that must have signed client certificates");
    MTLS_IDENTITIES: CertificateIdentities = optional("NOETL_MTLS_IDENTITIES",
        "client certificates grant no access", CertificateIdentities::parse_list,
        "Identities of client certificates: NAME=SCOPE+pool:POOL+tenant:TENANT, separated by ; \
         where a name is dns:HOST or a URI");
    UNSAFE_PLAINTEXT: bool = fixed("NOETL_UNSAFE_PLAINTEXT", "false", parse_bool,
        "Accept unencrypted connections from other machines; reported by /readyz");
    CORS_ORIGINS: AllowedOrigins = optional("NOETL_CORS_ORIGINS",
        "none; pages of other origins cannot read responses", AllowedOrigins::parse_list,
        "Origins allowed to call the server, such as https://app.example.com, separated by commas");
    UNSAFE_DURABILITY: bool = fixed("NOETL_UNSAFE_DURABILITY", "false", parse_bool,
        "Accept a PostgreSQL server that can lose committed transactions; reported by /readyz");
    UNSAFE_NATS: bool = fixed("NOETL_UNSAFE_NATS", "false", parse_bool,
        "Send command tokens through a NATS server without authentication; reported by /readyz");
    SQL_CONSOLE: bool = fixed("NOETL_SQL_CONSOLE", "false", parse_bool,
        "Request a SQL console, which this version does not have: POST /api/postgres/execute is \
         rejected");
    RATE_PER_TOKEN: u32 = optional("NOETL_RATE_PER_TOKEN", "5000, and 0 on an embedded database",
        parse_number::<0, 1_000_000>, "Maximum requests per second per token; 0 means unlimited");
    RATE_PER_TENANT: u32 = optional("NOETL_RATE_PER_TENANT", "5000, and 0 on an embedded database",
        parse_number::<0, 1_000_000>, "Maximum requests per second per tenant; 0 means unlimited");
    REQUESTS_PER_TOKEN: u32 = optional("NOETL_HTTP_MAX_REQUESTS_PER_TOKEN",
        "a quarter of NOETL_HTTP_MAX_CONNECTIONS", parse_number::<1, 1_000_000>,
        "Maximum requests of a token at a time, including long polls and live streams");
    REQUESTS_PER_TENANT: u32 = optional("NOETL_HTTP_MAX_REQUESTS_PER_TENANT",
        "half of NOETL_HTTP_MAX_CONNECTIONS", parse_number::<1, 1_000_000>,
        "Maximum requests of a tenant at a time, including long polls and live streams");
    AUTH_FAILURES: u32 = fixed("NOETL_AUTH_FAILURES_PER_MINUTE", "60", parse_number::<0, 1_000_000>,
        "Failed authentications per minute from an address, after which further ones get status \
         429; 0 means unlimited");
    HEAD_TIMEOUT_SECS: u32 = fixed("NOETL_HTTP_HEAD_SECS", "10", parse_number::<1, 300>,
        "Maximum seconds to receive the head of a request, and between two requests");
    BODY_TIMEOUT_SECS: u32 = fixed("NOETL_HTTP_BODY_SECS", "30", parse_number::<1, 600>,
        "Maximum seconds to receive a request body, plus one second per MiB");
    MAX_CONNECTIONS: u32 = fixed("NOETL_HTTP_MAX_CONNECTIONS", "10240",
        parse_number::<1, 1_000_000>,
        "Maximum concurrent connections; further ones are rejected and can retry");
    BODY_MAX: ByteSize = fixed("NOETL_BODY_MAX_BYTES", "1MiB", parse_size::<64, 65_536>,
        "Maximum size of a request body; 8MiB for documents and batches, 72MiB for worker reports");
    INLINE_MAX: ByteSize = fixed("NOETL_INLINE_MAX_BYTES", "64KiB", parse_size::<1, 1024>,
        "Maximum size of step data stored in the log, unless the playbook sets it; larger data is \
         stored separately");
    RESULT_MAX: ByteSize = fixed("NOETL_RESULT_MAX_BYTES", "64MiB", parse_size::<64, 65_536>,
        "Maximum size of task data, for workers, and of a separately stored result, for servers");
    MAX_LIVE: u32 = fixed("NOETL_MAX_LIVE_EXECUTIONS", "100000", parse_number::<1, { u32::MAX }>,
        "Maximum unfinished runs per tenant; further starts are rejected and can retry");
    MAX_DESCENDANTS: u32 = fixed("NOETL_MAX_LIVE_DESCENDANTS", "10000",
        parse_number::<1, { u32::MAX }>,
        "Maximum unfinished descendants of a run; the steps that start further ones fail");
    MAX_TOKENS: u32 = fixed("NOETL_MAX_TOKENS", "10000", parse_number::<1, 1_000_000>,
        "Maximum API tokens per tenant, including those that ended in the last 30 days");
    MAX_DEFINITIONS: u32 = fixed("NOETL_MAX_DEFINITIONS", "20000", parse_number::<1, 10_000_000>,
        "Maximum versions of all playbooks per tenant");
    MAX_BROADCASTS: u32 = fixed("NOETL_MAX_BROADCASTS", "100000", parse_number::<1, 10_000_000>,
        "Maximum stored broadcast signals per tenant; they are kept for 30 days");
    TENANT_WEIGHTS: BTreeMap<TenantId, u32> = optional("NOETL_TENANT_WEIGHTS",
        "all tenants have weight 1", parse_tenant_weights,
        "Shares of the tenants of a busy server: TENANT=WEIGHT, separated by commas; weights are \
         from 1 to 1000");

    // PostgreSQL.
    DSN: String = optional("NOETL_DSN", "built from POSTGRES_*", parse_text,
        "Address of the PostgreSQL database").secret();
    OWNER_DSN: String = optional("NOETL_OWNER_DSN", "the server's role owns the tables", parse_text,
        "Address of the same database for the role that owns the tables; the server's role can \
         then only append to the event log").secret();
    POSTGRES_HOST: String = fixed("POSTGRES_HOST", "localhost", parse_text,
        "Host of the PostgreSQL database");
    POSTGRES_PORT: u16 = fixed("POSTGRES_PORT", "5432", parse_port,
        "Port of the PostgreSQL database");
    POSTGRES_USER: String = fixed("POSTGRES_USER", "noetl", parse_text,
        "User of the PostgreSQL database");
    POSTGRES_PASSWORD: String = optional("POSTGRES_PASSWORD", "none", parse_text,
        "Password of the PostgreSQL database").secret();
    POSTGRES_DATABASE: String = fixed("POSTGRES_DATABASE", "noetl", parse_text,
        "Name of the PostgreSQL database");
    POSTGRES_MAX_CONNECTIONS: u32 = fixed("POSTGRES_MAX_CONNECTIONS", "10", parse_number::<3, 1000>,
        "Maximum connections to the PostgreSQL database, two of which write");
    POSTGRES_MIN_CONNECTIONS: u32 = fixed("POSTGRES_MIN_CONNECTIONS", "1", parse_number::<0, 1000>,
        "Connections to the PostgreSQL database that are opened at startup");
    POSTGRES_ACQUIRE_TIMEOUT_SECS: u32 = fixed("POSTGRES_ACQUIRE_TIMEOUT", "30",
        parse_number::<1, 300>,
        "Maximum seconds that a request waits for a connection to the PostgreSQL database");
    POSTGRES_SSLMODE: TlsVerification = optional("POSTGRES_SSLMODE",
        "verify-full; prefer for a local server", parse_ssl_mode,
        "TLS mode of PostgreSQL connections, if NOETL_DSN does not set one: disable, prefer, \
         require, verify-ca or verify-full");
    POSTGRES_SSLROOTCERT: PathBuf = optional("POSTGRES_SSLROOTCERT",
        "the system's trusted authorities", parse_path,
        "PEM file with the authorities that signed the PostgreSQL server's certificate");
    SCHEMA: String = fixed("NOETL_SCHEMA", "noetl", parse_identifier,
        "Schema of the tables in the PostgreSQL database");
    STATEMENT_CACHE: u32 = fixed("NOETL_PG_STATEMENT_CACHE_CAPACITY", "100",
        parse_number::<0, 10_000>, "Prepared statements cached per read connection to PostgreSQL");
    PARTITIONS_AHEAD_MONTHS: u32 = fixed("NOETL_PARTITIONS_AHEAD_MONTHS", "3",
        parse_number::<1, 24>,
        "Months for which log partitions are created in advance (PostgreSQL)");

    // Servers in a cluster, and execution.
    SERVER_NAME: String = fixed("NOETL_SERVER_NAME", "noetl-control-plane", parse_text,
        "Name of the server in logs and events");
    MACHINE_ID: MachineId = optional("NOETL_SERVER_MACHINE_ID", "leased from the store",
        parse_machine_id,
        "Number from 0 to 1023, unique among servers; part of every id that the server generates");
    COMMAND_LEASE_SECS: u32 = fixed("NOETL_COMMAND_LEASE_SECS", "30", parse_number::<5, 3600>,
        "Seconds until the lease of a command expires if its worker does not renew it; the value of \
         the server applies to workers that do not set it");
    WORKER_OFFLINE_SECS: u32 = fixed("NOETL_RUNTIME_OFFLINE_SECONDS", "60",
        parse_number::<5, 86_400>,
        "Seconds without a heartbeat after which a worker counts as offline");
    CLASSIC_CLAIM_MAX_SECS: u32 = fixed("NOETL_CLASSIC_CLAIM_MAX_SECS", "1800",
        parse_number::<30, 86_400>,
        "Maximum seconds that a worker can hold a command that it claimed by name, including \
         renewals");
    MAX_ATTEMPTS: u32 = fixed("NOETL_MAX_ATTEMPTS", "3", parse_number::<1, 100>,
        "Maximum times that a command is dispatched if its worker is lost each time");

    // Obsolete settings of earlier releases that deployments may still set.
    RUNTIME_SWEEP: u32 = fixed("NOETL_RUNTIME_SWEEP_INTERVAL", "30", parse_number::<1, 3600>,
        "No effect: the status of a worker is determined when it is queried");
    AUTO_RECREATE: bool = fixed("NOETL_AUTO_RECREATE_RUNTIME", "true", parse_bool,
        "No effect: a process that is no longer registered registers itself again");

    // Shards and snapshots.
    SHARDS: String = optional("NOETL_SHARDS", "one database", parse_text,
        "Databases of several shards; this version supports one database and refuses to start")
        .secret();
    CLUSTER_DSN: String = optional("NOETL_CLUSTER_DSN", "one database", parse_text,
        "Database of data shared between shards; this version supports one database and refuses to \
         start").secret();
    SHARD_COUNT: u32 = fixed("NOETL_SHARD_COUNT", "1", parse_number::<1, 1024>,
        "Default number of shards in responses about shard placement");
    SHARD_INDEX: u32 = fixed("NOETL_SHARD_INDEX", "0", parse_number::<0, 1023>,
        "Shard of this server in responses about shard placement");
    SNAPSHOT_INTERVAL_EVENTS: u32 = fixed("NOETL_SNAPSHOT_EVERY", "500",
        parse_number::<50, 100_000>, "Number of events after which a snapshot of a run is stored");

    // Secrets of the server.
    INTERNAL_TOKEN: String = optional("NOETL_INTERNAL_API_TOKEN",
        "none; the internal API is disabled", parse_text,
        "Token of the internal API for publishing, projecting and purging; used by workers of pool \
         system").secret();
    ENCRYPTION_KEY: String = optional("NOETL_ENCRYPTION_KEY",
        "for a database file, generated once next to it", parse_text,
        "Key that encrypts secrets: base64 of 32 bytes").secret();
    ENCRYPTION_KEYS_OLD: String = optional("NOETL_ENCRYPTION_KEYS_OLD", "none", parse_text,
        "Earlier keys, separated by commas, used only for decryption").secret();
    SECRET_AUDIT_REQUIRED: bool = fixed("NOETL_SECRET_AUDIT_REQUIRED", "true", parse_bool,
        "Release a secret only after the operation is in the audit log");

    // Detection of tampering.
    ANCHOR_SECS: u32 = fixed("NOETL_ANCHOR_SECS", "60", parse_number::<0, 86_400>,
        "Seconds between two anchors of the heads of changed logs; 0 disables anchors");
    ANCHOR_FILE: PathBuf = optional("NOETL_ANCHOR_FILE", "none; anchors are only in the database",
        parse_path,
        "File to which a server appends the anchors, on storage that an attacker of the database \
         cannot change");
    VERIFY_HOURS: u32 = fixed("NOETL_VERIFY_HOURS", "0", parse_number::<0, 8760>,
        "Hours between two verifications of the whole store by a server; 0 disables them");

    // The outbox and retention.
    OUTBOX_ENABLED: bool = optional("NOETL_OUTBOX_ENABLED",
        "true if NOETL_INTERNAL_API_TOKEN is set", parse_bool,
        "Write each event to the outbox for publishing");
    OUTBOX_LEASE_SECS: u32 = fixed("NOETL_OUTBOX_LEASE_SECS", "60", parse_number::<5, 3600>,
        "Seconds until the claim of a publisher on an outbox row expires");
    OUTBOX_MAX_ATTEMPTS: u32 = fixed("NOETL_OUTBOX_MAX_ATTEMPTS", "20", parse_number::<1, 1000>,
        "Maximum attempts to publish an outbox row before it becomes dead");
    OUTBOX_KEEP_HOURS: u32 = fixed("NOETL_OUTBOX_KEEP_HOURS", "24", parse_number::<1, 8760>,
        "Hours that published outbox rows are kept");
    COMMAND_RETENTION_DAYS: u32 = fixed("NOETL_COMMAND_RETENTION_DAYS", "7", parse_number::<0, 36_500>,
        "Days that ended commands are kept in the queue; 0 keeps them. Logs are kept");
    AUTO_PURGE_DAYS: u32 = fixed("NOETL_AUTO_PURGE_DAYS", "0", parse_number::<0, 36_500>,
        "Days after which the daily cleanup deletes the logs of ended runs; 0 keeps them");

    // The process.
    THREADS: u32 = optional("NOETL_WORKERS", "the number of cores", parse_number::<1, 1024>,
        "Threads of the process");
    DISABLE_METRICS: bool = fixed("NOETL_DISABLE_METRICS", "false", parse_bool, "Disable /metrics");
    DEBUG: bool = fixed("NOETL_DEBUG", "false", parse_bool,
        "Log more if NOETL_LOG is not set: info,noetl=debug");
    LOG: String = fixed("NOETL_LOG", "info", parse_log_filter,
        "Log filter: a level, or a filter such as info,noetl_server=debug; libraries log only \
         warnings, because their other lines can contain secrets")
        .flag("log", "FILTER", LONG_RUNNING_ROLES);
    LOG_FORMAT: LogFormat = fixed("NOETL_LOG_FORMAT", "auto", parse_log_format,
        "Format of log lines: text, json, or auto (text on a terminal)")
        .flag("log-format", "FORMAT", LONG_RUNNING_ROLES);
    TRACES: String = optional("OTEL_EXPORTER_OTLP_ENDPOINT", "none; no traces are sent",
        parse_http_url,
        "Address of an OpenTelemetry collector for traces of runs (OTLP over HTTP)");

    // Tasks.
    EGRESS: EgressPolicy = optional("NOETL_EGRESS_ALLOW",
        "public addresses only; all addresses in noetl run and noetl dev", parse_egress_policy,
        "Private addresses that tools can connect to: host:port, CIDR, or * for all");
    SANDBOX: SandboxMode = optional("NOETL_SANDBOX", "best_effort; off in noetl run and noetl dev",
        parse_sandbox_mode,
        "Sandbox for user code: off, best_effort, or strict, which refuses tasks if a layer is \
         unavailable");
    SANDBOX_NETWORK: bool = fixed("NOETL_SANDBOX_NETWORK", "true", parse_bool,
        "Allow network access for sandboxed user code");
    SANDBOX_WRITABLE: Vec<PathBuf> = optional("NOETL_SANDBOX_WRITABLE", "only their own directory",
        parse_directories,
        "Directories that sandboxed user code can write to, separated by commas");
    SANDBOX_READABLE: Vec<PathBuf> = optional("NOETL_SANDBOX_READABLE",
        "the programs and libraries of the system", parse_directories,
        "Files and directories that sandboxed user code can read, separated by commas");
    SANDBOX_USER: Option<u32> = fixed("NOETL_SANDBOX_USER", "64999", parse_task_user,
        "User id of user code of a worker that runs as root, or worker for the user of the worker");
    FILE_ROOTS: Vec<PathBuf> = optional("NOETL_FILE_ROOTS",
        "anywhere except in the platform's own files", parse_directories,
        "Directories that tasks can use for scripts, databases and mounts, separated by commas");
    TASK_MEMORY: ByteSize = optional("NOETL_TASK_MEMORY",
        "the machine's memory, from 4GiB to 32GiB; 32GiB in noetl run and noetl dev",
        parse_size::<262_144, 17_179_869_184>,
        "Memory limit of each process of a task (address space) and of each container");
    TASK_PROCESSES: u32 = fixed("NOETL_TASK_PROCESSES", "16384", parse_number::<64, 4_194_304>,
        "Maximum processes and threads of the user that runs tasks, and of each container");
    TASK_FILE_SIZE: ByteSize = fixed("NOETL_TASK_FILE_SIZE", "4GiB",
        parse_size::<1_024, 17_179_869_184>, "Maximum size of a file written by a task");
    CONTAINER_IMAGES: Vec<String> = optional("NOETL_CONTAINER_IMAGES", "any", parse_images,
        "Container images that tasks can use, separated by commas; a final * matches any suffix");
    // A URL can contain a key in its query.
    MCP_SERVERS: BTreeMap<String, String> = optional("NOETL_MCP_SERVERS",
        "none; tasks specify the address of their server", parse_named_urls,
        "MCP servers that tasks can use by name: NAME=URL, separated by commas").secret();

    // NATS and the event stream.
    NATS_URL: String = optional("NOETL_NATS_URL", "none; NATS is not used", parse_nats_url,
        "Address of the NATS server: nats:// or tls://, several separated by commas").secret();
    NATS_URL_ALIAS: String = optional("NATS_URL", "same as NOETL_NATS_URL", parse_nats_url,
        "Alternative to NOETL_NATS_URL, which takes precedence").secret();
    NATS_USER: String = optional("NATS_USER", "none", parse_text, "User of the NATS server");
    NATS_PASSWORD: String = optional("NATS_PASSWORD", "none", parse_text,
        "Password of the NATS server").secret();
    NATS_TOKEN: String = optional("NATS_TOKEN", "none", parse_text,
        "Token of the NATS server").secret();
    NATS_BARE_SUBJECT: bool = fixed("NOETL_NATS_BARE_SUBJECT", "false", parse_bool,
        "Also announce commands of the pool 'shared' on the subject noetl.commands");
    NATS_COMMAND_TOKENS: bool = optional("NOETL_NATS_COMMAND_TOKENS",
        "true if callers need a token", parse_bool,
        "Include a one-command access token in the address of each command notification");
    STREAM_ENABLED: bool = fixed("NOETL_EVENT_STREAM_ENABLED", "false", parse_bool,
        "Publish every event to the stream noetl_events");
    // Maximum of a single read of the log.
    STREAM_BATCH: u32 = fixed("NOETL_EVENT_STREAM_BATCH", "500",
        parse_number::<1, { FeedLimit::MAX.get() }>,
        "Maximum events per read of the log, and between two updates of the cursor");
    STREAM_POLL_MS: u32 = fixed("NOETL_EVENT_STREAM_POLL_MS", "500", parse_number::<10, 60_000>,
        "Milliseconds between polls for new events if no notification arrives");
    STREAM_BACKFILL: bool = fixed("NOETL_EVENT_STREAM_BACKFILL", "false", parse_bool,
        "Start a new stream with the first event of the log instead of the next one");
    STREAM_DEDUP_SECS: u32 = fixed("NOETL_EVENT_STREAM_DEDUP_SECS", "120",
        parse_number::<1, 86_400>, "Seconds for which a new stream detects duplicate messages");
    STREAM_RETENTION_SECS: u32 = fixed("NOETL_EVENT_STREAM_RETENTION_SECS", "86400",
        parse_number::<60, 31_536_000>, "Seconds for which a new stream retains messages");

    // Clients.
    SERVER_URL: String = fixed("NOETL_SERVER_URL", "http://localhost:8082", parse_http_url,
        "Address of the server")
        .flag("server", "URL", &[Role::Worker, Role::Client, Role::Operator]);
    INTERNAL_URL: String = optional("NOETL_INTERNAL_URL", "same as NOETL_SERVER_URL",
        parse_http_url,
        "Address of the internal API for workers of pool system and for operators, if it has a \
         separate listener");
    PROFILE: String = optional("NOETL_PROFILE", "the selected profile, if any", parse_text,
        "Profile that names the server; see noetl profile")
        .flag("profile", "NAME", &[Role::Client, Role::Operator]);
    TOKEN: String = optional("NOETL_TOKEN", "none", parse_text,
        "Token that workers and commands send to the server").secret();
    TLS_CA: PathBuf = optional("NOETL_TLS_CA", "the system's trusted authorities", parse_path,
        "PEM file with the authority that signed the server's certificate");
    TLS_CLIENT_CERT: PathBuf = optional("NOETL_TLS_CLIENT_CERT", "none", parse_path,
        "PEM file with the client certificate of workers and commands");
    TLS_CLIENT_KEY: PathBuf = optional("NOETL_TLS_CLIENT_KEY", "none", parse_path,
        "PEM file with the key of the client certificate");

    // Workers.
    POOL: PoolName = fixed("WORKER_POOL_NAME", "shared", parse_from_str,
        "Pool of the worker").flag("pool", "NAME", &[Role::Worker]);
    WORKER_ID: WorkerId = optional("WORKER_ID", "host name, process id and a random number",
        parse_from_str, "Unique name of the worker").flag("id", "NAME", &[Role::Worker]);
    MAX_CONCURRENT_COMMANDS: u32 = fixed("WORKER_MAX_CONCURRENT", "32", parse_number::<1, 1024>,
        "Maximum concurrent commands").flag("concurrency", "N", WORKING_ROLES);
    WORKER_HEARTBEAT_SECS: u32 = fixed("WORKER_HEARTBEAT_INTERVAL", "15", parse_number::<1, 60>,
        "Seconds between heartbeats of the worker");
    WORKER_METRICS_BIND: SocketAddr = optional("WORKER_METRICS_BIND",
        "none; the worker does not listen", parse_socket_address,
        "Address and port of the worker's Prometheus metrics; port 0 selects a free port");
}
