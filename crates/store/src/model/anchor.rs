//! Anchors: entries of the installation's chain, which record the heads of logs.

use noetl_types::{Digest, ExecutionId, FeedPosition, TenantId, Text};
use serde::{Deserialize, Serialize};

/// A stored anchor. The store does not interpret its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorRow {
    /// Number of the anchor, from 1.
    pub anchor_id: i64,
    pub content: Text,
}

/// The executions of a section of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedExecutions {
    /// In order, each once.
    pub execution_ids: Vec<ExecutionId>,
    /// Position of the last event.
    pub end: FeedPosition,
    /// True if more events may follow.
    pub is_full: bool,
}

/// The newest entry of a tenant's audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    pub tenant_id: TenantId,
    pub seq: i64,
    pub chain: Digest,
}

/// A range of execution ids that retention dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DroppedRange {
    /// Lowest id, inclusive.
    pub first_id: i64,
    /// Upper bound, exclusive.
    pub end_id: i64,
}

impl DroppedRange {
    pub fn contains(&self, execution_id: ExecutionId) -> bool {
        (self.first_id..self.end_id).contains(&execution_id.get())
    }
}
