//! Inputs of the engine: everything that can happen to an execution from outside.

use noetl_playbook::command_machine::{self, Continuation, NextStage};
use noetl_types::report::{FrameReport, RetriedTask, TaskReport};
use noetl_types::{
    CatalogId, CommandId, Digest, ErrorCode, EventId, EventType, ExecutionId, Json, JsonMap,
    Millis, NewEvent, PlaybookPath, PoolName, SignalId, StepName, TaskError, Text, Timestamp,
    WorkerId,
};

use crate::event::{ControlInfo, ExpiryReason, TimerId};
use crate::payload::EventData;
use crate::slot::SlotGrant;

/// An input of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineInput {
    /// The execution starts.
    Start(Box<StartInput>),
    /// A worker claims a command, to be recorded at once.
    Claim(CommandClaim),
    /// A worker reports on a command.
    Report(Box<WorkerReport>),
    /// The lease of a worker expired.
    LeaseExpired(LeaseExpired),
    /// A timer is due.
    TimerFired(TimerId),
    /// A signal arrives.
    Signal(Box<IncomingSignal>),
    /// A person decides about an approval.
    Approve(Box<ApprovalDecision>),
    /// An awaited child execution has ended.
    ChildEnded(Box<ChildEnded>),
    /// Work that a worker started reports its end.
    Callback(Box<CallbackResult>),
    /// Pauses the execution.
    Pause(ControlInfo),
    /// Resumes the execution.
    Resume(ControlInfo),
    /// Cancels the execution.
    Cancel(CancelInput),
    /// A requested slot was granted.
    SlotGranted(SlotGrant),
    /// Requests the slots again that the execution waits for.
    RefreshSlotRequests,
    /// An operator ends the execution with a given status.
    Finalize(Box<FinalizeInput>),
    /// A classic worker reports on a command.
    ClassicReport(Box<ClassicReport>),
    /// An event without effect on the state is to be stored.
    AuditOnly(Box<AuditOnlyEvent>),
    /// A result is stale for a reason that the state does not contain.
    IgnoredResult(Box<IgnoredResult>),
}

/// Request to cancel an execution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CancelInput {
    /// Caller and reason.
    pub control: ControlInfo,
    /// The child executions that it waits for are not cancelled.
    pub keeps_children: bool,
    /// Its final step does not run, or ends if it runs.
    pub is_forced: bool,
}

impl From<ControlInfo> for CancelInput {
    fn from(control: ControlInfo) -> Self {
        Self { control, ..Self::default() }
    }
}

/// Request of an operator to end an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalizeInput {
    /// Error of the execution. `None` ends it as completed.
    pub error: Option<TaskError>,
    /// Caller and reason.
    pub control: ControlInfo,
}

/// Event of a classic worker about a command.
///
/// Classic workers report single events with ids that they generate, and leave it to the server to
/// apply the policy of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassicReport {
    /// Report that the event corresponds to.
    pub report: WorkerReport,
    /// Error and delay of a retry, if the policy of the task requires one. The report is then one
    /// of a running command.
    pub retry: Option<(TaskError, Millis)>,
    /// Reason why the report is stale, if the state does not contain it.
    pub stale: Option<StaleReason>,
    /// Id of the event.
    pub event_id: EventId,
    /// Type of the event.
    pub event_type: EventType,
    /// Extra `meta` fields to store with it.
    pub meta: JsonMap,
}

/// Reason why a report is stale that the state of the execution does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleReason {
    /// The command is closed. If the state no longer contains it, the report is recorded as
    /// ignored.
    Closed,
    /// The command was given to another attempt or worker.
    Superseded(ErrorCode),
}

/// An event without effect on the state, as it is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditOnlyEvent(pub NewEvent);

/// Request to start an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartInput {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Definition to which it is pinned.
    pub catalog_id: CatalogId,
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Version of the definition.
    pub version: u32,
    /// Digest of the definition's text.
    pub definition_sha256: Digest,
    /// Payload of the caller: a map, merged over the defaults of the playbook.
    pub payload: Json,
    /// Environment variables that the operator exposes to playbooks.
    pub env: JsonMap,
    /// Seed of `random()` and `uuid()` in the defaults.
    pub seed: [u8; 32],
    /// Execution that starts this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// Nesting depth: one more than that of the parent.
    pub depth: u32,
    /// Worker pool that is to run it.
    pub execution_pool: Option<PoolName>,
    /// Priority in the queue, if the caller specified one.
    pub priority: Option<i16>,
    /// Scheduled start. `None` means at once.
    pub start_at: Option<Timestamp>,
    /// URL to which workers report.
    pub server_url: Option<Text>,
    /// Program that starts it.
    pub emitter: Option<Text>,
    /// Caller that requests it, if known.
    pub actor: Option<Text>,
    /// Trace context.
    pub trace: Option<Json>,
    /// Event of another execution from which it is forked.
    pub forked_from: Option<Json>,
    /// Execution that it reruns.
    pub rerun_of: Option<Json>,
    /// Dedup key.
    pub dedup: Option<Json>,
}

impl StartInput {
    /// Creates a request with only the required fields.
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

/// Claim of a command by a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandClaim {
    /// The command.
    pub command: CommandId,
    /// The attempt that begins, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerId,
    /// End of the lease.
    pub lease_until: Option<Timestamp>,
}

