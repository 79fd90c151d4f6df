//! Query parameters of operations. The types are used only for their schemas: handlers parse the
//! parameters one by one.

#![expect(dead_code, reason = "only their schemas are used")]

use noetl_types::limits::PageLimit;
use noetl_types::replay::ProjectionKind;
use noetl_types::{
    EventId, EventName, ExecutionId, OutboxId, PlaybookPath, QuarantineId, Text, Timestamp,
};
use schemars::JsonSchema;

#[derive(JsonSchema)]
pub(super) struct PageParams {
    /// Maximum number of items.
    limit: Option<PageLimit>,
    /// Cursor of the previous page.
    cursor: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct VersionParams {
    /// Version number or `latest`. Default: `latest`.
    version: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct PlaybookParams {
    /// Path or catalog id of the playbook.
    playbook_id: Text,
}

#[derive(JsonSchema)]
pub(super) struct ResolveParams {
    /// Reference of a result, as found in a response or an event.
    r#ref: Text,
}

#[derive(JsonSchema)]
pub(super) struct FollowParams {
    /// Id of the last received event. The header `Last-Event-ID` takes precedence.
    last_event_id: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct FollowOutputParams {
    /// Id of the last received event. The header `Last-Event-ID` takes precedence.
    last_event_id: Option<Text>,
    /// Filter by step.
    step: Option<Text>,
    /// Filter by attempt of the command.
    #[schemars(range(min = 1))]
    attempt: Option<u32>,
}

#[derive(JsonSchema)]
pub(super) struct FollowAllParams {
    /// Id of the last received event. The header `Last-Event-ID` takes precedence.
    last_event_id: Option<Text>,
    /// Filter by event type.
    r#type: Option<EventName>,
    /// Filter by execution.
    execution_id: Option<ExecutionId>,
    /// Filter by playbook path.
    path: Option<PlaybookPath>,
}

#[derive(JsonSchema)]
pub(super) struct ReplayParams {
    /// Id of the execution.
    execution_id: ExecutionId,
    /// Replay up to this event. Excludes `as_of_position` and `as_of_time`.
    as_of_event_id: Option<EventId>,
    /// Replay up to this position of the log.
    as_of_position: Option<i64>,
    /// Replay up to this time.
    as_of_time: Option<Timestamp>,
    /// Tenant of the execution. Default: the tenant of the caller.
    tenant_id: Option<Text>,
    /// Organization of the execution. Default: the organization of the caller.
    organization_id: Option<Text>,
    /// Part of the state to return.
    projection: Option<ProjectionKind>,
    /// Maximum number of events.
    #[schemars(range(min = 1))]
    limit: Option<u32>,
    /// Read the stored results that events refer to.
    resolve_payloads: Option<bool>,
}

#[derive(JsonSchema)]
pub(super) struct ShardParams {
    /// Id of the execution.
    execution_id: ExecutionId,
    /// Number of shards. Default: the setting of the server.
    #[schemars(range(min = 1, max = 1024))]
    shard_count: Option<u32>,
}

#[derive(JsonSchema)]
pub(super) struct FeedParams {
    /// Position of an earlier response, as `tx.position`. Default: the end of the feed.
    #[schemars(regex(pattern = r"^[0-9]{1,18}\.[0-9]{1,18}$"))]
    after: Option<String>,
    /// Maximum number of items.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// Maximum time in milliseconds to wait for new events.
    #[schemars(range(min = 0, max = 30_000))]
    wait_ms: Option<u32>,
}

#[derive(JsonSchema)]
pub(super) struct CredentialListParams {
    /// Filter by type.
    r#type: Option<Text>,
    /// Filter by text in the name.
    q: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct CredentialParams {
    /// Include the secret.
    include_data: Option<bool>,
    /// Execution that needs the credential. Required for workers.
    execution_id: Option<ExecutionId>,
    /// Worker that holds a command of the execution. Only for workers.
    worker_id: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct SealedCredentialParams {
    /// Worker whose public key encrypts the secret.
    worker_id: Text,
    /// Execution that needs the credential. Required for workers.
    execution_id: Option<ExecutionId>,
}

#[derive(JsonSchema)]
pub(super) struct KeychainParams {
    /// Scope of the entry: `local`, `shared` or `global`. Default: `global`.
    scope_type: Option<Text>,
    /// Execution of the entry. Required for workers.
    execution_id: Option<ExecutionId>,
    /// Worker that holds a command of the execution. Default: any worker that does.
    worker_id: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct OutboxParams {
    /// Filter by status: `PENDING`, `IN_FLIGHT`, `PUBLISHED`, `FAILED` or `DEAD`.
    status: Option<Text>,
    /// Id of the last row of the previous page.
    after: Option<OutboxId>,
    /// Maximum number of items.
    limit: Option<PageLimit>,
}

#[derive(JsonSchema)]
pub(super) struct QuarantineParams {
    /// Filter by source: `projector`, `materializer` or `stream`.
    source: Option<Text>,
    /// Id of the last row of the previous page.
    after: Option<QuarantineId>,
    /// Maximum number of items.
    limit: Option<PageLimit>,
}

#[derive(JsonSchema)]
pub(super) struct DeadOutboxParams {
    /// Id of the last row of the previous page.
    after: Option<OutboxId>,
    /// Maximum number of items.
    limit: Option<PageLimit>,
}
