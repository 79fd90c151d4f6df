//! Queries on the command queue: lists of commands and the load of pools.

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, CommandStatus, ExecutionId, PoolName, TenantId, Timestamp, WorkerId};

use super::command::Command;

/// Maximum number of pools that [`crate::Store::pool_counts`] returns.
pub const MAX_POOLS: u32 = 1_000;

/// Filter of commands by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandStatusFilter {
    /// All that are still stored.
    All,
    /// Commands that are not closed: waiting, held or leased.
    Open,
    Only(CommandStatus),
}

/// Filter and page of a list of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFilter {
    pub tenant_id: TenantId,
    /// Filter by status.
    pub status: CommandStatusFilter,
    pub execution_id: Option<ExecutionId>,
    pub pool: Option<PoolName>,
    /// Filter by the worker that leased the command last.
    pub worker: Option<WorkerId>,
    /// Last command of the previous page. The order is oldest first.
    pub after: Option<CommandId>,
    pub limit: PageLimit,
}

/// A page of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPage {
    /// Oldest first.
    pub commands: Vec<Command>,
    /// Cursor of the next page, if this one is full.
    pub next: Option<CommandId>,
}

impl CommandFilter {
    /// Selects the open commands of an execution.
    pub fn open_in_execution(tenant_id: TenantId, execution_id: ExecutionId) -> Self {
        Self {
            tenant_id,
            status: CommandStatusFilter::Open,
            execution_id: Some(execution_id),
            pool: None,
            worker: None,
            after: None,
            limit: PageLimit::MAX,
        }
    }
}

impl CommandPage {
    /// Creates a page from query results. A full page may be the last one, in which case the next
    /// page is empty.
    pub(crate) fn from_rows(commands: Vec<Command>, limit: PageLimit) -> Self {
        let is_full = commands.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = commands.last().map(|command| command.command_id);
        Self { commands, next: last.filter(|_| is_full) }
    }
}

/// Load of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCount {
    pub pool: PoolName,
    /// Commands that wait for a worker, including those that are not due yet. Held commands are not
    /// counted.
    pub pending: u64,
    /// Commands with a lease, expired or not.
    pub leased: u64,
    /// Grant time of the oldest lease.
    pub oldest_lease: Option<Timestamp>,
}
