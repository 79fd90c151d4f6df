//! Claims: what an append may be the first to do, and what whoever comes later is told.

use noetl_types::{Digest, ExecutionId, Json, Text, Timestamp};

use super::append::AppendRefused;
use super::key::{MatchKey, prefix};

/// Bytes of a key that are kept for people to read.
const READABLE_BYTES: usize = 128;

/// A message that may start one execution, however often it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DedupClaim {
    /// Where its key is unique: a subscription, a parent, or a hash that stands for a playbook.
    pub scope: i64,
    /// Its key, of any length.
    pub key: Text,
    /// The digest of its body.
    pub payload_sha256: Digest,
    /// When it came.
    pub seen_at: Timestamp,
    /// From when on another with the same key counts as new.
    pub expires_at: Timestamp,
}

/// A claim that was accepted before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptDedup {
    pub(crate) execution_id: ExecutionId,
    pub(crate) payload_sha256: Digest,
    pub(crate) expires_at: Timestamp,
}

impl DedupClaim {
    /// The key as it is looked for.
    pub(crate) fn match_key(&self) -> MatchKey {
        MatchKey::of(&self.key)
    }

    /// The beginning of the key.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "only databases are looked at by people")
    )]
    pub(crate) fn readable(&self) -> Text {
        prefix(&self.key, READABLE_BYTES)
    }

    /// What the claim is told beside one that was accepted before. The window of that one is open
    /// at its end.
    pub(crate) fn beside(&self, kept: &KeptDedup) -> Result<(), AppendRefused> {
        if kept.expires_at <= self.seen_at {
            return Ok(());
        }
        let execution_id = kept.execution_id;
        Err(if kept.payload_sha256 == self.payload_sha256 {
            AppendRefused::Duplicate { execution_id }
        } else {
            AppendRefused::DedupMismatch { execution_id }
        })
    }

    pub(crate) fn kept_for(&self, execution_id: ExecutionId) -> KeptDedup {
        KeptDedup {
            execution_id,
            payload_sha256: self.payload_sha256,
            expires_at: self.expires_at,
        }
    }
}

/// A request that has an effect once, however often it is sent.
///
/// Its key is unique within the route and the tenant of the append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// The route that it was sent to.
    pub route: Text,
    /// The digest of its key.
    pub key_sha256: Digest,
    /// The digest of its body.
    pub body_sha256: Digest,
    /// The status that it is answered with.
    pub status: u16,
    /// What it is answered.
    pub answer: Json,
    /// From when on its key may be used for something else.
    pub expires_at: Timestamp,
}

/// A request that had its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The digest of its body; the same key with another body is a mistake.
    pub body_sha256: Digest,
    /// The status that it was answered with.
    pub status: u16,
    /// What it was answered.
    pub answer: Json,
    /// The execution that it had its effect on; of one that was taken first, the id of its work.
    pub execution_id: ExecutionId,
    /// From when on its key may be used for something else.
    pub expires_at: Timestamp,
}

impl IdempotencyClaim {
    /// What the request is told beside one that had its effect before.
    pub(crate) fn beside(&self, kept: Answered, now: Timestamp) -> Result<(), AppendRefused> {
        if kept.expires_at <= now {
            return Ok(());
        }
        Err(if kept.body_sha256 == self.body_sha256 {
            AppendRefused::Replay(Box::new(kept))
        } else {
            AppendRefused::IdempotencyMismatch
        })
    }

    pub(crate) fn kept_for(&self, execution_id: ExecutionId) -> Answered {
        Answered {
            body_sha256: self.body_sha256,
            status: self.status,
            answer: self.answer.clone(),
            execution_id,
            expires_at: self.expires_at,
        }
    }
}
