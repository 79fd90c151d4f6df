//! Paths of the HTTP routes. A part in braces is a parameter of the router.

/// Liveness probe.
pub const LIVEZ: &str = "/livez";
/// Liveness probe, for existing probe configurations.
pub const HEALTH: &str = "/health";
/// Readiness probe.
pub const READYZ: &str = "/readyz";
/// Prometheus metrics of the server.
pub const METRICS: &str = "/metrics";
/// Starts an execution.
pub const EXECUTE: &str = "/api/execute";
/// Lists executions.
pub const EXECUTIONS: &str = "/api/executions";
/// Returns an execution.
pub const EXECUTION: &str = "/api/executions/{execution_id}";
/// Returns the status of an execution.
pub const EXECUTION_STATUS: &str = "/api/executions/{execution_id}/status";
/// Explains why an execution waits, or how it ended.
pub const EXECUTION_EXPLAIN: &str = "/api/executions/{execution_id}/explain";
/// Lists the events of an execution.
pub const EXECUTION_EVENTS: &str = "/api/executions/{execution_id}/events";
/// Lists credentials, without their secrets, or stores one.
pub const CREDENTIALS: &str = "/api/credentials";
/// Returns or deletes a credential, by id or name.
pub const CREDENTIAL: &str = "/api/credentials/{credential}";
/// Returns a credential sealed for a worker.
pub const CREDENTIAL_SEALED: &str = "/api/credentials/{credential}/sealed";
/// Wraps all secrets with the current key.
pub const ROTATE_KEYS: &str = "/api/credentials/rotate";
/// Reads, stores or deletes a keychain cache entry of a definition.
pub const KEYCHAIN: &str = "/api/keychain/{catalog_id}/{name}";
/// Lists the keychain cache entries of a definition, without values.
pub const KEYCHAIN_CATALOG: &str = "/api/keychain/catalog/{catalog_id}";
/// Streams all events as they are committed.
pub const EVENTS_STREAM: &str = "/api/events/stream";
/// Streams the events of an execution.
pub const EXECUTION_EVENTS_STREAM: &str = "/api/executions/{execution_id}/events/stream";
/// Replays the state of an execution at a point of its log.
pub const REPLAY_STATE: &str = "/api/replay/state";
/// Cancels an execution.
pub const EXECUTION_CANCEL: &str = "/api/executions/{execution_id}/cancel";
/// Sends a signal to an execution.
pub const EXECUTION_SIGNAL: &str = "/api/executions/{execution_id}/signal";
/// Decides an approval of an execution.
pub const EXECUTION_APPROVE: &str = "/api/executions/{execution_id}/approve";
/// Broadcasts a signal to all executions that wait for it.
pub const SIGNALS: &str = "/api/signals";
/// Lists pending approvals.
pub const APPROVALS: &str = "/api/approvals";
/// Registers a definition.
pub const CATALOG_REGISTER: &str = "/api/catalog/register";
/// Returns a definition.
pub const CATALOG_RESOURCE: &str = "/api/catalog/resource";
/// Leases commands.
pub const COMMANDS_LEASE: &str = "/api/commands/lease";
/// Renews leases of commands.
pub const COMMANDS_HEARTBEAT: &str = "/api/commands/heartbeat";
/// Reports results of commands.
pub const COMMANDS_REPORT: &str = "/api/commands/report";
/// Stores a result of an execution.
pub const RESULT_PUT: &str = "/api/result/{execution_id}";
/// Returns a stored result.
pub const RESULT_RESOLVE: &str = "/api/result/resolve";
/// Registers a worker.
pub const POOL_REGISTER: &str = "/api/worker/pool/register";
/// Heartbeat of a worker.
pub const POOL_HEARTBEAT: &str = "/api/worker/pool/heartbeat";
/// Deregisters a worker.
pub const POOL_DEREGISTER: &str = "/api/worker/pool/deregister";
/// Asks a worker to finish its commands and stop.
pub const POOL_DRAIN: &str = "/api/worker/pool/drain";
/// Lists workers and pools.
pub const POOLS: &str = "/api/worker/pools";
/// Starts many executions.
pub const EXECUTE_BATCH: &str = "/api/execute/batch";
/// Runs a definition again with the same input.
pub const EXECUTION_RERUN: &str = "/api/executions/{execution_id}/rerun";
/// Cancels an execution and all its child executions.
pub const EXECUTION_STOP: &str = "/api/executions/{execution_id}/stop";
/// Returns the cancellation state of an execution.
pub const EXECUTION_CANCELLATION: &str = "/api/executions/{execution_id}/cancellation-check";
/// Ends an execution with a given status.
pub const EXECUTION_FINALIZE: &str = "/api/executions/{execution_id}/finalize";
/// Pauses an execution.
pub const EXECUTION_PAUSE: &str = "/api/executions/{execution_id}/pause";
/// Resumes an execution.
pub const EXECUTION_RESUME: &str = "/api/executions/{execution_id}/resume";
/// Cancels stale executions.
pub const EXECUTIONS_CLEANUP: &str = "/api/executions/cleanup";
/// Analyzes an execution with an AI model.
pub const EXECUTION_ANALYZE_AI: &str = "/api/executions/{execution_id}/analyze/ai";
/// Registers many definitions.
pub const CATALOG_REGISTER_BATCH: &str = "/api/catalog/register/batch";
/// Lists definitions.
pub const CATALOG_LIST: &str = "/api/catalog/list";
/// Lists the paths of the definitions of a kind.
pub const CATALOG_LIST_KIND: &str = "/api/catalog/list/{kind}";
/// Lists agent definitions.
pub const CATALOG_AGENTS: &str = "/api/catalog/agents/list";
/// Returns the text of a playbook.
pub const CATALOG_CONTENT: &str = "/api/catalog/playbook/content";
/// Registers a playbook.
pub const CATALOG_PLAYBOOK: &str = "/api/catalog/playbook";
/// Returns a playbook of the catalog.
pub const CATALOG_PLAYBOOK_BY_ID: &str = "/api/catalog/playbooks/{*playbook_id}";
/// Validates a playbook.
pub const CATALOG_VALIDATE: &str = "/api/catalog/playbooks/validate";
/// Explains a playbook with an AI model.
pub const CATALOG_EXPLAIN_AI: &str = "/api/catalog/playbooks/explain/ai";
/// Generates a playbook with an AI model.
pub const CATALOG_GENERATE_AI: &str = "/api/catalog/playbooks/generate/ai";
/// Restores an archived definition.
pub const CATALOG_RESTORE: &str = "/api/catalog/restore";
/// Details of a definition: `ui_schema` or `versions`, after its path.
pub const CATALOG_DETAIL: &str = "/api/catalog/{*path}";
/// Lists the command queue.
pub const COMMANDS: &str = "/api/commands";
/// Returns a command by the event that issued it.
pub const COMMAND: &str = "/api/commands/{event_id}";
/// Claims a command for a classic worker.
pub const COMMAND_CLAIM: &str = "/api/commands/{event_id}/claim";
/// Stores an event of a classic worker.
pub const EVENTS: &str = "/api/events";
/// Stores several events of a classic worker.
pub const EVENTS_BATCH: &str = "/api/events/batch";
/// Reads or sets the variables of an execution.
pub const VARS: &str = "/api/vars/{execution_id}";
/// Reads or deletes a variable of an execution.
pub const VAR: &str = "/api/vars/{execution_id}/{name}";
/// Dashboard counters.
pub const DASHBOARD_STATS: &str = "/api/dashboard/stats";
/// Dashboard counters as widgets.
pub const DASHBOARD_WIDGETS: &str = "/api/dashboard/widgets";
/// Shard of an execution.
pub const SHARD_INFO: &str = "/api/runtime/shard-info";
/// Identity of the caller.
pub const WHOAMI: &str = "/api/whoami";
/// OpenAPI document.
pub const OPENAPI: &str = "/api/openapi.json";
/// Human-readable API documentation.
pub const DOCS: &str = "/api/docs";
/// Lists or creates API tokens.
pub const TOKENS: &str = "/api/tokens";
/// Revokes an API token.
pub const TOKEN: &str = "/api/tokens/{token_id}";
/// Audit log.
pub const AUDIT: &str = "/api/audit";
/// Health of the server.
pub const API_HEALTH: &str = "/api/health";
/// Status of the server.
pub const STATUS: &str = "/api/status";
/// Status of the store's connection pool.
pub const POOL_STATUS: &str = "/api/pool/status";
/// Threads of the server.
pub const THREADS: &str = "/api/threads";
/// Profiler of the server.
pub const PROFILER: &str = "/api/profiler/{*what}";
/// Lists the outbox.
pub const OUTBOX: &str = "/api/internal/outbox";
/// Claims outbox rows for a publisher.
pub const OUTBOX_CLAIM: &str = "/api/internal/outbox/claim";
/// Marks outbox rows as published.
pub const OUTBOX_MARK_PUBLISHED: &str = "/api/internal/outbox/mark-published";
/// Marks an outbox row as failed.
pub const OUTBOX_MARK_FAILED: &str = "/api/internal/outbox/mark-failed";
/// Counts claimable outbox rows.
pub const OUTBOX_PENDING_COUNT: &str = "/api/internal/outbox/pending-count";
/// Lists dead outbox rows, which failed too often.
pub const OUTBOX_DEAD: &str = "/api/internal/outbox/dead";
/// Publishes dead outbox rows again.
pub const OUTBOX_REPLAY: &str = "/api/internal/outbox/replay";
/// Discards dead outbox rows.
pub const OUTBOX_DISCARD: &str = "/api/internal/outbox/discard";
/// Lists the quarantine: inputs that were rejected while the rest of their batch was stored.
pub const QUARANTINE: &str = "/api/internal/quarantine";
/// Projects events into the log.
pub const EVENTS_PROJECT: &str = "/api/internal/events/project";
/// Projects worker events into the log.
pub const EVENTS_MATERIALIZE: &str = "/api/internal/events/materialize";
/// Updates read models from their logs.
pub const PROJECTION_ADVANCE: &str = "/api/internal/projection/advance";
/// Deletes expired data.
pub const CLEANUP_PURGE: &str = "/api/internal/cleanup/purge";
/// Messages of a listener, for a worker.
pub const INGRESS: &str = "/api/internal/ingress/{listener}";
/// Result of the container of a step.
pub const CONTAINER_CALLBACK: &str = "/api/internal/container-callback/{execution_id}/{step}";
/// Tool plugins.
pub const PLUGINS: &str = "/api/internal/plugins/{*path}";
/// Platform objects.
pub const OBJECTS: &str = "/api/internal/objects/{*key}";
/// Wraps secrets with a new key.
pub const WALLET_ROTATE: &str = "/api/internal/wallet/rotate-kek";
/// Key versions in use.
pub const WALLET_KEY_STATUS: &str = "/api/internal/wallet/key-status";
/// Audit log of operations on secrets.
pub const SECRET_AUDIT: &str = "/api/internal/secret-audit";
/// Resolves a secret for a worker of another region.
pub const CROSS_REGION_RESOLVE: &str = "/api/internal/cross-region/resolve";
/// Lists cells.
pub const CELLS: &str = "/api/internal/cells";
/// Status of event publishing.
pub const STREAM_STATUS: &str = "/api/stream/status";
/// Feed of all events.
pub const STREAM_FEED: &str = "/api/stream/feed";
/// An event in the form of the stream.
pub const STREAM_EVENT: &str = "/api/stream/events/{execution_id}/{seq}";
/// Status of event publishing, for operators that may start a rebuild.
pub const INTERNAL_STREAM_STATUS: &str = "/api/internal/stream/status";
/// Publishes the whole log again.
pub const STREAM_REBUILD: &str = "/api/internal/stream/rebuild";
/// Checks the database tables.
pub const DB_VALIDATE: &str = "/api/db/validate";
/// Initializes the database.
pub const DB_INIT: &str = "/api/db/init";
/// Runs a database statement.
pub const SQL_CONSOLE: &str = "/api/postgres/execute";
/// Explains an execution, with some of its events.
pub const EXECUTION_ANALYZE: &str = "/api/executions/{execution_id}/analyze";
/// JSON Schema of a kind of document.
pub const SCHEMA: &str = "/api/schema/{document}";
/// Forks an execution at a point of its log.
pub const EXECUTION_FORK: &str = "/api/executions/{execution_id}/fork";
/// Retries the failed steps of an execution.
pub const EXECUTION_RETRY: &str = "/api/executions/{execution_id}/retry";
/// Compares two executions, or two points of one.
pub const EXECUTION_DIFF: &str = "/api/executions/{execution_id}/diff";
/// Evaluates an execution with another definition.
pub const EXECUTION_WHAT_IF: &str = "/api/executions/{execution_id}/what-if";
/// Exports an execution as a file.
pub const EXECUTION_EXPORT: &str = "/api/executions/{execution_id}/export";
/// Verifies the log of an execution.
pub const EXECUTION_VERIFY: &str = "/api/executions/{execution_id}/verify";
/// Controls many executions.
pub const EXECUTIONS_BULK: &str = "/api/executions/bulk";
/// Finds the first difference between two executions.
pub const EXECUTIONS_BISECT: &str = "/api/executions/bisect";
/// Imports an execution from a file.
pub const EXECUTIONS_IMPORT: &str = "/api/executions/import";
/// Lists or creates subscriptions.
pub const SUBSCRIPTIONS: &str = "/api/subscriptions";
/// A subscription and its actions.
pub const SUBSCRIPTION: &str = "/api/subscriptions/{*subscription}";
/// Lists or creates schedules.
pub const SCHEDULES: &str = "/api/schedules";
/// A schedule.
pub const SCHEDULE: &str = "/api/schedules/{schedule_id}";
/// An action on a schedule.
pub const SCHEDULE_ACTION: &str = "/api/schedules/{schedule_id}/{act}";
/// Receives a message from an external system.
pub const INGRESS_PUSH: &str = "/api/ingress/{*listener}";
/// Stored test suites of playbooks.
pub const TEST_SUITE: &str = "/api/playbook-tests/suites/{*suite_id}";
/// Platform objects, for workers.
pub const WORKER_OBJECTS: &str = "/api/objects/{*key}";
/// Tool plugins, for workers.
pub const WORKER_PLUGINS: &str = "/api/plugins/{*path}";
