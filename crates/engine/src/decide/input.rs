//! What can happen to a run from outside.

use noetl_playbook::shift::{self, Ahead, FrameReport, Onward, RetriedCall, TaskReport};
use noetl_types::{
    CatalogId, CommandId, Digest, ErrorCode, EventId, EventType, ExecutionId, Json, JsonMap,
    Millis, NewEvent, PlaybookPath, PoolName, SignalId, StepName, TaskError, Text, Timestamp,
    WorkerId,
};

use crate::event::{ExpiryReason, Steering, TimerId};
use crate::payload::Data;
use crate::slot::SlotGrant;

/// What happens to a run from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// It begins.
    Start(Box<Start>),
    /// A worker takes a command, and that is to be recorded at once.
    Claim(Claim),
    /// A worker tells what became of a command.
    Report(Box<Report>),
    /// The lease of a worker ran out.
    LeaseExpired(LeaseExpired),
    /// A timer is due.
    TimerFired(TimerId),
    /// Somebody sends a signal.
    Signal(Box<Signal>),
    /// Somebody decides about an approval.
    Approve(Box<Approve>),
    /// A run that is waited for has ended.
    ChildEnded(Box<ChildEnded>),
    /// What a worker started tells its end.
    Callback(Box<Called>),
    /// Somebody pauses it.
    Pause(Steering),
    /// Somebody lets it go on.
    Resume(Steering),
    /// Somebody ends it.
    Cancel(Steering),
    /// The same, but the runs that it waits for go on.
    CancelAlone(Steering),
    /// A slot that was wanted is there.
    SlotGranted(SlotGrant),
    /// Somebody asks which slots it waits for.
    SlotsAsked,
    /// Somebody who looks after the system says how it ended.
    Finalize(Box<Finalize>),
    /// A worker that judges nothing tells what became of a command.
    Told(Box<Told>),
    /// Somebody tells something that shapes nothing.
    Remark(Box<Remark>),
    /// A result is known to be too late, by more than the state knows.
    Ignored(Box<IgnoredResult>),
}

/// The end of a run that does not end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finalize {
    /// What it failed with; nothing where it counts as done.
    pub error: Option<TaskError>,
    /// Who says so, and why.
    pub steering: Steering,
}

/// What a classic worker tells of a command.
///
/// Such a worker tells it event by event, under ids of its own making, and leaves to the server what
/// the policy of the task makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What became of the command.
    pub report: Report,
    /// What it failed with and after how long the task is made again, where its policy says so.
    /// Then the report is one of a command that goes on.
    pub again: Option<(TaskError, Millis)>,
    /// Why it may count no more, where the caller knows more than the state.
    pub late: Option<Late>,
    /// The id of the event that is told.
    pub event_id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// What is kept beside it.
    pub meta: JsonMap,
}

/// What a caller knows of a command beyond the state of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It is over. A run that has forgotten it notes what comes now.
    Closed,
    /// It has gone on without whoever tells this, and how.
    Superseded(ErrorCode),
}

/// Something that shapes nothing, as it is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark(pub NewEvent);

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The run.
    pub execution_id: ExecutionId,
    /// The definition that it is pinned to.
    pub catalog_id: CatalogId,
    /// The path of the definition.
    pub path: PlaybookPath,
    /// The version of the definition.
    pub version: u32,
    /// Digest of the definition's text.
    pub definition_sha256: Digest,
    /// What the caller gave: a map, laid over the defaults of the playbook.
    pub payload: Json,
    /// The environment that the operator lets playbooks see.
    pub env: JsonMap,
    /// Where `random()` and `uuid()` of the defaults come from.
    pub seed: [u8; 32],
    /// The run that starts this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// How many runs stand above it: one more than above the run that starts it.
    pub depth: u32,
    /// The pool of workers that is to run it.
    pub execution_pool: Option<PoolName>,
    /// Its rank in the queue, where its caller gave one.
    pub priority: Option<i16>,
    /// When its first step may be entered; at once where absent.
    pub start_at: Option<Timestamp>,
    /// The address that workers report to.
    pub server_url: Option<Text>,
    /// The program that starts it.
    pub emitter: Option<Text>,
    /// Who asks for it, where that is known.
    pub actor: Option<Text>,
    /// The trace that it belongs to.
    pub trace: Option<Json>,
    /// The event of another run that it is forked from.
    pub forked_from: Option<Json>,
    /// The run that it repeats.
    pub rerun_of: Option<Json>,
    /// The key under which no second run is made.
    pub dedup: Option<Json>,
}

impl Start {
    /// A start that says no more than it must.
    pub fn new(execution_id: ExecutionId, catalog_id: CatalogId, path: PlaybookPath) -> Self {
        Self {
            execution_id,
            catalog_id,
            path,
            version: 1,
            definition_sha256: Digest::from_bytes([0; Digest::LEN]),
            payload: Json::empty_map(),
            env: JsonMap::new(),
            seed: [0; 32],
            parent_execution_id: None,
            depth: 0,
            execution_pool: None,
            priority: None,
            start_at: None,
            server_url: None,
            emitter: None,
            actor: None,
            trace: None,
            forked_from: None,
            rerun_of: None,
            dedup: None,
        }
    }
}

