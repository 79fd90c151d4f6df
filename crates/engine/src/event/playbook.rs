//! Events of the run as a whole.

use noetl_types::{
    CatalogId, CommandId, Digest, ExecutionId, Json, PlaybookPath, PoolName, StepName, TaskError,
    Text, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::CommandTimer;
use crate::payload::Data;
use crate::slot::RunSlot;

/// How a run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The run.
    pub execution_id: ExecutionId,
    /// The definition that it runs, from beginning to end.
    pub catalog_id: CatalogId,
    /// The path of the definition.
    pub path: PlaybookPath,
    /// The version of the definition.
    pub version: u32,
    /// Digest of the definition's text.
    pub definition_sha256: Digest,
    /// Its only input: the defaults of the playbook with the payload laid over them.
    pub workload: Data,
    /// The run that started this one.
    pub parent_execution_id: Option<ExecutionId>,
    /// How many runs stand above it: each was started by the one before.
    pub depth: u32,
    /// The pool of workers that runs it.
    pub execution_pool: Option<PoolName>,
    /// Its rank in the queue.
    pub priority: Option<i16>,
    /// The slot without which nothing is entered.
    pub concurrency: Option<RunSlot>,
    /// When its first step may be entered, until it was; at once where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// The address that workers report to.
    pub server_url: Option<Text>,
    /// The program that started it.
    pub emitter: Option<Text>,
    /// Who asked for it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Text>,
    /// The trace that it belongs to.
    pub trace: Option<Json>,
    /// The event of another run that it was forked from.
    pub forked_from: Option<Json>,
    /// The run that it repeats.
    pub rerun_of: Option<Json>,
    /// The key under which no second run was made.
    pub dedup: Option<Json>,
}

/// Who steered a run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steering {
    /// Who.
    pub actor: Option<Text>,
    /// Why.
    pub reason: Option<Text>,
}

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The first failure that nothing caught.
    pub error: TaskError,
    /// The steps whose failure nothing caught, in the order of failing.
    pub failed_steps: Vec<StepName>,
}

/// Whose time is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timeout {
    /// Nothing is entered before it.
    Start,
    /// That of the whole run.
    Execution,
    /// That of one run of a step.
    Step {
        /// The step.
        step: StepName,
        /// Its run.
        run: u32,
    },
}

/// A timer that is open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerId {
    /// Of the beginning of the run.
    Start,
    /// Of the whole run.
    Execution,
    /// Of one run of a step.
    Step {
        /// The step.
        step: StepName,
        /// Its run.
        run: u32,
    },
    /// Of a command that waits.
    Command {
        /// The command.
        command: CommandId,
        /// Which of its timers.
        timer: CommandTimer,
    },
}
