//! An event that somebody tells, read and let in.

use noetl_api::classic::{ResultKind, TaleOfEvent};
use noetl_types::event::{Sender, normalise};
use noetl_types::json::to_canonical;
use noetl_types::limits::{MAX_EVENT_SIZE, MAX_ID_AHEAD};
use noetl_types::redact::Secrets;
use noetl_types::{
    Digest, ErrorCode, EventId, EventName, EventStatus, EventType, ExecutionId, Json, JsonMap,
    NewEvent, StatusName, Text, Timestamp, WorkerId, sha256,
};

use super::payload;
use crate::runtime::RuntimeError;

/// Where the digest of what was sent is kept, beside the event.
pub(super) const SENT_SHA256: &str = "sent_sha256";
/// Where the word is kept that was sent, where it was another one.
const AS_SENT: &str = "event_type_as_sent";

/// An event that a worker may tell.
pub(super) struct Tale {
    pub(super) execution_id: ExecutionId,
    pub(super) worker: Option<WorkerId>,
    pub(super) told: TaleOfEvent,
    name: EventName,
    as_sent: Option<Text>,
    pub(super) sha256: Digest,
}

impl Tale {
    /// Reads what was sent. What only the server may say is refused.
    pub(super) fn read(
        execution_id: ExecutionId,
        worker: Option<WorkerId>,
        told: TaleOfEvent,
    ) -> Result<Self, RuntimeError> {
        let invalid = |text: String| RuntimeError::refused(ErrorCode::Validation, text);
        let normalised = normalise(&told.event_type, Sender::Worker)
            .map_err(|error| invalid(error.to_string()))?;
        let business = told
            .meta
            .as_ref()
            .and_then(|meta| meta.get("business_object"));
        let is_business = business.is_some_and(|object| !object.is_null());
        if !normalised.name.may_be_sent_by_worker(is_business) {
            let text = format!("a worker does not say `{}`", told.event_type);
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        if told.result_kind == ResultKind::Ref && told.result_uri.is_none() {
            let text = "a result by reference needs a result_uri";
            return Err(invalid(text.to_owned()));
        }
        let worker = worker.or_else(|| worker_of(&told));
        let sha256 = digest(execution_id, worker.as_ref(), &told)?;
        Ok(Self {
            execution_id,
            worker,
            told,
            name: normalised.name,
            as_sent: normalised.as_sent,
            sha256,
        })
    }

    /// The same without secrets. Its digest stays that of what was sent, which may come again.
    pub(super) fn hiding(mut self, secrets: &Secrets) -> Self {
        let told = &mut self.told;
        told.payload = secrets.hide(std::mem::take(&mut told.payload));
        told.meta = told.meta.take().map(|meta| secrets.hide_fields(meta));
        self
    }

    /// Its type, if it tells of a command.
    pub(super) fn about_command(&self) -> Option<EventType> {
        let kind = self.name.known()?;
        let is_about = matches!(
            kind,
            EventType::CommandStarted
                | EventType::CommandHeartbeat
                | EventType::CommandCompleted
                | EventType::CommandFailed
                | EventType::CallDone
                | EventType::CallError
        );
        is_about.then_some(kind)
    }

    /// Whether it tells what came of a command.
    pub(super) fn is_result(&self) -> bool {
        let kind = self.about_command();
        kind.is_some_and(|kind| {
            !matches!(
                kind,
                EventType::CommandStarted | EventType::CommandHeartbeat
            )
        })
    }

    /// Whether it was told as the exit of a step, which follows the call that it repeats.
    pub(super) fn is_exit(&self) -> bool {
        self.name == EventType::CallDone && self.as_sent.is_some()
    }

    /// The id that its sender made, if it is one.
    pub(super) fn event_id(&self, now: Timestamp) -> Result<Option<EventId>, RuntimeError> {
        use noetl_types::id::Id as _;
        let Some(event_id) = self.told.event_id else {
            return Ok(None);
        };
        if event_id.snowflake().time() > now.saturating_add(MAX_ID_AHEAD) {
            let text = format!("event_id {event_id} is of a time that has not come");
            return Err(RuntimeError::refused(ErrorCode::OutOfRange, text));
        }
        Ok(Some(event_id))
    }

    /// When it happened.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        let told = self.told.created_at;
        told.and_then(|time| NewEvent::believable_time(time, now))
            .unwrap_or(now)
    }

    /// What is kept beside an event that the engine makes of it.
    pub(super) fn beside(&self) -> JsonMap {
        let mut meta = JsonMap::new();
        meta.insert(SENT_SHA256.into(), Json::from(self.sha256.to_string()));
        if let Some(word) = &self.as_sent {
            meta.insert(AS_SENT.into(), Json::from(word));
        }
        for (key, flag) in [
            ("actionable", self.told.actionable),
            ("informative", self.told.informative),
        ] {
            if let Some(flag) = flag {
                meta.insert(key.into(), Json::from(flag));
            }
        }
        meta
    }

