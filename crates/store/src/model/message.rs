//! The published form of an event.
//!
//! The outbox and the stream may both be enabled. The message of an event is built only here, so
//! that both use the same id and the same bytes.

use bytes::Bytes;
use noetl_types::{
    EventId, EventName, EventRecord, ExecutionId, FeedPosition, Json, Seq, TenantId, Text,
    Timestamp, json, sha256,
};

/// An epoch of the log. Restoring a log starts a new one, so that its new events are not mistaken
/// for events of the previous epoch. Except for the first one, epochs are random numbers: a backup
/// that is restored twice must not start the same epoch twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEpoch(u64);

impl LogEpoch {
    pub const FIRST: Self = Self(1);

    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The body of an event's message, with the ids of the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBody {
    pub execution_id: ExecutionId,
    pub event_id: EventId,
    /// Position in the execution.
    pub seq: Seq,
    pub event_type: EventName,
    /// All columns of the event that may leave the store, as canonical JSON.
    pub bytes: Bytes,
}

/// The message of an event with its feed position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedMessage {
    pub feed: FeedPosition,
    pub ingest_time: Timestamp,
    pub subject: Text,
    pub body: EventBody,
}

/// An event whose row cannot be read. It has a feed position but no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEvent {
    pub feed: FeedPosition,
    /// Description of the damage.
    pub reason: Text,
}

/// An entry of the feed. A row that cannot be read does not affect other rows.
pub type FeedItem = Result<FeedMessage, UnreadableEvent>;

impl EventBody {
    /// Returns the reference that replaces a body which exceeds the message size limit. It names
    /// the path at which the body can be fetched.
    pub fn to_reference_json(&self) -> Json {
        let (execution_id, seq) = (self.execution_id, self.seq);
        let bytes = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        let address = format!("/api/stream/events/{execution_id}/{seq}");
        Json::object([
            ("ref", Json::from(address)),
            ("sha256", Json::from(sha256(&self.bytes).to_string())),
            ("bytes", Json::from(bytes)),
            ("execution_id", Json::from(execution_id.get())),
            ("seq", Json::from(seq.get())),
            ("event_id", Json::from(self.event_id.get())),
            ("event_type", Json::from(self.event_type.as_str())),
        ])
    }
}

impl FeedMessage {
    /// Returns the id by which consumers detect duplicates.
    pub fn message_id(&self, log_epoch: LogEpoch) -> Text {
        event_message_id(log_epoch, self.body.execution_id, self.body.seq)
    }
}

/// Encodes the body of an event. The same event always gives the same bytes.
pub fn encode_event_body(record: &EventRecord) -> Vec<u8> {
    json::to_canonical(record)
}

/// Returns the subject of an event. Its tokens are valid for every event name.
pub fn event_subject(tenant_id: &TenantId, event_type: &EventName) -> Text {
    let tokens = event_type.subject_tokens();
    if *tenant_id == TenantId::default() {
        return Text::from(format!("noetl.events.{tokens}"));
    }
    let tenant: String = tenant_id
        .as_str()
        .chars()
        .map(|it| match it {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => it,
            _ => '_',
        })
        .collect();
    Text::from(format!("noetl.t.{tenant}.events.{tokens}"))
}

pub fn event_message_id(log_epoch: LogEpoch, execution_id: ExecutionId, seq: Seq) -> Text {
    Text::from(format!("{}:{execution_id}:{seq}", log_epoch.get()))
}

/// Returns the event that a message id of this log epoch identifies. `None` for all other ids.
pub fn parse_event_message_id(log_epoch: LogEpoch, message_id: &str) -> Option<(ExecutionId, Seq)> {
    let event = message_id.strip_prefix(&format!("{}:", log_epoch.get()))?;
    let (execution_id, seq) = event.split_once(':')?;
    Some((execution_id.parse().ok()?, Seq::new(seq.parse().ok()?).ok()?))
}

#[cfg(test)]
mod tests;
