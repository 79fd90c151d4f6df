//! What readers ask for: the parameters of lists and pages.

use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, CommandStatus, EventId, EventName, ExecutionId, ExecutionStatus, PoolName, Seq,
    Text, Timestamp, WorkerId,
};
use serde::Serialize;

use crate::execution::ExecutionLine;

/// Which runs a list shows, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionsQuery {
    /// Only those that stand so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ExecutionStatus>,
    /// Only those whose path holds this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// Only those of a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Only those that a run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionId>,
    /// Only those with a label: `name`, or `name=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// Only those that began then or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those that began then or earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Only those whose id, path or error holds this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<Text>,
    /// How many at most.
    pub limit: PageLimit,
    /// How many are passed over first; up to [`noetl_types::limits::MAX_PAGE_OFFSET`].
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schemars(range(max = 10_000)))]
    pub offset: u32,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A page of the list of runs.
///
/// On the wire the lines are the body, a bare list, and the cursor is the header
/// [`NEXT_CURSOR`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExecutionList {
    /// The runs, newest first.
    pub executions: Vec<ExecutionLine>,
    /// Where the next page begins; absent at the end.
    pub next_cursor: Option<Text>,
}

/// The header that tells where the next page begins.
pub const NEXT_CURSOR: &str = "x-next-cursor";

/// Which part of a run's log its page shows, in the order of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DetailQuery {
    /// The page, from 1.
    pub page: u32,
    /// Events on a page.
    pub page_size: PageLimit,
    /// Only those behind this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_event_id: Option<EventId>,
    /// Only those of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<EventName>,
}

impl DetailQuery {
    /// Events on a page where nobody says otherwise.
    pub const PAGE_SIZE: i64 = 100;
}

impl Default for DetailQuery {
    fn default() -> Self {
        Self {
            page: 1,
            page_size: PageLimit::clamped(Self::PAGE_SIZE),
            since_event_id: None,
            event_type: None,
        }
    }
}

/// Which events of a run to show.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsQuery {
    /// Only those behind this place; 0 is before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub after_seq: Option<Seq>,
    /// Only those before this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<Seq>,
    /// Only those of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<EventName>,
    /// Only those of this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Text>,
    /// Which come first.
    pub order: Order,
    /// How many at most.
    pub limit: PageLimit,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
}

/// Which events come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The oldest.
    #[default]
    Asc,
    /// The newest.
    Desc,
}

impl Order {
    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "asc" => Some(Self::Asc),
            "desc" => Some(Self::Desc),
            _ => None,
        }
    }
}

/// Which processes a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolsQuery {
    /// Those of this kind; `worker_pool` where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Text>,
    /// Only those that stand so: `active`, `offline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Text>,
    /// Only the one of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
}

/// Which waits for people a list shows, in the order of their runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalsQuery {
    /// Only those of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// How many at most; 500 where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
}

/// Which commands a list shows, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandsQuery {
    /// Only those that stand so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CommandStatus>,
    /// Only those of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// Only those that a worker had last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// Only those of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// How many at most.
    pub limit: PageLimit,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
}
