//! Claims: what a request may be the first to do, and what those that come later are told.

use std::sync::Arc;

use noetl_api::execute::{ExecuteAnswer, ExecuteRequest};
use noetl_engine::{Input, Remark};
use noetl_store::{Answered, DedupClaim, IdempotencyClaim};
use noetl_types::json::to_canonical;
use noetl_types::limits::DedupWindowSecs;
use noetl_types::{
    Digest, ErrorCode, EventId, EventName, EventStatus, EventType, ExecutionId, Json, JsonMap,
    Millis, NewEvent, PlaybookPath, TenantId, Text, Timestamp, sha256,
};
use serde::Serialize;

use super::Core;
use super::driver::Letter;
use super::error::RuntimeError;

/// Seconds of a dedup window where the request does not say.
const DEDUP_WINDOW: i64 = 300;

/// How long a request is known by its key.
pub(super) const KEY_LIVES: Millis = Millis::from_secs(24 * 3600);

/// Bytes of the longest key of a request.
const MAX_KEY: usize = 255;

/// The route of what follows from requests that were taken; none is called that.
const OF_WORK: &str = "work";

/// Bytes of a dedup key that the log shows.
const SHOWN_KEY: usize = 128;

/// Keys of a payload that tell the delivery, not the message.
const OF_DELIVERY: [&str; 5] = [
    "content_type",
    "idempotency_key",
    "message",
    "source",
    "subscription",
];

/// The claim of a message that starts at most one execution in its window.
pub(super) fn dedup(
    request: &ExecuteRequest,
    (tenant_id, path): (&TenantId, &PlaybookPath),
    now: Timestamp,
) -> Result<Option<DedupClaim>, RuntimeError> {
    let Some(dedup) = &request.dedup else {
        return Ok(None);
    };
    let window = dedup.window_secs.unwrap_or(DEDUP_WINDOW);
    let window = DedupWindowSecs::new(window)
        .map_err(|error| RuntimeError::refused(ErrorCode::OutOfRange, error.to_string()))?;
    let secs = u64::from(window.get());
    Ok(Some(DedupClaim {
        scope: scope(request.parent_execution_id, tenant_id, path),
        key: dedup.key.clone(),
        payload_sha256: body_digest(request.payload.as_ref()),
        seen_at: now,
        expires_at: now.saturating_add(Millis::from_secs(secs)),
    }))
}

/// Where a key is unique: under its parent, else under a number below zero that stands for the
/// playbook.
fn scope(parent: Option<ExecutionId>, tenant_id: &TenantId, path: &PlaybookPath) -> i64 {
    if let Some(parent) = parent {
        return parent.get();
    }
    let digest = sha256(format!("{}\0{}", tenant_id.as_str(), path.as_str()));
    let bytes = digest.as_bytes().iter().take(8);
    let number = bytes.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let positive = i64::try_from(number >> 1).unwrap_or(i64::MAX);
    -positive.max(1)
}

/// The digest of a message, whatever its deliveries add to it.
fn body_digest(payload: Option<&Json>) -> Digest {
    let body = match payload {
        Some(Json::Map(map)) if map.contains_key("message") && map.contains_key("subscription") => {
            let own = map
                .iter()
                .filter(|(key, _)| !OF_DELIVERY.contains(&&***key));
            let own = own.map(|(key, value)| (key.clone(), value.clone()));
            Json::from(own.collect::<JsonMap>())
        }
        Some(payload) => payload.clone(),
        None => Json::empty_map(),
    };
    sha256(to_canonical(&body))
}

/// What the log says of a claim.
pub(super) fn told(claim: &DedupClaim) -> Json {
    Json::object([
        ("key", Json::from(shown(&claim.key))),
        ("scope", Json::from(claim.scope.to_string())),
        ("expires_at", Json::from(claim.expires_at.to_string())),
    ])
}

fn shown(key: &Text) -> Text {
    let cut = key.floor_char_boundary(SHOWN_KEY);
    key.get(..cut).unwrap_or_default().into()
}

/// Something that happens at most once, and what it is known by.
#[derive(Debug, Clone)]
pub(super) struct Once {
    route: Text,
    key_sha256: Digest,
    body_sha256: Digest,
}

impl Once {
    /// A start, by the key that its sender made.
    pub(super) fn of_request(key: &str, request: &ExecuteRequest) -> Result<Self, RuntimeError> {
        // How long the caller waits is not what it asks for.
        let asked = ExecuteRequest {
            wait_ms: None,
            ..request.clone()
        };
        Ok(Self {
            route: noetl_api::paths::EXECUTE.into(),
            key_sha256: digest_of_key(key)?,
            body_sha256: sha256(serde_json::to_vec(&asked).unwrap_or_default()),
        })
    }

