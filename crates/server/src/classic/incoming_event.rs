//! Events from classic workers, parsed and checked.

use noetl_api::classic::{ClassicEvent, ResultKind};
use noetl_types::event::{EventSender, normalize_event_name};
use noetl_types::json::to_canonical;
use noetl_types::limits::{MAX_EVENT_SIZE, MAX_ID_AHEAD};
use noetl_types::redact::SecretSet;
use noetl_types::status::infer_event_status;
use noetl_types::{
    Digest, EventId, EventName, EventType, ExecutionId, Json, JsonMap, NewEvent, StatusName, Text,
    Timestamp, WorkerId, sha256,
};

use crate::classic::payload;
use crate::error::{Result, RuntimeError};

/// Metadata key of the digest of the event as it was sent.
pub(crate) const SENT_SHA256_KEY: &str = "sent_sha256";
/// Metadata key of the event type as it was sent, if it was normalized to another one.
const SENT_TYPE_KEY: &str = "event_type_as_sent";

/// An event that a worker is allowed to send.
pub(crate) struct IncomingEvent {
    pub(crate) execution_id: ExecutionId,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) body: ClassicEvent,
    name: EventName,
    sent_type: Option<Text>,
    pub(crate) sha256: Digest,
}

impl IncomingEvent {
    /// Parses an event. Rejects types that only the server may write.
    pub(crate) fn parse_event(
        execution_id: ExecutionId,
        worker: Option<WorkerId>,
        body: ClassicEvent,
    ) -> Result<Self> {
        let invalid = |text: String| RuntimeError::invalid(text);
        let normalized = normalize_event_name(&body.event_type, EventSender::Worker)
            .map_err(|error| invalid(error.to_string()))?;
        let business_object = body.meta.as_ref().and_then(|meta| meta.get("business_object"));
        let has_business_object = business_object.is_some_and(|object| !object.is_null());
        if !normalized.name.may_be_sent_by_worker(has_business_object) {
            let text = format!("workers may not send `{}` events", body.event_type);
            return Err(RuntimeError::forbidden(text));
        }
        if body.result_kind == ResultKind::Ref && body.result_uri.is_none() {
            let text = "result_uri is required when result_kind is `ref`";
            return Err(invalid(text.to_owned()));
        }
        let worker = worker.or_else(|| find_worker_id(&body));
        let sha256 = event_digest(execution_id, worker.as_ref(), &body)?;
        Ok(Self {
            execution_id,
            worker,
            body,
            name: normalized.name,
            sent_type: normalized.original,
            sha256,
        })
    }

    /// Redacts secrets. The digest remains that of the event as sent, which may be sent again.
    pub(crate) fn redact_secrets(mut self, secrets: &SecretSet) -> Self {
        let body = &mut self.body;
        body.payload = secrets.redact_json(std::mem::take(&mut body.payload));
        let meta = body.meta.take().map(|meta| secrets.redact_json(Json::from(meta)));
        body.meta = meta.and_then(|meta| meta.as_map().cloned());
        let redact = |text: &mut Option<Text>| {
            if let Some(redacted) = text.as_deref().and_then(|text| secrets.redact_text(text)) {
                *text = Some(Text::from(redacted));
            }
        };
        redact(&mut body.result_uri);
        redact(&mut body.status);
        for id in body.event_ids.iter_mut().flatten() {
            *id = secrets.redact_json(std::mem::take(id));
        }
        // The step of a command event must be the one in the playbook.
        if self.command_event_type().is_none() {
            redact(&mut self.body.step);
        }
        self
    }

    /// Event type, if the event is about a command.
    pub(crate) fn command_event_type(&self) -> Option<EventType> {
        let event_type = self.name.known_type()?;
        let is_command_event = matches!(
            event_type,
            EventType::CommandStarted
                | EventType::CommandHeartbeat
                | EventType::CommandCompleted
                | EventType::CommandFailed
                | EventType::CallDone
                | EventType::CallError
        );
        is_command_event.then_some(event_type)
    }

    /// True if it reports the result of a command.
    pub(crate) fn is_result(&self) -> bool {
        let kind = self.command_event_type();
        kind.is_some_and(|kind| {
            !matches!(kind, EventType::CommandStarted | EventType::CommandHeartbeat)
        })
    }

    /// True if it was sent as the exit of a step, which repeats the call before it.
    pub(crate) fn is_step_exit(&self) -> bool {
        self.name == EventType::CallDone && self.sent_type.is_some()
    }