/// Report of a worker on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerReport {
    /// The command.
    pub command: CommandId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerId,
    /// End of the lease.
    pub lease_until: Option<Timestamp>,
    /// Time of the claim. Defaults to the time of the report.
    pub claimed_at: Option<Timestamp>,
    /// Time of the start. Without it, no `command.started` is written.
    pub started_at: Option<Timestamp>,
    /// Failed and retried attempts of tasks that the worker has not yet received an acknowledgement
    /// for.
    pub retries: Vec<RetriedTask>,
    /// Number of retries in this attempt of the command before those in `retries`.
    pub retries_before: u32,
    /// Outcome of the command.
    pub outcome: ReportOutcome,
}

/// Outcome of a command in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The command is still running.
    Running {
        /// Progress of the command.
        progress: Option<Json>,
    },
    /// Its tasks succeeded.
    Completed(TaskResult),
    /// The command started work that reports its end by a callback.
    Suspended {
        /// Data known at the start.
        started: Json,
    },
    /// A task failed finally.
    Failed {
        /// The error.
        error: TaskError,
        /// Partial result.
        result: TaskResult,
    },
}

/// Converts the outcome of a finished command, with its data inline.
impl From<command_machine::MachineOutcome> for ReportOutcome {
    fn from(finished: command_machine::MachineOutcome) -> Self {
        let continuation = match finished.next_stage {
            NextStage::Callback => {
                return Self::Suspended { started: finished.data };
            }
            NextStage::Segment(continuation) => Some(continuation),
            NextStage::End => None,
        };
        let result = TaskResult {
            data: EventData::Inline(finished.data),
            labels: finished.labels,
            set: finished.set,
            attempt: finished.attempt,
            tasks: finished.tasks,
            frame: finished.frame,
            continuation,
        };
        match finished.error {
            None => Self::Completed(result),
            Some(error) => Self::Failed { error, result },
        }
    }
}

/// Result of the tasks of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// The data.
    pub data: EventData,
    /// Data of each task of a pipeline by label, if the data of the last one does not contain all
    /// of it.
    pub labels: Option<Json>,
    /// Writes of the tasks, by the keys of their `set`. A write to a path replaces all earlier
    /// writes at or below it.
    pub set: JsonMap,
    /// The attempt of the last task, from 1.
    pub attempt: u32,
    /// Report of each task.
    pub tasks: Vec<TaskReport>,
    /// Report about the rows of its frame, in a loop over a cursor.
    pub frame: Option<FrameReport>,
    /// Continuation of the pipeline in another command. If set, `data` contains the data of its
    /// tasks by label.
    pub continuation: Option<Continuation>,
}

impl From<EventData> for TaskResult {
    fn from(data: EventData) -> Self {
        Self {
            data,
            labels: None,
            set: JsonMap::new(),
            attempt: 1,
            tasks: Vec::new(),
            frame: None,
            continuation: None,
        }
    }
}

/// The lease of a worker expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseExpired {
    /// The command.
    pub command: CommandId,
    /// The attempt.
    pub attempt: u32,
    /// The worker that held the lease.
    pub worker: WorkerId,
    /// End of the lease.
    pub lease_until: Option<Timestamp>,
    /// Reason for the expiry.
    pub reason: ExpiryReason,
}

/// A result that is known to be stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredResult {
    /// Command id of the report.
    pub command: CommandId,
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

/// A signal, sent to this execution or broadcast to all that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingSignal {
    /// Name of the signal.
    pub name: Text,
    /// Key of the signal.
    pub key: Option<Text>,
    /// Payload of the signal.
    pub payload: Json,
    /// The sender.
    pub actor: Option<Text>,
    /// Id of the broadcast that it belongs to. An execution receives each broadcast at most once,
    /// and buffers none.
    pub broadcast: Option<SignalId>,
    /// Time of receipt, if earlier than now.
    pub received_at: Option<Timestamp>,
}

impl IncomingSignal {
    /// Creates a signal with only a name.
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

/// Decision of a person about an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// Step that waits for the decision.
    pub step: StepName,
    /// Index of the iteration, in a loop.
    pub index: Option<u32>,
    /// The choice.
    pub decision: ApprovalChoice,
    /// The person who decides.
    pub actor: Text,
    /// Groups of the person.
    pub groups: Vec<Text>,
    /// Comment of the person.
    pub comment: Option<Text>,
    /// Values of the form.
    pub values: Option<Json>,
}

/// Choice of a person about an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalChoice {
    /// Approved.
    Approve,
    /// Rejected.
    Reject,
}

impl ApprovalChoice {
    /// Name in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// An awaited child execution has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnded {
    /// Id of the execution.
    pub child: ExecutionId,
    /// Outcome of the child.
    pub outcome: ChildOutcome,
}

/// Outcome of a child execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildOutcome {
    /// Completed.
    Completed {
        /// Data of the requested step, or else the result of the execution.
        result: EventData,
    },
    /// Failed.
    Failed {
        /// First uncaught error.
        error: TaskError,
    },
    /// Cancelled.
    Cancelled {
        /// The cause.
        reason: Option<Text>,
    },
    /// The child was never started, for example because its playbook does not exist.
    NotStarted {
        /// The cause.
        error: TaskError,
    },
}

/// Work that a worker started reports its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackResult {
    /// Command that started it.
    pub command: CommandId,
    /// Result data.
    pub data: Json,
    /// Error, or `None` on success.
    pub error: Option<TaskError>,
}
