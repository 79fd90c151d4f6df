//! The execution: what is fixed, what changes, and how executions are listed.

use std::collections::BTreeMap;

use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{
    CatalogId, Digest, EventId, EventName, ExecutionId, ExecutionStatus, Json, OrganizationId,
    PlaybookPath, PoolName, Seq, TenantId, Text, Timestamp,
};

use super::head::Head;

/// Where an execution comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This system drives it.
    Driven,
    /// It is driven elsewhere, and its events are copied here.
    Projected,
    /// It was read from an export.
    Imported,
}

/// A text that names no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an origin of an execution")]
pub struct UnknownOrigin(pub String);

impl Origin {
    /// The one spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driven => "driven",
            Self::Projected => "projected",
            Self::Imported => "imported",
        }
    }

    /// Reads the one spelling.
    pub fn parse(text: &str) -> Result<Self, UnknownOrigin> {
        match text {
            "driven" => Ok(Self::Driven),
            "projected" => Ok(Self::Projected),
            "imported" => Ok(Self::Imported),
            other => Err(UnknownOrigin(other.to_owned())),
        }
    }
}

/// The event of another execution that this one was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkedFrom {
    /// The other execution.
    pub execution_id: ExecutionId,
    /// Its last event that both have.
    pub seq: Seq,
}

/// What is fixed when an execution is made.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionFacts {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Whose it is, inside of the tenant.
    pub organization_id: OrganizationId,
    /// The definition that it runs.
    pub catalog_id: Option<CatalogId>,
    /// The path of the definition.
    pub path: Option<PlaybookPath>,
    /// The version of the definition.
    pub playbook_version: Option<u32>,
    /// The digest of the definition.
    pub definition_sha256: Option<Digest>,
    /// The execution that started it.
    pub parent_execution_id: Option<ExecutionId>,
    /// The execution that a person started, above all parents.
    pub root_execution_id: Option<ExecutionId>,
    /// What it was forked from.
    pub forked_from: Option<ForkedFrom>,
    /// Where it comes from.
    pub origin: Origin,
    /// The pool of commands that name none.
    pub pool: PoolName,
    /// The rank of its commands.
    pub priority: Priority,
    /// What people tag it with.
    pub labels: Option<Json>,
    /// When it was started: the order of lists.
    pub started_at: Timestamp,
}

/// What changes with the events of an execution; an append gives all of it anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionView {
    /// Where it stands.
    pub status: ExecutionStatus,
    /// Whether nothing new begins until somebody resumes it.
    pub paused: bool,
    /// The step that was last entered or left.
    pub last_node_name: Option<Text>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<Text>,
}

/// An execution as lists and pages show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The id.
    pub execution_id: ExecutionId,
    /// Where its log stands.
    pub head: Head,
    /// What is fixed.
    pub facts: ExecutionFacts,
    /// What changes.
    pub view: ExecutionView,
    /// The id of its last event.
    pub last_event_id: EventId,
    /// The type of its last event.
    pub last_event_type: EventName,
}

/// Which executions a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionFilter {
    /// Whose.
    pub tenant_id: TenantId,
    /// Only those that stand so.
    pub status: Option<ExecutionStatus>,
    /// Only those of a definition.
    pub path: Option<PlaybookPath>,
    /// Only those that an execution started.
    pub parent_execution_id: Option<ExecutionId>,
    /// After the last one of the page before; the newest come first.
    pub after: Option<ExecutionCursor>,
    /// How many at most.
    pub limit: PageLimit,
}

/// A place in the list of executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutionCursor {
    // The fields stand in the order in which they are compared.
    /// The start of the execution there.
    pub started_at: Timestamp,
    /// The execution there.
    pub execution_id: ExecutionId,
}

/// How many of everything a tenant has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its executions, by where they stand.
    pub executions: BTreeMap<ExecutionStatus, u64>,
    /// Its definitions that are not archived, by kind.
    pub definitions: BTreeMap<Text, u64>,
}

/// How many executions there are, by where they stand.
pub type StatusCounts = BTreeMap<ExecutionStatus, u64>;

/// Executions that go on, for each that is counted among them, that a count of live ones looks at: those
/// beyond are copies, for the most part.
pub(crate) const READ_FOR_ONE: i64 = 4;

/// A page of a list of executions.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionPage {
    /// The executions, newest first.
    pub executions: Vec<Execution>,
    /// Where the next page begins, if this one is full.
    pub next: Option<ExecutionCursor>,
}

impl Execution {
    /// Its place in lists.
    pub fn cursor(&self) -> ExecutionCursor {
        ExecutionCursor {
            started_at: self.facts.started_at,
            execution_id: self.execution_id,
        }
    }
}

impl ExecutionPage {
    /// A page of what a list gives. A full page may be the last one, which the next page then says.
    pub(crate) fn of(executions: Vec<Execution>, limit: PageLimit) -> Self {
        let is_full = executions.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = executions.last().map(Execution::cursor);
        Self {
            executions,
            next: last.filter(|_| is_full),
        }
    }
}
