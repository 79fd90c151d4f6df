//! What happens without being asked for: leases run out, timers come due, ids stay usable.
//!
//! Every server does this, and none relies on another doing it. Two that see the same lease run out
//! both say so; the log takes it once. So a restart has nothing to recover: whatever was open is
//! found in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_engine::event::ExpiryReason;
use noetl_engine::{Input, LeaseExpired};
use noetl_store::{Command, Fence, Holder, Swept};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Text, Timestamp};
use tokio::sync::mpsc;

use super::driver::{Letter, timer_of};
use super::error::{RuntimeError, causes};
use super::messaging::{HEARD, Notice};
use super::{Core, ids};

/// How often what was kept for a while is looked through.
const TIDY: Duration = Duration::from_mins(1);

/// Pages of published rows that are forgotten at once, so that the purge keeps up with 50,000 events a
/// second, and leaves room for others between two pages.
const TIDY_ROUNDS: u32 = 6000;

/// How much longer than promised things are kept.
const SLACK_MS: i64 = 60_000;

impl Core {
    /// Starts what happens without being asked for.
    pub(super) fn work_in_background(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.renew_ids().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.sweep_for_ever().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.ring_for_ever().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.tidy_for_ever().await });
        let core = Arc::clone(self);
        self.tasks
            .spawn(async move { core.look_after_store().await });
        if self.traces.is_on() {
            let core = Arc::clone(self);
            self.tasks.spawn(async move { core.trace_for_ever().await });
        }
    }

    /// Starts what tells others, and what hears them.
    pub(super) fn work_with_others(self: &Arc<Self>, notices: mpsc::Receiver<Notice>) {
        let core = Arc::clone(self);
        self.tasks
            .spawn(async move { core.notify_for_ever(notices).await });
        let core = Arc::clone(self);
        self.tasks
            .spawn(async move { core.repeat_for_ever().await });
        for subjects in HEARD {
            let core = Arc::clone(self);
            self.tasks
                .spawn(async move { core.hear_for_ever(subjects).await });
        }
        if self
            .messaging
            .as_ref()
            .is_some_and(|messaging| messaging.streaming.is_some())
        {
            let core = Arc::clone(self);
            self.tasks
                .spawn(async move { core.stream_for_ever().await });
        }
    }

    /// Forgets what was kept for a while.
    async fn tidy_for_ever(self: Arc<Self>) {
        while self.pause(TIDY).await {
            self.sum_up_refusals(false).await;
            // Whoever is late by the difference of two clocks still finds what was promised.
            let now = self.clock.now().as_unix_ms() - SLACK_MS;
            let Ok(now) = Timestamp::from_unix_ms(now) else {
                continue;
            };
            for what in Swept::ALL {
                if let Err(error) = self.store.sweep(*what, now, PageLimit::MAX).await {
                    tracing::warn!(error = %causes(&error), ?what, "old rows stay");
                }
            }
            self.tidy_outbox().await;
        }
    }

    /// Forgets rows of the outbox that were published long enough ago, a few at a time.
    async fn tidy_outbox(&self) {
        let before = self.clock.now().saturating_sub(self.settings.outbox_keep);
        for _ in 0..TIDY_ROUNDS {
            match self.store.purge_outbox(before, PageLimit::MAX).await {
                Ok(count) => {
                    self.metrics.platform().purged("outbox", count);
                    if count < u64::from(PageLimit::MAX.get()) {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %causes(&error), "published rows stay");
                    return;
                }
            }
        }
    }

    /// Waits for a time; whether to go on afterwards.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            // In this order always, so that the same seed leads to the same run.
            biased;
            () = tokio::time::sleep(time) => true,
            () = self.shutdown.cancelled() => false,
        }
    }

    async fn renew_ids(self: Arc<Self>) {
        let every = Duration::from_millis(ids::RENEW_EVERY.as_ms());
        while self.pause(every).await {
            if let Err(refused) = self.ids.renew(self.clock.now()).await {
                tracing::error!(error = %causes(&refused), "the machine id was not renewed");
            }
        }
    }

    async fn sweep_for_ever(self: Arc<Self>) {
        let every = Duration::from_millis(self.settings.sweep.as_ms());
        while self.pause(every).await {
            // The sweep sends workers away that may be asleep, and reaches those who wait: whoever
            // is looking at that moment would be missed. So they look afterwards.
            if let Err(error) = self.sweep().await {
                tracing::warn!(error = %causes(&error), "a sweep did not work out");
            }
            // What is not due yet, or was left by another server, is found by looking.
            self.desk.look_again();
        }
    }

    /// Takes back what workers have lost, and fires what is due.
    pub(super) async fn sweep(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let now = self.clock.now();
        loop {
            let expired = self.store.expired(now, PageLimit::MAX).await?;
            let is_last = expired.len() < usize::try_from(PageLimit::MAX.get()).unwrap_or(1);
            let mut is_moving = false;
            for command in expired {
                is_moving |= self.expire(command, now).await;
            }
            if is_last || !is_moving {
                break;
            }
        }
        for timer in self.store.due(now, PageLimit::MAX).await? {
            self.fire(timer.execution_id, &timer.timer_id).await;
        }
        self.sweep_errands().await
    }

    /// Takes a command back from a worker whose lease ran out; whether that moved anything.
    async fn expire(self: &Arc<Self>, command: Command, now: Timestamp) -> bool {
        let deadline_at = command.deadline_at();
        let (Some(worker), Some(lease)) = (command.worker, command.lease) else {
            return false;
        };
        // A worker that let a lease run out may be asleep with a long poll open: it gets no more
        // work until it asks again.
        self.desk.dismiss(&worker);
        let is_out_of_time = deadline_at.is_some_and(|deadline| deadline <= now);
        let (letter, answer) = Letter::new(Input::LeaseExpired(LeaseExpired {
            command: command.command_id,
            attempt: command.attempt,
            worker,
            lease_until: Some(lease.until),
            reason: if is_out_of_time {
                ExpiryReason::Deadline
            } else {
                ExpiryReason::Lease
            },
        }));
        let letter = letter.fenced(Fence {
            command_id: command.command_id,
            attempt: command.attempt,
            holder: Holder::ExpiredBy(now),
        });
        match self.ask(command.execution_id, letter, answer).await {
            Ok(_) => true,
            // It was closed between the look and the question.
            Err(error) if is_stale(&error) => true,
            Err(error) => {
                let (execution_id, command_id) = (command.execution_id, command.command_id);
                tracing::warn!(%error, %execution_id, %command_id, "a lost command stays lost");
                false
            }
        }
    }

    async fn ring_for_ever(self: Arc<Self>) {
        loop {
            let wait = self.alarms.next().map(|next| {
                let left = next.since(self.clock.now());
                Duration::from_millis(left.as_ms().saturating_add(1))
            });
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                () = self.alarms.changed() => {}
                () = sleep_or_wait(wait) => {
                    for (execution_id, timer) in self.alarms.due(self.clock.now()) {
                        self.fire(execution_id, &timer).await;
                    }
                }
            }
        }
    }

    async fn fire(self: &Arc<Self>, execution_id: ExecutionId, timer: &Text) {
        let Some(id) = timer_of(timer) else {
            tracing::error!(%execution_id, %timer, "a timer has a strange name");
            return;
        };
        let (letter, answer) = Letter::new(Input::TimerFired(id));
        if let Err(error) = self.ask(execution_id, letter, answer).await {
            let is_paused = error.code() == Some(ErrorCode::Paused);
            if !is_stale(&error) && !is_paused {
                tracing::warn!(%error, %execution_id, %timer, "a timer did not fire");
            }
        }
    }
}

/// Whether something was over before it was asked for.
fn is_stale(error: &RuntimeError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::NotFound | ErrorCode::AlreadyTerminal | ErrorCode::StaleAttempt)
    )
}

async fn sleep_or_wait(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
