//! What is known of a command that is not closed.

use noetl_playbook::graph::StepIndex;
use noetl_playbook::shift::{FrameReport, Onward};
use noetl_types::{JsonMap, Seq, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

use super::layered::settled;
use super::parked::Parked;
use super::step::Outcome;
use super::{CommandStage, serde_step};

/// A command that is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its step.
    #[serde(with = "serde_step")]
    pub step: StepIndex,
    /// The run of the step.
    pub run: u32,
    /// The iteration, in a loop.
    pub index: Option<u32>,
    /// Which command of its pipeline it is, from 0, where there are several.
    pub segment: Option<u32>,
    /// Whether the server carries it out: then no worker ever gets it.
    pub is_on_server: bool,
    /// Its place in the log: commands are taken and cancelled in this order.
    pub issued: Seq,
    /// How often it may be handed out in all.
    pub max_attempts: u32,
    /// How many calls it had.
    pub calls: u32,
    /// How often it was given back because its task is made again: such attempts lost no worker.
    #[serde(default)]
    pub retried: u32,
    /// How far it is.
    pub phase: CommandPhase,
}

settled!(Command);

/// How far a command is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandPhase {
    /// It waits for a worker. Grants are no events, so a worker may have it already.
    Pending {
        /// The attempt that comes next, from 1.
        attempt: u32,
        /// When it may be handed out again.
        not_before: Option<Timestamp>,
    },
    /// A worker is known to have it.
    Leased {
        /// The attempt.
        attempt: u32,
        /// Who has it.
        worker: WorkerId,
        /// Whether it is known to run.
        is_running: bool,
        /// Attempts of its tasks that this worker made again, as far as it told of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retries: Option<Box<Retries>>,
    },
    /// It waits without a worker.
    Parked(Box<Parked>),
    /// No attempt is left.
    Spent,
    /// Its tasks are done; the next event closes it.
    Called(Box<CallResult>),
}

/// Attempts of tasks that a worker made again within its own attempt at a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retries {
    /// How many it told of.
    pub told: u32,
    /// When the last of them failed.
    pub failed_at: Timestamp,
    /// Which attempt of its task comes after it, from 2.
    pub next: u32,
    /// When that one begins.
    pub next_at: Timestamp,
}

/// What the tasks of a command left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// What came of them.
    pub outcome: Outcome,
    /// What they wrote, by the keys of their `set`.
    pub set: JsonMap,
    /// What became of the rows of its frame.
    pub frame: Option<FrameReport>,
    /// Where the pipeline goes on, in another command.
    pub onward: Option<Onward>,
}

impl Command {
    /// What its worker told of attempts that it made again; nothing where none is known.
    pub fn retries(&self) -> Option<&Retries> {
        match &self.phase {
            CommandPhase::Leased { retries, .. } => retries.as_deref(),
            CommandPhase::Pending { .. }
            | CommandPhase::Parked(_)
            | CommandPhase::Spent
            | CommandPhase::Called(_) => None,
        }
    }

    /// The attempt that it is at, or that comes next.
    pub(crate) fn attempt(&self) -> u32 {
        match &self.phase {
            CommandPhase::Pending { attempt, .. } | CommandPhase::Leased { attempt, .. } => {
                *attempt
            }
            CommandPhase::Spent | CommandPhase::Called(_) | CommandPhase::Parked(_) => {
                self.max_attempts
            }
        }
    }

    pub(crate) fn stage(&self) -> CommandStage {
        match &self.phase {
            CommandPhase::Pending { .. } => CommandStage::Pending,
            CommandPhase::Leased {
                is_running: false, ..
            } => CommandStage::Claimed,
            CommandPhase::Leased {
                is_running: true, ..
            } => CommandStage::Running,
            CommandPhase::Parked(_) => CommandStage::Parked,
            CommandPhase::Spent => CommandStage::Spent,
            CommandPhase::Called(result) => match result.outcome.error {
                None => CommandStage::Done,
                Some(_) => CommandStage::Erred,
            },
        }
    }
}
