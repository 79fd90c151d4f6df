//! Workers tell what became of commands.

use std::sync::Arc;

use noetl_api::command::{
    CommandReport, FrameReport, HeldLease, LeasedCommand, NextLease, ReportAnswer, ReportRequest,
    ReportResult, ReportStatus, ReportVerdict, TaskStatus,
};
use noetl_bus::Taker;
use noetl_engine::{Data, Input, Report, ReportOutcome, TaskResult, Verdict};
use noetl_playbook::shift;
use noetl_types::limits::MAX_REPORT_BATCH;
use noetl_types::{
    CommandId, CommandStatus, ErrorCode, ExecutionId, Json, Millis, Seq, TaskError, TaskErrorKind,
    WorkerId,
};

use super::behalf::Behalf;
use super::driver::{Letter, Offer, Reply, heard};
use super::error::RuntimeError;
use super::leases::fence_of;
use super::{Core, Runtime};

impl Runtime {
    /// Takes reports; each stands for itself. The answer brings what to do next.
    pub async fn report(&self, request: ReportRequest) -> Result<ReportAnswer, RuntimeError> {
        if request.reports.len() > MAX_REPORT_BATCH {
            let text = format!("a call brings at most {MAX_REPORT_BATCH} reports");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let offer = self
            .core
            .offer(self.behalf(), &request.worker_id, request.lease.as_ref())?;
        let began = tokio::time::Instant::now();
        let reports = request.reports.into_iter();
        let reports = reports
            .map(|report| (report.execution_id, report))
            .collect();
        let reports = self.without_lent(reports, CommandReport::hiding).await?;
        let asked: Vec<_> = reports
            .into_iter()
            .map(|report| {
                let about = About::of(&report);
                let (letter, answer) = letter(report, &request.worker_id);
                let letter = letter
                    .offering(offer.clone())
                    .on_behalf_of(self.behalf().clone());
                self.core.send(about.execution_id, letter);
                (about, answer)
            })
            .collect();
        let mut results = Vec::with_capacity(asked.len());
        let mut commands = Vec::new();
        for (about, answer) in asked {
            let answer = heard(answer).await;
            self.core.metrics.reported(began.elapsed());
            let result = told(about.command_id, answer, &mut commands);
            results.push(self.remembered(&about, result).await);
        }
        if let Some(offer) = &offer {
            self.core.fill(offer, &mut commands).await;
        }
        Ok(ReportAnswer { results, commands })
    }
}

/// What a report is about.
struct About {
    execution_id: ExecutionId,
    command_id: CommandId,
    attempt: u32,
    end: Option<CommandStatus>,
}

impl About {
    fn of(report: &CommandReport) -> Self {
        Self {
            execution_id: report.execution_id,
            command_id: report.command_id,
            attempt: report.attempt,
            end: match report.status {
                ReportStatus::Completed => Some(CommandStatus::Completed),
                ReportStatus::Failed => Some(CommandStatus::Failed),
                ReportStatus::Parked | ReportStatus::Progress => None,
            },
        }
    }
}

impl Runtime {
    /// What became of a report whose command its run has forgotten. The state of a run keeps only the
    /// last commands of a step in mind; the queue tells the others, so that a worker that repeats
    /// itself hears what it heard before.
    async fn remembered(&self, about: &About, result: ReportResult) -> ReportResult {
        if result.code != Some(ErrorCode::NotFound) {
            return result;
        }
        let settled = |status, code| ReportResult {
            status,
            code,
            detail: None,
            ..result.clone()
        };
        let row = match self.command_row(about.command_id).await {
            Ok(row) => Some(row).filter(|row| row.execution_id == about.execution_id),
            Err(RuntimeError::Refused(_)) => None,
            Err(error) => {
                let problem = error.into_problem();
                return ReportResult {
                    detail: Some(problem.detail.clone()),
                    ..settled(ReportVerdict::Rejected, problem.known_code())
                };
            }
        };
        match row {
            Some(row) if row.attempt == about.attempt && Some(row.status) == about.end => {
                settled(ReportVerdict::Duplicate, None)
            }
            Some(row) if row.status.is_terminal() => {
                settled(ReportVerdict::Ignored, Some(ErrorCode::StaleAttempt))
            }
            Some(_) | None => result,
        }
    }
}

impl Core {
    fn offer(
        &self,
        behalf: &Behalf,
        worker: &WorkerId,
        lease: Option<&NextLease>,
    ) -> Result<Option<Arc<Offer>>, RuntimeError> {
        let Some(lease) = lease else {
            return Ok(None);
        };
        let taker = Taker {
            worker: worker.clone(),
            kinds: lease.kinds.clone(),
            max: usize::try_from(lease.max.get()).unwrap_or(1),
            lease: self.lease_length(lease.lease_ms)?,
        };
        let queue = behalf.queue_to_lease_from(&lease.pool)?;
        Ok(Some(Arc::new(Offer::new(queue, taker))))
    }

