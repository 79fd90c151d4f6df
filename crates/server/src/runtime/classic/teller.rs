//! A worker that tells something of a command, and where it stands.

use noetl_api::classic::EventAnswer;
use noetl_engine::{Late, Report, ReportOutcome, Told};
use noetl_store::{Command, Fence, Holder};
use noetl_types::{CommandId, CommandStatus, ErrorCode, EventId, EventType, WorkerId};

use super::judge::plain;
use super::payload;
use super::tale::Tale;
use crate::runtime::RuntimeError;

/// A worker that tells something of a command.
pub(super) struct Teller<'t> {
    pub(super) tale: &'t Tale,
    pub(super) kind: EventType,
    pub(super) event_id: EventId,
    pub(super) command_id: CommandId,
    pub(super) worker: WorkerId,
    pub(super) attempt: u32,
}

/// Where a worker stands that tells something of a command.
pub(super) enum Standing {
    /// It has the command.
    Holds,
    /// It had the command, which is closed; what it tells goes with the closing.
    Companion,
    /// It had the command, which is closed.
    Closed,
    /// It had the command once, or may have had it.
    Superseded,
    /// Another worker has it.
    Stranger,
    /// It names an attempt that nobody made.
    Impossible,
}

impl Teller<'_> {
    pub(super) fn standing(&self, row: &Command) -> Standing {
        let is_last = row.worker.as_ref() == Some(&self.worker);
        if self.attempt > row.attempt.saturating_add(1) {
            return Standing::Impossible;
        }
        if is_last && self.attempt == row.attempt {
            return match row.status {
                _ if row.lease.is_some() => Standing::Holds,
                CommandStatus::Completed if self.closes_well() => Standing::Companion,
                CommandStatus::Failed if self.kind == EventType::CommandFailed => {
                    Standing::Companion
                }
                CommandStatus::Completed | CommandStatus::Failed | CommandStatus::Cancelled => {
                    Standing::Closed
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running => {
                    Standing::Superseded
                }
            };
        }
        if is_last || self.attempt < row.attempt {
            return Standing::Superseded;
        }
        Standing::Stranger
    }

    /// Whether it only repeats that a command went well.
    fn closes_well(&self) -> bool {
        self.kind == EventType::CommandCompleted || self.tale.is_exit()
    }

    pub(super) fn answer(&self, status: &str) -> EventAnswer {
        EventAnswer {
            status: status.into(),
            event_id: self.event_id,
            commands_generated: 0,
            seq: None,
        }
    }

    pub(super) fn refused(&self) -> RuntimeError {
        let (worker, command, attempt) = (&self.worker, self.command_id, self.attempt);
        tracing::warn!(%worker, %command, attempt, "a worker speaks of a command that is not its");
        let text = format!("command {command} is not held by {worker} in attempt {attempt}");
        RuntimeError::refused(ErrorCode::NotLeaseHolder, text)
    }

    fn report(&self, outcome: ReportOutcome) -> Report {
        Report {
            command: self.command_id,
            attempt: self.attempt,
            worker: self.worker.clone(),
            lease_until: None,
            claimed_at: None,
            started_at: None,
            retries: Vec::new(),
            retries_before: 0,
            outcome,
        }
    }

    pub(super) fn told(&self, outcome: ReportOutcome) -> Told {
        let event_type = match (&outcome, self.kind) {
            // A policy may make a success of a failure, and the other way round.
            (ReportOutcome::Completed(_), EventType::CallError) => EventType::CallDone,
            (ReportOutcome::Failed { .. }, EventType::CallDone) => EventType::CallError,
            (ReportOutcome::Completed(_), EventType::CommandFailed) => EventType::CommandCompleted,
            (ReportOutcome::Failed { .. }, EventType::CommandCompleted) => EventType::CommandFailed,
            (_, kind) => kind,
        };
        Told {
            report: self.report(outcome),
            again: None,
            late: None,
            event_id: self.event_id,
            event_type,
            meta: self.tale.beside(),
        }
    }

    /// How far the command is.
    pub(super) fn progress(&self) -> Told {
        let told = &self.tale.told;
        let is_start = self.kind == EventType::CommandStarted;
        let progress = (!is_start).then(|| told.payload.clone());
        let mut told = self.told(ReportOutcome::Running { progress });
        // Without a time the engine writes no start; its own clock bounds one from the future.
        let started = self
            .tale
            .told
            .created_at
            .unwrap_or(noetl_types::Timestamp::MAX);
        told.report.started_at = is_start.then_some(started);
        told
    }

    /// The outcome as it is told, not judged: it may count no more.
    pub(super) fn late(&self, late: Late) -> Told {
        let told = &self.tale.told;
        let outcome = plain(payload::answer(told, self.kind), payload::writes(told));
        Told {
            late: Some(late),
            ..self.told(outcome)
        }
    }

    /// The lease that its word depends on.
    pub(super) fn fence(&self) -> Fence {
        Fence {
            command_id: self.command_id,
            attempt: self.attempt,
            holder: Holder::Worker(self.worker.clone()),
        }
    }
}
