//! Deduplication of messages and of idempotent requests.

use noetl_types::{Digest, ExecutionId, Json, Text, Timestamp};

use super::append::AppendError;
use super::match_key::{MatchKey, truncate_text};

/// Bytes of a key that are stored in readable form.
const KEY_PREFIX_BYTES: usize = 128;

/// Reservation of the key of a message, so that repeated deliveries start one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupReservation {
    /// Scope of the key: the id of a subscription or a parent, or a hash that identifies a
    /// playbook.
    pub scope: i64,
    /// Key of any length.
    pub key: Text,
    /// Digest of the message body.
    pub payload_sha256: Digest,
    /// Time of receipt.
    pub seen_at: Timestamp,
    /// Time from which a message with the same key counts as new.
    pub expires_at: Timestamp,
}

/// An accepted reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DedupRecord {
    pub(crate) execution_id: ExecutionId,
    pub(crate) payload_sha256: Digest,
    pub(crate) expires_at: Timestamp,
}

impl DedupReservation {
    /// Returns the key in the form used for lookups.
    pub(crate) fn match_key(&self) -> MatchKey {
        MatchKey::from_text(&self.key)
    }

    /// Returns the first bytes of the key.
    pub(crate) fn readable_prefix(&self) -> Text {
        truncate_text(&self.key, KEY_PREFIX_BYTES)
    }

    /// Checks the reservation against an earlier one. The end of the earlier window is exclusive.
    pub(crate) fn check_against(&self, earlier: &DedupRecord) -> Result<(), AppendError> {
        if earlier.expires_at <= self.seen_at {
            return Ok(());
        }
        let execution_id = earlier.execution_id;
        Err(if earlier.payload_sha256 == self.payload_sha256 {
            AppendError::Duplicate { execution_id }
        } else {
            AppendError::DedupMismatch { execution_id }
        })
    }
}

/// The response to an idempotent request, so that repeated requests take effect once.
///
/// The key is unique within the route and the tenant of the append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// Route of the request.
    pub route: Text,
    /// Digest of the idempotency key.
    pub key_sha256: Digest,
    /// Digest of the message body.
    pub body_sha256: Digest,
    /// Response status.
    pub status: u16,
    /// Response body.
    pub answer: Json,
    /// Time from which the key may be reused.
    pub expires_at: Timestamp,
}

/// The stored response to a request that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// Digest of the request body. Reusing the key with another body is an error.
    pub body_sha256: Digest,
    /// Response status.
    pub status: u16,
    /// Response body.
    pub answer: Json,
    /// The execution that the request affected or, if the request was reserved first, its work id.
    pub execution_id: ExecutionId,
    /// Time from which the key may be reused.
    pub expires_at: Timestamp,
}

impl IdempotencyRecord {
    /// Checks the request against an earlier one with the same key.
    pub(crate) fn check_against(
        &self,
        earlier: AnsweredRequest,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        if earlier.expires_at <= now {
            return Ok(());
        }
        Err(if earlier.body_sha256 == self.body_sha256 {
            AppendError::AlreadyAnswered(Box::new(earlier))
        } else {
            AppendError::IdempotencyMismatch
        })
    }
}
