//! Dedup and idempotency keys: the first request takes effect, later ones get its answer.

use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_engine::{AuditOnlyEvent, EngineInput};
use noetl_store::{AnsweredRequest, DedupReservation, IdempotencyRecord};
use noetl_types::json::to_canonical;
use noetl_types::limits::DedupWindowSecs;
use noetl_types::{
    Digest, EventId, EventName, EventStatus, EventType, ExecutionId, Json, JsonMap, Millis,
    NewEvent, PlaybookPath, TenantId, Text, Timestamp, sha256,
};
use serde::Serialize;

use crate::driver::Message;
use crate::error::{Result, RuntimeError};
use crate::services::Executions;

/// Dedup window, in seconds, if the request does not set one.
const DEFAULT_DEDUP_WINDOW_SECS: i64 = 300;

/// Retention of an idempotency key.
pub(crate) const IDEMPOTENCY_KEY_TTL: Millis = Millis::from_secs(24 * 3600);

/// Maximum length of an idempotency key.
const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// Route recorded for the effects of admitted requests. No HTTP route has this name.
const WORK_ROUTE: &str = "work";

/// Maximum bytes of a dedup key in the log.
const MAX_LOGGED_KEY_BYTES: usize = 128;

/// Payload fields that describe the delivery and not the message.
const DELIVERY_FIELDS: [&str; 5] =
    ["content_type", "idempotency_key", "message", "source", "subscription"];

/// Returns the dedup reservation of a request. A message starts at most one execution within its
/// window.
pub(crate) fn dedup_reservation_from_request(
    request: &ExecuteRequest,
    tenant_id: &TenantId,
    path: &PlaybookPath,
    now: Timestamp,
) -> Result<Option<DedupReservation>> {
    let Some(dedup) = &request.dedup else {
        return Ok(None);
    };
    let window = dedup.window_secs.unwrap_or(DEFAULT_DEDUP_WINDOW_SECS);
    let window = DedupWindowSecs::new(window)
        .map_err(|error| RuntimeError::out_of_range(error.to_string()))?;
    let secs = u64::from(window.get());
    Ok(Some(DedupReservation {
        scope: dedup_scope(request.parent_execution_id, tenant_id, path),
        key: dedup.key.clone(),
        payload_sha256: message_body_digest(request.payload.as_ref()),
        seen_at: now,
        expires_at: now.saturating_add(Millis::from_secs(secs)),
    }))
}

/// Scope in which a dedup key is unique: the parent execution, or a negative number that is derived
/// from the playbook's path.
fn dedup_scope(parent: Option<ExecutionId>, tenant_id: &TenantId, path: &PlaybookPath) -> i64 {
    if let Some(parent) = parent {
        return parent.get();
    }
    let digest = sha256(format!("{}\0{}", tenant_id.as_str(), path.as_str()));
    let bytes = digest.as_bytes().iter().take(8);
    let number = bytes.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let positive = i64::try_from(number >> 1).unwrap_or(i64::MAX);
    -positive.max(1)
}

/// Digest of a message without the fields that a delivery adds.
fn message_body_digest(payload: Option<&Json>) -> Digest {
    let body = match payload {
        Some(Json::Map(map)) if map.contains_key("message") && map.contains_key("subscription") => {
            let fields = map.iter().filter(|(key, _)| !DELIVERY_FIELDS.contains(&&***key));
            let fields = fields.map(|(key, value)| (key.clone(), value.clone()));
            Json::from(fields.collect::<JsonMap>())
        }
        Some(payload) => payload.clone(),
        None => Json::empty_map(),
    };
    sha256(to_canonical(&body))
}

/// Returns the fields of a dedup reservation that the log records.
pub(crate) fn dedup_reservation_to_json(reservation: &DedupReservation) -> Json {
    Json::object([
        ("key", Json::from(truncate_logged_key(&reservation.key))),
        ("scope", Json::from(reservation.scope.to_string())),
        ("expires_at", Json::from(reservation.expires_at.to_string())),
    ])
}

fn truncate_logged_key(key: &Text) -> Text {
    let end = key.floor_char_boundary(MAX_LOGGED_KEY_BYTES);
    key.get(..end).unwrap_or_default().into()
}

/// Identity of an operation that takes effect at most once.
#[derive(Debug, Clone)]
pub(crate) struct IdempotencyKey {
    route: Text,
    key_sha256: Digest,
    body_sha256: Digest,
}

