//! The way of results back to the server.
//!
//! What is finished goes out at once, or together with what has piled up while calls were under way:
//! nothing waits for a batch to fill. The answer to a report brings the next work for the slots that
//! it freed.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{
    CommandReport, ReportAnswer, ReportRequest, ReportResult, ReportStatus, ReportVerdict,
};
use noetl_playbook::bounds::size_within;
use noetl_types::limits::MAX_REPORT_BATCH;
use noetl_types::{ErrorCode, JsonMap, TaskError, TaskErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;

use crate::chance::{Backoff, retry_after};
use crate::held::Held;
use crate::shop::{Shop, answered};

/// Calls under way at once, so that a slow one does not hold up the others.
const CALLS: usize = 4;
/// Bytes of data in one call. What is larger by itself goes alone.
const MAX_BYTES: usize = 4 << 20;
/// Time for the answer to a report, whatever its size: more than the way over HTTP gives the largest.
const ANSWER: Duration = Duration::from_mins(5);
/// How often a report is sent whose answers cannot be understood.
const MAX_RIDDLES: u32 = 3;

/// A report on its way, with the slot of its command.
pub(crate) struct Outgoing {
    report: CommandReport,
    held: Arc<Held>,
    slot: OwnedSemaphorePermit,
    bytes: usize,
    /// How often the answer could not be understood.
    riddles: u32,
    /// Whether it stands in for a report that the server refused.
    is_substitute: bool,
}

impl Outgoing {
    pub(crate) fn new(report: CommandReport, held: Arc<Held>, slot: OwnedSemaphorePermit) -> Self {
        let bytes = report
            .result
            .as_ref()
            .map_or(0, |data| size_within(data, MAX_BYTES).unwrap_or(MAX_BYTES));
        Self {
            report,
            held,
            slot,
            bytes,
            riddles: 0,
            is_substitute: false,
        }
    }

    /// Tells the server, in place of the result, why there is none.
    fn substitute(&mut self, kind: TaskErrorKind, why: &str) {
        let message = format!("the server did not take the result: {why}");
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
        self.is_substitute = true;
    }
}

/// What becomes of a report after an answer.
enum Fate {
    /// It is settled, one way or the other.
    Settled,
    /// It is sent again.
    Again,
}

/// Sends what is finished until the worker ends.
pub(crate) async fn send_reports(shop: Arc<Shop>, mut reports: mpsc::UnboundedReceiver<Outgoing>) {
    let ending = shop.ending.clone();
    let calls = Arc::new(Semaphore::new(CALLS));
    let send = async {
        let mut over: Option<Outgoing> = None;
        loop {
            let first = match over.take() {
                Some(over) => over,
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
                if bytes > MAX_BYTES {
                    over = Some(next);
                    break;
                }
                batch.push(next);
            }
            let shop = Arc::clone(&shop);
            tokio::spawn(async move {
                deliver(&shop, batch).await;
                drop(call);
            });
        }
    };
    let _ = ending.run_until_cancelled(send).await;
}

/// Sends a batch until all of it is settled, given up or not wanted any more.
async fn deliver(shop: &Arc<Shop>, mut batch: Vec<Outgoing>) {
    let mut backoff = Backoff::new();
    loop {
        batch.retain(|outgoing| is_wanted(shop, outgoing));
        if batch.is_empty() {
            return;
        }
        let mut wait = None;
        match answered(ANSWER, shop.api.report(request(shop, &batch))).await {
            Ok(answer) => batch = settle(shop, batch, answer),
            Err(error) if batch.len() > 1 && is_about_content(&error) => {
                // One of them is to blame, so each goes by itself.
                for one in batch {
                    Box::pin(deliver(shop, vec![one])).await;
                }
                return;
            }
            Err(error) => {
                wait = retry_after(&error);
                let refused = batch.into_iter().filter_map(|mut outgoing| {
                    match after_error(&mut outgoing, &error) {
                        Fate::Again => Some(outgoing),
                        Fate::Settled => give_up(shop, &outgoing, &error.to_string()),
                    }
                });
                batch = refused.collect();
            }
        }
        if batch.is_empty() {
            return;
        }
        if backoff.lasted() >= Duration::from(shop.settings.report_patience) {
            for outgoing in &batch {
                give_up(shop, outgoing, "the server was away for too long");
            }
            return;
        }
        let delay = sleep(backoff.delay(&shop.chance, wait));
        let _ = shop.ending.run_until_cancelled(delay).await;
    }
}

fn request(shop: &Shop, batch: &[Outgoing]) -> ReportRequest {
    ReportRequest {
        worker_id: shop.settings.worker_id.clone(),
        reports: batch
            .iter()
            .map(|outgoing| outgoing.report.clone())
            .collect(),
        lease: (!shop.leaving.is_cancelled()).then(|| shop.next_lease(batch.len())),
    }
}

/// Whether anybody waits for the report. What is lost is not reported.
fn is_wanted(shop: &Shop, outgoing: &Outgoing) -> bool {
    let is_wanted = !outgoing.held.cancel.is_cancelled();
    if !is_wanted {
        shop.holdings.release(&outgoing.held);
    }
    is_wanted
}

/// Drops a report: the command is offered again when its lease ends.
fn give_up(shop: &Shop, outgoing: &Outgoing, why: &str) -> Option<Outgoing> {
    tracing::error!(
        execution_id = %outgoing.held.execution_id,
        command_id = %outgoing.held.command_id,
        attempt = outgoing.held.attempt,
        "a result is dropped: {why}"
    );
    shop.metrics.dropped();
    shop.holdings.release(&outgoing.held);
    None
}

/// Takes an answer: releases what is settled, begins the next work in the slots of that, and gives
/// back what is to be sent again.
fn settle(shop: &Arc<Shop>, batch: Vec<Outgoing>, answer: ReportAnswer) -> Vec<Outgoing> {
    let ReportAnswer { results, commands } = answer;
    let mut again = Vec::new();
    let mut slots: Option<OwnedSemaphorePermit> = None;
    for (at, mut outgoing) in batch.into_iter().enumerate() {
        let command = outgoing.report.command_id;
        // Answers come in the order of the reports; one that does not is looked for.
        let in_order = results
            .get(at)
            .filter(|result| result.command_id == command);
        let result =
            in_order.or_else(|| results.iter().find(|result| result.command_id == command));
        match after_answer(&mut outgoing, result) {
            Fate::Again => again.push(outgoing),
            Fate::Settled => {
                shop.holdings.release(&outgoing.held);
                match &mut slots {
                    Some(slots) => slots.merge(outgoing.slot),
                    None => slots = Some(outgoing.slot),
                }
            }
        }
    }
    shop.begin(commands, slots);
    again
}

fn after_answer(outgoing: &mut Outgoing, result: Option<&ReportResult>) -> Fate {
    let Some(result) = result else {
        return riddle(outgoing);
    };
    let held = &outgoing.held;
    match result.status {
        ReportVerdict::Accepted => {
            tracing::debug!(
                execution_id = %held.execution_id,
                command_id = %held.command_id,
                attempt = held.attempt,
                "reported"
            );
            Fate::Settled
        }
        ReportVerdict::Duplicate | ReportVerdict::Ignored => {
            tracing::info!(
                execution_id = %held.execution_id,
                command_id = %held.command_id,
                attempt = held.attempt,
                code = result.code.map(ErrorCode::as_str),
                "the server has an answer already, or somebody else has the command"
            );
            Fate::Settled
        }
        ReportVerdict::Rejected => {
            let why = result.detail.as_deref().unwrap_or("no reason given");
            rejected(outgoing, result.code, why)
        }
    }
}

fn after_error(outgoing: &mut Outgoing, error: &ApiError) -> Fate {
    match error {
        ApiError::Unreachable(_) => Fate::Again,
        ApiError::Unreadable(_) => riddle(outgoing),
        ApiError::Refused { .. } if error.is_retryable() => Fate::Again,
        ApiError::Refused { problem, .. } => rejected(outgoing, error.code(), &problem.detail),
    }
}

/// An answer that says nothing of the report: it may have taken effect, so it is sent again.
fn riddle(outgoing: &mut Outgoing) -> Fate {
    outgoing.riddles += 1;
    if outgoing.riddles < MAX_RIDDLES {
        Fate::Again
    } else {
        Fate::Settled
    }
}

/// Whether it is the content of the reports that the server does not take.
fn is_about_content(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => false,
        ApiError::Refused { .. } => !error.is_retryable() && is_content(error.code()),
    }
}

fn is_content(code: Option<ErrorCode>) -> bool {
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

/// What becomes of a report that the server does not take: where its content is to blame, the run
/// learns at least that, instead of trying the command again to the same end.
fn rejected(outgoing: &mut Outgoing, code: Option<ErrorCode>, why: &str) -> Fate {
    let held = &outgoing.held;
    tracing::warn!(
        execution_id = %held.execution_id,
        command_id = %held.command_id,
        attempt = held.attempt,
        code = code.map(ErrorCode::as_str),
        "the server did not take a result: {why}"
    );
    match code {
        Some(code) if code.is_retryable() => Fate::Again,
        // Tokens are renewed while the worker runs.
        Some(ErrorCode::Unauthenticated | ErrorCode::TokenExpired) => Fate::Again,
        code if !is_content(code) || outgoing.is_substitute => Fate::Settled,
        Some(ErrorCode::TooLarge) => {
            outgoing.substitute(TaskErrorKind::Limit, why);
            Fate::Again
        }
        Some(_) | None => {
            outgoing.substitute(TaskErrorKind::Unknown, why);
            Fate::Again
        }
    }
}
