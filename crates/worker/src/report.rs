//! Delivery of results to the server.
//!
//! A finished report is sent at once, or together with others that arrived while all calls were in
//! progress. Nothing waits for a batch to fill. The response to a report contains the next commands
//! for the permits that it freed.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{
    CommandReport, ReportDisposition, ReportRequest, ReportResponse, ReportResult, ReportStatus,
};
use noetl_api::output::CommandOutput;
use noetl_playbook::bounds::size_within;
use noetl_types::limits::MAX_REPORT_BATCH;
use noetl_types::{ErrorCode, JsonMap, TaskError, TaskErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::context::{WorkerContext, call_with_timeout};
use crate::leases::{ActiveLease, GrantTime};

/// Maximum number of concurrent calls, so that a slow one does not delay the others.
const MAX_REPORT_CALLS: usize = 4;
/// Maximum bytes of data per call. A larger report is sent alone.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Timeout of a report of any size. Longer than the HTTP limit for the largest report.
const REPORT_TIMEOUT: Duration = Duration::from_mins(5);
/// Retries of a report whose response cannot be parsed.
const MAX_UNPARSEABLE_RESPONSES: u32 = 3;

/// A report to deliver, with the permit of its command.
pub(crate) struct OutgoingReport {
    report: CommandReport,
    /// Rest of the output, if some was sent before.
    output: Option<CommandOutput>,
    lease: Arc<ActiveLease>,
    permit: OwnedSemaphorePermit,
    bytes: usize,
    /// Number of responses that could not be parsed.
    unparseable_responses: u32,
    /// True if it replaces a report that the server rejected.
    is_replacement: bool,
}

impl OutgoingReport {
    pub(crate) fn new(
        report: CommandReport,
        output: Option<CommandOutput>,
        lease: Arc<ActiveLease>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let mut bytes = report
            .result
            .as_ref()
            .map_or(0, |data| size_within(data, MAX_BATCH_BYTES).unwrap_or(MAX_BATCH_BYTES));
        for chunk in output.iter().flat_map(|output| &output.chunks) {
            bytes = bytes.saturating_add(chunk.stdout.len()).saturating_add(chunk.stderr.len());
        }
        Self {
            report,
            output,
            lease,
            permit,
            bytes,
            unparseable_responses: 0,
            is_replacement: false,
        }
    }

    /// Replaces the result by an error that explains why there is no result.
    fn replace_with_error(&mut self, kind: TaskErrorKind, reason: &str) {
        let message = format!("the server rejected the result: {reason}");
        self.report = CommandReport {
            status: ReportStatus::Failed,
            result: None,
            labels: None,
            onward: None,
            frame: None,
            set: JsonMap::new(),
            error: Some(TaskError::new(kind, message)),
            ..self.report.clone()
        };
        self.bytes = 0;
        self.is_replacement = true;
    }
}

/// Result of a delivery attempt.
enum ReportDelivery {
    /// The report is done, accepted or not.
    Done,
    /// The report is sent again.
    Retry,
}

/// Sends reports until the worker ends.
pub(crate) async fn report_loop(
    context: Arc<WorkerContext>,
    mut reports: mpsc::UnboundedReceiver<OutgoingReport>,
) {
    let shutdown = context.shutdown.clone();
    let calls = Arc::new(Semaphore::new(MAX_REPORT_CALLS));
    let send = async {
        let mut deferred: Option<OutgoingReport> = None;
        loop {
            let first = match deferred.take() {
                Some(first) => first,
                None => match reports.recv().await {
                    Some(first) => first,
                    None => return,
                },
            };
            let Ok(call) = Arc::clone(&calls).acquire_owned().await else {
                return;
            };
            let mut bytes = first.bytes;
            let mut batch = vec![first];
            while batch.len() < MAX_REPORT_BATCH
                && let Ok(next) = reports.try_recv()
            {
                bytes = bytes.saturating_add(next.bytes);
                if bytes > MAX_BATCH_BYTES {
                    deferred = Some(next);
                    break;
                }
                batch.push(next);
            }
            let context = Arc::clone(&context);
            tokio::spawn(async move {
                deliver_batch(&context, batch).await;
                drop(call);
            });
        }
    };
    let _ = shutdown.run_until_cancelled(send).await;
}

/// Sends a batch until every report is done, given up or no longer needed.
async fn deliver_batch(context: &Arc<WorkerContext>, mut batch: Vec<OutgoingReport>) {
    let mut backoff = Backoff::new();
    loop {
        batch.retain(|outgoing| is_still_needed(context, outgoing));
        if batch.is_empty() {
            return;
        }
        let mut retry_delay = None;
        let sent = GrantTime::new(context.now());
        match call_with_timeout(
            REPORT_TIMEOUT,
            context.api.report_commands(report_request(context, &batch)),
        )
        .await
        {
            Ok(response) => batch = process_response(context, batch, response, sent),
            Err(error) if batch.len() > 1 && is_content_error(&error) => {
                // One of the reports is the cause, so each is sent alone.
                for outgoing in batch {
                    Box::pin(deliver_batch(context, vec![outgoing])).await;
                }
                return;
            }
            Err(error) => {
                retry_delay = error.retry_after();
                let retried = batch.into_iter().filter_map(|mut outgoing| {
                    match handle_error(&mut outgoing, &error) {
                        ReportDelivery::Retry => Some(outgoing),
                        ReportDelivery::Done => drop_report(context, &outgoing, &error.to_string()),
                    }
                });
                batch = retried.collect();
            }
        }
        if batch.is_empty() {
            return;
        }
        if backoff.elapsed() >= Duration::from(context.settings.report_retry_duration) {
            for outgoing in &batch {
                drop_report(context, outgoing, "the server was unreachable for too long");
            }
            return;
        }
        let delay = sleep(backoff.next_delay(retry_delay));
        let _ = context.shutdown.run_until_cancelled(delay).await;
    }
}

fn report_request(context: &WorkerContext, batch: &[OutgoingReport]) -> ReportRequest {
    ReportRequest {
        worker_id: context.settings.worker_id.clone(),
        reports: batch.iter().map(|outgoing| outgoing.report.clone()).collect(),
        outputs: batch.iter().filter_map(|outgoing| outgoing.output.clone()).collect(),
        lease: (!context.draining.is_cancelled()).then(|| context.next_lease(batch.len())),
    }
}

/// Returns true if the report is still needed. Lost work is not reported.
fn is_still_needed(context: &WorkerContext, outgoing: &OutgoingReport) -> bool {
    let is_needed = !outgoing.lease.cancel.is_cancelled();
    if !is_needed {
        context.leases.release_lease(&outgoing.lease);
    }
    is_needed
}

/// Drops a report. The command is offered again when its lease ends.
fn drop_report(
    context: &WorkerContext,
    outgoing: &OutgoingReport,
    reason: &str,
) -> Option<OutgoingReport> {
    tracing::error!(
        execution_id = %outgoing.lease.execution_id,
        command_id = %outgoing.lease.command_id,
        attempt = outgoing.lease.attempt,
        "result dropped: {reason}"
    );
    context.metrics.count_dropped();
    context.leases.release_lease(&outgoing.lease);
    None
}

/// Processes a response: releases finished leases, starts the next commands with their permits, and
/// returns the reports to send again.
fn process_response(
    context: &Arc<WorkerContext>,
    batch: Vec<OutgoingReport>,
    response: ReportResponse,
    granted: GrantTime,
) -> Vec<OutgoingReport> {
    let ReportResponse { results, commands } = response;
    let mut retried = Vec::new();
    let mut permits: Option<OwnedSemaphorePermit> = None;
    for (index, mut outgoing) in batch.into_iter().enumerate() {
        let command = outgoing.report.command_id;
        // Results normally have the order of the reports. Otherwise they are searched for.
        let in_order = results.get(index).filter(|result| result.command_id == command);
        let result =
            in_order.or_else(|| results.iter().find(|result| result.command_id == command));
        match handle_result(&mut outgoing, result) {
            ReportDelivery::Retry => retried.push(outgoing),
            ReportDelivery::Done => {
                context.leases.release_lease(&outgoing.lease);
                match &mut permits {
                    Some(permits) => permits.merge(outgoing.permit),
                    None => permits = Some(outgoing.permit),
                }
            }
        }
    }
    context.start_commands(commands, permits, granted);
    retried
}

fn handle_result(outgoing: &mut OutgoingReport, result: Option<&ReportResult>) -> ReportDelivery {
    let Some(result) = result else {
        return count_unparseable(outgoing);
    };
    let lease = &outgoing.lease;
    match result.status {
        ReportDisposition::Accepted => {
            tracing::debug!(
                execution_id = %lease.execution_id,
                command_id = %lease.command_id,
                attempt = lease.attempt,
                "reported"
            );
            ReportDelivery::Done
        }
        ReportDisposition::Duplicate | ReportDisposition::Ignored => {
            tracing::info!(
                execution_id = %lease.execution_id,
                command_id = %lease.command_id,
                attempt = lease.attempt,
                code = result.code.map(ErrorCode::as_str),
                "report ignored: the command is already finished or leased by another worker"
            );
            ReportDelivery::Done
        }
        ReportDisposition::Rejected => {
            let reason = result.detail.as_deref().unwrap_or("no reason given");
            handle_rejection(outgoing, result.code, reason)
        }
    }
}

fn handle_error(outgoing: &mut OutgoingReport, error: &ApiError) -> ReportDelivery {
    match error {
        ApiError::Unreachable(_) => ReportDelivery::Retry,
        ApiError::Unreadable(_) => count_unparseable(outgoing),
        ApiError::Refused { .. } if error.is_retryable() => ReportDelivery::Retry,
        ApiError::Refused { problem, .. } => {
            handle_rejection(outgoing, error.code(), &problem.detail)
        }
    }
}

/// Handles a response without a result for the report. The report may have taken effect, so it is
/// sent again.
fn count_unparseable(outgoing: &mut OutgoingReport) -> ReportDelivery {
    outgoing.unparseable_responses += 1;
    if outgoing.unparseable_responses < MAX_UNPARSEABLE_RESPONSES {
        ReportDelivery::Retry
    } else {
        ReportDelivery::Done
    }
}

/// Returns true if the server rejects the content of the reports.
fn is_content_error(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => false,
        ApiError::Refused { .. } => !error.is_retryable() && is_content_code(error.code()),
    }
}

