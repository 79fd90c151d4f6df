//! Results that are too large for an event, stored outside of the log.

use std::sync::Arc;

use noetl_types::{Digest, ExecutionId, ResultId, Text, Timestamp};

use crate::error::StoreError;

/// Maximum total size of the results of an append.
pub const MAX_APPEND_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// Maximum size of a result that is stored outside of an append.
pub const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// Size above which a result that is stored outside of an append becomes a file, if the store has a
/// blob folder.
pub const MIN_BLOB_BYTES: usize = 1024 * 1024;

/// A result that is written with the events that refer to it.
///
/// The caller has encoded and hashed it. The store writes the bytes unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    /// Unique within the execution. Events refer to the result by it.
    pub result_id: ResultId,
    /// Name of the step or the task that produced it.
    pub name: Text,
    /// The value: canonical JSON, unless the media type says otherwise.
    pub bytes: Arc<[u8]>,
    pub sha256: Digest,
    /// Media type such as `application/json`.
    pub media_type: Text,
}

/// A result that is stored before any event refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPut {
    pub execution_id: ExecutionId,
    pub result: NewResult,
    /// Intended lifetime and visibility, as given by the caller.
    pub scope: Option<Text>,
    pub source_step: Option<Text>,
    pub expires_at: Option<Timestamp>,
    pub now: Timestamp,
}

/// Reason why a result was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutResultError {
    #[error("the result has more than {MAX_RESULT_BYTES} bytes")]
    TooLarge,
    #[error("a result with that id already exists")]
    IdTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub execution_id: ExecutionId,
    pub result_id: ResultId,
    pub name: Text,
    pub bytes: Arc<[u8]>,
    /// Digest of the bytes, to be verified by the reader.
    pub sha256: Digest,
    pub media_type: Text,
    /// Write time: the ingest time of the events of its append.
    pub created_at: Timestamp,
    /// Intended lifetime and visibility of a result stored outside of an append.
    pub scope: Option<Text>,
    /// Source step of a result stored outside of an append.
    pub source_step: Option<Text>,
    /// Expiry time. An expired result can be read until it is deleted, so the reader must check.
    pub expires_at: Option<Timestamp>,
}

impl NewResult {
    /// Converts it into its stored form.
    pub(crate) fn into_stored(
        self,
        execution_id: ExecutionId,
        created_at: Timestamp,
    ) -> StoredResult {
        StoredResult {
            execution_id,
            result_id: self.result_id,
            name: self.name,
            bytes: self.bytes,
            sha256: self.sha256,
            media_type: self.media_type,
            created_at,
            scope: None,
            source_step: None,
            expires_at: None,
        }
    }
}

impl ResultPut {
    /// Converts it into its stored form.
    pub(crate) fn into_stored(self) -> Result<StoredResult, PutResultError> {
        if self.result.bytes.len() > MAX_RESULT_BYTES {
            return Err(PutResultError::TooLarge);
        }
        Ok(StoredResult {
            scope: self.scope,
            source_step: self.source_step,
            expires_at: self.expires_at,
            ..self.result.into_stored(self.execution_id, self.now)
        })
    }
}

impl StoredResult {
    /// Checks a result against a stored one with the same id.
    pub(crate) fn check_same_digest(&self, stored: Digest) -> Result<(), PutResultError> {
        if stored == self.sha256 { Ok(()) } else { Err(PutResultError::IdTaken) }
    }
}
