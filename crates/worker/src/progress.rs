//! What the server is told of a command while it is at work.
//!
//! A command that is soon over tells its end and nothing else. One that has been at work for a while,
//! or that waits for its next attempt, says so once, so that whoever looks at the run sees it. None of
//! this decides anything: a word that does not get through is said again, and in the end the report has
//! whatever the server is not known to have heard.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{
    CommandReport, LeasedCommand, ReportAnswer, ReportRequest, ReportStatus, ReportVerdict,
    RetriedTask,
};
use noetl_playbook::shift::RetriedCall;
use noetl_types::{ErrorCode, JsonMap, Millis, Timestamp};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::chance::{Backoff, retry_after};
use crate::held::Held;
use crate::secrets::Locker;
use crate::shop::{Shop, answered};

/// How long something lasts that people notice. What is shorter is not told before it is over.
const NOTICEABLE: Duration = Duration::from_secs(1);
/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Attempts that are kept until the server is known to have heard of them; of more the latest.
const MAX_UNTOLD: usize = 1000;

/// What a command tells while it is at work.
pub(crate) struct Progress<'w> {
    shop: &'w Shop,
    held: &'w Held,
    command: &'w LeasedCommand,
    started_at: Timestamp,
    untold: Mutex<Untold>,
    /// Told when there is something to say.
    news: Notify,
}

/// Attempts that were made again and that the server is not known to have heard of.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    retries: VecDeque<RetriedCall>,
    /// How many there were before them.
    before: u32,
}

/// What becomes of something that was said.
enum Fate {
    /// It was heard.
    Heard,
    /// It is said again, after what the server asks for.
    Again(Option<Millis>),
    /// Nobody wants to hear it.
    Unwanted,
}

impl<'w> Progress<'w> {
    pub(crate) fn new(
        shop: &'w Shop,
        held: &'w Held,
        command: &'w LeasedCommand,
        started_at: Timestamp,
    ) -> Self {
        Self {
            shop,
            held,
            command,
            started_at,
            untold: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// Notes attempts that are made again.
    pub(crate) fn note(&self, retries: Vec<RetriedCall>) {
        if !retries.is_empty() {
            self.untold().extend(retries);
        }
    }

    /// Notes attempts that are made again after a delay; one that people notice is told at once.
    pub(crate) fn waits(&self, retries: Vec<RetriedCall>, delay: Millis) {
        self.note(retries);
        if Duration::from(delay) >= NOTICEABLE {
            self.news.notify_one();
        }
    }

    /// What is left for the report.
    pub(crate) fn left(&self) -> Untold {
        std::mem::take(&mut *self.untold())
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        // Attempts are only ever added and counted, so what a panic leaves behind is whole.
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what people notice, until it is dropped with the end of the work. What was on its way
    /// then may have been heard or not: the report says it again.
    pub(crate) async fn tell(&self, locker: &Locker) -> Infallible {
        tokio::select! {
            () = sleep(NOTICEABLE) => {}
            () = self.news.notified() => {}
        }
        let mut trouble: Option<Backoff> = None;
        loop {
            match self.say(locker).await {
                Fate::Heard => {
                    trouble = None;
                    self.news.notified().await;
                }
                Fate::Again(wait) => {
                    let backoff = trouble.get_or_insert_with(Backoff::new);
                    sleep(backoff.delay(&self.shop.chance, wait)).await;
                }
                Fate::Unwanted => return pending().await,
            }
        }
    }

    async fn say(&self, locker: &Locker) -> Fate {
        // The semaphore is never closed; without a permit it is said all the same.
        let _turn = self.shop.saying.acquire().await.ok();
        let (retries, before) = self.untold().told();
        let heard = before.saturating_add(u32::try_from(retries.len()).unwrap_or(u32::MAX));
        let report = self.report(retries, before);
        let request = ReportRequest {
            worker_id: self.shop.settings.worker_id.clone(),
            reports: vec![report.hiding(&locker.hidden.known())],
            lease: None,
        };
        let fate = match answered(ANSWER, self.shop.api.report(request)).await {
            Ok(answer) => after_answer(&answer),
            Err(error) => after_error(&error),
        };
        match fate {
            Fate::Heard => self.untold().heard(heard),
            Fate::Again(_) | Fate::Unwanted => tracing::debug!(
                execution_id = %self.held.execution_id,
                command_id = %self.held.command_id,
                attempt = self.held.attempt,
                "the server did not hear how far a command is"
            ),
        }
        fate
    }

    fn report(&self, retries: Vec<RetriedTask>, retries_before: u32) -> CommandReport {
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

impl Untold {
    fn extend(&mut self, retries: Vec<RetriedCall>) {
        self.retries.extend(retries);
        let over = self.retries.len().saturating_sub(MAX_UNTOLD);
        self.forget(over);
    }

    /// Those of them that are told, and how many there were before.
    fn told(&self) -> (Vec<RetriedTask>, u32) {
        let retries = self.retries.iter().cloned().map(retried).collect();
        (retries, self.before)
    }

    /// So many were heard of in all. Some of them may be forgotten already.
    fn heard(&mut self, all: u32) {
        let heard = all.saturating_sub(self.before);
        self.forget(usize::try_from(heard).unwrap_or(usize::MAX));
    }

    fn forget(&mut self, count: usize) {
        let count = count.min(self.retries.len());
        self.retries.drain(..count);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.before = self.before.saturating_add(count);
    }

    /// With those of the end, for the report.
    pub(crate) fn with(mut self, last: Vec<RetriedCall>) -> (Vec<RetriedTask>, u32) {
        self.extend(last);
        (self.retries.into_iter().map(retried).collect(), self.before)
    }
}

fn retried(retry: RetriedCall) -> RetriedTask {
    RetriedTask {
        error: retry.error,
        attempt: retry.attempt,
        retry_in_ms: retry.retry_in,
        at: retry.at,
    }
}

fn after_answer(answer: &ReportAnswer) -> Fate {
    let Some(result) = answer.results.first() else {
        return Fate::Unwanted;
    };
    match (result.status, result.code) {
        (ReportVerdict::Accepted, _) => Fate::Heard,
        (ReportVerdict::Rejected, Some(code)) if may_pass(code) => Fate::Again(None),
        // Its command is closed or somebody else's.
        (ReportVerdict::Duplicate | ReportVerdict::Ignored | ReportVerdict::Rejected, _) => {
            Fate::Unwanted
        }
    }
}

fn after_error(error: &ApiError) -> Fate {
    match error {
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => Fate::Again(None),
        ApiError::Refused { .. } if error.is_retryable() || error.code().is_some_and(may_pass) => {
            Fate::Again(retry_after(error))
        }
        ApiError::Refused { .. } => Fate::Unwanted,
    }
}

/// Whether a refusal may pass by itself. Tokens are renewed while the worker runs.
fn may_pass(code: ErrorCode) -> bool {
    code.is_retryable() || matches!(code, ErrorCode::Unauthenticated | ErrorCode::TokenExpired)
}
