//! Events of the execution as a whole.

use noetl_types::{
    CatalogId, CommandId, Digest, ExecutionId, Json, PlaybookPath, PoolName, StepName, TaskError,
    Text, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::CommandTimer;
use crate::payload::EventData;
use crate::slot::ExecutionSlot;

/// Start of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaybookStarted {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Definition to which the execution is pinned.
    pub catalog_id: CatalogId,
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Version of the definition.
    pub version: u32,
    /// Digest of the definition's text.
    pub definition_sha256: Digest,
    /// Input of the execution: the defaults of the playbook merged with the caller's payload.
    pub workload: EventData,
    /// Execution that started this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// Nesting depth: number of ancestor executions.
    pub depth: u32,
    /// Worker pool that runs it.
    pub execution_pool: Option<PoolName>,
    /// Priority in the queue.
    pub priority: Option<i16>,
    /// Slot that is required before any step is entered.
    pub concurrency: Option<ExecutionSlot>,
    /// Scheduled start of the first step. `None` if it starts at once or has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// URL to which workers report.
    pub server_url: Option<Text>,
    /// Program that started it.
    pub emitter: Option<Text>,
    /// Caller that requested it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Text>,
    /// Trace context.
    pub trace: Option<Json>,
    /// Event of another execution from which it was forked.
    pub forked_from: Option<Json>,
    /// Execution that it reruns.
    pub rerun_of: Option<Json>,
    /// Dedup key.
    pub dedup: Option<Json>,
}

/// Caller and reason of a control operation such as pause or cancel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ControlInfo {
    /// The caller.
    pub actor: Option<Text>,
    /// The stated reason.
    pub reason: Option<Text>,
}

/// Failure of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaybookFailed {
    /// First uncaught failure.
    pub error: TaskError,
    /// Steps whose failure was not caught, in order of failure.
    pub failed_steps: Vec<StepName>,
}

/// A timer of the execution or of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutionTimer {
    /// Scheduled start of the execution.
    Start,
    /// Timeout of the whole execution.
    Execution,
    /// Timeout of one step pass.
    Step {
        /// The step.
        step: StepName,
        /// The pass, from 1.
        run: u32,
    },
}

/// Identifies an open timer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerId {
    /// Scheduled start of the execution.
    Start,
    /// Timeout of the whole execution.
    Execution,
    /// Timeout of one step pass.
    Step {
        /// The step.
        step: StepName,
        /// The pass, from 1.
        run: u32,
    },
    /// Timer of a suspended command.
    Command {
        /// The command.
        command: CommandId,
        /// Kind of the timer.
        timer: CommandTimer,
    },
}
