//! Executions: fixed attributes, mutable view, and lists.

use std::collections::BTreeMap;

use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{
    CatalogId, Digest, EventId, EventName, ExecutionId, ExecutionStatus, Json, OrganizationId,
    PlaybookPath, PoolName, Seq, TenantId, Text, Timestamp,
};

use super::head::LogHead;

noetl_types::text_enum! {
    /// Source of an execution's events.
    pub enum ExecutionOrigin("an origin of an execution") {
        Driven = "driven",
        /// Driven by another system. Its events are projected into this log.
        Projected = "projected",
        /// Imported from an export.
        Imported = "imported",
    }
}

/// The point of another execution from which this one was forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkedFrom {
    pub execution_id: ExecutionId,
    /// Last event that both executions share.
    pub seq: Seq,
}

/// Attributes that are fixed when an execution is created.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionFacts {
    pub tenant_id: TenantId,
    /// Organization within the tenant.
    pub organization_id: OrganizationId,
    pub catalog_id: Option<CatalogId>,
    pub path: Option<PlaybookPath>,
    pub playbook_version: Option<u32>,
    pub definition_sha256: Option<Digest>,
    pub parent_execution_id: Option<ExecutionId>,
    /// The topmost ancestor execution, which was not started by another execution.
    pub root_execution_id: Option<ExecutionId>,
    pub forked_from: Option<ForkedFrom>,
    pub origin: ExecutionOrigin,
    /// Default pool of its commands.
    pub pool: PoolName,
    /// Priority of its commands.
    pub priority: Priority,
    /// User-defined labels.
    pub labels: Option<Json>,
    /// Start time. Lists are ordered by it.
    pub started_at: Timestamp,
}

/// Attributes that change with the events of an execution. Each append replaces all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionView {
    pub status: ExecutionStatus,
    /// True if no new work starts until the execution is resumed.
    pub paused: bool,
    /// The step that was entered or left last.
    pub last_node_name: Option<Text>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<Text>,
}

/// An execution as returned by lists and lookups.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub execution_id: ExecutionId,
    /// End of its log.
    pub head: LogHead,
    pub facts: ExecutionFacts,
    pub view: ExecutionView,
    pub last_event_id: EventId,
    pub last_event_type: EventName,
}

/// Filter and page of a list of executions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionFilter {
    pub tenant_id: TenantId,
    /// Filter by status.
    pub status: Option<ExecutionStatus>,
    /// Filter by definition.
    pub path: Option<PlaybookPath>,
    /// Filter by parent execution.
    pub parent_execution_id: Option<ExecutionId>,
    /// Cursor of the previous page. The order is newest first.
    pub after: Option<ExecutionCursor>,
    pub limit: PageLimit,
}

/// Position in the list of executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutionCursor {
    // The field order is the comparison order.
    pub started_at: Timestamp,
    pub execution_id: ExecutionId,
}

/// Numbers of executions and definitions of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// Executions by status.
    pub executions: BTreeMap<ExecutionStatus, u64>,
    /// Definitions that are not archived, by kind.
    pub definitions: BTreeMap<Text, u64>,
}

/// Numbers of executions by status.
pub type StatusCounts = BTreeMap<ExecutionStatus, u64>;

/// Running executions that a count of live executions reads per counted one. When the limit is
/// reached, most of the rest are projected executions, which are not counted.
pub(crate) const LIVE_COUNT_READ_FACTOR: i64 = 4;

/// A page of executions.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionPage {
    /// Newest first.
    pub executions: Vec<Execution>,
    /// Cursor of the next page, if this one is full.
    pub next: Option<ExecutionCursor>,
}

impl Execution {
    /// Returns its position in lists.
    pub fn cursor(&self) -> ExecutionCursor {
        ExecutionCursor { started_at: self.facts.started_at, execution_id: self.execution_id }
    }
}

impl ExecutionPage {
    /// Creates a page from query results. A full page may be the last one, in which case the next
    /// page is empty.
    pub(crate) fn from_rows(executions: Vec<Execution>, limit: PageLimit) -> Self {
        let is_full = executions.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = executions.last().map(Execution::cursor);
        Self { executions, next: last.filter(|_| is_full) }
    }
}
