//! Background tasks: leases expire, timers fire, the machine id is renewed.
//!
//! Every server runs all of them, and none relies on another server. If two servers see the same
//! lease expire, both report it and the log accepts one report. A restart therefore has nothing to
//! recover: all open work is found in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_engine::event::ExpiryReason;
use noetl_engine::{EngineInput, LeaseExpired};
use noetl_store::{Command, Fence, GcTarget, LeaseCondition, StoreError};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Millis, Text, Timestamp};
use tokio::sync::mpsc;

use super::driver::{Message, parse_timer_id};
use super::error::{RuntimeError, error_chain};
use super::messaging::{CommandNotification, NOTIFICATION_SUBJECTS};
use super::{Core, ids};

/// Interval of garbage collection.
const GC_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum pages deleted per kind of row and run. Enough to keep up with 50,000 rows per second, in
/// pages small enough to let other writes through.
const MAX_GC_PAGES: u32 = 6000;

/// Extra retention, which covers the clock difference between two servers.
const GC_RETENTION_SLACK: Millis = Millis::from_secs(60);

impl Core {
    /// Spawns the background tasks.
    pub(super) fn spawn_background_tasks(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.machine_lease_loop().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.sweep_loop().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.timer_loop().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.gc_loop().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.maintenance_loop().await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.peer_channel_loop().await });
        if self.trace_queue.is_enabled() {
            let core = Arc::clone(self);
            self.tasks.spawn(async move { core.trace_loop().await });
        }
    }

    /// Spawns the tasks that send and receive NATS messages.
    pub(super) fn spawn_messaging_tasks(
        self: &Arc<Self>,
        notifications: mpsc::Receiver<CommandNotification>,
    ) {
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.notify_loop(notifications).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.renotify_loop().await });
        for subjects in NOTIFICATION_SUBJECTS {
            let core = Arc::clone(self);
            self.tasks.spawn(async move { core.listen_loop(subjects).await });
        }
        if self.messaging.as_ref().is_some_and(|messaging| messaging.event_stream.is_some()) {
            let core = Arc::clone(self);
            self.tasks.spawn(async move { core.stream_loop().await });
        }
    }

    /// Deletes expired rows at intervals.
    async fn gc_loop(self: Arc<Self>) {
        while self.sleep_unless_shutdown(GC_INTERVAL).await {
            self.flush_refusals(false).await;
            self.collect_garbage().await;
        }
    }

    async fn collect_garbage(&self) {
        let now = self.clock.now();
        // A caller with a slow clock must still find the rows until their promised expiry.
        let expired_before = now.saturating_sub(GC_RETENTION_SLACK);
        for target in GcTarget::ALL {
            self.delete_in_pages("expired", || {
                self.store.delete_expired(*target, expired_before, PageLimit::MAX)
            })
            .await;
        }
        let before = now.saturating_sub(self.settings.outbox_retention);
        let purged = self
            .delete_in_pages("outbox", || self.store.purge_outbox_rows(before, PageLimit::MAX))
            .await;
        self.metrics.platform().count_purged("outbox", purged);
        // Quarantined rows are kept for the operator for as long as published outbox rows.
        self.delete_in_pages("quarantine", || {
            self.store.purge_quarantined_items(before, PageLimit::MAX)
        })
        .await;
    }

    /// Deletes old rows page by page until a page is not full. Returns the number of rows.
    async fn delete_in_pages<F>(&self, kind: &'static str, page: impl Fn() -> F) -> u64
    where
        F: Future<Output = Result<u64, StoreError>>,
    {
        let mut deleted = 0;
        for _ in 0..MAX_GC_PAGES {
            if self.shutdown.is_cancelled() {
                break;
            }
            match page().await {
                Ok(count) => {
                    deleted += count;
                    if count < u64::from(PageLimit::MAX.get()) {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %error_chain(&error), kind, "deleting old rows failed");
                    break;
                }
            }
        }
        deleted
    }

    /// Sleeps for a time. Returns false if the process is shutting down.
    pub(super) async fn sleep_unless_shutdown(&self, time: Duration) -> bool {
        tokio::select! {
            // Biased, so that the same seed leads to the same run.
            biased;
            () = tokio::time::sleep(time) => true,
            () = self.shutdown.cancelled() => false,
        }
    }

    async fn machine_lease_loop(self: Arc<Self>) {
        let interval = Duration::from_millis(ids::MACHINE_LEASE_RENEW_INTERVAL.as_ms());
        while self.sleep_unless_shutdown(interval).await {
            if let Err(error) = self.id_allocator.renew_lease(self.clock.now()).await {
                tracing::error!(error = %error_chain(&error), "renewing the lease of the machine id failed");
            }
        }
    }

    async fn sweep_loop(self: Arc<Self>) {
        let interval = Duration::from_millis(self.settings.sweep_interval.as_ms());
        while self.sleep_unless_shutdown(interval).await {
            // The sweep dismisses workers that may be asleep. That reaches only workers that wait
            // in the matcher, and a worker that is querying the store at that moment would be
            // missed. So the matcher is rechecked afterwards.
            if let Err(error) = self.sweep_expired().await {
                tracing::warn!(error = %error_chain(&error), "the sweep failed");
            }
            // Finds commands that have become due or were left by another server.
            self.matcher.recheck_all();
        }
    }

    /// Expires overdue leases, fires due timers and runs due follow-ups.
    pub(super) async fn sweep_expired(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let now = self.clock.now();
        loop {
            let expired = self.store.list_expired_leases(now, PageLimit::MAX).await?;
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
        self.run_due_follow_ups().await
    }

    /// Fires all due timers. A timer that fails to fire stays in the store and does not block those
    /// after it.
    async fn fire_due_timers(self: &Arc<Self>, now: Timestamp) -> Result<(), RuntimeError> {
        let mut after = None;
        loop {
            let due = self.store.list_due_timers(now, after.as_ref(), PageLimit::MAX).await?;
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
        self.matcher.dismiss_worker(&worker);
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
        match self.send_and_wait(command.execution_id, message, answer).await {
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

    async fn timer_loop(self: Arc<Self>) {
        loop {
            let wait = self.timer_queue.next_due_at().map(|next| {
                let remaining = next.duration_since(self.clock.now());
                Duration::from_millis(remaining.as_ms().saturating_add(1))
            });
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                () = self.timer_queue.wait_for_earlier() => {}
                () = sleep_or_wait(wait) => {
                    for (execution_id, timer) in self.timer_queue.pop_due(self.clock.now()) {
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
        if let Err(error) = self.send_and_wait(execution_id, message, answer).await {
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
    use noetl_store::faulty::{Fault, FaultyStore, StoreMethod};
    use noetl_store::prelude::*;
    use noetl_store::{
        NewCatalogEntry, QuarantinedItem, RequestKey, RequestReservation, SqliteStore, Store,
    };
    use noetl_types::{
        CatalogId, EventId, ExecutionStatus, PlaybookPath, QuarantineId, TenantId, sha256,
    };

    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::runtime::{Runtime, Settings};

    /// A clock that advances only when set.
    struct ManualClock(AtomicI64);

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst)).unwrap()
        }
    }

    /// Opens a runtime whose sweep does not run during the test.
    async fn open_idle_runtime(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Runtime {
        let settings =
            Settings { sweep_interval: Millis::from_secs(24 * 3600), ..Settings::default() };
        Runtime::open(store, clock, settings).await.unwrap()
    }

    fn sleep_playbook_path(seconds: u32) -> PlaybookPath {
        PlaybookPath::new(format!("naps/{seconds}")).unwrap()
    }

    /// Registers a playbook that sleeps `count` times in parallel.
    async fn register_sleep_playbook(runtime: &Runtime, count: usize, seconds: u32) {
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
        runtime.store().register_definition(entry).await.unwrap();
    }

    async fn start_sleep(runtime: &Runtime, seconds: u32) -> ExecutionId {
        let request = ExecuteRequest {
            path: Some(sleep_playbook_path(seconds)),
            ..ExecuteRequest::default()
        };
        runtime.execute(request).await.unwrap().execution_id
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
        let runtime = open_idle_runtime(Arc::new(store), Arc::clone(&clock) as _).await;
        let mut failing_executions = Vec::new();
        register_sleep_playbook(&runtime, 1, 10).await;
        for _ in 0..=page {
            failing_executions.push(start_sleep(&runtime, 10).await);
        }
        register_sleep_playbook(&runtime, page + 1, 11).await;
        let later = start_sleep(&runtime, 11).await;
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
        runtime.core.fire_due_timers(clock.now()).await.unwrap();
        assert_eq!(status(later).await, ExecutionStatus::Running);

        clock.0.store(start_ms + 12_000, Ordering::SeqCst);
        failing.store(page + 1, Ordering::SeqCst);
        runtime.core.fire_due_timers(clock.now()).await.unwrap();
        assert_eq!(failing.load(Ordering::SeqCst), 0);
        assert_eq!(status(later).await, ExecutionStatus::Completed);
        assert_eq!(count(ExecutionStatus::Running).await, page + 1);

        runtime.core.fire_due_timers(clock.now()).await.unwrap();
        assert_eq!(count(ExecutionStatus::Completed).await, page + 1);
        let remaining_timers = memory.list_due_timers(clock.now(), None, PageLimit::MAX).await;
        assert_eq!(remaining_timers.unwrap(), []);
    }

    /// Garbage collection deletes more than one page per run.
    #[tokio::test]
    async fn garbage_collection_deletes_all_pages() {
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let (now, page) = (SystemClock.now(), i64::from(PageLimit::MAX.get()));
        for number in 1..=2 * page + 1 {
            let reservation = RequestReservation {
                key: RequestKey {
                    tenant_id: TenantId::default(),
                    route: "route".into(),
                    key_sha256: sha256(number.to_string()),
                },
                body_sha256: sha256(""),
                work_id: EventId::new(number).unwrap(),
                now: Timestamp::UNIX_EPOCH,
                until: Timestamp::UNIX_EPOCH,
                expires_at: Timestamp::UNIX_EPOCH,
            };
            store.reserve_request(reservation).await.unwrap();
        }
        let item = QuarantinedItem {
            quarantine_id: QuarantineId::new(1).unwrap(),
            source: "projector".into(),
            raw: "{}".into(),
            code: "bad_value".into(),
            message: "no".into(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        store.quarantine_items(vec![item]).await.unwrap();
        let settings = Settings::default();
        let runtime = Runtime::open(Arc::clone(&store) as _, Arc::new(SystemClock), settings);
        runtime.await.unwrap().core.collect_garbage().await;
        let remaining = store.delete_expired(GcTarget::Idempotency, now, PageLimit::MAX);
        assert_eq!(remaining.await.unwrap(), 0);
        let remaining = store.purge_quarantined_items(now, PageLimit::MAX);
        assert_eq!(remaining.await.unwrap(), 0);
    }
}
