//! The queue: commands, who holds them, and what a change does to one.

use noetl_types::limits::{LeaseBatch, MaxAttempts, Priority};
use noetl_types::{
    CommandId, CommandStatus, EventRecord, ExecutionId, Millis, PoolName, StepName, Text,
    Timestamp, WorkerId,
};

/// A secret that only the holder of a lease knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken([u8; Self::LEN]);

impl LeaseToken {
    /// Number of bytes.
    pub const LEN: usize = 16;

    /// A token of random bytes.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// A token is a secret, so it shows nothing of itself.
impl std::fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

/// Which run of which step a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepInstance {
    /// The step.
    pub step_name: StepName,
    /// The run of the step, from 1.
    pub run: u32,
    /// The iteration of its loop.
    pub iter_index: Option<u64>,
    /// The frame of its cursor.
    pub frame_no: Option<u64>,
    /// The segment of its pipeline, from 0.
    pub segment: u32,
    /// Retries that the server made for a worker that makes none itself.
    pub server_retry: u32,
}

/// A command as it is issued.
///
/// Its context is not here: that is in its `command.issued` event, whose id it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommand {
    /// The id, which is that of its `command.issued` event.
    pub command_id: CommandId,
    /// What it does.
    pub instance: StepInstance,
    /// The kind of tool that it needs.
    pub tool_kind: Text,
    /// The pool whose workers may take it.
    pub pool: PoolName,
    /// Its rank in the pool.
    pub priority: Priority,
    /// Attempts in all.
    pub max_attempts: MaxAttempts,
    /// How long one attempt may take, whatever its worker says: no lease of it lasts longer.
    pub deadline: Option<Millis>,
    /// Not to be leased before.
    pub not_before: Option<Timestamp>,
    /// Not to be leased while the execution is paused.
    pub held: bool,
    /// Who has it from birth: the worker whose report issued it.
    pub born_claimed: Option<Claim>,
}

/// A lease as it is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who gets it.
    pub worker: WorkerId,
    /// What proves it.
    pub token: LeaseToken,
    /// Until when.
    pub lease_until: Timestamp,
    /// The clock of the grant.
    pub now: Timestamp,
}

/// A command in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The id, which is that of its `command.issued` event.
    pub command_id: CommandId,
    /// The execution that issued it.
    pub execution_id: ExecutionId,
    /// What it does.
    pub instance: StepInstance,
    /// The kind of tool that it needs.
    pub tool_kind: Text,
    /// The pool whose workers may take it.
    pub pool: PoolName,
    /// Its rank in the pool.
    pub priority: Priority,
    /// Attempts in all.
    pub max_attempts: MaxAttempts,
    /// How long one attempt may take.
    pub deadline: Option<Millis>,
    /// Not to be leased before.
    pub not_before: Option<Timestamp>,
    /// Not to be leased while the execution is paused.
    pub held: bool,
    /// Where it stands.
    pub status: CommandStatus,
    /// Attempts so far; 0 before the first grant.
    pub attempt: u32,
    /// The last worker that had it.
    pub worker: Option<WorkerId>,
    /// The lease, while there is one.
    pub lease: Option<LeaseHold>,
    /// When it was granted last.
    pub claimed_at: Option<Timestamp>,
    /// When it was last known to start.
    pub started_at: Option<Timestamp>,
    /// When it was closed.
    pub completed_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<Text>,
}

/// A lease that is there, run out or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseHold {
    /// What proves it.
    pub token: LeaseToken,
    /// Until when.
    pub until: Timestamp,
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It did its work.
    Completed,
    /// It did not.
    Failed,
    /// Nobody wants its work any more.
    Cancelled,
}

impl CommandEnd {
    /// The status of a command that ended so.
    pub const fn status(self) -> CommandStatus {
        match self {
            Self::Completed => CommandStatus::Completed,
            Self::Failed => CommandStatus::Failed,
            Self::Cancelled => CommandStatus::Cancelled,
        }
    }
}

/// What an append does to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandChange {
    /// A new command.
    Issue(Box<NewCommand>),
    /// It is known to run.
    Run {
        /// Which one.
        command_id: CommandId,
        /// Since when.
        at: Timestamp,
    },
    /// It is done with.
    Close {
        /// Which one.
        command_id: CommandId,
        /// How it ended.
        end: CommandEnd,
        /// When.
        at: Timestamp,
        /// Why, where it failed.
        error: Option<Text>,
    },
    /// Its lease is taken away and it waits for a worker again.
    Requeue {
        /// Which one.
        command_id: CommandId,
        /// Not to be leased before.
        not_before: Option<Timestamp>,
    },
    /// Leases of it stop, or may start again.
    Hold {
        /// Which one.
        command_id: CommandId,
        /// Whether it is held.
        held: bool,
    },
}

impl CommandChange {
    /// The command that changes.
    pub fn command_id(&self) -> CommandId {
        match self {
            Self::Issue(command) => command.command_id,
            Self::Run { command_id, .. }
            | Self::Close { command_id, .. }
            | Self::Requeue { command_id, .. }
            | Self::Hold { command_id, .. } => *command_id,
        }
    }

