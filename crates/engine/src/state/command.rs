//! State of open commands.

use noetl_playbook::command_machine::Continuation;
use noetl_playbook::graph::StepIndex;
use noetl_types::report::FrameReport;
use noetl_types::{JsonMap, Seq, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

use super::CommandStage;
use super::layered::settled;
use super::step::CommandOutcome;
use super::suspended::SuspendedTask;

/// An open command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its step.
    pub step: StepIndex,
    /// The pass of the step, from 1.
    pub run: u32,
    /// Index of the iteration, in a loop.
    pub index: Option<u32>,
    /// Index of the command in a split pipeline, from 0. `None` if the pipeline has one command.
    pub segment: Option<u32>,
    /// True if the server performs the command. No worker ever gets it.
    pub is_on_server: bool,
    /// Seq of the event that issued it. Commands are claimed and cancelled in this order.
    pub issued: Seq,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Number of calls so far.
    pub calls: u32,
    /// Number of attempts that were returned for a retry of the task. They do not count as lost
    /// workers.
    #[serde(default)]
    pub retried: u32,
    /// Phase of the command.
    pub phase: CommandPhase,
}

settled!(Command);

/// Phase of an open command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandPhase {
    /// Waits for a worker. Lease grants are not events, so a worker may already hold it.
    Pending {
        /// The next attempt, from 1.
        attempt: u32,
        /// Earliest time at which it may be claimed.
        not_before: Option<Timestamp>,
    },
    /// A worker is known to hold it.
    Leased {
        /// The attempt.
        attempt: u32,
        /// The worker that holds the lease.
        worker: WorkerId,
        /// True if the worker has reported its start.
        is_running: bool,
        /// Retries of its tasks by this worker, as far as they were reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retries: Option<Box<ReportedRetries>>,
    },
    /// Suspended: waits without a worker.
    #[serde(rename = "parked")]
    Suspended(Box<SuspendedTask>),
    /// All attempts are used up.
    Spent,
    /// Its tasks have ended. The next event closes it.
    Called(Box<CallResult>),
}

/// Retries of tasks by a worker within one attempt of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRetries {
    /// Number of reported retries.
    #[serde(rename = "told")]
    pub count: u32,
    /// Time of the last failure.
    pub failed_at: Timestamp,
    /// Next attempt of the task, from 2.
    pub next: u32,
    /// Start time of the next attempt.
    pub next_at: Timestamp,
}

/// Result of the tasks of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// Outcome of the tasks.
    pub outcome: CommandOutcome,
    /// Writes of the tasks, by the keys of their `set`.
    pub set: JsonMap,
    /// Report about the rows of its frame.
    pub frame: Option<FrameReport>,
    /// Continuation of the pipeline in another command.
    pub onward: Option<Continuation>,
}

impl Command {
    /// Retries that its worker reported, if any.
    pub fn reported_retries(&self) -> Option<&ReportedRetries> {
        match &self.phase {
            CommandPhase::Leased { retries, .. } => retries.as_deref(),
            CommandPhase::Pending { .. }
            | CommandPhase::Suspended(_)
            | CommandPhase::Spent
            | CommandPhase::Called(_) => None,
        }
    }

    /// Current or next attempt.
    pub(crate) fn current_attempt(&self) -> u32 {
        match &self.phase {
            CommandPhase::Pending { attempt, .. } | CommandPhase::Leased { attempt, .. } => {
                *attempt
            }
            CommandPhase::Spent | CommandPhase::Called(_) | CommandPhase::Suspended(_) => {
                self.max_attempts
            }
        }
    }

    pub(crate) fn stage(&self) -> CommandStage {
        match &self.phase {
            CommandPhase::Pending { .. } => CommandStage::Pending,
            CommandPhase::Leased { is_running: false, .. } => CommandStage::Claimed,
            CommandPhase::Leased { is_running: true, .. } => CommandStage::Running,
            CommandPhase::Suspended(_) => CommandStage::Suspended,
            CommandPhase::Spent => CommandStage::Spent,
            CommandPhase::Called(result) => match result.outcome.error {
                None => CommandStage::Done,
                Some(_) => CommandStage::Failed,
            },
        }
    }
}