    /// A part of what follows from a request that was taken.
    pub(super) fn of_work(work_id: EventId, part: usize) -> Self {
        let name = format!("{work_id}:{part}");
        Self {
            route: OF_WORK.into(),
            key_sha256: sha256(&name),
            // The request was compared when it was taken.
            body_sha256: sha256(&name),
        }
    }

    /// The claim to be the first to do it, and what those that come later are told.
    pub(super) fn claim<T: Serialize>(self, answer: &T, now: Timestamp) -> IdempotencyClaim {
        let answer = serde_json::to_vec(answer).unwrap_or_default();
        IdempotencyClaim {
            route: self.route,
            key_sha256: self.key_sha256,
            body_sha256: self.body_sha256,
            status: 200,
            answer: serde_json::from_slice(&answer).unwrap_or_default(),
            expires_at: now.saturating_add(KEY_LIVES),
        }
    }
}

/// The digest of a key of a request.
pub(super) fn digest_of_key(key: &str) -> Result<Digest, RuntimeError> {
    let is_printable = key.chars().all(|it| it.is_ascii_graphic() || it == ' ');
    if key.is_empty() || key.len() > MAX_KEY || !is_printable {
        let text = format!("an idempotency key has 1 to {MAX_KEY} printable characters");
        return Err(RuntimeError::refused(ErrorCode::Validation, text));
    }
    Ok(sha256(key))
}

/// The answer that a request got before.
pub(super) fn replayed(answered: &Answered) -> Result<ExecuteAnswer, RuntimeError> {
    let text = serde_json::to_vec(&answered.answer).unwrap_or_default();
    serde_json::from_slice(&text).map_err(|error| {
        tracing::error!(%error, "the answer of an earlier request cannot be read");
        RuntimeError::refused(ErrorCode::Internal, "the earlier answer cannot be read")
    })
}

impl Core {
    /// Whether something has happened that happens at most once.
    pub(super) async fn has_begun(
        &self,
        tenant_id: &TenantId,
        once: &Once,
    ) -> Result<bool, RuntimeError> {
        let now = self.clock.now();
        let answered = self
            .store
            .answered(tenant_id, &once.route, once.key_sha256, now);
        Ok(answered.await?.is_some())
    }

    /// Notes in the log of an execution that a message for it came again.
    pub(super) fn note_duplicate(
        self: &Arc<Self>,
        first: ExecutionId,
        suppressed: ExecutionId,
        claim: Option<&DedupClaim>,
    ) {
        let now = self.clock.now();
        let Ok(event_id) = self.ids.mint(now) else {
            return;
        };
        let key = claim.map(|claim| shown(&claim.key)).unwrap_or_default();
        let scope = claim.map(|claim| claim.scope.to_string());
        let context = Json::object([
            ("subscription_id", scope.map_or(Json::Null, Json::from)),
            ("dedup_key", Json::from(key)),
            ("original_execution_id", Json::from(first.to_string())),
            (
                "suppressed_execution_id",
                Json::from(suppressed.to_string()),
            ),
            ("duplicate_suppressed", Json::from(true)),
        ]);
        let name = EventName::from(EventType::SubscriptionMessageDeduplicated);
        let record = NewEvent {
            node_name: Some("ingress".into()),
            status: EventStatus::Deduplicated.into(),
            context: Some(context),
            ..NewEvent::new(first, event_id, name, now)
        };
        let (letter, _) = Letter::new(Input::Remark(Box::new(Remark(record))));
        self.send(first, letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        body_digest(Some(&serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn what_a_delivery_adds_does_not_count() {
        let first = r#"{"message":{"id":1},"subscription":"s","n":7}"#;
        let again = r#"{"message":{"id":1,"try":2},"subscription":"s","n":7}"#;
        let other = r#"{"message":{"id":1},"subscription":"s","n":8}"#;
        assert_eq!(digest(first), digest(again));
        assert_ne!(digest(first), digest(other));
        assert_ne!(digest(r#"{"message":1}"#), digest(r#"{"message":2}"#));
    }

    #[test]
    fn without_a_parent_a_key_is_unique_to_the_playbook() {
        let (tenant, path) = (TenantId::default(), |text| PlaybookPath::new(text).unwrap());
        let of = |text| scope(None, &tenant, &path(text));
        assert!(of("a") < 0);
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        let parent = ExecutionId::new(7).unwrap();
        assert_eq!(scope(Some(parent), &tenant, &path("a")), 7);
    }
}
