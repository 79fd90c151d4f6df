//! Waits of executions for signals and approvals.

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, Json, StepName, TenantId, Text, Timestamp};

use super::match_key::MatchKey;

noetl_types::text_enum! {
    /// Kind of a wait.
    pub enum WaitKind("a kind of wait") {
        /// A signal, sent to the execution or broadcast.
        Signal = "signal",
        /// The decision of a user.
        Approval = "approval",
    }
}

/// An awaited name with one key or any key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedName {
    pub name: MatchKey,
    /// `None` matches any key.
    pub key: Option<MatchKey>,
}

impl AwaitedName {
    /// Creates it from a name and an optional key of any length.
    pub fn new(name: &Text, key: Option<&Text>) -> Self {
        Self { name: MatchKey::from_text(name), key: key.map(MatchKey::from_text) }
    }
}

/// A wait to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    /// The waiting command. Its previous wait is replaced.
    pub command_id: CommandId,
    pub kind: WaitKind,
    /// Awaited names, at least one.
    pub names: Vec<AwaitedName>,
    pub step: StepName,
    /// Loop iteration.
    pub index: Option<u64>,
    /// Timeout.
    pub until: Option<Timestamp>,
    /// Details for users.
    pub detail: Option<Json>,
}

/// A change that an append makes to the waits of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitChange {
    /// Opens a wait, or replaces its names.
    Open(Box<NewWait>),
    /// Closes a wait.
    Close { command_id: CommandId },
}

impl WaitChange {
    pub fn command_id(&self) -> CommandId {
        match self {
            Self::Open(wait) => wait.command_id,
            Self::Close { command_id } => *command_id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWait {
    /// Position among all open waits.
    pub position: WaitPosition,
    pub tenant_id: TenantId,
    pub kind: WaitKind,
    pub awaited: AwaitedName,
    pub step: StepName,
    /// Loop iteration.
    pub index: Option<u64>,
    /// Timeout.
    pub until: Option<Timestamp>,
    /// Details for users.
    pub detail: Option<Json>,
    /// Ingest time of the append that opened it.
    pub since: Timestamp,
}

/// Position among the open waits. Also the cursor of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitPosition {
    // The field order is the comparison order.
    pub execution_id: ExecutionId,
    pub command_id: CommandId,
    /// Index of the name within the wait, from 0.
    pub number: u32,
}

/// Selection of waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitSelector {
    /// Waits that match a signal. A signal without a key matches only waits that accept any key.
    Matching {
        name: MatchKey,
        key: Option<MatchKey>,
    },
    /// Waits for an approval, each once.
    Approvals,
    InExecution(ExecutionId),
}

/// Filter and page of a list of waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFilter {
    pub tenant_id: TenantId,
    pub selector: WaitSelector,
    /// Last position of the previous page.
    pub after: Option<WaitPosition>,
    pub limit: PageLimit,
}

impl NewWait {
    /// Returns one row per awaited name, in order.
    pub(crate) fn into_open_waits(
        self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        since: Timestamp,
    ) -> Vec<OpenWait> {
        let (command_id, kind, until) = (self.command_id, self.kind, self.until);
        let open = |(number, awaited)| OpenWait {
            position: WaitPosition { execution_id, command_id, number },
            tenant_id: tenant_id.clone(),
            kind,
            awaited,
            step: self.step.clone(),
            index: self.index,
            until,
            detail: self.detail.clone(),
            since,
        };
        (0..).zip(self.names).map(open).collect()
    }
}
