//! Values that are too large for an event, kept beside the log.

use std::sync::Arc;

use noetl_types::{Digest, ExecutionId, ResultId, Text, Timestamp};

use crate::error::StoreError;

/// Bytes of results that one append may carry.
pub const MAX_APPEND_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of one result that is put by itself.
pub const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// Bytes beyond which a result that is put by itself becomes a file, where there is a place for it.
pub const BLOB_BYTES: usize = 1024 * 1024;

/// A result that is written with the events that refer to it.
///
/// Whoever appends has encoded and digested it already: the store keeps the bytes as they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    /// The id, unique within the execution; events refer to the result by it.
    pub result_id: ResultId,
    /// What it is called: the step or the task that it came from.
    pub name: Text,
    /// The value itself; canonical JSON, unless the media type says otherwise.
    pub bytes: Arc<[u8]>,
    /// The digest of the bytes.
    pub sha256: Digest,
    /// What the bytes are, such as `application/json`.
    pub media_type: Text,
}

/// A result that comes by itself, before any event refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPut {
    /// The execution that it belongs to.
    pub execution_id: ExecutionId,
    /// The result.
    pub result: NewResult,
    /// How long and for whom it is meant to live, in the words of whoever put it.
    pub scope: Option<Text>,
    /// The step that it came from.
    pub source_step: Option<Text>,
    /// When it is over with it.
    pub expires_at: Option<Timestamp>,
    /// The server's clock.
    pub now: Timestamp,
}

/// Why a result was not put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutRefused {
    /// More than [`MAX_RESULT_BYTES`].
    #[error("a result has at most {MAX_RESULT_BYTES} bytes")]
    TooLarge,
    /// Another result of the execution has the id.
    #[error("a result of that id exists already")]
    Taken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A result as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// The execution that it belongs to.
    pub execution_id: ExecutionId,
    /// The id.
    pub result_id: ResultId,
    /// What it is called.
    pub name: Text,
    /// The value itself.
    pub bytes: Arc<[u8]>,
    /// The digest of the bytes; whoever reads them compares.
    pub sha256: Digest,
    /// What the bytes are.
    pub media_type: Text,
    /// When it was written: the ingest time of the events that came with it.
    pub created_at: Timestamp,
    /// How long and for whom it is meant to live, where it came by itself.
    pub scope: Option<Text>,
    /// The step that it came from, where it came by itself.
    pub source_step: Option<Text>,
    /// When it is over with it. Until it is swept it can still be read; whoever reads it looks.
    pub expires_at: Option<Timestamp>,
}

impl NewResult {
    /// The result as its execution keeps it.
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
    /// The result as its execution keeps it.
    pub(crate) fn into_stored(self) -> Result<StoredResult, PutRefused> {
        if self.result.bytes.len() > MAX_RESULT_BYTES {
            return Err(PutRefused::TooLarge);
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
    /// What putting it comes to where a result of its id, with some digest, is there already.
    pub(crate) fn beside(&self, kept: Digest) -> Result<(), PutRefused> {
        if kept == self.sha256 {
            Ok(())
        } else {
            Err(PutRefused::Taken)
        }
    }
}