    /// The event as it is stored, where it shapes nothing.
    pub(super) fn record(
        &self,
        event_id: EventId,
        now: Timestamp,
    ) -> Result<NewEvent, RuntimeError> {
        let told = &self.told;
        let status = self.status()?;
        let mut meta = told.meta.clone().unwrap_or_default();
        meta.extend(self.beside());
        let mut result = JsonMap::from([("status".into(), Json::from(status.as_str()))]);
        match told.result_kind {
            ResultKind::Ref => {
                result.insert("reference".into(), payload::reference(told));
            }
            ResultKind::Refs => {
                result.insert("context".into(), payload::reference(told));
            }
            ResultKind::Data => match &told.payload {
                Json::Null => {}
                map @ Json::Map(_) => {
                    result.insert("context".into(), map.clone());
                }
                other => {
                    let wrapped = Json::object([("value", other.clone())]);
                    result.insert("context".into(), wrapped);
                }
            },
        }
        let event = NewEvent {
            status,
            node_id: told.step.clone(),
            node_name: told.step.clone(),
            command_id: payload::command_id(told),
            result: Some(Json::from(result)),
            meta: Some(Json::from(meta)),
            worker_id: self.worker.as_ref().map(Text::from),
            event_time: self.time(now),
            created_at: self.time(now),
            ..NewEvent::new(self.execution_id, event_id, self.name.clone(), now)
        };
        let size = [&event.result, &event.meta]
            .into_iter()
            .flatten()
            .map(|part| to_canonical(part).len())
            .sum();
        if MAX_EVENT_SIZE.is_exceeded_by(size) {
            let text = format!("an event has at most {MAX_EVENT_SIZE}: put the result first");
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        Ok(event)
    }

    /// Its status: as told, else as its name sounds.
    fn status(&self) -> Result<StatusName, RuntimeError> {
        if let Some(status) = &self.told.status {
            return StatusName::read(status)
                .map_err(|error| RuntimeError::refused(ErrorCode::Validation, error.to_string()));
        }
        Ok(status_of(self.name.as_str()).into())
    }
}

/// The status of an event that comes without one, by its name.
fn status_of(name: &str) -> EventStatus {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["done", "exit", "completed"]) {
        EventStatus::Completed
    } else if has(&["error", "failed"]) {
        EventStatus::Failed
    } else {
        EventStatus::Running
    }
}

fn worker_of(told: &TaleOfEvent) -> Option<WorkerId> {
    let meta = told.meta.as_ref().and_then(|meta| meta.get("worker_id"));
    let named = [meta, told.payload.get("worker_id")];
    let name = named.into_iter().flatten().find_map(Json::as_str)?;
    WorkerId::new(name).ok()
}

fn digest(
    execution_id: ExecutionId,
    worker: Option<&WorkerId>,
    told: &TaleOfEvent,
) -> Result<Digest, RuntimeError> {
    let body: Result<Json, _> = serde_json::to_value(told).and_then(serde_json::from_value);
    let body = body.map_err(|error| {
        RuntimeError::refused(ErrorCode::Validation, format!("the event: {error}"))
    })?;
    let whole = Json::object([
        ("execution_id", Json::from(execution_id.to_string())),
        ("worker_id", Json::from(worker.map(Text::from))),
        ("event", body),
    ]);
    Ok(sha256(to_canonical(&whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tale, RuntimeError> {
        let told = serde_json::from_str(text).unwrap();
        Tale::read(ExecutionId::new(7).unwrap(), None, told)
    }

    #[test]
    fn only_the_words_of_a_worker_are_taken() {
        for (text, code) in [
            (r#"{"event_type":"call.done"}"#, None),
            (r#"{"event_type":"step_completed"}"#, None),
            (r#"{"event_type":"frame.committed"}"#, None),
            (
                r#"{"event_type":"order.made","meta":{"business_object":{}}}"#,
                None,
            ),
            (r#"{"event_type":"order.made"}"#, Some(ErrorCode::Forbidden)),
            (
                r#"{"event_type":"playbook.completed"}"#,
                Some(ErrorCode::Forbidden),
            ),
            (
                r#"{"event_type":"command_claimed"}"#,
                Some(ErrorCode::Forbidden),
            ),
            (r#"{"event_type":"No Event"}"#, Some(ErrorCode::Validation)),
            (
                r#"{"event_type":"call.done","result_kind":"ref"}"#,
                Some(ErrorCode::Validation),
            ),
        ] {
            let refused = read(text).err().and_then(|error| error.code());
            assert_eq!(refused, code, "{text}");
        }
    }

    #[test]
    fn names_sound_like_a_status() {
        for (name, status) in [
            ("frame.committed", EventStatus::Running),
            ("batch.completed", EventStatus::Completed),
            ("batch.failed", EventStatus::Failed),
            ("loop.done", EventStatus::Completed),
        ] {
            assert_eq!(status_of(name), status, "{name}");
        }
    }

    #[test]
    fn another_body_has_another_digest() {
        let one = read(r#"{"event_type":"call.done","payload":{"a":1}}"#).unwrap();
        let same = read(r#"{"payload":{"a":1},"name":"call.done"}"#).unwrap();
        let other = read(r#"{"event_type":"call.done","payload":{"a":2}}"#).unwrap();
        assert_eq!(one.sha256, same.sha256);
        assert_ne!(one.sha256, other.sha256);
    }

    #[test]
    fn a_payload_that_is_no_map_is_wrapped() {
        let tale = read(r#"{"event_type":"loop.item","payload":[1],"step":"s"}"#).unwrap();
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let record = tale.record(EventId::new(3).unwrap(), now).unwrap();
        let result = record.result.unwrap();
        assert_eq!(
            to_canonical(&result),
            br#"{"context":{"value":[1]},"status":"RUNNING"}"#
        );
        assert_eq!(record.node_name.as_deref(), Some("s"));
    }
}
