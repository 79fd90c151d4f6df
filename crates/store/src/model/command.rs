//! The command queue: commands, their leases, and changes to them.

use noetl_types::limits::{LeaseBatchSize, MaxAttempts, Priority};
use noetl_types::{
    CommandId, CommandStatus, EventRecord, ExecutionId, LeaseToken, Millis, PoolName, StepName,
    Text, Timestamp, WorkerId,
};

/// The step and the step pass that a command executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepInstance {
    pub step_name: StepName,
    /// Pass through the step, from 1.
    pub step_pass: u32,
    /// Loop iteration.
    pub iter_index: Option<u64>,
    /// Cursor frame.
    pub frame_no: Option<u64>,
    /// Pipeline segment, from 0.
    pub segment: u32,
    /// Retries made by the server for a worker that does not retry itself.
    pub server_retry: u32,
}

/// A command as it is issued.
///
/// Its context is stored in its `command.issued` event, which has the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommand {
    /// Equals the id of its `command.issued` event.
    pub command_id: CommandId,
    pub instance: StepInstance,
    /// Tool kind that the worker must support.
    pub tool_kind: Text,
    /// Pool whose workers may lease it.
    pub pool: PoolName,
    /// Priority within the pool.
    pub priority: Priority,
    /// Maximum number of attempts.
    pub max_attempts: MaxAttempts,
    /// Time limit of one attempt. No lease lasts longer, even if the worker renews it.
    pub deadline: Option<Millis>,
    /// Earliest time at which it may be leased.
    pub not_before: Option<Timestamp>,
    /// Prevents leases while the execution is paused.
    pub held: bool,
    /// Lease granted at creation to the worker whose report issued the command.
    pub eager_lease: Option<LeaseTerms>,
}

/// The terms of a lease that is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTerms {
    pub worker: WorkerId,
    /// Proof of ownership.
    pub token: LeaseToken,
    pub lease_until: Timestamp,
    /// Time of the grant.
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Equals the id of its `command.issued` event.
    pub command_id: CommandId,
    pub execution_id: ExecutionId,
    pub instance: StepInstance,
    /// Tool kind that the worker must support.
    pub tool_kind: Text,
    /// Pool whose workers may lease it.
    pub pool: PoolName,
    /// Priority within the pool.
    pub priority: Priority,
    /// Maximum number of attempts.
    pub max_attempts: MaxAttempts,
    /// Time limit of one attempt.
    pub deadline: Option<Millis>,
    /// Earliest time at which it may be leased.
    pub not_before: Option<Timestamp>,
    /// Prevents leases while the execution is paused.
    pub held: bool,
    pub status: CommandStatus,
    /// Attempts so far. Zero before the first grant.
    pub attempt: u32,
    /// The worker that leased it last.
    pub worker: Option<WorkerId>,
    /// The current lease, even if it has expired.
    pub lease: Option<CommandLease>,
    /// Time of the last grant.
    pub claimed_at: Option<Timestamp>,
    /// Time of the last reported start.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub error: Option<Text>,
}

/// A lease of a command, expired or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLease {
    /// Proof of ownership.
    pub token: LeaseToken,
    pub until: Timestamp,
}

/// Final outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    Completed,
    Failed,
    /// Its result is no longer needed.
    Cancelled,
}

impl CommandEnd {
    /// Returns the command status of this outcome.
    pub const fn status(self) -> CommandStatus {
        match self {
            Self::Completed => CommandStatus::Completed,
            Self::Failed => CommandStatus::Failed,
            Self::Cancelled => CommandStatus::Cancelled,
        }
    }
}

/// A change that an append makes to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandChange {
    /// Adds a command.
    Issue(Box<NewCommand>),
    /// Marks the command as running.
    Run { command_id: CommandId, at: Timestamp },
    /// Closes the command.
    Close {
        command_id: CommandId,
        end: CommandEnd,
        at: Timestamp,
        /// Error message of a failure.
        error: Option<Text>,
    },
    /// Ends the lease and makes the command wait for a worker again.
    Requeue {
        command_id: CommandId,
        /// Earliest time at which it may be leased.
        not_before: Option<Timestamp>,
    },
    /// Stops or resumes leases of the command.
    Hold { command_id: CommandId, held: bool },
}

impl CommandChange {
    pub fn command_id(&self) -> CommandId {
        match self {
            Self::Issue(command) => command.command_id,
            Self::Run { command_id, .. }
            | Self::Close { command_id, .. }
            | Self::Requeue { command_id, .. }
            | Self::Hold { command_id, .. } => *command_id,
        }
    }

