//! Processing of the reports that workers send about commands.

use std::sync::Arc;

use noetl_api::command::{
    CommandReport, HeldLease, LeasedCommand, NextLease, ReportDisposition, ReportRequest,
    ReportResponse, ReportResult, ReportStatus,
};
use noetl_api::output::OutputRequest;
use noetl_engine::{EngineInput, EventData, InputVerdict, ReportOutcome, TaskResult, WorkerReport};
use noetl_messaging::Poller;
use noetl_playbook::command_machine::Continuation;
use noetl_types::limits::MAX_REPORT_BATCH;
use noetl_types::{
    CommandId, CommandStatus, ErrorCode, ExecutionId, Json, Seq, TaskError, TaskErrorKind, WorkerId,
};

use crate::access::{AuthContext, CallContext};
use crate::driver::{Driver, Message, MessageReply, PollRequest, wait_for_reply};
use crate::error::{Result, RuntimeError};
use crate::services::issued_secrets::IssuedSecrets;
use crate::services::leases::lease_fence;
use crate::services::{Infrastructure, Leases, TaskOutput};

/// Processes the reports of workers.
pub struct Reports {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) output: Arc<TaskOutput>,
    pub(crate) secrets: Arc<IssuedSecrets>,
}

impl Reports {
    /// Processes reports independently of each other. The answer contains the next commands for the
    /// worker.
    pub async fn process_reports(
        &self,
        ctx: &CallContext,
        request: ReportRequest,
    ) -> Result<ReportResponse> {
        if request.reports.len() > MAX_REPORT_BATCH {
            let text = format!("a call may contain at most {MAX_REPORT_BATCH} reports");
            return Err(RuntimeError::invalid(text));
        }
        let poll_request =
            self.to_poll_request(&ctx.auth, &request.worker_id, request.lease.as_ref())?;
        let started_at = tokio::time::Instant::now();
        if !request.outputs.is_empty() {
            let (worker_id, outputs) = (request.worker_id.clone(), request.outputs);
            let stored = self.output.store_outputs(ctx, OutputRequest { worker_id, outputs }).await;
            // A result counts more than the rest of its output.
            if let Err(error) = stored {
                tracing::warn!(%error, "the last output of reported commands was not stored");
            }
        }
        let reports = request.reports.into_iter();
        let reports = reports.map(|report| (report.execution_id, report)).collect();
        let reports =
            self.secrets.redact_issued_secrets(reports, CommandReport::redact_secrets).await?;
        let pending: Vec<_> = reports
            .into_iter()
            .map(|report| {
                let subject = ReportSubject::from_report(&report);
                let (message, answer) = to_report_message(report, &request.worker_id);
                let message = message
                    .with_poll_request(poll_request.clone())
                    .with_auth_context(ctx.auth.clone());
                self.driver.send_message(subject.execution_id, message);
                (subject, answer)
            })
            .collect();
        let mut results = Vec::with_capacity(pending.len());
        let mut commands = Vec::new();
        for (subject, answer) in pending {
            let answer = wait_for_reply(answer).await;
            self.infra
                .metrics
                .server
                .step_latency_seconds
                .observe(started_at.elapsed().as_secs_f64());
            let result = to_report_result(subject.command_id, answer, &mut commands);
            results.push(self.resolve_forgotten_command(ctx, &subject, result).await);
        }
        if let Some(poll_request) = &poll_request {
            self.fill_from_backlog(poll_request, &mut commands).await;
        }
        Ok(ReportResponse { results, commands })
    }

    /// Resolves a report whose command is no longer in the execution's state. The state keeps only
    /// the last commands of a step. The queue has the others, so that a worker that repeats a
    /// report gets the same answer again.
    async fn resolve_forgotten_command(
        &self,
        ctx: &CallContext,
        subject: &ReportSubject,
        result: ReportResult,
    ) -> ReportResult {
        if result.code != Some(ErrorCode::NotFound) {
            return result;
        }
        let with_status =
            |status, code| ReportResult { status, code, detail: None, ..result.clone() };
        let row = match ctx.visible_command(self.infra.store(), subject.command_id).await {
            Ok(row) => Some(row).filter(|row| row.execution_id == subject.execution_id),
            Err(RuntimeError::Refused(_)) => None,
            Err(error) => {
                let problem = error.into_problem();
                return ReportResult {
                    detail: Some(problem.detail.clone()),
                    ..with_status(ReportDisposition::Rejected, problem.known_code())
                };
            }
        };
        match row {
            Some(row)
                if row.attempt == subject.attempt
                    && Some(row.status) == subject.terminal_status =>
            {
                with_status(ReportDisposition::Duplicate, None)
            }
            Some(row) if row.status.is_terminal() => {
                with_status(ReportDisposition::Ignored, Some(ErrorCode::StaleAttempt))
            }
            Some(_) | None => result,
        }
    }

