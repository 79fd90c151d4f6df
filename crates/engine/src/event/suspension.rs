//! Events of suspended tasks, which wait without a worker.

use noetl_playbook::string_enum;
use noetl_types::{
    CatalogId, ExecutionId, Json, JsonMap, Millis, PlaybookPath, Seq, SignalId, TaskError, Text,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use super::CommandRef;
use crate::payload::EventData;

/// Name of the signal that reports the end of a child execution.
pub const CHILD_ENDED_SIGNAL: &str = "child.ended";
/// Name of the signal that reports the decision about an approval.
pub const APPROVAL_SIGNAL: &str = "approval";

/// The condition that a suspended task waits for, with all templates rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionKind {
    /// Waits until a point in time.
    Sleep(SleepSpec),
    /// Waits for signals.
    Wait(SignalWait),
    /// Waits for the decision of a person.
    Approval(ApprovalSpec),
    /// Waits for a child execution. If it is only started, the command ends at once.
    Child(Box<ChildCall>),
    /// Waits for a callback from work that a worker started.
    Callback(PendingCallback),
    /// Waits for nothing, because its configuration is invalid.
    Broken(Box<InvalidTaskConfig>),
}

/// A task that waits until a point in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepSpec {
    /// End of the sleep.
    pub until: Timestamp,
    /// Duration, if the task specifies a duration.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Millis>,
}

/// A task that waits for signals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalWait {
    /// Signals to wait for.
    pub signals: Vec<AwaitedSignal>,
    /// Number of signals required.
    pub mode: WaitMode,
    /// Maximum age of signals that were received before the wait.
    pub lookback: Millis,
    /// JSON Schema of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
}

/// A signal that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwaitedSignal {
    /// Name of the signal.
    pub name: Text,
    /// Key of the signal. `None` matches any key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Text>,
    /// Name of the signal in the data of the task.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
}

/// Number of signals that a wait requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// One of them.
    Any,
    /// All of them.
    All,
}

/// A task that waits for the decision of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSpec {
    /// Short title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Text>,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
    /// JSON Schema of the form values of a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Json>,
    /// Users and groups that may decide. Anyone if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Text>,
    /// Number of approvals required.
    pub quorum: u32,
    /// Action if the approval times out.
    pub on_timeout: ApprovalTimeoutAction,
}

/// Action if an approval times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalTimeoutAction {
    /// The task fails.
    Fail,
    /// The approval counts as rejected.
    Reject,
    /// The approval counts as approved.
    Approve,
}

/// A task that starts a child execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildCall {
    /// Id of the child execution. Each attempt of the task starts a new execution.
    pub child: ExecutionId,
    /// The playbook to run.
    pub of: ChildTarget,
    /// Version of the playbook. `None` means the newest.
    pub version: Option<u32>,
    /// True if the task waits for the end of the child.
    pub waits: bool,
    /// Step whose data is returned. `None` means the result of the execution.
    pub result_step: Option<Text>,
    /// Action if the child does not end in time.
    pub on_timeout: ChildTimeoutAction,
    /// Input of the child: a map.
    pub input: EventData,
}

/// Playbook of a child execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildTarget {
    /// A playbook path.
    Path(PlaybookPath),
    /// A specific version of a playbook.
    CatalogId(CatalogId),
}

/// Action if a child does not end in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildTimeoutAction {
    /// The child continues, and the task stops waiting for it.
    Abandon,
    /// The child is cancelled.
    Cancel,
}

/// A task that a worker started and that reports its end by a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingCallback {
    /// Data reported when it was started.
    pub started: Json,
}

/// A task whose configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidTaskConfig {
    /// The error.
    pub error: TaskError,
}

string_enum! {
    /// Kind of a timer of a suspended command.
    pub enum CommandTimer {
        /// End of a sleep.
        Sleep = "sleep",
        /// Timeout of a wait or an approval.
        Wait = "wait",
        /// Timeout of a child.
        Child = "child",
        /// Timeout of a callback.
        Callback = "callback",
        /// Delay before the next attempt.
        Retry = "retry",
    }
}

/// A timer of a suspended command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerStarted {
    /// The command.
    pub at: CommandRef,
    /// Kind of the timer.
    pub timer: CommandTimer,
    /// Time at which it fires.
    pub fire_at: Timestamp,
    /// Id of the new child execution, if the task is retried.
    pub child: Option<ExecutionId>,
    /// Data reported by the worker, for a callback.
    pub started: Option<Json>,
    /// Writes of the task so far, if it is retried.
    pub set: JsonMap,
}

/// A timer of a suspended command fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTimerFired {
    /// The command.
    pub at: CommandRef,
    /// Kind of the timer.
    pub timer: CommandTimer,
    /// Time at which it was due.
    pub fire_at: Timestamp,
}

/// A signal was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalReceived {
    /// Name of the signal.
    pub name: Text,
    /// Key of the signal.
    pub key: Option<Text>,
    /// Payload of the signal.
    pub payload: Json,
    /// The sender.
    pub actor: Option<Text>,
    /// Id of the broadcast that it belongs to.
    pub broadcast: Option<SignalId>,
    /// Delivery to a command. `None` if the signal is buffered.
    pub delivery: Option<SignalDelivery>,
}

/// Delivery of a signal to a waiting command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalDelivery {
    /// The command.
    pub consumer: CommandRef,
    /// Index among the awaited signals, from 0.
    pub awaited_index: u32,
    /// Time of receipt, if that was before the wait.
    pub received_at: Option<Timestamp>,
    /// Seq of the event that buffered it.
    pub buffered_seq: Option<Seq>,
}
