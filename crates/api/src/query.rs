//! Query parameters of lists and pages. The client omits absent values.

use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, CommandStatus, EventId, EventName, ExecutionId, ExecutionStatus, PoolName, Seq,
    Text, Timestamp, WorkerId,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::execution::ExecutionSummary;
use crate::is_default;

/// Filters of the execution list, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct ExecutionsQuery {
    /// Filter by status.
    pub status: Option<ExecutionStatus>,
    /// Filter by text in the path.
    pub path: Option<Text>,
    /// Filter by definition.
    pub catalog_id: Option<CatalogId>,
    /// Filter by parent execution.
    pub parent: Option<ExecutionId>,
    /// Filter by label: `name` or `name=value`.
    pub label: Option<Text>,
    /// Filter by start time, inclusive lower bound.
    pub since: Option<Timestamp>,
    /// Filter by start time, inclusive upper bound.
    pub until: Option<Timestamp>,
    /// Filter by text in the id, path or error.
    pub q: Option<Text>,
    /// Filter by executions of the platform, whose path begins with `system/`; `false` excludes
    /// them.
    pub system: Option<bool>,
    /// Only executions without a parent.
    #[serde(skip_serializing_if = "is_default")]
    pub roots: bool,
    /// Maximum number of executions.
    pub limit: PageLimit,
    /// Number of executions to skip; at most 10000.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(max = 10_000))]
    pub offset: u32,
    /// Cursor of the previous page.
    pub cursor: Option<Text>,
}

/// A page of the execution list.
///
/// On the wire the body is the bare list of executions, and the cursor is the header
/// [`NEXT_CURSOR_HEADER`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecutionList {
    /// Executions, newest first.
    pub executions: Vec<ExecutionSummary>,
    /// Cursor of the next page; absent on the last page.
    pub next_cursor: Option<Text>,
}

/// Header that holds the cursor of the next page.
pub const NEXT_CURSOR_HEADER: &str = "x-next-cursor";

/// Selects a page of the log of an execution, in log order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct ExecutionDetailQuery {
    /// Number of the page, from 1. Without any parameter, the response has the newest events.
    pub page: Option<u32>,
    /// Events per page; default 100.
    pub page_size: Option<PageLimit>,
    /// Filter by events after this one.
    pub since_event_id: Option<EventId>,
    /// Filter by event type.
    pub event_type: Option<EventName>,
}

impl ExecutionDetailQuery {
    /// Default number of events per page.
    pub const DEFAULT_PAGE_SIZE: i64 = 100;
}

/// Filters of the events of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct EventsQuery {
    /// Exclusive lower bound of the sequence number; 0 is before the first event.
    #[schemars(with = "Option<u64>")]
    pub after_seq: Option<Seq>,
    /// Exclusive upper bound of the sequence number.
    pub before_seq: Option<Seq>,
    /// Filter by event type.
    #[serde(rename = "type")]
    pub event_type: Option<EventName>,
    /// Filter by step.
    pub step: Option<Text>,
    /// Sort order.
    pub order: EventOrder,
    /// Maximum number of events.
    pub limit: PageLimit,
    /// Cursor of the previous page.
    pub cursor: Option<Text>,
}

/// Sort order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventOrder {
    /// Oldest first.
    #[default]
    Asc,
    /// Newest first.
    Desc,
}

impl EventOrder {
    /// Parses the wire form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "asc" => Some(Self::Asc),
            "desc" => Some(Self::Desc),
            _ => None,
        }
    }
}

/// Filters of the list of processes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct PoolsQuery {
    /// Filter by kind; default `worker_pool`.
    pub kind: Option<Text>,
    /// Filter by status: `active`, `offline`.
    pub status: Option<Text>,
    /// Filter by name.
    pub name: Option<Text>,
}

/// Filters of the pending approvals, in the order of their executions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct ApprovalsQuery {
    /// Filter by execution.
    pub execution_id: Option<ExecutionId>,
    /// Maximum number of approvals; default 500.
    pub limit: Option<PageLimit>,
    /// Cursor of the previous page.
    pub cursor: Option<Text>,
}

/// Filters of the command list, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct CommandsQuery {
    /// Filter by status.
    pub status: Option<CommandStatus>,
    /// Filter by pool.
    pub pool: Option<PoolName>,
    /// Filter by the last worker.
    pub worker_id: Option<WorkerId>,
    /// Filter by execution.
    pub execution_id: Option<ExecutionId>,
    /// Maximum number of commands.
    pub limit: PageLimit,
    /// Cursor of the previous page.
    pub cursor: Option<Text>,
}
