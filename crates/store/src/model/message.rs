//! An event as its outlets carry it.
//!
//! Outbox and stream may both run. What they publish of an event is made here, once, so that both
//! give it the same name and the same bytes.

use bytes::Bytes;
use noetl_types::{
    EventId, EventName, EventRecord, ExecutionId, FeedPosition, Json, Seq, StoredEvent, TenantId,
    Text, Timestamp, json, sha256,
};

/// A life of the log. A log that was restored begins a new one, so that no event of the new life is
/// taken for another one of the old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEpoch(u64);

impl LogEpoch {
    /// The first life.
    pub const FIRST: Self = Self(1);

    /// The life of a number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The life after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What is published of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it is published.
    pub subject: Text,
    /// The id by which those who get it twice know: the `Nats-Msg-Id`.
    pub message_id: Text,
    /// Every column of the event but those that never leave the store, as canonical JSON.
    pub body: Vec<u8>,
}

impl Message {
    /// The message of an event.
    pub fn of(record: &EventRecord, log_epoch: LogEpoch) -> Self {
        let event = &record.event;
        Self {
            subject: subject(&event.tenant_id, &event.event_type),
            message_id: message_id(log_epoch, event.execution_id, record.seq),
            body: body(record),
        }
    }
}

/// What every outlet carries of an event, with what it is referred to by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBody {
    /// Its execution.
    pub execution_id: ExecutionId,
    /// Its id.
    pub event_id: EventId,
    /// Its place in the execution.
    pub seq: Seq,
    /// What happened.
    pub event_type: EventName,
    /// Every column of the event but those that never leave the store, as canonical JSON.
    pub bytes: Bytes,
}

/// An event on its way out, at its place in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedMessage {
    /// The place.
    pub feed: FeedPosition,
    /// When the server took the event.
    pub ingest_time: Timestamp,
    /// Where it is published.
    pub subject: Text,
    /// What is published.
    pub body: EventBody,
}

/// An event whose row cannot be read: it has no message, and a place all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The place.
    pub feed: FeedPosition,
    /// What is wrong with its row.
    pub why: Text,
}

/// What is at a place in the feed. A row that cannot be read stops none of its neighbours.
pub type FeedItem = Result<FeedMessage, Unreadable>;

impl EventBody {
    /// The body of an event.
    pub fn of(record: &EventRecord) -> Self {
        let event = &record.event;
        Self {
            execution_id: event.execution_id,
            event_id: event.event_id,
            seq: record.seq,
            event_type: event.event_type.clone(),
            bytes: body(record).into(),
        }
    }

    /// What stands for an event whose body is larger than a message may be, and where that is found.
    pub fn reference(&self) -> Json {
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
    /// The message of an event.
    pub fn of(event: &StoredEvent) -> Self {
        let said = &event.record.event;
        Self {
            feed: event.feed,
            ingest_time: event.record.ingest_time,
            subject: subject(&said.tenant_id, &said.event_type),
            body: EventBody::of(&event.record),
        }
    }

    /// The id by which those who get it twice know.
    pub fn id(&self, log_epoch: LogEpoch) -> Text {
        message_id(log_epoch, self.body.execution_id, self.body.seq)
    }
}

/// The body that every outlet carries; the same bytes for the same event.
pub fn body(record: &EventRecord) -> Vec<u8> {
    json::to_canonical(record)
}

/// The subject of an event. Its tokens are legal whatever the event is called.
pub fn subject(tenant_id: &TenantId, event_type: &EventName) -> Text {
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

/// The id of an event's message.
pub fn message_id(log_epoch: LogEpoch, execution_id: ExecutionId, seq: Seq) -> Text {
    Text::from(format!("{}:{execution_id}:{seq}", log_epoch.get()))
}

#[cfg(test)]
mod tests {
    use noetl_types::{EventId, EventType, NewEvent, Timestamp};

    use super::*;

    fn record(event_type: EventName) -> EventRecord {
        let (execution_id, event_id) = (ExecutionId::new(7).unwrap(), EventId::new(8).unwrap());
        EventRecord {
            event: NewEvent::new(execution_id, event_id, event_type, Timestamp::UNIX_EPOCH),
            seq: Seq::FIRST,
            ingest_time: Timestamp::UNIX_EPOCH,
            envelope_checksum: None,
        }
    }

    #[test]
    fn t5_an_id_names_one_event_of_one_life_of_the_log() {
        let record = record(EventType::StepEnter.into());
        let message = Message::of(&record, LogEpoch::FIRST);
        assert_eq!(message.subject, "noetl.events.step.enter");
        assert_eq!(message.message_id, "1:7:1");
        let restored = Message::of(&record, LogEpoch::FIRST.next());
        assert_eq!(restored.message_id, "2:7:1");
        assert_eq!(restored.body, message.body);
        let read = EventRecord::from_json(&json::parse(&message.body).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn t8_a_subject_is_legal_whatever_the_event_is_called() {
        for odd in ["a b", "*", ">", "a..b", ".", "ä.*.>", "x\ty", "UP.per"] {
            let name = EventName::read_copied(Some(odd)).unwrap();
            let subject = subject(&TenantId::default(), &name);
            let is_token = |token: &str| {
                !token.is_empty()
                    && token
                        .chars()
                        .all(|it| it.is_ascii_alphanumeric() || "-_%=~".contains(it))
            };
            assert!(subject.split('.').all(is_token), "{odd}: {subject:?}");
        }
    }

    #[test]
    fn other_tenants_have_subjects_of_their_own() {
        let tenant = TenantId::new("acme").unwrap();
        let name = EventName::from(EventType::StepEnter);
        assert_eq!(subject(&tenant, &name), "noetl.t.acme.events.step.enter");
    }
}