/// A worker takes a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The command.
    pub command: CommandId,
    /// The attempt that begins, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerId,
    /// How long it is its own.
    pub lease_until: Option<Timestamp>,
}

/// What a worker tells of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The command.
    pub command: CommandId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerId,
    /// Until when the attempt was its own.
    pub lease_until: Option<Timestamp>,
    /// When it took the command; the time of the report where absent.
    pub claimed_at: Option<Timestamp>,
    /// When it began; no `command.started` is written where absent.
    pub started_at: Option<Timestamp>,
    /// Attempts of tasks that failed and were made again, as far as not reported yet.
    pub retries: Vec<RetriedCall>,
    /// What came of it.
    pub outcome: ReportOutcome,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// It goes on.
    Running {
        /// How far it is.
        progress: Option<Json>,
    },
    /// Its tasks went well.
    Completed(TaskResult),
    /// What it started tells its end by itself.
    Parked {
        /// What is known of it so far.
        started: Json,
    },
    /// A task failed for good.
    Failed {
        /// With what.
        error: TaskError,
        /// What it left behind.
        result: TaskResult,
    },
}

/// What came of a command whose work was done, its data as it is.
impl From<shift::Finished> for ReportOutcome {
    fn from(finished: shift::Finished) -> Self {
        let onward = match finished.ahead {
            Ahead::Callback => {
                return Self::Parked {
                    started: finished.data,
                };
            }
            Ahead::Segment(onward) => Some(onward),
            Ahead::Nothing => None,
        };
        let result = TaskResult {
            data: Data::Inline(finished.data),
            labels: finished.labels,
            set: finished.set,
            attempt: finished.attempt,
            tasks: finished.tasks,
            frame: finished.frame,
            onward,
        };
        match finished.error {
            None => Self::Completed(result),
            Some(error) => Self::Failed { error, result },
        }
    }
}

/// What the tasks of a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// The data.
    pub data: Data,
    /// The data of each task of a pipeline by label, where that of the last one hides some of it.
    pub labels: Option<Json>,
    /// What the tasks wrote, by the keys of their `set`. A write to a path takes the place of all
    /// earlier ones at or below it.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// What became of each task.
    pub tasks: Vec<TaskReport>,
    /// What became of the rows of its frame, in a loop over a cursor.
    pub frame: Option<FrameReport>,
    /// Where the pipeline goes on, in another command; then the data is that of its tasks by label.
    pub onward: Option<Onward>,
}

impl From<Data> for TaskResult {
    fn from(data: Data) -> Self {
        Self {
            data,
            labels: None,
            set: JsonMap::new(),
            attempt: 1,
            tasks: Vec::new(),
            frame: None,
            onward: None,
        }
    }
}

/// The lease of a worker ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseExpired {
    /// The command.
    pub command: CommandId,
    /// The attempt.
    pub attempt: u32,
    /// Who had it.
    pub worker: WorkerId,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// Why it ran out.
    pub reason: ExpiryReason,
}

/// A result that is known to be too late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredResult {
    /// The command that it claims to be of.
    pub command: CommandId,
    /// The attempt that it claims to be of.
    pub attempt: u32,
    /// Who sent it.
    pub worker: WorkerId,
    /// Digest of the result.
    pub sha256: Digest,
    /// Its size.
    pub bytes: u64,
    /// Why it is ignored.
    pub code: ErrorCode,
}

/// A signal, sent to this run or to all that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Its name.
    pub name: Text,
    /// Its key.
    pub key: Option<Text>,
    /// What it says.
    pub payload: Json,
    /// Who sends it.
    pub actor: Option<Text>,
    /// The broadcast that it is. A run takes each at most once, and keeps none.
    pub broadcast: Option<SignalId>,
    /// When it was sent, where that was earlier.
    pub received_at: Option<Timestamp>,
}

impl Signal {
    /// A signal to this run that says no more than it must.
    pub fn new(name: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            key: None,
            payload: Json::Null,
            actor: None,
            broadcast: None,
            received_at: None,
        }
    }
}

/// The decision of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approve {
    /// The step that waits for it.
    pub step: StepName,
    /// The iteration, in a loop.
    pub index: Option<u32>,
    /// What is decided.
    pub decision: Decided,
    /// Who decides.
    pub actor: Text,
    /// The groups that the person belongs to.
    pub groups: Vec<Text>,
    /// What there is to say.
    pub comment: Option<Text>,
    /// The values of the form.
    pub values: Option<Json>,
}

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

impl Decided {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// A run that is waited for has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnded {
    /// The run.
    pub child: ExecutionId,
    /// How.
    pub end: ChildEnd,
}

/// How a run that is waited for ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildEnd {
    /// Well.
    Completed {
        /// The data of the step that was asked for, else the result of the run.
        result: Data,
    },
    /// With a failure.
    Failed {
        /// The first one.
        error: TaskError,
    },
    /// Somebody ended it.
    Cancelled {
        /// Why.
        reason: Option<Text>,
    },
    /// It never began: there is no such playbook, for one.
    NotStarted {
        /// Why.
        error: TaskError,
    },
}

/// What a worker started tells its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The command that started it.
    pub command: CommandId,
    /// What came out.
    pub data: Json,
    /// What it failed with; nothing where it went well.
    pub error: Option<TaskError>,
}