    /// Returns the columns that the change writes to an existing command, or `None` for a new one.
    pub(crate) fn to_patch(&self) -> Option<CommandPatch> {
        let untouched = CommandPatch::unchanged(self.command_id());
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
            Self::Hold { held, .. } => Some(CommandPatch { held: Some(*held), ..untouched }),
        }
    }
}

/// The columns that a change writes to a command's row. One form for every kind of change, so that
/// each backend needs only one statement.
#[derive(Debug, Clone)]
pub(crate) struct CommandPatch {
    pub(crate) command_id: CommandId,
    pub(crate) status: Option<CommandStatus>,
    pub(crate) held: Option<bool>,
    /// True if the lease columns are cleared and `not_before` is written.
    pub(crate) ends_lease: bool,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) completed_at: Option<Timestamp>,
    pub(crate) error: Option<Text>,
}

impl CommandPatch {
    fn unchanged(command_id: CommandId) -> Self {
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
}

impl NewCommand {
    /// Returns the row of a new command.
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
        if let Some(terms) = self.eager_lease {
            command.grant_lease(&terms);
        }
        command
    }
}

impl Command {
    /// Grants the lease to a worker. A lease never exceeds the deadline.
    pub(crate) fn grant_lease(&mut self, terms: &LeaseTerms) {
        self.status = CommandStatus::Claimed;
        self.attempt = self.attempt.saturating_add(1);
        self.worker = Some(terms.worker.clone());
        self.claimed_at = Some(terms.now);
        self.lease = Some(CommandLease {
            token: terms.token,
            until: self.cap_at_deadline(terms.lease_until),
        });
    }

    /// True if the command can be leased at a time.
    pub(crate) fn is_leasable(&self, now: Timestamp) -> bool {
        self.status == CommandStatus::Pending
            && !self.held
            && self.not_before.is_none_or(|time| time <= now)
    }

    /// Returns the end of the current attempt, which renewals cannot extend.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        Some(self.claimed_at?.saturating_add(self.deadline?))
    }

    pub(crate) fn cap_at_deadline(&self, until: Timestamp) -> Timestamp {
        self.deadline_at().map_or(until, |deadline| deadline.min(until))
    }
}

/// A condition on a lease that an append depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub command_id: CommandId,
    /// Attempt of the lease.
    pub attempt: u32,
    /// Condition on the lease. An expired lease still satisfies it: only an append ends a lease.
    pub condition: LeaseCondition,
}

/// The condition that a lease must satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseCondition {
    /// The lease has this token.
    Token(LeaseToken),
    /// The lease belongs to this worker. For workers that send no token.
    Worker(WorkerId),
    /// The lease has expired by this time. If the worker renews it in the meantime, the condition
    /// fails.
    ExpiredBy(Timestamp),
}

impl Fence {
    pub(crate) fn is_satisfied_by(&self, command: &Command) -> bool {
        let Some(lease) = command.lease else {
            return false;
        };
        let held = match &self.condition {
            LeaseCondition::Token(token) => *token == lease.token,
            LeaseCondition::Worker(worker) => command.worker.as_ref() == Some(worker),
            LeaseCondition::ExpiredBy(time) => lease.until <= *time,
        };
        held && command.attempt == self.attempt
    }
}

/// A worker's request for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    pub pool: PoolName,
    /// Tool kinds that the worker supports. `None` means all.
    pub kinds: Option<Vec<Text>>,
    pub max_commands: LeaseBatchSize,
    /// Terms of the leases. All commands get the same token, because the fence also names the
    /// command and the attempt.
    pub terms: LeaseTerms,
}

/// A leased command with everything that a worker needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedCommand {
    /// The command with its new lease.
    pub command: Command,
    /// Its `command.issued` event, which holds its context.
    pub issued: EventRecord,
}

/// Outcome of a request to lease one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOutcome {
    /// The command after the request, with its `command.issued` event.
    pub leased: LeasedCommand,
    /// True if the command was free and is now leased to the caller. Otherwise it is unchanged.
    pub is_granted: bool,
}

/// Durations that limit leases whose end is further away than their grant allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseBounds {
    /// Duration that remains of a lease that is shortened.
    pub new: Millis,
    /// Longest remaining duration of any lease. Longer ones are shortened.
    pub longest: Millis,
}

/// Outcome of a request to extend a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseExtension {
    /// The lease was extended to this time.
    Until(Timestamp),
    /// The lease ended or belongs to another worker. The worker must stop.
    Lost,
}

/// A request to release a command that was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRelease {
    /// The lease to release. The attempt does not count.
    pub fence: Fence,
    /// Earliest time at which it may be leased.
    pub not_before: Option<Timestamp>,
}
