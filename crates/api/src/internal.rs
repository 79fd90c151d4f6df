//! What publishers, projectors and operators of the platform say: `/api/internal/*`.
//!
//! Ids travel as numbers here, since that is how the published clients read them. Both are read.
//! Unknown fields are passed over.

use noetl_types::error::RejectCode;
use noetl_types::id::as_number;
use noetl_types::json;
use noetl_types::{EventId, ExecutionId, Json, OutboxId, QuarantineId, Text, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// A publisher wants rows of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxClaimRequest {
    /// How many; the nearest number from 1 to 1000 is taken, 100 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// Rows that are the publisher's for a while.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxClaimAnswer {
    /// In the order in which they became available.
    pub rows: Vec<OutboxMessage>,
    /// How many.
    pub claimed: u64,
}

/// A row of the outbox in the hands of a publisher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxMessage {
    /// The row.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub outbox_id: OutboxId,
    /// The event.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub event_id: EventId,
    /// Its run; absent in rows of others that do not say.
    #[serde(
        default,
        with = "as_number::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<noetl_types::schema::IdNumber>")
    )]
    pub execution_id: Option<ExecutionId>,
    /// Where it is to be published; absent in rows of others that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Text>,
    /// The `Nats-Msg-Id`.
    pub message_id: Text,
    /// What is to be published.
    #[cfg_attr(feature = "schema", schemars(with = "Json"))]
    pub payload: RawJson,
    /// What the payload is written in; absent means `arrow-feather`.
    #[serde(default = "absent_codec")]
    pub payload_codec: Text,
    /// How often it was claimed, this time included: what a mark sends back.
    pub attempts: u32,
}

/// JSON that is handed on as it is written: nobody on its way looks into it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// A text, where it is one of JSON.
    pub fn read(text: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(text).ok()?;
        RawValue::from_string(text).ok().map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<&Json> for RawJson {
    fn from(value: &Json) -> Self {
        // A value always is a text of JSON.
        Self::read(json::to_canonical(value)).unwrap_or_default()
    }
}

/// The same text.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// What an absent codec means on this wire.
fn absent_codec() -> Text {
    "arrow-feather".into()
}

/// Rows are out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkPublishedRequest {
    /// The rows.
    #[serde(with = "as_number::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<noetl_types::schema::IdNumber>")
    )]
    pub outbox_ids: Vec<OutboxId>,
    /// The attempt that each was claimed with, in the same order: a row that has another one by now
    /// is somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<i64>>,
}

/// How many rows a mark changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkPublishedAnswer {
    /// Those that were in the caller's hands.
    pub marked: u64,
}

/// A row could not be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkFailedRequest {
    /// The row.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub outbox_id: OutboxId,
    /// Why.
    pub error: Text,
    /// The attempt that it was claimed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
    /// The longest delay, 1 to 3600; 300 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay_seconds: Option<i64>,
}

/// What became of a row that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkFailedAnswer {
    /// Whether it was in the caller's hands.
    pub marked: bool,
    /// Seconds until it may be claimed again; 0 where it may not.
    pub available_at_in: u64,
}

/// How many rows could be claimed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PendingCount {
    /// Those of publishers that died included.
    pub pending: u64,
}

/// Rows of the outbox, as an operator looks at them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxList {
    /// The rows, by id.
    pub rows: Vec<OutboxLine>,
    /// The row that the next page follows; absent at the end.
    #[serde(
        default,
        with = "as_number::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<noetl_types::schema::IdNumber>")
    )]
    pub next_after: Option<OutboxId>,
}

/// A row of the outbox as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxLine {
    /// The row.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub outbox_id: OutboxId,
    /// The event.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub event_id: EventId,
    /// Its run.
    #[serde(
        default,
        with = "as_number::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<noetl_types::schema::IdNumber>")
    )]
    pub execution_id: Option<ExecutionId>,
    /// Where it is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Text>,
    /// The `Nats-Msg-Id`.
    pub message_id: Text,
    /// `PENDING`, `IN_FLIGHT`, `PUBLISHED`, `FAILED` or `DEAD`.
    pub status: Text,
    /// How often it was claimed.
    pub attempts: u32,
    /// When it may be claimed.
    pub available_at: Timestamp,
    /// Until when it is in a publisher's hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// When it was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<Timestamp>,
    /// When an operator gave it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_at: Option<Timestamp>,
    /// Why it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Text>,
    /// When it was written.
    pub created_at: Timestamp,
}

/// Rows that an operator decides about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxIds {
    /// The rows.
    #[serde(with = "as_number::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<noetl_types::schema::IdNumber>")
    )]
    pub outbox_ids: Vec<OutboxId>,
}

/// How many of them that changed: those that were dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutboxChanged {
    /// How many.
    pub changed: u64,
}

/// What was refused while its neighbours went on, as an operator looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuarantineList {
    /// The refused things, oldest first.
    pub rows: Vec<QuarantineLine>,
    /// The row that the next page follows; absent at the end.
    #[serde(
        default,
        with = "as_number::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<noetl_types::schema::IdNumber>")
    )]
    pub next_after: Option<QuarantineId>,
}