    /// Id that the sender chose, if any.
    pub(crate) fn sender_event_id(&self, now: Timestamp) -> Result<Option<EventId>> {
        use noetl_types::id::TypedId as _;
        let Some(event_id) = self.body.event_id else {
            return Ok(None);
        };
        if event_id.snowflake().time() > now.saturating_add(MAX_ID_AHEAD) {
            let text = format!("event_id {event_id} has a timestamp in the future");
            return Err(RuntimeError::out_of_range(text));
        }
        Ok(Some(event_id))
    }

    /// Event time, limited to plausible values.
    pub(crate) fn event_time(&self, now: Timestamp) -> Timestamp {
        let created_at = self.body.created_at;
        created_at.and_then(|time| NewEvent::plausible_time(time, now)).unwrap_or(now)
    }

    /// Metadata stored with the event that the engine derives from it.
    pub(crate) fn extra_metadata(&self) -> JsonMap {
        let mut meta = JsonMap::new();
        meta.insert(SENT_SHA256_KEY.into(), Json::from(self.sha256.to_string()));
        if let Some(sent_type) = &self.sent_type {
            meta.insert(SENT_TYPE_KEY.into(), Json::from(sent_type));
        }
        for (key, flag) in
            [("actionable", self.body.actionable), ("informative", self.body.informative)]
        {
            if let Some(flag) = flag {
                meta.insert(key.into(), Json::from(flag));
            }
        }
        meta
    }

    /// Builds the stored form of an audit-only event.
    pub(crate) fn to_new_event(&self, event_id: EventId, now: Timestamp) -> Result<NewEvent> {
        let body = &self.body;
        let status = self.event_status()?;
        let mut meta = body.meta.clone().unwrap_or_default();
        meta.extend(self.extra_metadata());
        let mut result = JsonMap::from([("status".into(), Json::from(status.as_str()))]);
        match body.result_kind {
            ResultKind::Ref => {
                result.insert("reference".into(), payload::result_reference(body));
            }
            ResultKind::Refs => {
                result.insert("context".into(), payload::result_reference(body));
            }
            ResultKind::Data => match &body.payload {
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
            node_id: body.step.clone(),
            node_name: body.step.clone(),
            command_id: payload::find_command_id(body),
            result: Some(Json::from(result)),
            meta: Some(Json::from(meta)),
            worker_id: self.worker.as_ref().map(Text::from),
            event_time: self.event_time(now),
            created_at: self.event_time(now),
            ..NewEvent::new(self.execution_id, event_id, self.name.clone(), now)
        };
        let size = [&event.result, &event.meta]
            .into_iter()
            .flatten()
            .map(|part| to_canonical(part).len())
            .sum();
        if MAX_EVENT_SIZE.is_exceeded_by(size) {
            let text = format!(
                "the event is larger than {MAX_EVENT_SIZE}; store the result first and send a reference"
            );
            return Err(RuntimeError::too_large(text));
        }
        Ok(event)
    }

    /// Status of the event: as sent, or derived from its type.
    fn event_status(&self) -> Result<StatusName> {
        if let Some(status) = &self.body.status {
            return StatusName::parse(status)
                .map_err(|error| RuntimeError::invalid(error.to_string()));
        }
        Ok(infer_event_status(self.name.as_str()).into())
    }
}

fn find_worker_id(body: &ClassicEvent) -> Option<WorkerId> {
    let meta = body.meta.as_ref().and_then(|meta| meta.get("worker_id"));
    let candidates = [meta, body.payload.get("worker_id")];
    let name = candidates.into_iter().flatten().find_map(Json::as_str)?;
    WorkerId::new(name).ok()
}

fn event_digest(
    execution_id: ExecutionId,
    worker: Option<&WorkerId>,
    body: &ClassicEvent,
) -> Result<Digest> {
    let json: Result<Json, _> = serde_json::to_value(body).and_then(serde_json::from_value);
    let json = json.map_err(|error| RuntimeError::invalid(format!("invalid event: {error}")))?;
    let digest_input = Json::object([
        ("execution_id", Json::from(execution_id.to_string())),
        ("worker_id", Json::from(worker.map(Text::from))),
        ("event", json),
    ]);
    Ok(sha256(to_canonical(&digest_input)))
}

#[cfg(test)]
mod tests;
