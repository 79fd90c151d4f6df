//! Parameters that handlers read one by one: each type is the list of them, for the document alone.

#![expect(dead_code, reason = "only their schemas are used")]

use noetl_types::limits::PageLimit;
use noetl_types::replay::Projection;
use noetl_types::{
    EventId, EventName, ExecutionId, OutboxId, PlaybookPath, QuarantineId, Text, Timestamp,
};
use schemars::JsonSchema;

#[derive(JsonSchema)]
pub(super) struct Page {
    /// How many at most.
    limit: Option<PageLimit>,
    /// Where the page before ended.
    cursor: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct VersionOf {
    /// `latest`, or a number; the newest where absent.
    version: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct PlaybookOf {
    /// A path, or a catalog id.
    playbook_id: Text,
}

#[derive(JsonSchema)]
pub(super) struct Resolve {
    /// The address, as an answer or an event gave it.
    r#ref: Text,
}

#[derive(JsonSchema)]
pub(super) struct Follow {
    /// The id of the last event that was seen, as the header `Last-Event-ID`.
    last_event_id: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct FollowAll {
    /// The id of the last event that was seen, as the header `Last-Event-ID`.
    last_event_id: Option<Text>,
    /// Only events of this type.
    r#type: Option<EventName>,
    /// Only events of this run.
    execution_id: Option<ExecutionId>,
    /// Only events of runs of this path.
    path: Option<PlaybookPath>,
}

#[derive(JsonSchema)]
pub(super) struct Replay {
    /// The run.
    execution_id: ExecutionId,
    /// Up to this event. At most one of the three.
    as_of_event_id: Option<EventId>,
    /// Up to this place of the log.
    as_of_position: Option<i64>,
    /// Up to this time.
    as_of_time: Option<Timestamp>,
    /// Whose it is; the caller's own where absent.
    tenant_id: Option<Text>,
    /// The same inside of the tenant.
    organization_id: Option<Text>,
    /// What the caller wants to see.
    projection: Option<Projection>,
    /// How many events at most.
    #[schemars(range(min = 1))]
    limit: Option<u32>,
    /// Whether to look at the data that events refer to.
    resolve_payloads: Option<bool>,
}

#[derive(JsonSchema)]
pub(super) struct Shard {
    /// The run.
    execution_id: ExecutionId,
    /// Among how many; what the server is set to where absent.
    #[schemars(range(min = 1, max = 1024))]
    shard_count: Option<u32>,
}

#[derive(JsonSchema)]
pub(super) struct Feed {
    /// A place that an answer named: `tx.position`. The end of the feed where absent.
    #[schemars(regex(pattern = r"^[0-9]{1,18}\.[0-9]{1,18}$"))]
    after: Option<String>,
    /// How many at most.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// How long to wait where there is nothing yet.
    #[schemars(range(min = 0, max = 30_000))]
    wait_ms: Option<u32>,
}

#[derive(JsonSchema)]
pub(super) struct Credentials {
    /// Only those of this type.
    r#type: Option<Text>,
    /// Only those whose name holds this text.
    q: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct Credential {
    /// Whether the secret is wanted.
    include_data: Option<bool>,
    /// The run that needs it, for a worker.
    execution_id: Option<ExecutionId>,
    /// Who works on it, for a worker.
    worker_id: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct Sealed {
    /// Who is to open it.
    worker_id: Text,
    /// The run that needs it, for a worker.
    execution_id: Option<ExecutionId>,
}

#[derive(JsonSchema)]
pub(super) struct Keychain {
    /// Who shares it: `local`, `shared` or `global`, which it is where absent.
    scope_type: Option<Text>,
    /// The run that it is for, and that a worker needs it for.
    execution_id: Option<ExecutionId>,
    /// Who works on it, for a worker; any that holds a command of the run where absent.
    worker_id: Option<Text>,
}

#[derive(JsonSchema)]
pub(super) struct Outbox {
    /// `PENDING`, `IN_FLIGHT`, `PUBLISHED`, `FAILED` or `DEAD`.
    status: Option<Text>,
    /// The row that the page before ended with.
    after: Option<OutboxId>,
    /// How many at most.
    limit: Option<PageLimit>,
}

#[derive(JsonSchema)]
pub(super) struct Quarantine {
    /// Only what was met there: `projector`, `materializer` or `stream`.
    source: Option<Text>,
    /// The row that the page before ended with.
    after: Option<QuarantineId>,
    /// How many at most.
    limit: Option<PageLimit>,
}

#[derive(JsonSchema)]
pub(super) struct OutboxDead {
    /// The row that the page before ended with.
    after: Option<OutboxId>,
    /// How many at most.
    limit: Option<PageLimit>,
}
