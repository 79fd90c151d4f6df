//! Results of steps that other runs may take over.

use noetl_types::{Digest, ExecutionId, Json, Seq, Timestamp};

use super::key::MatchKey;

/// A result, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachedResult {
    /// The result itself.
    Inline(Json),
    /// A reference to it.
    Reference(Json),
}

/// A result that an append leaves for others; one under the same key is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePut {
    /// Who may take it over: a playbook, or everybody of the tenant.
    pub scope: MatchKey,
    /// The digest of what it depends on.
    pub key_sha256: Digest,
    /// The result.
    pub result: CachedResult,
    /// The execution that it came from.
    pub origin_execution_id: ExecutionId,
    /// The event there that has it.
    pub origin_seq: Seq,
    /// From when on it is not taken over any more.
    pub expires_at: Timestamp,
}

/// A result that may be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    /// The result.
    pub result: CachedResult,
    /// The execution that it came from.
    pub origin_execution_id: ExecutionId,
    /// The event there that has it.
    pub origin_seq: Seq,
    /// When it was left.
    pub created_at: Timestamp,
    /// From when on it is not taken over any more.
    pub expires_at: Timestamp,
}

impl CachePut {
    pub(crate) fn into_cached(self, created_at: Timestamp) -> Cached {
        Cached {
            result: self.result,
            origin_execution_id: self.origin_execution_id,
            origin_seq: self.origin_seq,
            created_at,
            expires_at: self.expires_at,
        }
    }
}
