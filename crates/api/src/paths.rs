//! Where each route is found. A part in braces is a parameter of the router.

/// The process lives.
pub const LIVEZ: &str = "/livez";
/// The same, for probes that ask there.
pub const HEALTH: &str = "/health";
/// The process can work.
pub const READYZ: &str = "/readyz";
/// What a server counts, for Prometheus.
pub const METRICS: &str = "/metrics";
/// Starts a run.
pub const EXECUTE: &str = "/api/execute";
/// The runs.
pub const EXECUTIONS: &str = "/api/executions";
/// A run.
pub const EXECUTION: &str = "/api/executions/{execution_id}";
/// Where a run stands.
pub const EXECUTION_STATUS: &str = "/api/executions/{execution_id}/status";
/// Why a run waits, or how it came to its end.
pub const EXECUTION_EXPLAIN: &str = "/api/executions/{execution_id}/explain";
/// The log of a run.
pub const EXECUTION_EVENTS: &str = "/api/executions/{execution_id}/events";
/// Credentials, without their secrets.
pub const CREDENTIALS: &str = "/api/credentials";
/// A credential, by its id or its name.
pub const CREDENTIAL: &str = "/api/credentials/{credential}";
/// The same, sealed for a worker.
pub const CREDENTIAL_SEALED: &str = "/api/credentials/{credential}/sealed";
/// Wraps secrets under the current key.
pub const ROTATE_KEYS: &str = "/api/credentials/rotate";
/// What workers resolved for an entry of the keychain of a definition.
pub const KEYCHAIN: &str = "/api/keychain/{catalog_id}/{name}";
/// All that is kept for a definition, without its data.
pub const KEYCHAIN_OF: &str = "/api/keychain/catalog/{catalog_id}";
/// All events as they are committed.
pub const EVENTS_STREAM: &str = "/api/events/stream";
/// The log of a run as it grows.
pub const EXECUTION_EVENTS_STREAM: &str = "/api/executions/{execution_id}/events/stream";
/// What a run looked like at a moment.
pub const REPLAY_STATE: &str = "/api/replay/state";
/// Ends a run.
pub const EXECUTION_CANCEL: &str = "/api/executions/{execution_id}/cancel";
/// Sends a signal to a run.
pub const EXECUTION_SIGNAL: &str = "/api/executions/{execution_id}/signal";
/// Decides about something that a run waits for.
pub const EXECUTION_APPROVE: &str = "/api/executions/{execution_id}/approve";
/// Sends a signal to everybody.
pub const SIGNALS: &str = "/api/signals";
/// What waits for a person.
pub const APPROVALS: &str = "/api/approvals";
/// Registers a definition.
pub const CATALOG_REGISTER: &str = "/api/catalog/register";
/// A definition.
pub const CATALOG_RESOURCE: &str = "/api/catalog/resource";
/// Hands out commands.
pub const COMMANDS_LEASE: &str = "/api/commands/lease";
/// Keeps commands.
pub const COMMANDS_HEARTBEAT: &str = "/api/commands/heartbeat";
/// Takes what became of commands.
pub const COMMANDS_REPORT: &str = "/api/commands/report";
/// Keeps a result of a run.
pub const RESULT_PUT: &str = "/api/result/{execution_id}";
/// A stored result.
pub const RESULT_RESOLVE: &str = "/api/result/resolve";
/// Registers a worker.
pub const POOL_REGISTER: &str = "/api/worker/pool/register";
/// A worker lives.
pub const POOL_HEARTBEAT: &str = "/api/worker/pool/heartbeat";
/// A worker leaves.
pub const POOL_DEREGISTER: &str = "/api/worker/pool/deregister";
/// Asks a worker to finish and leave.
pub const POOL_DRAIN: &str = "/api/worker/pool/drain";
/// The workers.
pub const POOLS: &str = "/api/worker/pools";
/// Starts many runs.
pub const EXECUTE_BATCH: &str = "/api/execute/batch";
/// Runs a definition again, with the same input.
pub const EXECUTION_RERUN: &str = "/api/executions/{execution_id}/rerun";
/// Ends a run and all that it started.
pub const EXECUTION_STOP: &str = "/api/executions/{execution_id}/stop";
/// Whether somebody ended a run.
pub const EXECUTION_CANCELLATION: &str = "/api/executions/{execution_id}/cancellation-check";
/// Says how a run ended.
pub const EXECUTION_FINALIZE: &str = "/api/executions/{execution_id}/finalize";
/// Holds a run.
pub const EXECUTION_PAUSE: &str = "/api/executions/{execution_id}/pause";
/// Lets a run go on.
pub const EXECUTION_RESUME: &str = "/api/executions/{execution_id}/resume";
/// Ends runs that nothing happens to any more.
pub const EXECUTIONS_CLEANUP: &str = "/api/executions/cleanup";
/// What somebody else thinks of a run.
pub const EXECUTION_ANALYZE_AI: &str = "/api/executions/{execution_id}/analyze/ai";
/// Registers many definitions.
pub const CATALOG_REGISTER_BATCH: &str = "/api/catalog/register/batch";
/// The definitions.
pub const CATALOG_LIST: &str = "/api/catalog/list";
/// The paths of the definitions of a kind.
pub const CATALOG_LIST_KIND: &str = "/api/catalog/list/{kind}";
/// The definitions of agents.
pub const CATALOG_AGENTS: &str = "/api/catalog/agents/list";
/// The text of a playbook.
pub const CATALOG_CONTENT: &str = "/api/catalog/playbook/content";
/// Registers a playbook.
pub const CATALOG_PLAYBOOK: &str = "/api/catalog/playbook";
/// A playbook of the catalog.
pub const CATALOG_PLAYBOOK_OF: &str = "/api/catalog/playbooks/{*playbook_id}";
/// Checks a playbook.
pub const CATALOG_VALIDATE: &str = "/api/catalog/playbooks/validate";
/// What somebody else makes of a playbook.
pub const CATALOG_EXPLAIN_AI: &str = "/api/catalog/playbooks/explain/ai";
/// A playbook that somebody else writes.
pub const CATALOG_GENERATE_AI: &str = "/api/catalog/playbooks/generate/ai";
/// Takes a definition out of the archive.
pub const CATALOG_RESTORE: &str = "/api/catalog/restore";
/// What is told of a definition: `ui_schema` or `versions`, behind its path.
pub const CATALOG_OF: &str = "/api/catalog/{*path}";
/// The queue.
pub const COMMANDS: &str = "/api/commands";
/// A command, by the event that issued it.
pub const COMMAND: &str = "/api/commands/{event_id}";
/// Gives a command to a worker.
pub const COMMAND_CLAIM: &str = "/api/commands/{event_id}/claim";
/// Takes an event.
pub const EVENTS: &str = "/api/events";
/// Takes several events.
pub const EVENTS_BATCH: &str = "/api/events/batch";
/// The variables of a run.
pub const VARS: &str = "/api/vars/{execution_id}";
/// A variable of a run.
pub const VAR: &str = "/api/vars/{execution_id}/{name}";
/// Counters.
pub const DASHBOARD_STATS: &str = "/api/dashboard/stats";
/// The same, as tiles.
pub const DASHBOARD_WIDGETS: &str = "/api/dashboard/widgets";
/// Where a run is placed.
pub const SHARD_INFO: &str = "/api/runtime/shard-info";
/// Who makes a request.
pub const WHOAMI: &str = "/api/whoami";
/// The document of the API.
pub const OPENAPI: &str = "/api/openapi.json";
/// The same for people.
pub const DOCS: &str = "/api/docs";
/// The tokens.
pub const TOKENS: &str = "/api/tokens";
/// A token.
pub const TOKEN: &str = "/api/tokens/{token_id}";
/// What was done that somebody may ask about.
pub const AUDIT: &str = "/api/audit";
/// How the server is.
pub const API_HEALTH: &str = "/api/health";
/// What the server knows of itself.
pub const STATUS: &str = "/api/status";
/// How its store is.
pub const POOL_STATUS: &str = "/api/pool/status";
/// Its threads.
pub const THREADS: &str = "/api/threads";
/// Its profiler.
pub const PROFILER: &str = "/api/profiler/{*what}";
/// Rows of the outbox.
pub const OUTBOX: &str = "/api/internal/outbox";
/// Hands rows of the outbox to a publisher.
pub const OUTBOX_CLAIM: &str = "/api/internal/outbox/claim";
/// Rows of the outbox are out.
pub const OUTBOX_MARK_PUBLISHED: &str = "/api/internal/outbox/mark-published";
/// A row of the outbox could not be published.
pub const OUTBOX_MARK_FAILED: &str = "/api/internal/outbox/mark-failed";
/// How many rows of the outbox could be claimed.
pub const OUTBOX_PENDING_COUNT: &str = "/api/internal/outbox/pending-count";
/// Rows of the outbox that failed too often.
pub const OUTBOX_DEAD: &str = "/api/internal/outbox/dead";
/// Sends dead rows out again.
pub const OUTBOX_REPLAY: &str = "/api/internal/outbox/replay";
/// Gives dead rows up.
pub const OUTBOX_DISCARD: &str = "/api/internal/outbox/discard";
/// What was refused while its neighbours went on.
pub const QUARANTINE: &str = "/api/internal/quarantine";
/// Copies events into the log.
pub const EVENTS_PROJECT: &str = "/api/internal/events/project";
/// Copies events into the log, as workers tell them.
pub const EVENTS_MATERIALIZE: &str = "/api/internal/events/materialize";
/// Lets read models follow their logs.
pub const PROJECTION_ADVANCE: &str = "/api/internal/projection/advance";
/// Drops what is old.
pub const CLEANUP_PURGE: &str = "/api/internal/cleanup/purge";
/// What a worker gets of a listener.
pub const INGRESS: &str = "/api/internal/ingress/{listener}";
/// How the container of a step ended.
pub const CONTAINER_CALLBACK: &str = "/api/internal/container-callback/{execution_id}/{step}";
/// Modules of tools.
pub const PLUGINS: &str = "/api/internal/plugins/{*path}";
/// Objects of the platform.
pub const OBJECTS: &str = "/api/internal/objects/{*key}";
/// Wraps secrets with a new key.
pub const WALLET_ROTATE: &str = "/api/internal/wallet/rotate-kek";
/// Which keys secrets are wrapped with.
pub const WALLET_KEY_STATUS: &str = "/api/internal/wallet/key-status";
/// What was done to secrets.
pub const SECRET_AUDIT: &str = "/api/internal/secret-audit";
/// Gives a secret to a worker of another region.
pub const CROSS_REGION_RESOLVE: &str = "/api/internal/cross-region/resolve";
/// The cells that there are.
pub const CELLS: &str = "/api/internal/cells";
/// Where the stream of all events stands.
pub const STREAM_STATUS: &str = "/api/stream/status";
/// The feed of all events.
pub const STREAM_FEED: &str = "/api/stream/feed";
/// An event as the stream carries it.
pub const STREAM_EVENT: &str = "/api/stream/events/{execution_id}/{seq}";
/// Where the stream of all events stands, for who may have the log published again.
pub const STREAM_STANDING: &str = "/api/internal/stream/status";
/// Has the whole log published again.
pub const STREAM_REBUILD: &str = "/api/internal/stream/rebuild";
/// Whether the tables of the database are there.
pub const DB_VALIDATE: &str = "/api/db/validate";
/// Prepares the database.
pub const DB_INIT: &str = "/api/db/init";
/// A statement for the database.
pub const SQL_CONSOLE: &str = "/api/postgres/execute";
/// Why a run stands where it stands, with some of its events.
pub const EXECUTION_ANALYZE: &str = "/api/executions/{execution_id}/analyze";
/// The JSON Schema of a kind of document.
pub const SCHEMA: &str = "/api/schema/{document}";
/// A run that begins in the middle of another.
pub const EXECUTION_FORK: &str = "/api/executions/{execution_id}/fork";
/// The failed steps of a run once more.
pub const EXECUTION_RETRY: &str = "/api/executions/{execution_id}/retry";
/// Where two runs, or two moments of one, differ.
pub const EXECUTION_DIFF: &str = "/api/executions/{execution_id}/diff";
/// What another definition would have made of a run.
pub const EXECUTION_WHAT_IF: &str = "/api/executions/{execution_id}/what-if";
/// A run as a file.
pub const EXECUTION_EXPORT: &str = "/api/executions/{execution_id}/export";
/// Whether the log of a run is whole.
pub const EXECUTION_VERIFY: &str = "/api/executions/{execution_id}/verify";
/// Steers many runs.
pub const EXECUTIONS_BULK: &str = "/api/executions/bulk";
/// Where two runs part.
pub const EXECUTIONS_BISECT: &str = "/api/executions/bisect";
/// A run from a file.
pub const EXECUTIONS_IMPORT: &str = "/api/executions/import";
/// The subscriptions.
pub const SUBSCRIPTIONS: &str = "/api/subscriptions";
/// A subscription, and what is done with it.
pub const SUBSCRIPTION: &str = "/api/subscriptions/{*subscription}";
/// The schedules.
pub const SCHEDULES: &str = "/api/schedules";
/// A schedule.
pub const SCHEDULE: &str = "/api/schedules/{schedule_id}";
/// What is done with a schedule.
pub const SCHEDULE_ACT: &str = "/api/schedules/{schedule_id}/{act}";
/// Takes a message of somebody outside.
pub const INGRESS_PUSH: &str = "/api/ingress/{*listener}";
/// Tests of playbooks that are kept beside them.
pub const TEST_SUITE: &str = "/api/playbook-tests/suites/{*suite_id}";
/// Objects of the platform, for workers.
pub const WORKER_OBJECTS: &str = "/api/objects/{*key}";
/// Modules of tools, for workers.
pub const WORKER_PLUGINS: &str = "/api/plugins/{*path}";
