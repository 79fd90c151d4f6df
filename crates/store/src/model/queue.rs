//! The queue as it is looked at: lists of commands, and how busy its pools are.

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, CommandStatus, ExecutionId, PoolName, TenantId, Timestamp, WorkerId};

use super::command::Command;

/// Pools that [`crate::Store::pool_counts`] tells about at most.
pub const MAX_POOLS: u32 = 1_000;

/// Which commands a list shows, as far as their status goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandChoice {
    /// All that are still kept.
    All,
    /// Those that are not done with: waiting, held, leased.
    Open,
    /// Those of one status.
    Only(CommandStatus),
}

/// Which commands a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFilter {
    /// Whose.
    pub tenant_id: TenantId,
    /// Only those that stand so.
    pub choice: CommandChoice,
    /// Only those of an execution.
    pub execution_id: Option<ExecutionId>,
    /// Only those of a pool.
    pub pool: Option<PoolName>,
    /// Only those that a worker had last.
    pub worker: Option<WorkerId>,
    /// Behind the last one of the page before; the oldest come first.
    pub after: Option<CommandId>,
    /// How many at most.
    pub limit: PageLimit,
}

/// A page of a list of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPage {
    /// The commands, oldest first.
    pub commands: Vec<Command>,
    /// Where the next page begins, if this one is full.
    pub next: Option<CommandId>,
}

impl CommandChoice {
    /// Whether a status is one of those that are shown.
    pub fn includes(self, status: CommandStatus) -> bool {
        match self {
            Self::All => true,
            Self::Open => !status.is_terminal(),
            Self::Only(only) => status == only,
        }
    }

    /// The statuses that are shown, by name; `None` for all of them.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn names(self) -> Option<Vec<&'static str>> {
        if self == Self::All {
            return None;
        }
        let shown = CommandStatus::ALL
            .iter()
            .filter(|status| self.includes(**status));
        Some(shown.map(|status| status.as_str()).collect())
    }
}

impl CommandFilter {
    /// The open commands of an execution.
    pub fn open_of(tenant_id: TenantId, execution_id: ExecutionId) -> Self {
        Self {
            tenant_id,
            choice: CommandChoice::Open,
            execution_id: Some(execution_id),
            pool: None,
            worker: None,
            after: None,
            limit: PageLimit::MAX,
        }
    }
}

impl CommandPage {
    /// A page of what a list gives. A full page may be the last one, which the next page then says.
    pub(crate) fn of(commands: Vec<Command>, limit: PageLimit) -> Self {
        let is_full = commands.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = commands.last().map(|command| command.command_id);
        Self {
            commands,
            next: last.filter(|_| is_full),
        }
    }
}

/// How busy a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCount {
    /// The pool.
    pub pool: PoolName,
    /// Commands that wait for a worker, whether their time has come or not. Held ones do not wait.
    pub pending: u64,
    /// Commands that a worker has, or had when its lease ran out.
    pub leased: u64,
    /// When the lease that is held the longest was granted.
    pub oldest_lease: Option<Timestamp>,
}