/// A thing that was refused. The same one from the same source, for the same reason, is there once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuarantineLine {
    /// The row.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub quarantine_id: QuarantineId,
    /// Where it was met: `projector`, `materializer` or `stream`.
    pub source: Text,
    /// Why it was refused, for programs.
    pub code: Text,
    /// Why it was refused, for people.
    pub message: Text,
    /// The thing as it came, cut where it is long.
    pub raw: Text,
    /// When it was met first.
    pub created_at: Timestamp,
}

/// Events of others that are to be in the log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectRequest {
    /// Their envelopes, each as it came.
    #[serde(deserialize_with = "each_by_itself")]
    pub events: Vec<Json>,
}

/// An event as somebody sends it. What a log cannot hold, such as NUL in a text or a key that is there
/// twice, is its own text: that is no event, so that it is refused alone and stops no other.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SentEvent(pub Json);

impl<'de> Deserialize<'de> for SentEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let event = json::parse(raw.get().as_bytes());
        Ok(Self(event.unwrap_or_else(|error| {
            Json::from(format!("{error}: {}", raw.get()))
        })))
    }
}

fn each_by_itself<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Json>, D::Error> {
    let events = Vec::<SentEvent>::deserialize(deserializer)?;
    Ok(events.into_iter().map(|sent| sent.0).collect())
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectAnswer {
    /// How many are in the log from now on.
    pub projected: u64,
    /// How many were there already.
    pub duplicates: u64,
    /// Those that cannot be taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedEvent>,
}

/// The same for events as workers tell them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaterializeAnswer {
    /// How many are in the log from now on.
    pub materialized: u64,
    /// How many were there already.
    pub duplicates: u64,
    /// Those that cannot be taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedEvent>,
}

/// An event that cannot be taken; its neighbours are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RejectedEvent {
    /// Its place in the request, from 0.
    pub index: usize,
    /// The id that it says, as it says it.
    #[serde(default)]
    pub event_id: Json,
    /// Why, for programs.
    pub code: RejectCode,
    /// Why, for people.
    pub message: Text,
}

/// Runs whose read model is to follow their log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdvanceRequest {
    /// The runs.
    #[serde(with = "as_number::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<noetl_types::schema::IdNumber>")
    )]
    pub execution_ids: Vec<ExecutionId>,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdvanceAnswer {
    /// Those that follow their log.
    pub advanced: Vec<Advanced>,
    /// Those that do not, and why.
    pub failed: Vec<NotAdvanced>,
}

/// A run whose read model follows its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advanced {
    /// The run.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub execution_id: ExecutionId,
    /// How far.
    pub version: i64,
    /// Events that were looked at.
    pub events: u64,
}

/// A run whose read model does not follow its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotAdvanced {
    /// The run.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub execution_id: ExecutionId,
    /// Why.
    pub error: Text,
}

/// What is to be dropped; without a body all the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PurgeRequest {
    /// Days that commands are kept which have ended; 7 where absent, none or less skips them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_retention_days: Option<i64>,
    /// Minutes that workers are kept which are silent; 60 where absent, none or less skips them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_stale_minutes: Option<i64>,
    /// Days that the logs of ended runs are kept; 0 where absent, which touches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_retention_days: Option<i64>,
    /// Whether to tell what would go, and touch nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What was dropped, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PurgeAnswer {
    /// Commands.
    pub commands_purged: u64,
    /// Workers.
    pub runtime_purged: u64,
    /// Parts of the log.
    pub events_purged: u64,
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_partitions_dropped: Vec<Text>,
    /// Rows of the outbox that were published long ago.
    pub outbox_purged: u64,
    /// Whether nothing was touched.
    pub dry_run: bool,
    /// Parts of the log that are old enough and stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPart>,
}

/// A part of the log that is old enough and stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedPart {
    /// Its name.
    pub partition: Text,
    /// Why it stays.
    pub reason: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_and_what_is_not_said_is_left_out() {
        let row = OutboxMessage {
            outbox_id: OutboxId::new(1).unwrap(),
            event_id: EventId::new(2).unwrap(),
            execution_id: None,
            subject: None,
            message_id: "1:3:1".into(),
            payload: RawJson::default(),
            payload_codec: "json".into(),
            attempts: 1,
        };
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"outbox_id":1,"event_id":2,"message_id":"1:3:1","payload":null,"payload_codec":"json","attempts":1}"#
        );
        let text = r#"{"outbox_id":"1","event_id":2,"message_id":"","payload":0,"attempts":0}"#;
        let read: OutboxMessage = serde_json::from_str(text).unwrap();
        assert_eq!(read.payload_codec, "arrow-feather");
        let ids: OutboxIds = serde_json::from_str(r#"{"outbox_ids":[1,"2"]}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&ids).unwrap(),
            r#"{"outbox_ids":[1,2]}"#
        );
    }
}
