//! Background tasks: leases expire, timers fire, the machine id is renewed.
//!
//! Every server runs all of them, and none relies on another server. If two servers see the same
//! lease expire, both report it and the log accepts one report. A restart therefore has nothing to
//! recover: all open work is found in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_engine::event::ExpiryReason;
use noetl_engine::{EngineInput, LeaseExpired};
use noetl_store::{Command, Fence, LeaseCondition};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Text, Timestamp};

use crate::driver::{Driver, Message, parse_timer_id};
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::Infrastructure;
use crate::services::follow_ups::FollowUps;

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
        loop {
            let expired = self.infra.store.list_expired_leases(now, PageLimit::MAX).await?;
            let is_last = expired.len() < usize::try_from(PageLimit::MAX.get()).unwrap_or(1);
            let mut has_progress = false;
            for command in expired {
                has_progress |= self.expire_lease(command, now).await;
            }
            if is_last || !has_progress {
                break;
            }
        }
        self.fire_due_timers(now).await?;
        self.follow_ups.run_due_follow_ups().await
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
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use noetl_api::execute::ExecuteRequest;
    use noetl_store::prelude::*;
    use noetl_store::{NewCatalogEntry, SqliteStore, Store};
    use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
    use noetl_types::{CatalogId, ExecutionStatus, Millis, PlaybookPath, TenantId, sha256};

    use super::*;
    use crate::access::CallContext;
    use crate::clock::{Clock, SystemClock};
    use crate::services::ControlPlane;
    use crate::settings::Settings;

    /// A clock that advances only when set.
    struct ManualClock(AtomicI64);

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst)).unwrap()
        }
    }

    /// Opens a services whose sweep does not run during the test.
    async fn open_idle_services(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> ControlPlane {
        let settings =
            Settings { sweep_interval: Millis::from_secs(24 * 3600), ..Settings::default() };
        ControlPlane::open(store, clock, settings).await.unwrap()
    }

    fn sleep_playbook_path(seconds: u32) -> PlaybookPath {
        PlaybookPath::new(format!("naps/{seconds}")).unwrap()
    }

    /// Registers a playbook that sleeps `count` times in parallel.
    async fn register_sleep_playbook(services: &ControlPlane, count: usize, seconds: u32) {
        let path = sleep_playbook_path(seconds);
        let content = format!(
            "apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: naps, path: {path} }}
workflow:
  - step: nap
    loop: {{ in: {count}, iterator: i, spec: {{ mode: parallel, max_in_flight: {count} }} }}
    tool: {{ kind: sleep, for: {seconds}s }}
"
        );
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(i64::from(seconds)).unwrap(),
            tenant_id: TenantId::default(),
            path,
            kind: "playbook".into(),
            sha256: sha256(&content),
            content: content.into(),
            meta: None,
            now: Timestamp::UNIX_EPOCH,
        };
        services.infra.store().register_definition(entry).await.unwrap();
    }

    async fn start_sleep(services: &ControlPlane, seconds: u32) -> ExecutionId {
        let request = ExecuteRequest {
            path: Some(sleep_playbook_path(seconds)),
            ..ExecuteRequest::default()
        };
        services.executions.start(CallContext::server(), request).await.unwrap().answer.execution_id
    }

    /// A full page of timers that fail to fire does not stop the timers behind it. The failed
    /// timers fire on the next sweep.
    #[tokio::test]
    async fn failing_timers_do_not_block_later_ones() {
        let page = usize::try_from(PageLimit::MAX.get()).unwrap();
        let memory = Arc::new(SqliteStore::in_memory().unwrap());
        let failing = Arc::new(AtomicUsize::new(0));
        let remaining = Arc::clone(&failing);
        let fault_plan = move |method| {
            if method != StoreMethod::AppendEvents {
                return Fault::None;
            }
            let decrement = |count: usize| count.checked_sub(1);
            let before = remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement);
            before.map_or(Fault::None, |_| Fault::Saturated)
        };
        let store = FaultyStore::with_shared_store(Arc::clone(&memory), Box::new(fault_plan));
        let start_ms = SystemClock.now().as_unix_ms();
        let clock = Arc::new(ManualClock(AtomicI64::new(start_ms)));
        let services = open_idle_services(Arc::new(store), Arc::clone(&clock) as _).await;
        let sweeper = Arc::new(Sweeper::new(&services.driver, &services.follow_ups));
        let mut failing_executions = Vec::new();
        register_sleep_playbook(&services, 1, 10).await;
        for _ in 0..=page {
            failing_executions.push(start_sleep(&services, 10).await);
        }
        register_sleep_playbook(&services, page + 1, 11).await;
        let later = start_sleep(&services, 11).await;
        let status = async |execution_id| {
            memory.find_execution(execution_id).await.unwrap().unwrap().view.status
        };
        let count = async |expected| {
            let mut count = 0;
            for execution_id in &failing_executions {
                count += usize::from(status(*execution_id).await == expected);
            }
            count
        };

        // Nothing is due yet, so nothing happens.
        sweeper.fire_due_timers(clock.now()).await.unwrap();
        assert_eq!(status(later).await, ExecutionStatus::Running);

        clock.0.store(start_ms + 12_000, Ordering::SeqCst);
        failing.store(page + 1, Ordering::SeqCst);
        sweeper.fire_due_timers(clock.now()).await.unwrap();
        assert_eq!(failing.load(Ordering::SeqCst), 0);
        assert_eq!(status(later).await, ExecutionStatus::Completed);
        assert_eq!(count(ExecutionStatus::Running).await, page + 1);

        sweeper.fire_due_timers(clock.now()).await.unwrap();
        assert_eq!(count(ExecutionStatus::Completed).await, page + 1);
        let remaining_timers = memory.list_due_timers(clock.now(), None, PageLimit::MAX).await;
        assert_eq!(remaining_timers.unwrap(), []);
    }
}
