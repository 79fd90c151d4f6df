//! Rejected input and undeliverable events, stored for an operator.

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, QuarantineId, Text, Timestamp, sha256};

/// An item that was rejected while processing of the others continued.
///
/// The same item from the same source, rejected for the same reason, is stored once, so that
/// repeated submissions do not fill the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedItem {
    pub quarantine_id: QuarantineId,
    /// Component that rejected it, such as `projector` or `stream`.
    pub source: Text,
    /// The original item.
    pub raw: Text,
    /// Machine-readable reason.
    pub code: Text,
    /// Human-readable reason.
    pub message: Text,
    pub created_at: Timestamp,
}

impl QuarantinedItem {
    /// Returns the digest that identifies the item.
    pub(crate) fn raw_sha256(&self) -> Digest {
        sha256(self.raw.as_str())
    }
}

/// Filter and page of a list of rejected items, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineFilter {
    /// Filter by source.
    pub source: Option<Text>,
    /// Last id of the previous page.
    pub after: Option<QuarantineId>,
    pub limit: PageLimit,
}
