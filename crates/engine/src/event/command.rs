//! Events of commands and of the calls inside of them.

use noetl_playbook::carried::Carried;
use noetl_playbook::model::ToolKind;
use noetl_playbook::shift::{FrameReport, Onward, TaskReport};
use noetl_types::{
    CommandId, Digest, ErrorCode, EventId, Json, JsonMap, Millis, StepName, TaskError, Text,
    Timestamp, WorkerId,
};

use super::Park;
use super::cursor::FrameAsk;
use crate::cache::{CachedResult, Origin};
use crate::payload::{Data, Reference};

/// Which command an event is about, and where in the run it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAt {
    /// The command.
    pub command: CommandId,
    /// Its step.
    pub step: StepName,
    /// The run of the step.
    pub run: u32,
    /// The iteration, in a loop; the frame, where it goes over a cursor.
    pub index: Option<u32>,
    /// Which command of its pipeline it is, from 0, where there are several.
    pub segment: Option<u32>,
    /// The loop.
    pub looping: Option<LoopRef>,
}

/// The loop that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopRef {
    /// The event that entered it.
    pub loop_id: EventId,
    /// How many iterations it has; a cursor does not know.
    pub size: Option<u32>,
}

/// Work for a worker, or a task that waits without one. The command is known by the id of this event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandIssued {
    /// Its step.
    pub step: StepName,
    /// The run of the step.
    pub run: u32,
    /// The iteration, in a loop; the frame, where it goes over a cursor.
    pub index: Option<u32>,
    /// Which command of its pipeline it is, from 0, where there are several.
    pub segment: Option<u32>,
    /// The loop.
    pub looping: Option<LoopRef>,
    /// What it asks its cursor for.
    pub frame: Option<FrameAsk>,
    /// What its first task runs.
    pub tool: ToolKind,
    /// How often it may be handed out in all.
    pub max_attempts: u32,
    /// How long one attempt may take at most.
    pub deadline: Millis,
    /// Its rank in the queue.
    pub priority: Option<i16>,
    /// When it may be handed out at the earliest.
    pub not_before: Option<Timestamp>,
    /// The trace that its run was started in, as a `traceparent`.
    pub trace: Option<Text>,
    /// What it waits for, where the server carries it out.
    pub parked: Option<Park>,
    /// What its templates read, as of now; nothing where the server carries it out.
    pub context: IssuedContext,
}

/// What a command's templates read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuedContext {
    /// The values.
    Inline(Carried),
    /// Where they are kept, being too big for an event.
    External(Reference),
}

/// A worker took a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandClaimed {
    /// The command.
    pub at: CommandAt,
    /// The attempt that begins, from 1.
    pub attempt: u32,
    /// Who took it.
    pub worker: WorkerId,
    /// How long it is its own.
    pub lease_until: Option<Timestamp>,
}

/// The tasks of a command went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDone {
    /// The command.
    pub at: CommandAt,
    /// How many calls the command had before.
    pub call_index: u32,
    /// What came out.
    pub outcome: CallOutcome,
    /// The data of each task by label, where the data hides some of it.
    pub labels: Option<Json>,
    /// Where the pipeline goes on, in another command.
    pub onward: Option<Onward>,
}

/// A task of a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The command.
    pub at: CommandAt,
    /// How many calls the command had before.
    pub call_index: u32,
    /// With what.
    pub error: TaskError,
    /// What came out nevertheless.
    pub outcome: CallOutcome,
    /// Whether and when it is tried again; `None` means for good.
    pub retried: Option<Retried>,
}

/// What a call left behind, whether it went well or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOutcome {
    /// The data.
    pub data: Data,
    /// What its tasks wrote, by the keys of their `set`.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// What became of each task.
    pub tasks: Vec<TaskReport>,
    /// What became of the rows of its frame.
    pub frame: Option<FrameReport>,
}

/// A step takes an earlier result over instead of issuing a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// The step.
    pub step: StepName,
    /// The run of the step.
    pub run: u32,
    /// Where the result comes from.
    pub origin: Origin,
    /// The result.
    pub result: CachedResult,
}

impl CallOutcome {
    /// How long the tasks took together, as far as they tell.
    pub fn duration(&self) -> Option<Millis> {
        let durations = self.tasks.iter().filter_map(|task| task.duration);
        durations.reduce(Millis::saturating_add)
    }
}

/// The task is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retried {
    /// After how long.
    pub retry_in: Millis,
}

/// A command ended before its time or with a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandClosed<Why> {
    /// The command.
    pub at: CommandAt,
    /// Why.
    pub why: Why,
}

/// The lease of an attempt ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandExpired {
    /// The command.
    pub at: CommandAt,
    /// The attempt.
    pub attempt: u32,
    /// Why.
    pub reason: ExpiryReason,
    /// When it may be handed out again; `None` means never.
    pub not_before: Option<Timestamp>,
}

/// Why the lease of an attempt ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryReason {
    /// Its worker did not renew it.
    Lease,
    /// No renewal passes the deadline.
    Deadline,
    /// Its worker said goodbye.
    Deregistered,
    /// Its task failed and is made again, which its worker leaves to the server.
    Retry,
}

impl ExpiryReason {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Deadline => "deadline",
            Self::Deregistered => "deregistered",
            Self::Retry => "retry",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "lease" => Some(Self::Lease),
            "deadline" => Some(Self::Deadline),
            "deregistered" => Some(Self::Deregistered),
            "retry" => Some(Self::Retry),
            _ => None,
        }
    }
}

/// A result that came too late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultIgnored {
    /// The command that it claims to be of.
    pub command: CommandId,
    /// The step, where the command is known.
    pub step: Option<StepName>,
    /// The attempt that it claims to be of.
    pub attempt: u32,
    /// Who sent it.
    pub worker: WorkerId,
    /// Digest of the result.
    pub sha256: Digest,
    /// Its size.
    pub bytes: u64,
    /// Why it was ignored.
    pub code: ErrorCode,
}