    /// The change of a command that is there already, as the columns that it writes.
    pub(crate) fn patch(&self) -> Option<CommandPatch> {
        let untouched = CommandPatch::of(self.command_id());
        match self {
            Self::Issue(_) => None,
            Self::Run { at, .. } => Some(CommandPatch {
                status: Some(CommandStatus::Running),
                started_at: Some(*at),
                ..untouched
            }),
            Self::Close { end, at, error, .. } => Some(CommandPatch {
                status: Some(end.status()),
                ends_lease: true,
                completed_at: Some(*at),
                error: error.clone(),
                ..untouched
            }),
            Self::Requeue { not_before, .. } => Some(CommandPatch {
                status: Some(CommandStatus::Pending),
                ends_lease: true,
                not_before: *not_before,
                ..untouched
            }),
            Self::Hold { held, .. } => Some(CommandPatch {
                held: Some(*held),
                ..untouched
            }),
        }
    }
}

/// What a change writes into a command's row: one form for every kind of change, so that each
/// backend has one statement for all of them.
#[derive(Debug, Clone)]
pub(crate) struct CommandPatch {
    pub(crate) command_id: CommandId,
    pub(crate) status: Option<CommandStatus>,
    pub(crate) held: Option<bool>,
    /// Whether token and end of the lease are cleared and `not_before` is written.
    pub(crate) ends_lease: bool,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) completed_at: Option<Timestamp>,
    pub(crate) error: Option<Text>,
}

impl CommandPatch {
    fn of(command_id: CommandId) -> Self {
        Self {
            command_id,
            status: None,
            held: None,
            ends_lease: false,
            not_before: None,
            started_at: None,
            completed_at: None,
            error: None,
        }
    }

    pub(crate) fn apply(self, command: &mut Command) {
        if let Some(status) = self.status {
            command.status = status;
        }
        if let Some(held) = self.held {
            command.held = held;
        }
        if self.ends_lease {
            command.lease = None;
            command.not_before = self.not_before;
        }
        command.started_at = self.started_at.or(command.started_at);
        command.completed_at = self.completed_at.or(command.completed_at);
        command.error = self.error.or_else(|| command.error.take());
    }
}

impl NewCommand {
    /// The row of the command as its execution issues it.
    pub(crate) fn into_command(self, execution_id: ExecutionId) -> Command {
        let mut command = Command {
            command_id: self.command_id,
            execution_id,
            instance: self.instance,
            tool_kind: self.tool_kind,
            pool: self.pool,
            priority: self.priority,
            max_attempts: self.max_attempts,
            deadline: self.deadline,
            not_before: self.not_before,
            held: self.held,
            status: CommandStatus::Pending,
            attempt: 0,
            worker: None,
            lease: None,
            claimed_at: None,
            started_at: None,
            completed_at: None,
            error: None,
        };
        if let Some(claim) = self.born_claimed {
            command.grant(&claim);
        }
        command
    }
}

impl Command {
    /// Gives the command to a worker; a lease never passes the deadline.
    pub(crate) fn grant(&mut self, claim: &Claim) {
        self.status = CommandStatus::Claimed;
        self.attempt = self.attempt.saturating_add(1);
        self.worker = Some(claim.worker.clone());
        self.claimed_at = Some(claim.now);
        self.lease = Some(LeaseHold {
            token: claim.token,
            until: self.within_deadline(claim.lease_until),
        });
    }

    /// Whether a worker may have it at a time.
    pub(crate) fn is_free(&self, now: Timestamp) -> bool {
        self.status == CommandStatus::Pending
            && !self.held
            && self.not_before.is_none_or(|time| time <= now)
    }

    /// When the attempt that was granted last is over, whatever its worker says.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        Some(self.claimed_at?.saturating_add(self.deadline?))
    }

    pub(crate) fn within_deadline(&self, until: Timestamp) -> Timestamp {
        self.deadline_at()
            .map_or(until, |deadline| deadline.min(until))
    }
}

/// A statement about a lease that the append depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The command.
    pub command_id: CommandId,
    /// The attempt that the lease belongs to.
    pub attempt: u32,
    /// What must be true of the lease. It may have run out: only an append takes it away.
    pub holder: Holder,
}

/// What proves a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The token that was granted.
    Token(LeaseToken),
    /// The worker that it was granted to, for workers that send no token back.
    Worker(WorkerId),
    /// Nobody any more: the lease has run out by a time. A worker that renews in between keeps it.
    ExpiredBy(Timestamp),
}

impl Fence {
    pub(crate) fn holds(&self, command: &Command) -> bool {
        let Some(lease) = command.lease else {
            return false;
        };
        let held = match &self.holder {
            Holder::Token(token) => *token == lease.token,
            Holder::Worker(worker) => command.worker.as_ref() == Some(worker),
            Holder::ExpiredBy(time) => lease.until <= *time,
        };
        held && command.attempt == self.attempt
    }
}

/// A worker asks for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The pool that it works for.
    pub pool: PoolName,
    /// The kinds of tools that it has; `None` for all.
    pub kinds: Option<Vec<Text>>,
    /// How many at most.
    pub max: LeaseBatch,
    /// What it gets: the same token for all of them, since the fence names command and attempt too.
    pub claim: Claim,
}

/// A command with all that a worker needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedCommand {
    /// The command as it is leased now.
    pub command: Command,
    /// Its `command.issued` event, which has its context.
    pub issued: EventRecord,
}

/// What became of a wish to have one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedCommand {
    /// The command as it is now, with the event that issued it.
    pub leased: LeasedCommand,
    /// Whether it was free and is the caller's from now on. Else it stands as it stood before.
    pub is_granted: bool,
}

/// What became of a wish to keep a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// It is kept.
    Until(Timestamp),
    /// It is another's, or nobody's: stop.
    Lost,
}

/// A worker gives a command back without having run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The lease that it gives back. The attempt does not count.
    pub fence: Fence,
    /// Not to be leased before.
    pub not_before: Option<Timestamp>,
}