    /// Adds what lies in the store to what the reports themselves led to.
    async fn fill(self: &Arc<Self>, offer: &Offer, commands: &mut Vec<LeasedCommand>) {
        let left = offer.left();
        if left == 0 || !self.desk.mark(&offer.pool).has_backlog {
            return;
        }
        match self.grant(&offer.pool, &offer.taker, left).await {
            Ok(found) => commands.extend(found),
            // The reports count all the same; the worker asks again.
            Err(error) => tracing::warn!(%error, "no work was found for a worker that reported"),
        }
    }
}

/// A report as the engine takes it, with the lease that it depends on.
fn letter(
    report: CommandReport,
    worker: &WorkerId,
) -> (
    Letter,
    tokio::sync::oneshot::Receiver<Result<Reply, RuntimeError>>,
) {
    let fence = fence_of(&HeldLease {
        execution_id: report.execution_id,
        command_id: report.command_id,
        lease_token: report.lease_token,
        attempt: report.attempt,
    });
    let (letter, answer) = Letter::new(Input::Report(Box::new(engine_report(report, worker))));
    (letter.fenced(fence), answer)
}

fn engine_report(report: CommandReport, worker: &WorkerId) -> Report {
    let retries = report.retries.into_iter().map(|retry| shift::RetriedCall {
        error: retry.error,
        attempt: retry.attempt,
        retry_in: retry.retry_in_ms,
        at: retry.at,
    });
    let tasks = report.tasks.into_iter().map(|task| shift::TaskReport {
        label: task.label,
        status: match task.status {
            TaskStatus::Ok => shift::TaskStatus::Ok,
            TaskStatus::Error => shift::TaskStatus::Error,
        },
        attempts: task.attempts,
        duration: task.duration_ms.map(Millis::from_ms),
        stdout: task.stdout,
        stderr: task.stderr,
    });
    let result = TaskResult {
        data: Data::Inline(report.result.clone().unwrap_or(Json::Null)),
        labels: report.labels,
        set: report.set,
        attempt: report.task_attempt,
        tasks: tasks.collect(),
        onward: report
            .onward
            .as_ref()
            .and_then(|onward| shift::Onward::from_json(onward.as_map()?)),
        frame: report.frame.map(frame_of),
    };
    let outcome = match report.status {
        ReportStatus::Completed => ReportOutcome::Completed(result),
        ReportStatus::Failed => ReportOutcome::Failed {
            error: report.error.unwrap_or_else(|| {
                TaskError::new(
                    TaskErrorKind::Unknown,
                    "the worker does not say why it failed",
                )
            }),
            result,
        },
        ReportStatus::Parked => ReportOutcome::Parked {
            started: report.result.unwrap_or(Json::Null),
        },
        ReportStatus::Progress => ReportOutcome::Running {
            progress: report.result,
        },
    };
    Report {
        command: report.command_id,
        attempt: report.attempt,
        worker: worker.clone(),
        lease_until: report.lease_until,
        claimed_at: report.claimed_at,
        started_at: report.started_at,
        retries: retries.collect(),
        retries_before: report.retries_before,
        outcome,
    }
}

fn frame_of(frame: FrameReport) -> shift::FrameReport {
    let errors = frame.errors.into_iter().map(|failed| shift::RowError {
        row: failed.row,
        error: failed.error,
    });
    shift::FrameReport {
        rows: frame.rows,
        done: frame.done,
        failed: frame.failed,
        bytes: frame.bytes,
        errors: errors.collect(),
    }
}

/// What became of a report, as its worker is told.
fn told(
    command_id: CommandId,
    answer: Result<Reply, RuntimeError>,
    commands: &mut Vec<LeasedCommand>,
) -> ReportResult {
    let result = |status, code| ReportResult {
        command_id,
        status,
        seq: None,
        code,
        detail: None,
    };
    match answer {
        Ok(reply) => {
            commands.extend(reply.leased);
            let (status, code) = match reply.verdict {
                None | Some(Verdict::Accepted | Verdict::Kept) => (ReportVerdict::Accepted, None),
                Some(Verdict::Duplicate) => (ReportVerdict::Duplicate, None),
                Some(Verdict::Ignored(code)) => (ReportVerdict::Ignored, Some(code)),
            };
            ReportResult {
                seq: Seq::new(reply.version.get()).ok(),
                ..result(status, code)
            }
        }
        Err(error) => {
            let problem = error.into_problem();
            ReportResult {
                detail: Some(problem.detail.clone()),
                ..result(ReportVerdict::Rejected, problem.known_code())
            }
        }
    }
}
