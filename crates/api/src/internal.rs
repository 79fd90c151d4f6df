//! Internal API for publishers, projectors and operators: `/api/internal/*`.
//!
//! Ids are sent as numbers, because published clients expect numbers. Both forms are accepted.
//! Unknown fields are ignored.

use noetl_types::error::RejectCode;
use noetl_types::id::IdNumber;
use noetl_types::json;
use noetl_types::{EventId, ExecutionId, Json, OutboxId, QuarantineId, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Claims rows of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutboxClaimRequest {
    /// Number of rows; clamped to 1..1000, default 100.
    #[serde(
        default,
        deserialize_with = "crate::integer::clamp_to_i64",
        skip_serializing_if = "Option::is_none"
    )]
    pub limit: Option<i64>,
}

/// Claimed outbox rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutboxClaimResponse {
    /// Rows in the order in which they became available.
    pub rows: Vec<OutboxMessage>,
    /// Number of rows.
    pub claimed: u64,
}

/// An outbox row that is claimed by a publisher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutboxMessage {
    /// Id of the row.
    pub outbox_id: IdNumber<OutboxId>,
    /// Id of the event.
    pub event_id: IdNumber<EventId>,
    /// Id of the execution; absent if a foreign row does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<IdNumber<ExecutionId>>,
    /// Subject to publish to; absent if a foreign row does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Text>,
    /// The `Nats-Msg-Id`.
    pub message_id: Text,
    /// Payload to publish.
    #[schemars(with = "Json")]
    pub payload: RawJson,
    /// Encoding of the payload; `arrow-feather` if absent.
    #[serde(default = "default_codec")]
    pub payload_codec: Text,
    /// Number of claims, including this one. To be sent back when the row is marked.
    pub attempts: u32,
}

/// JSON that is passed on as written, without parsing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Wraps bytes; `None` if they are not JSON.
    pub fn from_bytes(text: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(text).ok()?;
        RawValue::from_string(text).ok().map(Self)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<&Json> for RawJson {
    fn from(value: &Json) -> Self {
        // The canonical form of a value is always valid JSON.
        Self::from_bytes(json::to_canonical(value)).unwrap_or_default()
    }
}

/// Compares the texts.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// Encoding of a payload without `payload_codec`.
fn default_codec() -> Text {
    "arrow-feather".into()
}

/// Marks rows as published.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MarkPublishedRequest {
    /// Ids of the rows.
    pub outbox_ids: Vec<OutboxId>,
    /// Claim number of each row, in the same order. A row with another number has been claimed by
    /// another publisher since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<i64>>,
}

/// Result of marking rows as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkPublishedResponse {
    /// Number of rows that the caller still held.
    pub marked: u64,
}

/// Marks a row as failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkFailedRequest {
    /// Id of the row.
    pub outbox_id: OutboxId,
    /// Error message.
    pub error: Text,
    /// Claim number of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
    /// Maximum delay in seconds, 1 to 3600; default 300.
    #[serde(
        default,
        deserialize_with = "crate::integer::clamp_to_i64",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_delay_seconds: Option<i64>,
}

/// Result of marking a row as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkFailedResponse {
    /// True if the caller still held the row.
    pub marked: bool,
    /// Seconds until the row may be claimed again; 0 if it may not.
    pub available_at_in: u64,
}

/// Number of claimable rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingCount {
    /// Number of rows, including those of publishers that died.
    pub pending: u64,
}

/// A page of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutboxList {
    /// Rows in the order of their ids.
    pub rows: Vec<OutboxEntry>,
    /// Id to pass as `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<IdNumber<OutboxId>>,
}

/// An outbox row in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutboxEntry {
    /// Id of the row.
    pub outbox_id: IdNumber<OutboxId>,
    /// Id of the event.
    pub event_id: IdNumber<EventId>,
    /// Id of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<IdNumber<ExecutionId>>,
    /// Subject to publish to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Text>,
    /// The `Nats-Msg-Id`.
    pub message_id: Text,
    /// `PENDING`, `IN_FLIGHT`, `PUBLISHED`, `FAILED` or `DEAD`.
    pub status: Text,
    /// Number of claims.
    pub attempts: u32,
    /// Earliest time of the next claim.
    pub available_at: Timestamp,
    /// End of the current claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// Time of publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<Timestamp>,
    /// Time at which an operator discarded the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_at: Option<Timestamp>,
    /// Last error message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Text>,
    /// Creation time.
    pub created_at: Timestamp,
}

/// Outbox rows to replay or discard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutboxIds {
    /// Ids of the rows.
    pub outbox_ids: Vec<OutboxId>,
}

/// Result of replaying or discarding dead rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutboxChangeResponse {
    /// Number of changed rows.
    pub changed: u64,
}

/// A page of the quarantine: inputs that were rejected while the rest of their batch was stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct QuarantineList {
    /// Rejected inputs, oldest first.
    pub rows: Vec<QuarantineEntry>,
    /// Id to pass as `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<IdNumber<QuarantineId>>,
}

