//! Cached step results that other executions may reuse.

use noetl_types::{Digest, ExecutionId, Json, Seq, Timestamp};

use super::match_key::MatchKey;

/// A result, inline or by reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachedResult {
    Inline(Json),
    Reference(Json),
}

/// A result that an append caches. It replaces one with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePut {
    /// Scope of reuse: a playbook, or the whole tenant.
    pub scope: MatchKey,
    /// Digest of the inputs of the result.
    pub key_sha256: Digest,
    pub result: CachedResult,
    pub origin_execution_id: ExecutionId,
    /// The event of that execution that holds the result.
    pub origin_seq: Seq,
    pub expires_at: Timestamp,
}

/// A stored cached result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedStepResult {
    pub result: CachedResult,
    pub origin_execution_id: ExecutionId,
    /// The event of that execution that holds the result.
    pub origin_seq: Seq,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}
