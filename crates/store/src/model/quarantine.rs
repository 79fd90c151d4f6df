//! What could not be taken or published, kept for an operator.

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, QuarantineId, Text, Timestamp, sha256};

/// Something that was refused while its neighbours went on.
///
/// The same thing from the same source, refused for the same reason, is kept once: whoever sends it
/// again and again does not fill the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The id.
    pub quarantine_id: QuarantineId,
    /// Where it was met, such as `projector` or `stream`.
    pub source: Text,
    /// The thing itself, as it came.
    pub raw: Text,
    /// Why it was refused, for programs.
    pub code: Text,
    /// Why it was refused, for people.
    pub message: Text,
    /// When.
    pub created_at: Timestamp,
}

impl Quarantined {
    /// What the thing is known by.
    pub(crate) fn raw_sha256(&self) -> Digest {
        sha256(self.raw.as_str())
    }
}

/// Which refused things a list shows, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineFilter {
    /// Only those of a source.
    pub source: Option<Text>,
    /// Behind the last one of the page before.
    pub after: Option<QuarantineId>,
    /// How many at most.
    pub limit: PageLimit,
}
