//! Classic workers that report about a command, and their relation to it.

use noetl_api::classic::ClassicEventResponse;
use noetl_engine::{ClassicReport, ReportOutcome, StaleReason, WorkerReport};
use noetl_playbook::model::Task;
use noetl_store::{Command, Fence, LeaseCondition};
use noetl_types::{CommandId, CommandStatus, ErrorCode, EventId, EventType, WorkerId};

use crate::classic::incoming_event::IncomingEvent;
use crate::classic::payload;
use crate::classic::task_policy::outcome_as_reported;
use crate::error::RuntimeError;

/// A worker that reports about a command.
pub(crate) struct ClassicReporter<'t> {
    pub(crate) incoming: &'t IncomingEvent,
    pub(crate) kind: EventType,
    pub(crate) event_id: EventId,
    pub(crate) command_id: CommandId,
    pub(crate) worker: WorkerId,
    pub(crate) attempt: u32,
}

/// Relation of a reporting worker to the command.
pub(crate) enum ReporterRelation {
    /// It holds the lease.
    LeaseHolder,
    /// It held the command, which is closed, and the event belongs to the closing.
    RepeatsClosing,
    /// It held the command, which is closed.
    Closed,
    /// It held the command earlier, or may have held it.
    Superseded,
    /// Another worker holds it.
    OtherHolder,
    /// It names an attempt that does not exist.
    UnknownAttempt,
}

impl ClassicReporter<'_> {
    pub(crate) fn relation_to(&self, row: &Command) -> ReporterRelation {
        let is_last = row.worker.as_ref() == Some(&self.worker);
        if self.attempt > row.attempt.saturating_add(1) {
            return ReporterRelation::UnknownAttempt;
        }
        if is_last && self.attempt == row.attempt {
            return match row.status {
                _ if row.lease.is_some() => ReporterRelation::LeaseHolder,
                CommandStatus::Completed | CommandStatus::Failed if self.repeats_outcome() => {
                    ReporterRelation::RepeatsClosing
                }
                CommandStatus::Completed | CommandStatus::Failed | CommandStatus::Cancelled => {
                    ReporterRelation::Closed
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running => {
                    ReporterRelation::Superseded
                }
            };
        }
        if is_last || self.attempt < row.attempt {
            return ReporterRelation::Superseded;
        }
        ReporterRelation::OtherHolder
    }

    /// True if it only repeats the outcome of a call. The worker does not know how the server
    /// ruled on that outcome.
    fn repeats_outcome(&self) -> bool {
        matches!(self.kind, EventType::CommandCompleted | EventType::CommandFailed)
            || self.incoming.is_step_exit()
    }

    pub(crate) fn event_answer(&self, status: &str) -> ClassicEventResponse {
        ClassicEventResponse {
            status: status.into(),
            event_id: self.event_id.into(),
            commands_generated: 0,
            seq: None,
        }
    }

    pub(crate) fn not_lease_holder(&self) -> RuntimeError {
        let (worker, command, attempt) = (&self.worker, self.command_id, self.attempt);
        tracing::warn!(%worker, %command, attempt, "a worker reported on a command that it does not hold");
        let text = format!("command {command} is not held by {worker} in attempt {attempt}");
        RuntimeError::refused(ErrorCode::NotLeaseHolder, text)
    }

    fn build_report(&self, outcome: ReportOutcome) -> WorkerReport {
        WorkerReport {
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

    pub(crate) fn build_classic_report(&self, outcome: ReportOutcome) -> ClassicReport {
        let event_type = match (&outcome, self.kind) {
            // A policy can turn a success into a failure, and vice versa.
            (ReportOutcome::Completed(_), EventType::CallError) => EventType::CallDone,
            (ReportOutcome::Failed { .. }, EventType::CallDone) => EventType::CallError,
            (ReportOutcome::Completed(_), EventType::CommandFailed) => EventType::CommandCompleted,
            (ReportOutcome::Failed { .. }, EventType::CommandCompleted) => EventType::CommandFailed,
            (_, kind) => kind,
        };
        ClassicReport {
            report: self.build_report(outcome),
            retry: None,
            stale: None,
            event_id: self.event_id,
            event_type,
            meta: self.incoming.extra_metadata(),
        }
    }

    /// Builds a progress report.
    pub(crate) fn build_progress_report(&self) -> ClassicReport {
        let body = &self.incoming.body;
        let is_start = self.kind == EventType::CommandStarted;
        let progress = (!is_start).then(|| body.payload.clone());
        let mut report = self.build_classic_report(ReportOutcome::Running { progress });
        // Without a time the engine writes no start event. It limits a time in the future to its
        // own clock.
        let started_at = self.incoming.body.created_at.unwrap_or(noetl_types::Timestamp::MAX);
        report.report.started_at = is_start.then_some(started_at);
        report
    }

    /// Builds a late report, without applying the task policy: it may no longer count.
    pub(crate) fn build_late_report(
        &self,
        reason: StaleReason,
        task: Option<&Task>,
    ) -> ClassicReport {
        let body = &self.incoming.body;
        let reported = payload::reported_result(body, self.kind);
        let failure = payload::reported_failure(body, self.kind);
        let outcome = outcome_as_reported(
            reported.into_tool_result(task, failure),
            payload::written_variables(body),
        );
        ClassicReport { stale: Some(reason), ..self.build_classic_report(outcome) }
    }

    /// Lease that the report depends on.
    pub(crate) fn lease_fence(&self) -> Fence {
        Fence {
            command_id: self.command_id,
            attempt: self.attempt,
            condition: LeaseCondition::Worker(self.worker.clone()),
        }
    }
}
