//! Events of commands and of the calls inside them.

use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::Continuation;
use noetl_playbook::model::ToolKind;
use noetl_playbook::string_enum;
use noetl_types::report::{FrameReport, TaskReport};
use noetl_types::{
    CommandId, Digest, ErrorCode, EventId, Json, JsonMap, Millis, StepName, TaskError, Text,
    Timestamp, WorkerId,
};

use super::SuspensionKind;
use super::cursor::FrameRequest;
use crate::cache::{CachedResult, ResultOrigin};
use crate::payload::{EventData, Reference};

/// The command that an event belongs to, and its position in the execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRef {
    /// The command.
    pub command: CommandId,
    /// Its step.
    pub step: StepName,
    /// The pass of the step, from 1.
    pub run: u32,
    /// Index of the iteration in a loop, or of the frame in a loop over a cursor.
    pub index: Option<u32>,
    /// Index of the command in a split pipeline, from 0. `None` if the pipeline has one command.
    pub segment: Option<u32>,
    /// The loop.
    pub looping: Option<LoopRef>,
}

/// The loop that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopRef {
    /// Id of the event that entered it.
    pub loop_id: EventId,
    /// Number of iterations. `None` for a cursor, whose size is unknown.
    pub size: Option<u32>,
}

/// Work for a worker, or a task that the server suspends. The id of this event is the id of the
/// command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandIssued {
    /// Its step.
    pub step: StepName,
    /// The pass of the step, from 1.
    pub run: u32,
    /// Index of the iteration in a loop, or of the frame in a loop over a cursor.
    pub index: Option<u32>,
    /// Index of the command in a split pipeline, from 0. `None` if the pipeline has one command.
    pub segment: Option<u32>,
    /// The loop.
    pub looping: Option<LoopRef>,
    /// Rows that it requests from its cursor.
    pub frame: Option<FrameRequest>,
    /// Tool of its first task.
    pub tool: ToolKind,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Maximum time of one attempt.
    pub deadline: Millis,
    /// Priority in the queue.
    pub priority: Option<i16>,
    /// Earliest time at which it may be claimed.
    pub not_before: Option<Timestamp>,
    /// Trace in which the execution was started, as a `traceparent`.
    pub trace: Option<Text>,
    /// The wait that the server performs. `None` if a worker runs the command.
    pub suspension: Option<SuspensionKind>,
    /// Values that its templates read, as of now. Empty if the server performs the command.
    pub context: IssuedContext,
}

/// Context of a command: the values that its templates read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuedContext {
    /// The values themselves.
    Inline(CommandContext),
    /// Reference to values that are too large for an event.
    External(Reference),
}

/// A worker claimed a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandClaimed {
    /// The command.
    pub at: CommandRef,
    /// The attempt that begins, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerId,
    /// End of the lease.
    pub lease_until: Option<Timestamp>,
}

/// The tasks of a command succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDone {
    /// The command.
    pub at: CommandRef,
    /// Number of earlier calls of the command.
    pub call_index: u32,
    /// Outcome of the call.
    pub outcome: CallOutcome,
    /// Data of each task by label, if `outcome.data` does not contain all of it.
    pub labels: Option<Json>,
    /// Continuation of the pipeline in another command.
    pub continuation: Option<Continuation>,
}

/// A task of a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The command.
    pub at: CommandRef,
    /// Number of earlier calls of the command.
    pub call_index: u32,
    /// The error.
    pub error: TaskError,
    /// Partial outcome of the call.
    pub outcome: CallOutcome,
    /// The next attempt, or `None` if the failure is final.
    pub retried: Option<ScheduledRetry>,
}

/// Outcome of a call, successful or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOutcome {
    /// The data.
    pub data: EventData,
    /// Writes of its tasks, by the keys of their `set`.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// Report of each task.
    pub tasks: Vec<TaskReport>,
    /// Report about the rows of its frame.
    pub frame: Option<FrameReport>,
}

/// A step reuses a cached result instead of issuing a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedResultUsed {
    /// The step.
    pub step: StepName,
    /// The pass of the step, from 1.
    pub run: u32,
    /// Origin of the result.
    pub origin: ResultOrigin,
    /// The result.
    pub result: CachedResult,
}

impl CallOutcome {
    /// Total duration of the tasks, as far as it is reported.
    pub fn duration(&self) -> Option<Millis> {
        let durations = self.tasks.iter().filter_map(|task| task.duration_ms);
        durations.reduce(u64::saturating_add).map(Millis::from_ms)
    }
}

/// A scheduled retry of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledRetry {
    /// Delay before the retry.
    pub retry_in: Millis,
}

/// A command that was cancelled or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandClosed<Reason> {
    /// The command.
    pub at: CommandRef,
    /// The reason.
    pub reason: Reason,
}

/// The lease of an attempt expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandExpired {
    /// The command.
    pub at: CommandRef,
    /// The attempt.
    pub attempt: u32,
    /// The reason.
    pub reason: ExpiryReason,
    /// Earliest time of the next attempt. `None` after the last one.
    pub not_before: Option<Timestamp>,
}

string_enum! {
    /// Reason for the expiry of a lease.
    pub enum ExpiryReason {
        /// The worker did not renew the lease.
        Lease = "lease",
        /// The attempt reached its deadline, which no renewal can extend.
        Deadline = "deadline",
        /// The worker deregistered.
        Deregistered = "deregistered",
        /// The task failed and is retried, and its worker leaves the retry to the server.
        Retry = "retry",
    }
}

/// A stale result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultIgnored {
    /// Command id of the report.
    pub command: CommandId,
    /// The step, if the command is known.
    pub step: Option<StepName>,
    /// Attempt of the report.
    pub attempt: u32,
    /// The worker that sent it.
    pub worker: WorkerId,
    /// Digest of the result.
    pub sha256: Digest,
    /// Size of the result in bytes.
    pub bytes: u64,
    /// Reason for ignoring it.
    pub code: ErrorCode,
}
