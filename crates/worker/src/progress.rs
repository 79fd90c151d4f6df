//! Progress reports of running commands.
//!
//! A short command sends only its final report. A command that has been running for a while, or
//! that waits for its next attempt, reports it once, so that it is visible in the execution.
//! Progress decides nothing: a report that fails is sent again, and the final report contains
//! everything that the server has not acknowledged.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{
    CommandReport, LeasedCommand, ReportDisposition, ReportRequest, ReportResponse, ReportStatus,
    RetriedTask,
};
use noetl_types::{ErrorCode, JsonMap, Millis, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::context::{WorkerContext, call_with_timeout};
use crate::leases::ActiveLease;
use crate::secrets::SecretResolver;

/// Minimum duration of a command or a wait before it is reported. Shorter ones are only in the
/// final report.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);
/// Timeout of a progress report.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of unacknowledged attempts. If there are more, only the latest are kept.
const MAX_UNACKNOWLEDGED_RETRIES: usize = 1000;

/// Sends the progress of a command.
pub(crate) struct ProgressReporter<'w> {
    context: &'w WorkerContext,
    lease: &'w ActiveLease,
    command: &'w LeasedCommand,
    started_at: Timestamp,
    unacknowledged: Mutex<UnacknowledgedRetries>,
    /// Notified when there is something to report.
    wakeup: Notify,
}

/// Retried attempts that the server has not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct UnacknowledgedRetries {
    retries: VecDeque<RetriedTask>,
    /// Number of attempts before them.
    acknowledged: u32,
}

/// Result of sending a progress report.
enum ProgressDelivery {
    /// The server accepted it.
    Accepted,
    /// It is sent again, after the delay that the server requests.
    Retry(Option<Millis>),
    /// The server does not accept it.
    Rejected,
}

impl<'w> ProgressReporter<'w> {
    pub(crate) fn new(
        context: &'w WorkerContext,
        lease: &'w ActiveLease,
        command: &'w LeasedCommand,
        started_at: Timestamp,
    ) -> Self {
        Self {
            context,
            lease,
            command,
            started_at,
            unacknowledged: Mutex::default(),
            wakeup: Notify::new(),
        }
    }

    /// Records retried attempts.
    pub(crate) fn record_retries(&self, retries: Vec<RetriedTask>) {
        if !retries.is_empty() {
            self.unacknowledged.lock().add_retries(retries);
        }
    }

    /// Records attempts that are retried after a delay. A long delay is reported at once.
    pub(crate) fn record_wait(&self, retries: Vec<RetriedTask>, delay: Millis) {
        self.record_retries(retries);
        if Duration::from(delay) >= PROGRESS_DELAY {
            self.wakeup.notify_one();
        }
    }

    /// Takes the unacknowledged attempts for the final report.
    pub(crate) fn take_unacknowledged(&self) -> UnacknowledgedRetries {
        std::mem::take(&mut *self.unacknowledged.lock())
    }

    /// Sends progress reports until it is dropped at the end of the command. A report that was in
    /// flight then may have been received or not, so the final report repeats it.
    pub(crate) async fn progress_loop(&self, secrets: &SecretResolver) -> Infallible {
        tokio::select! {
            () = sleep(PROGRESS_DELAY) => {}
            () = self.wakeup.notified() => {}
        }
        let mut backoff: Option<Backoff> = None;
        loop {
            match self.send_progress(secrets).await {
                ProgressDelivery::Accepted => {
                    backoff = None;
                    self.wakeup.notified().await;
                }
                ProgressDelivery::Retry(delay) => {
                    let backoff = backoff.get_or_insert_with(Backoff::new);
                    sleep(backoff.next_delay(delay)).await;
                }
                ProgressDelivery::Rejected => return pending().await,
            }
        }
    }

