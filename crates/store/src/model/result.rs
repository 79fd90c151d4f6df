//! Values that are too large for an event, kept beside the log.

use std::sync::Arc;

use noetl_types::{Digest, ExecutionId, ResultId, Text, Timestamp};

/// Bytes of results that one append may carry.
pub const MAX_APPEND_RESULT_BYTES: usize = 64 * 1024 * 1024;

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
        }
    }
}
