//! What executions wait for: signals and people.

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, Json, StepName, TenantId, Text, Timestamp};

use super::key::MatchKey;

/// Whom a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// A signal, sent to the execution or to everybody.
    Signal,
    /// The decision of a person.
    Approval,
}

/// A text that names no kind of wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of wait")]
pub struct UnknownWaitKind(pub String);

impl WaitKind {
    /// The one spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Approval => "approval",
        }
    }

    /// Reads the one spelling.
    pub fn parse(text: &str) -> Result<Self, UnknownWaitKind> {
        match text {
            "signal" => Ok(Self::Signal),
            "approval" => Ok(Self::Approval),
            other => Err(UnknownWaitKind(other.to_owned())),
        }
    }
}

/// A name that is awaited, with one key or with any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The name.
    pub name: MatchKey,
    /// The key; `None` where any will do.
    pub key: Option<MatchKey>,
}

impl Awaited {
    /// A name, and perhaps a key, of any length.
    pub fn new(name: &Text, key: Option<&Text>) -> Self {
        Self {
            name: MatchKey::of(name),
            key: key.map(MatchKey::of),
        }
    }

    /// Whether a signal of a name and a key is what is awaited.
    pub fn takes(&self, name: &MatchKey, key: Option<&MatchKey>) -> bool {
        self.name == *name && self.key.as_ref().is_none_or(|wanted| Some(wanted) == key)
    }
}

/// A wait that opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    /// The command that waits; a wait that it had before is replaced.
    pub command_id: CommandId,
    /// Whom it is for.
    pub kind: WaitKind,
    /// What is awaited; at least one.
    pub names: Vec<Awaited>,
    /// The step that waits.
    pub step: StepName,
    /// The iteration of its loop.
    pub index: Option<u64>,
    /// Until when it waits.
    pub until: Option<Timestamp>,
    /// What people are shown of it.
    pub detail: Option<Json>,
}

/// What an append does to the waits of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitChange {
    /// A wait opens, or awaits something else from now on.
    Open(Box<NewWait>),
    /// A wait is over.
    Close {
        /// The command that waited.
        command_id: CommandId,
    },
}

impl WaitChange {
    /// The command whose wait changes.
    pub fn command_id(&self) -> CommandId {
        match self {
            Self::Open(wait) => wait.command_id,
            Self::Close { command_id } => *command_id,
        }
    }
}

/// One name that an open wait awaits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWait {
    /// Where it stands among all of them.
    pub place: WaitPlace,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Whom the wait is for.
    pub kind: WaitKind,
    /// What is awaited.
    pub awaited: Awaited,
    /// The step that waits.
    pub step: StepName,
    /// The iteration of its loop.
    pub index: Option<u64>,
    /// Until when it waits.
    pub until: Option<Timestamp>,
    /// What people are shown of it.
    pub detail: Option<Json>,
    /// Since when it awaits this: the ingest time of the append that said so.
    pub since: Timestamp,
}

/// A place among the open waits, which is also where a page goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitPlace {
    // The fields stand in the order in which they are compared.
    /// The execution that waits.
    pub execution_id: ExecutionId,
    /// The command that waits.
    pub command_id: CommandId,
    /// Which of the names that it awaits, from 0.
    pub number: u32,
}

/// Which waits are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitChoice {
    /// Those that a signal is for. One without a key is only for those that take any.
    For {
        /// The name of the signal.
        name: MatchKey,
        /// Its key.
        key: Option<MatchKey>,
    },
    /// Those for a person, each once.
    Approvals,
    /// Those of an execution.
    Of(ExecutionId),
}

/// Which waits a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFilter {
    /// Whose.
    pub tenant_id: TenantId,
    /// Which of them.
    pub choice: WaitChoice,
    /// Behind the last one of the page before.
    pub after: Option<WaitPlace>,
    /// How many at most.
    pub limit: PageLimit,
}

impl WaitChoice {
    pub(crate) fn includes(&self, wait: &OpenWait) -> bool {
        match self {
            Self::For { name, key } => wait.awaited.takes(name, key.as_ref()),
            Self::Approvals => wait.kind == WaitKind::Approval && wait.place.number == 0,
            Self::Of(execution_id) => wait.place.execution_id == *execution_id,
        }
    }
}

impl NewWait {
    /// The names as they are kept, in order.
    pub(crate) fn into_open(
        self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        since: Timestamp,
    ) -> Vec<OpenWait> {
        let (command_id, kind, until) = (self.command_id, self.kind, self.until);
        let open = |(number, awaited)| OpenWait {
            place: WaitPlace {
                execution_id,
                command_id,
                number,
            },
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