    async fn send_progress(&self, secrets: &SecretResolver) -> ProgressDelivery {
        // The semaphore is never closed. Without a permit the report is sent anyway.
        let _permit = self.context.progress_permits.acquire().await.ok();
        let (retries, before) = self.unacknowledged.lock().to_retried_tasks();
        let total = before.saturating_add(u32::try_from(retries.len()).unwrap_or(u32::MAX));
        let report = self.progress_report(retries, before);
        let request = ReportRequest {
            worker_id: self.context.settings.worker_id.clone(),
            reports: vec![report.redact_secrets(&secrets.secret_set.current_secrets())],
            lease: None,
            outputs: Vec::new(),
        };
        let delivery =
            match call_with_timeout(PROGRESS_TIMEOUT, self.context.api.report_commands(request))
                .await
            {
                Ok(response) => classify_response(&response),
                Err(error) => classify_error(&error),
            };
        match delivery {
            ProgressDelivery::Accepted => self.unacknowledged.lock().acknowledge(total),
            ProgressDelivery::Retry(_) | ProgressDelivery::Rejected => tracing::debug!(
                execution_id = %self.lease.execution_id,
                command_id = %self.lease.command_id,
                attempt = self.lease.attempt,
                "progress report was not accepted"
            ),
        }
        delivery
    }

    fn progress_report(&self, retries: Vec<RetriedTask>, retries_before: u32) -> CommandReport {
        let command = self.command;
        CommandReport {
            execution_id: command.execution_id,
            command_id: command.command_id,
            attempt: command.attempt,
            lease_token: command.lease_token,
            status: ReportStatus::Progress,
            result: None,
            labels: None,
            onward: None,
            set: JsonMap::new(),
            error: None,
            tasks: Vec::new(),
            frame: None,
            task_attempt: 1,
            retries,
            retries_before,
            claimed_at: Some(command.claimed_at),
            lease_until: Some(command.lease_until),
            started_at: Some(self.started_at),
            finished_at: None,
        }
    }
}

impl UnacknowledgedRetries {
    fn add_retries(&mut self, retries: Vec<RetriedTask>) {
        self.retries.extend(retries);
        let excess = self.retries.len().saturating_sub(MAX_UNACKNOWLEDGED_RETRIES);
        self.drop_oldest(excess);
    }

    /// The attempts to report, and the number of attempts before them.
    fn to_retried_tasks(&self) -> (Vec<RetriedTask>, u32) {
        let retries = self.retries.iter().cloned().collect();
        (retries, self.acknowledged)
    }

    /// Removes acknowledged attempts, given their total number. Some of them may already be
    /// dropped.
    fn acknowledge(&mut self, total: u32) {
        let acknowledged = total.saturating_sub(self.acknowledged);
        self.drop_oldest(usize::try_from(acknowledged).unwrap_or(usize::MAX));
    }

    fn drop_oldest(&mut self, count: usize) {
        let count = count.min(self.retries.len());
        self.retries.drain(..count);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.acknowledged = self.acknowledged.saturating_add(count);
    }

    /// Adds the last attempts and converts all for the final report.
    pub(crate) fn into_final_retries(mut self, last: Vec<RetriedTask>) -> (Vec<RetriedTask>, u32) {
        self.add_retries(last);
        (self.retries.into(), self.acknowledged)
    }
}

fn classify_response(response: &ReportResponse) -> ProgressDelivery {
    let Some(result) = response.results.first() else {
        return ProgressDelivery::Rejected;
    };
    match (result.status, result.code) {
        (ReportDisposition::Accepted, _) => ProgressDelivery::Accepted,
        (ReportDisposition::Rejected, Some(code)) if is_temporary_code(code) => {
            ProgressDelivery::Retry(None)
        }
        // The command is finished, or leased by another worker.
        (
            ReportDisposition::Duplicate | ReportDisposition::Ignored | ReportDisposition::Rejected,
            _,
        ) => ProgressDelivery::Rejected,
    }
}

fn classify_error(error: &ApiError) -> ProgressDelivery {
    match error {
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => ProgressDelivery::Retry(None),
        ApiError::Refused { .. }
            if error.is_retryable() || error.code().is_some_and(is_temporary_code) =>
        {
            ProgressDelivery::Retry(error.retry_after())
        }
        ApiError::Refused { .. } => ProgressDelivery::Rejected,
    }
}

/// Returns true if the error may be temporary. Tokens are renewed while the worker runs.
fn is_temporary_code(code: ErrorCode) -> bool {
    code.is_retryable() || matches!(code, ErrorCode::Unauthenticated | ErrorCode::TokenExpired)
}
