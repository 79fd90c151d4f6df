//! Background tasks: leases expire, timers fire, the machine id is renewed.
//!
//! Every server runs all of them, and none relies on another server. If two servers see the same
//! lease expire, both report it and the log accepts one report. A restart therefore has nothing to
//! recover: all open work is found in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_engine::event::ExpiryReason;
use noetl_engine::{EngineInput, LeaseExpired};
use noetl_store::{Command, Fence, LeaseBounds, LeaseCondition};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Millis, Text, Timestamp};

use crate::driver::{Driver, Message, parse_timer_id};
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::Infrastructure;
use crate::services::follow_ups::FollowUps;
use crate::services::leases::MAX_LEASE_DURATION;

/// Finds work that is due: expired leases, timers, follow-ups.
pub(crate) struct Sweeper {
    infra: Arc<Infrastructure>,
    driver: Arc<Driver>,
    follow_ups: Arc<FollowUps>,
}

impl Sweeper {
    pub(crate) fn new(driver: &Arc<Driver>, follow_ups: &Arc<FollowUps>) -> Self {
        Self {
            infra: Arc::clone(&driver.infra),
            driver: Arc::clone(driver),
            follow_ups: Arc::clone(follow_ups),
        }
    }

    pub(crate) async fn sweep_loop(self: Arc<Self>) {
        let interval = Duration::from_millis(self.infra.settings.sweep_interval.as_ms());
        while self.infra.sleep_unless_shutdown(interval).await {
            // The sweep dismisses workers that may be asleep. That reaches only workers that wait
            // in the matcher, and a worker that is querying the store at that moment would be
            // missed. So the matcher is rechecked afterwards.
            if let Err(error) = self.sweep_expired().await {
                tracing::warn!(error = %error_chain(&error), "the sweep failed");
            }
            // Finds commands that have become due or were left by another server.
            self.driver.waiters.matcher.recheck_all();
        }
    }

    /// Expires overdue leases, fires due timers and runs due follow-ups.
    pub(crate) async fn sweep_expired(self: &Arc<Self>) -> Result<()> {
        let now = self.infra.now();
        self.expire_leases(now).await?;
        self.fire_due_timers(now).await?;
        self.follow_ups.run_due_follow_ups().await
    }

    /// Expires overdue leases. A step of the clock may have made leases of live workers overdue,
    /// which get time to renew them.
    async fn expire_leases(self: &Arc<Self>, now: Timestamp) -> Result<()> {
        let is_settling = self.infra.clock.is_settling();
        // At least the time in which every worker renews its leases.
        let new = self.infra.settings.lease_duration.max(Millis::from_secs(30));
        let longest = if is_settling { new } else { MAX_LEASE_DURATION };
        self.infra.store.bound_leases(now, LeaseBounds { new, longest }).await?;
        if is_settling {
            return Ok(());
        }
        loop {
            let expired = self.infra.store.list_expired_leases(now, PageLimit::MAX).await?;
            // Another server may have followed a step of the clock that this one has not measured.
            let clock = &self.infra.clock;
            if !expired.is_empty()
                && (clock.synchronize(self.infra.store()).await? || clock.is_settling())
            {
                return Ok(());
            }
            let is_last = expired.len() < usize::try_from(PageLimit::MAX.get()).unwrap_or(1);
            let mut has_progress = false;
            for command in expired {
                has_progress |= self.expire_lease(command, now).await;
            }
            if is_last || !has_progress {
                return Ok(());
            }
        }
    }

    /// Fires all due timers. A timer that fails to fire stays in the store and does not block those
    /// after it.
    async fn fire_due_timers(self: &Arc<Self>, now: Timestamp) -> Result<()> {
        let mut after = None;
        loop {
            let due = self.infra.store.list_due_timers(now, after.as_ref(), PageLimit::MAX).await?;
            let is_last = due.len() < usize::try_from(PageLimit::MAX.get()).unwrap_or(1);
            for timer in &due {
                self.fire_timer(timer.execution_id, &timer.timer_id).await;
            }
            if is_last {
                return Ok(());
            }
            after = due.into_iter().next_back();
        }
    }

    /// Requeues a command whose lease has expired. Returns true if that changed anything.
    async fn expire_lease(self: &Arc<Self>, command: Command, now: Timestamp) -> bool {
        let deadline_at = command.deadline_at();
        let (Some(worker), Some(lease)) = (command.worker, command.lease) else {
            return false;
        };
        // A worker whose lease expired may be suspended with an open long poll: it gets no more
        // work until it polls again.
        self.driver.waiters.matcher.dismiss_worker(&worker);
        let is_out_of_time = deadline_at.is_some_and(|deadline| deadline <= now);
        let (message, answer) = Message::new(EngineInput::LeaseExpired(LeaseExpired {
            command: command.command_id,
            attempt: command.attempt,
            worker,
            lease_until: Some(lease.until),
            reason: if is_out_of_time { ExpiryReason::Deadline } else { ExpiryReason::Lease },
        }));
        let message = message.with_fence(Fence {
            command_id: command.command_id,
            attempt: command.attempt,
            condition: LeaseCondition::ExpiredBy(now),
        });
        match self.driver.send_and_wait(command.execution_id, message, answer).await {
            Ok(_) => true,
            // The command was closed after the query.
            Err(error) if is_already_over(&error) => true,
            Err(error) => {
                let (execution_id, command_id) = (command.execution_id, command.command_id);
                tracing::warn!(%error, %execution_id, %command_id, "requeueing a command with an expired lease failed");
                false
            }
        }
    }

    pub(crate) async fn timer_loop(self: Arc<Self>) {
        loop {
            let wait = self.driver.timers.next_due_at().map(|next| {
                let remaining = next.duration_since(self.infra.now());
                Duration::from_millis(remaining.as_ms().saturating_add(1))
            });
            tokio::select! {
                biased;
                () = self.infra.shutdown.cancelled() => return,
                () = self.driver.timers.wait_for_earlier() => {}
                () = sleep_or_wait(wait) => {
                    for (execution_id, timer) in self.driver.timers.pop_due(self.infra.now()) {
                        self.fire_timer(execution_id, &timer).await;
                    }
                }
            }
        }
    }

    async fn fire_timer(self: &Arc<Self>, execution_id: ExecutionId, timer: &Text) {
        let Some(id) = parse_timer_id(timer) else {
            tracing::error!(%execution_id, %timer, "the id of a timer cannot be parsed");
            return;
        };
        let (message, answer) = Message::new(EngineInput::TimerFired(id));
        if let Err(error) = self.driver.send_and_wait(execution_id, message, answer).await {
            let is_paused = error.code() == Some(ErrorCode::Paused);
            if !is_already_over(&error) && !is_paused {
                tracing::warn!(%error, %execution_id, %timer, "firing a timer failed");
            }
        }
    }
}

/// True if the error means that the work was already over.
fn is_already_over(error: &RuntimeError) -> bool {
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

#[cfg(test)]
mod tests;
