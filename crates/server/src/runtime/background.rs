//! What happens without being asked for: leases run out, timers come due, ids stay usable.
//!
//! Every server does this, and none relies on another doing it. Two that see the same lease run out
//! both say so; the log takes it once. So a restart has nothing to recover: whatever was open is
//! found in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_engine::event::ExpiryReason;
use noetl_engine::{Input, LeaseExpired};
use noetl_store::{Command, Fence, Holder, StoreError, Swept};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, Millis, Text, Timestamp};
use tokio::sync::mpsc;

use super::driver::{Letter, timer_of};
use super::error::{RuntimeError, causes};
use super::messaging::{HEARD, Notice};
use super::{Core, ids};

/// How often what was kept for a while is looked through.
const TIDY: Duration = Duration::from_mins(1);

/// Pages of old rows of a kind that are forgotten at once, so that it keeps up with 50,000 of them a
/// second, and leaves room for others between two pages.
const TIDY_ROUNDS: u32 = 6000;

/// How much longer than promised things are kept.
const SLACK: Millis = Millis::from_secs(60);

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
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.keep_in_touch().await });
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
            self.tidy().await;
        }
    }

    async fn tidy(&self) {
        let now = self.clock.now();
        // Whoever is late by the difference of two clocks still finds what was promised.
        let over = now.saturating_sub(SLACK);
        for what in Swept::ALL {
            self.by_pages("kept for a while", || {
                self.store.sweep(*what, over, PageLimit::MAX)
            })
            .await;
        }
        let before = now.saturating_sub(self.settings.outbox_keep);
        let purged = self
            .by_pages("the outbox", || {
                self.store.purge_outbox(before, PageLimit::MAX)
            })
            .await;
        self.metrics.platform().purged("outbox", purged);
        // What was refused is for an operator, who had as long as with what was published.
        self.by_pages("what was refused", || {
            self.store.purge_quarantine(before, PageLimit::MAX)
        })
        .await;
    }

    /// Forgets old rows a page at a time, until a page is not full any more; says how many there were.
    async fn by_pages<F>(&self, of_what: &'static str, page: impl Fn() -> F) -> u64
    where
        F: Future<Output = Result<u64, StoreError>>,
    {
        let mut forgotten = 0;
        for _ in 0..TIDY_ROUNDS {
            if self.shutdown.is_cancelled() {
                break;
            }
            match page().await {
                Ok(count) => {
                    forgotten += count;
                    if count < u64::from(PageLimit::MAX.get()) {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %causes(&error), of_what, "old rows stay");
                    break;
                }
            }
        }
        forgotten
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
        self.fire_due(now).await?;
        self.sweep_errands().await
    }

    /// Fires what is due. A timer that does not fire stays, and stands in nobody's way.
    async fn fire_due(self: &Arc<Self>, now: Timestamp) -> Result<(), RuntimeError> {
        let mut after = None;
        loop {
            let due = self.store.due(now, after.as_ref(), PageLimit::MAX).await?;
            let is_last = due.len() < usize::try_from(PageLimit::MAX.get()).unwrap_or(1);
            for timer in &due {
                self.fire(timer.execution_id, &timer.timer_id).await;
            }
            if is_last {
                return Ok(());
            }
            after = due.into_iter().next_back();
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use noetl_api::execute::ExecuteRequest;
    use noetl_store::faulty::{Fault, FaultyStore, Method};
    use noetl_store::{
        Commons as _, MemoryStore, NewCatalogEntry, Outlets as _, Quarantined, RequestKey,
        RequestTake, Store,
    };
    use noetl_types::{
        CatalogId, EventId, ExecutionStatus, PlaybookPath, QuarantineId, TenantId, sha256,
    };

    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::runtime::{Runtime, Settings};

    /// A clock that goes on only when it is told to.
    struct Stopped(AtomicI64);

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst)).unwrap()
        }
    }

    /// A server that looks for nothing by itself.
    async fn idle(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Runtime {
        let settings = Settings {
            sweep: Millis::from_secs(24 * 3600),
            ..Settings::default()
        };
        Runtime::open(store, clock, settings).await.unwrap()
    }

    fn naps(seconds: u32) -> PlaybookPath {
        PlaybookPath::new(format!("naps/{seconds}")).unwrap()
    }

    /// Registers a playbook of so many naps at once.
    async fn register(runtime: &Runtime, count: usize, seconds: u32) {
        let path = naps(seconds);
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
        runtime.store().register(entry).await.unwrap();
    }

    async fn started(runtime: &Runtime, seconds: u32) -> ExecutionId {
        let wish = ExecuteRequest {
            path: Some(naps(seconds)),
            ..ExecuteRequest::default()
        };
        runtime.execute(wish).await.unwrap().execution_id
    }

    /// Timers that do not fire fill a page and more; those behind them fire all the same, and at
    /// once, however many they are. What stays fires the next time.
    #[tokio::test]
    async fn timers_that_do_not_fire_stand_in_nobodys_way() {
        let page = usize::try_from(PageLimit::MAX.get()).unwrap();
        let memory = Arc::new(MemoryStore::new());
        let failing = Arc::new(AtomicUsize::new(0));
        let plan = Arc::clone(&failing);
        let plan = move |method| {
            if method != Method::Append {
                return Fault::None;
            }
            let one_less = |left: usize| left.checked_sub(1);
            let left = plan.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            left.map_or(Fault::None, |_| Fault::Saturated)
        };
        let store = FaultyStore::sharing(Arc::clone(&memory), Box::new(plan));
        let began = SystemClock.now().as_unix_ms();
        let clock = Arc::new(Stopped(AtomicI64::new(began)));
        let runtime = idle(Arc::new(store), Arc::clone(&clock) as _).await;
        let mut stuck = Vec::new();
        register(&runtime, 1, 10).await;
        for _ in 0..=page {
            stuck.push(started(&runtime, 10).await);
        }
        register(&runtime, page + 1, 11).await;
        let behind = started(&runtime, 11).await;
        let status = async |run| memory.execution(run).await.unwrap().unwrap().view.status;
        let count = async |wanted| {
            let mut count = 0;
            for run in &stuck {
                count += usize::from(status(*run).await == wanted);
            }
            count
        };

        // Nothing is due yet, so nothing happens.
        runtime.core.fire_due(clock.now()).await.unwrap();
        assert_eq!(status(behind).await, ExecutionStatus::Running);

        clock.0.store(began + 12_000, Ordering::SeqCst);
        failing.store(page + 1, Ordering::SeqCst);
        runtime.core.fire_due(clock.now()).await.unwrap();
        assert_eq!(failing.load(Ordering::SeqCst), 0);
        assert_eq!(status(behind).await, ExecutionStatus::Completed);
        assert_eq!(count(ExecutionStatus::Running).await, page + 1);

        runtime.core.fire_due(clock.now()).await.unwrap();
        assert_eq!(count(ExecutionStatus::Completed).await, page + 1);
        let left = memory.due(clock.now(), None, PageLimit::MAX).await;
        assert_eq!(left.unwrap(), []);
    }

    /// What comes in a minute may be more than a page of it.
    #[tokio::test]
    async fn all_that_is_old_is_forgotten_at_once() {
        let store = Arc::new(MemoryStore::new());
        let (now, page) = (SystemClock.now(), i64::from(PageLimit::MAX.get()));
        for number in 1..=2 * page + 1 {
            let take = RequestTake {
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
            store.take_request(take).await.unwrap();
        }
        let refused = Quarantined {
            quarantine_id: QuarantineId::new(1).unwrap(),
            source: "projector".into(),
            raw: "{}".into(),
            code: "bad_value".into(),
            message: "no".into(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        store.quarantine(vec![refused]).await.unwrap();
        let settings = Settings::default();
        let runtime = Runtime::open(Arc::clone(&store) as _, Arc::new(SystemClock), settings);
        runtime.await.unwrap().core.tidy().await;
        let left = store.sweep(Swept::Idempotency, now, PageLimit::MAX);
        assert_eq!(left.await.unwrap(), 0);
        let left = store.purge_quarantine(now, PageLimit::MAX);
        assert_eq!(left.await.unwrap(), 0);
    }
}
