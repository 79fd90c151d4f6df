//! What a shift is given.

use std::sync::Arc;

use noetl_types::{ByteSize, CommandId, ExecutionId, Text, Timestamp, WorkerId};

use crate::carried::Carried;
use crate::model::Playbook;
use crate::template::TemplateLimits;

/// Runs of tasks in one command, retries and jumps included.
pub const MAX_TASK_RUNS: u32 = 1_000_000;

/// Bytes of the data of a task, where nobody says otherwise.
pub const MAX_DATA: ByteSize = ByteSize::from_mib(64);

/// A command and what it knows.
#[derive(Debug, Clone)]
pub struct Job {
    /// The definition.
    pub playbook: Arc<Playbook>,
    /// The step.
    pub step: Text,
    /// The run.
    pub execution_id: ExecutionId,
    /// The command, where templates may know it.
    pub command_id: Option<CommandId>,
    /// The worker, where templates may know it.
    pub worker_id: Option<WorkerId>,
    /// The first two parts of the key of every call: run and seq.
    pub idempotency_key: Text,
    /// What its templates read, as of its issue.
    pub carried: Carried,
    /// The iteration, in a loop: its place from 0, and how many there are.
    pub iteration: Option<(u32, u32)>,
    /// How many rows its frame asks for, in a loop over a cursor.
    pub frame: Option<u32>,
    /// When it was issued: `now()` of its templates.
    pub issued_at: Timestamp,
    /// What a template may cost.
    pub limits: TemplateLimits,
    /// Bytes of the data of a task, and of all tasks together. The playbook may ask for less.
    pub max_data: ByteSize,
    /// Runs of tasks in all.
    pub max_task_runs: u32,
}

/// A command for a step that its playbook does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the playbook has no step `{0}`")]
pub struct NoSuchStep(pub Text);
