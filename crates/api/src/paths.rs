//! Where each route is found. A part in braces is a parameter of the router.

/// The process lives.
pub const LIVEZ: &str = "/livez";
/// The same, for probes that ask there.
pub const HEALTH: &str = "/health";
/// The process can work.
pub const READYZ: &str = "/readyz";
/// Starts a run.
pub const EXECUTE: &str = "/api/execute";
/// The runs.
pub const EXECUTIONS: &str = "/api/executions";
/// A run.
pub const EXECUTION: &str = "/api/executions/{execution_id}";
/// Where a run stands.
pub const EXECUTION_STATUS: &str = "/api/executions/{execution_id}/status";
/// The log of a run.
pub const EXECUTION_EVENTS: &str = "/api/executions/{execution_id}/events";
/// Ends a run.
pub const EXECUTION_CANCEL: &str = "/api/executions/{execution_id}/cancel";
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
/// A stored result.
pub const RESULT_RESOLVE: &str = "/api/result/resolve";
/// Registers a worker.
pub const POOL_REGISTER: &str = "/api/worker/pool/register";
/// A worker lives.
pub const POOL_HEARTBEAT: &str = "/api/worker/pool/heartbeat";
/// A worker leaves.
pub const POOL_DEREGISTER: &str = "/api/worker/pool/deregister";
/// The workers.
pub const POOLS: &str = "/api/worker/pools";