/// A rejected input. Equal inputs from the same source with the same reason are stored once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuarantineEntry {
    /// Id of the row.
    pub quarantine_id: IdNumber<QuarantineId>,
    /// Component that rejected the input: `projector`, `materializer` or `stream`.
    pub source: Text,
    /// Code of the reason.
    pub code: Text,
    /// Human-readable reason.
    pub message: Text,
    /// The input as received, truncated if long.
    pub raw: Text,
    /// Time of the first rejection.
    pub created_at: Timestamp,
}

/// Projects events into the log.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
pub struct ProjectRequest {
    /// Event envelopes, each as received.
    pub events: Vec<RawEvent>,
}

impl ProjectRequest {
    /// Creates a request from envelopes that the log can store.
    pub fn new(events: Vec<Json>) -> Self {
        Self { events: events.into_iter().map(|event| RawEvent(Ok(event))).collect() }
    }
}

/// An event as received. One that the log cannot store, for example with NUL in a string or a
/// duplicate key, is rejected alone and not with its whole batch.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
pub struct RawEvent(#[schemars(with = "Json")] pub Result<Json, UnstorableEvent>);

/// An event that is valid JSON, but that the log cannot store.
#[derive(Debug, Clone, PartialEq)]
pub struct UnstorableEvent {
    /// Event id as sent; null if it cannot be read.
    pub event_id: Json,
    /// Reason why the event cannot be stored.
    pub problem: Text,
    /// The event as sent.
    pub raw: Text,
}

impl UnstorableEvent {
    fn new(raw: &str, problem: &json::JsonParseError) -> Self {
        /// The id of an event.
        #[derive(Deserialize)]
        struct EventIdField {
            event_id: Box<RawValue>,
        }
        let id = serde_json::from_str::<EventIdField>(raw).ok();
        let event_id = id.and_then(|id| json::parse(id.event_id.get().as_bytes()).ok());
        Self {
            event_id: event_id.unwrap_or(Json::Null),
            problem: problem.to_string().into(),
            raw: raw.into(),
        }
    }
}

impl<'de> Deserialize<'de> for RawEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let event = json::parse(raw.get().as_bytes());
        Ok(Self(event.map_err(|problem| UnstorableEvent::new(raw.get(), &problem))))
    }
}

/// Result of projecting events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProjectResponse {
    /// Number of stored events.
    pub projected: u64,
    /// Number of events that were already stored.
    pub duplicates: u64,
    /// Rejected events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedEvent>,
}

/// Result of materializing worker events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MaterializeResponse {
    /// Number of stored events.
    pub materialized: u64,
    /// Number of events that were already stored.
    pub duplicates: u64,
    /// Rejected events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedEvent>,
}

/// A rejected event. The other events of the batch are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedEvent {
    /// Position in the request, from 0.
    pub index: usize,
    /// Event id as sent.
    #[serde(default)]
    pub event_id: Json,
    /// Code of the reason.
    pub code: RejectCode,
    /// Human-readable reason.
    pub message: Text,
}

/// Updates the read models of executions from their logs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceRequest {
    /// Ids of the executions.
    pub execution_ids: Vec<ExecutionId>,
}

/// Result of updating read models.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceResponse {
    /// Updated executions.
    pub advanced: Vec<AdvancedExecution>,
    /// Executions that could not be updated.
    pub failed: Vec<AdvanceFailure>,
}

/// An execution whose read model was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvancedExecution {
    /// Id of the execution.
    pub execution_id: IdNumber<ExecutionId>,
    /// Version of the read model.
    pub version: i64,
    /// Number of processed events.
    pub events: u64,
}

/// An execution whose read model could not be updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceFailure {
    /// Id of the execution.
    pub execution_id: IdNumber<ExecutionId>,
    /// Error message.
    pub error: Text,
}

/// Deletes expired data. All fields are optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PurgeRequest {
    /// Days to keep ended commands; default 7. Zero or less skips them.
    #[serde(
        default,
        deserialize_with = "crate::integer::clamp_to_i64",
        skip_serializing_if = "Option::is_none"
    )]
    pub command_retention_days: Option<i64>,
    /// Minutes to keep silent workers; default 60. Zero or less skips them.
    #[serde(
        default,
        deserialize_with = "crate::integer::clamp_to_i64",
        skip_serializing_if = "Option::is_none"
    )]
    pub runtime_stale_minutes: Option<i64>,
    /// Days to keep the logs of ended executions; default 0, which deletes none.
    #[serde(
        default,
        deserialize_with = "crate::integer::clamp_to_i64",
        skip_serializing_if = "Option::is_none"
    )]
    pub event_retention_days: Option<i64>,
    /// Only report the data that would be deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Deleted data, or the data that would be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PurgeResponse {
    /// Number of commands.
    pub commands_purged: u64,
    /// Number of workers.
    pub runtime_purged: u64,
    /// Number of log partitions.
    pub events_purged: u64,
    /// Names of the log partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_partitions_dropped: Vec<Text>,
    /// Number of published outbox rows.
    pub outbox_purged: u64,
    /// True if nothing was deleted.
    pub dry_run: bool,
    /// Log partitions that are old enough but were not deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPartition>,
}

/// A log partition that is old enough but was not deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedPartition {
    /// Name of the partition.
    pub partition: Text,
    /// Reason for keeping it.
    pub reason: Text,
}

#[cfg(test)]
mod tests;