    fn to_poll_request(
        &self,
        auth: &AuthContext,
        worker: &WorkerId,
        lease: Option<&NextLease>,
    ) -> Result<Option<Arc<PollRequest>>> {
        let Some(lease) = lease else {
            return Ok(None);
        };
        let poller = Poller {
            worker: worker.clone(),
            kinds: lease.kinds.clone(),
            max: usize::try_from(lease.max.get()).unwrap_or(1),
            lease: self.leases.check_lease_duration(lease.lease_ms)?,
        };
        let queue = auth.leasable_queue(&lease.pool)?;
        Ok(Some(Arc::new(PollRequest::new(queue, poller))))
    }

    /// Adds pending commands of the store to those that the reports led to.
    async fn fill_from_backlog(
        &self,
        poll_request: &PollRequest,
        commands: &mut Vec<LeasedCommand>,
    ) {
        let remaining = poll_request.permits();
        if remaining == 0
            || self.leases.infra.clock.check_skew().is_err()
            || !self.driver.waiters.matcher.backlog_mark(&poll_request.pool).has_backlog
        {
            return;
        }
        match self.leases.grant_leases(&poll_request.pool, &poll_request.poller, remaining).await {
            Ok(leased) => commands.extend(leased),
            // The reports are processed anyway, and the worker polls again.
            Err(error) => {
                tracing::warn!(%error, "no commands could be leased to a worker that reported");
            }
        }
    }
}

/// Identity and outcome of a report.
struct ReportSubject {
    execution_id: ExecutionId,
    command_id: CommandId,
    attempt: u32,
    terminal_status: Option<CommandStatus>,
}

impl ReportSubject {
    fn from_report(report: &CommandReport) -> Self {
        Self {
            execution_id: report.execution_id,
            command_id: report.command_id,
            attempt: report.attempt,
            terminal_status: match report.status {
                ReportStatus::Completed => Some(CommandStatus::Completed),
                ReportStatus::Failed => Some(CommandStatus::Failed),
                ReportStatus::Suspended | ReportStatus::Progress => None,
            },
        }
    }
}

/// Converts a report to the message for the engine, fenced by its lease.
fn to_report_message(
    report: CommandReport,
    worker: &WorkerId,
) -> (Message, tokio::sync::oneshot::Receiver<Result<MessageReply>>) {
    let fence = lease_fence(&HeldLease {
        execution_id: report.execution_id,
        command_id: report.command_id,
        lease_token: report.lease_token,
        attempt: report.attempt,
    });
    let (message, answer) =
        Message::new(EngineInput::Report(Box::new(to_engine_report(report, worker))));
    (message.with_fence(fence), answer)
}

fn to_engine_report(report: CommandReport, worker: &WorkerId) -> WorkerReport {
    let result = TaskResult {
        data: EventData::Inline(report.result.clone().unwrap_or(Json::Null)),
        labels: report.labels,
        set: report.set,
        attempt: report.task_attempt,
        tasks: report.tasks,
        continuation: report
            .onward
            .as_ref()
            .and_then(|json| Continuation::from_json(json.as_map()?)),
        frame: report.frame,
    };
    let outcome = match report.status {
        ReportStatus::Completed => ReportOutcome::Completed(result),
        ReportStatus::Failed => ReportOutcome::Failed {
            error: report.error.unwrap_or_else(|| {
                TaskError::new(TaskErrorKind::Unknown, "the worker reported no error message")
            }),
            result,
        },
        ReportStatus::Suspended => {
            ReportOutcome::Suspended { started: report.result.unwrap_or(Json::Null) }
        }
        ReportStatus::Progress => ReportOutcome::Running { progress: report.result },
    };
    WorkerReport {
        command: report.command_id,
        attempt: report.attempt,
        worker: worker.clone(),
        lease_until: report.lease_until,
        claimed_at: report.claimed_at,
        started_at: report.started_at,
        retries: report.retries,
        retries_before: report.retries_before,
        outcome,
    }
}

/// Converts the outcome of a report to the answer for its worker.
fn to_report_result(
    command_id: CommandId,
    answer: Result<MessageReply>,
    commands: &mut Vec<LeasedCommand>,
) -> ReportResult {
    let result = |status, code| ReportResult { command_id, status, seq: None, code, detail: None };
    match answer {
        Ok(reply) => {
            commands.extend(reply.leased);
            let (status, code) = match reply.verdict {
                None | Some(InputVerdict::Accepted | InputVerdict::Buffered) => {
                    (ReportDisposition::Accepted, None)
                }
                Some(InputVerdict::Duplicate) => (ReportDisposition::Duplicate, None),
                Some(InputVerdict::Ignored(code)) => (ReportDisposition::Ignored, Some(code)),
            };
            ReportResult { seq: Seq::new(reply.version.get()).ok(), ..result(status, code) }
        }
        Err(error) => {
            let problem = error.into_problem();
            ReportResult {
                detail: Some(problem.detail.clone()),
                ..result(ReportDisposition::Rejected, problem.known_code())
            }
        }
    }
}
