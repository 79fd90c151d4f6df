//! The input of a command machine.

use std::sync::Arc;

use noetl_types::{ByteSize, CommandId, ExecutionId, Text, Timestamp, WorkerId};

use crate::command_context::CommandContext;
use crate::model::Playbook;
use crate::template::{FuelBudget, TemplateLimits};

/// Maximum number of task runs in one command, including retries and jumps.
pub const MAX_TASK_RUNS: u32 = 1_000_000;

/// Default maximum size of the data of a task.
pub const MAX_TASK_DATA: ByteSize = ByteSize::from_mib(64);

/// A command with its definition and context.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The definition.
    pub playbook: Arc<Playbook>,
    /// The step.
    pub step: Text,
    /// The execution.
    pub execution_id: ExecutionId,
    /// The command, if templates may read it.
    pub command_id: Option<CommandId>,
    /// The worker, if templates may read it.
    pub worker_id: Option<WorkerId>,
    /// The first two parts of the idempotency key of every call: execution and seq.
    pub idempotency_key: Text,
    /// The values that its templates read, as of its issue.
    pub context: CommandContext,
    /// The iteration of a loop: its index from 0, and the total.
    pub iteration: Option<(u32, u32)>,
    /// Number of rows that its frame claims, in a loop over a cursor.
    pub frame_max_rows: Option<u32>,
    /// Time of issue, which is `now()` in its templates.
    pub issued_at: Timestamp,
    /// Limits of templates.
    pub limits: TemplateLimits,
    /// Fuel that the templates share with others. A worker has no such budget.
    pub budget: Option<FuelBudget>,
    /// Maximum size of the data of a task, and of all tasks together. The playbook may set a lower
    /// limit.
    pub max_data: ByteSize,
    /// Maximum number of task runs.
    pub max_task_runs: u32,
}

/// A command for a step that its playbook does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the playbook has no step `{0}`")]
pub struct NoSuchStep(pub Text);