impl IdempotencyKey {
    /// Returns the identity of a start request with the key that its sender chose.
    pub(crate) fn for_start_request(key: &str, request: &ExecuteRequest) -> Result<Self> {
        // The wait time of the caller is not part of the request's identity.
        let identity = ExecuteRequest { wait_ms: None, ..request.clone() };
        Ok(Self {
            route: noetl_api::paths::EXECUTE.into(),
            key_sha256: hash_idempotency_key(key)?,
            body_sha256: sha256(serde_json::to_vec(&identity).unwrap_or_default()),
        })
    }

    /// Returns the identity of one part of the work of an admitted request.
    pub(crate) fn for_work_part(work_id: EventId, part: usize) -> Self {
        let name = format!("{work_id}:{part}");
        Self {
            route: WORK_ROUTE.into(),
            key_sha256: sha256(&name),
            // The body was compared when the request was admitted.
            body_sha256: sha256(&name),
        }
    }

    /// Returns the record of this identity, with the answer for later requests.
    pub(crate) fn to_record<T: Serialize>(&self, answer: &T, now: Timestamp) -> IdempotencyRecord {
        let answer = serde_json::to_vec(answer).unwrap_or_default();
        IdempotencyRecord {
            route: self.route.clone(),
            key_sha256: self.key_sha256,
            body_sha256: self.body_sha256,
            status: 200,
            answer: serde_json::from_slice(&answer).unwrap_or_default(),
            expires_at: now.saturating_add(IDEMPOTENCY_KEY_TTL),
        }
    }
}

/// Validates and hashes an idempotency key.
pub(crate) fn hash_idempotency_key(key: &str) -> Result<Digest> {
    let is_printable =
        key.chars().all(|character| character.is_ascii_graphic() || character == ' ');
    if key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY_BYTES || !is_printable {
        let text = format!(
            "an idempotency key must have 1 to {MAX_IDEMPOTENCY_KEY_BYTES} printable characters"
        );
        return Err(RuntimeError::invalid(text));
    }
    Ok(sha256(key))
}

/// Parses the stored answer of an earlier request.
pub(crate) fn parse_earlier_answer(answered: &AnsweredRequest) -> Result<ExecuteResponse> {
    let text = serde_json::to_vec(&answered.answer).unwrap_or_default();
    serde_json::from_slice(&text).map_err(|error| {
        tracing::error!(%error, "the answer of an earlier request cannot be read");
        RuntimeError::internal("the earlier answer cannot be read")
    })
}

impl Executions {
    /// True if the operation with this identity has already taken effect.
    pub(crate) async fn is_idempotency_key_used(
        &self,
        tenant_id: &TenantId,
        key: &IdempotencyKey,
    ) -> Result<bool> {
        let now = self.infra.now();
        let answered =
            self.infra.store.find_answered_request(tenant_id, &key.route, key.key_sha256, now);
        Ok(answered.await?.is_some())
    }

    /// Records in the log of an execution that its message was delivered again.
    pub(crate) fn record_duplicate_message(
        &self,
        first: ExecutionId,
        suppressed: ExecutionId,
        reservation: Option<&DedupReservation>,
    ) {
        let now = self.infra.now();
        let Ok(event_id) = self.infra.ids.mint_id(now) else {
            return;
        };
        let key = reservation
            .map(|reservation| truncate_logged_key(&reservation.key))
            .unwrap_or_default();
        let scope = reservation.map(|reservation| reservation.scope.to_string());
        let context = Json::object([
            ("subscription_id", scope.map_or(Json::Null, Json::from)),
            ("dedup_key", Json::from(key)),
            ("original_execution_id", Json::from(first.to_string())),
            ("suppressed_execution_id", Json::from(suppressed.to_string())),
            ("duplicate_suppressed", Json::from(true)),
        ]);
        let name = EventName::from(EventType::SubscriptionMessageDeduplicated);
        let record = NewEvent {
            node_name: Some("ingress".into()),
            status: EventStatus::Deduplicated.into(),
            context: Some(context),
            ..NewEvent::new(first, event_id, name, now)
        };
        let (message, _) = Message::new(EngineInput::AuditOnly(Box::new(AuditOnlyEvent(record))));
        self.driver.send_message(first, message);
    }
}

#[cfg(test)]
mod tests;