fn is_content_code(code: Option<ErrorCode>) -> bool {
    !matches!(
        code,
        Some(
            ErrorCode::Unauthenticated
                | ErrorCode::TokenExpired
                | ErrorCode::Forbidden
                | ErrorCode::NotLeaseHolder
                | ErrorCode::NotFound
                | ErrorCode::StaleAttempt
                | ErrorCode::AlreadyTerminal
        )
    )
}

/// Handles a rejected report. If its content is the cause, an error is reported instead, so that
/// the command is not retried with the same outcome.
fn handle_rejection(
    outgoing: &mut OutgoingReport,
    code: Option<ErrorCode>,
    reason: &str,
) -> ReportDelivery {
    let lease = &outgoing.lease;
    tracing::warn!(
        execution_id = %lease.execution_id,
        command_id = %lease.command_id,
        attempt = lease.attempt,
        code = code.map(ErrorCode::as_str),
        "the server rejected a result: {reason}"
    );
    match code {
        Some(code) if code.is_retryable() => ReportDelivery::Retry,
        // Tokens are renewed while the worker runs.
        Some(ErrorCode::Unauthenticated | ErrorCode::TokenExpired) => ReportDelivery::Retry,
        code if !is_content_code(code) || outgoing.is_replacement => ReportDelivery::Done,
        // The output may be the cause, and a result counts more.
        _ if outgoing.output.take().is_some() => ReportDelivery::Retry,
        Some(ErrorCode::TooLarge) => {
            outgoing.replace_with_error(TaskErrorKind::Limit, reason);
            ReportDelivery::Retry
        }
        Some(_) | None => {
            outgoing.replace_with_error(TaskErrorKind::Unknown, reason);
            ReportDelivery::Retry
        }
    }
}
