//! How many executions of a tenant may go on at once.
//!
//! A start costs no count: what is known is a count of a moment ago, and what this server has started
//! since. Others start and end executions too, so while there are starts it is counted anew in the
//! background, once a second; and before a start is refused, so that nobody is refused for what has
//! ended meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_types::{ErrorCode, TenantId};
use tokio::time::Instant;

use super::Core;
use super::error::{RuntimeError, causes};

/// How long a count is good enough.
const FRESH: Duration = Duration::from_secs(1);

/// How much longer than a count takes nobody counts behind it: a tenant at its limit that goes on asking
/// costs the store a tenth of its time at most.
const REST: u32 = 9;

/// Tenants that are remembered; those that start nothing are forgotten first, which costs a count.
const MOST: usize = 10_000;

/// What is known of the tenants that start executions.
#[derive(Debug, Default)]
pub(super) struct Quota(Mutex<HashMap<TenantId, Arc<Tenant>>>);

/// What is known of one of them.
#[derive(Debug, Default)]
struct Tenant {
    known: Mutex<Known>,
    /// Held by whoever counts.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    count: Option<Count>,
    /// Starts that were let in and are not written yet, so that no count has them.
    under_way: u64,
    /// Executions that were started here, ever.
    started: u64,
}

/// How many executions went on at a moment.
#[derive(Debug, Clone, Copy)]
struct Count {
    live: u64,
    /// What had been started here when it began; what came behind may be in it, or not.
    started: u64,
    /// When it was last counted, or begun to be.
    at: Instant,
    /// From when on it may be counted again at once.
    rested: Instant,
}

/// What becomes of a start, as far as is known.
enum Verdict {
    /// It is let in.
    Room(Admission),
    /// It is let in, by a count that is not fresh any more.
    Stale(Admission),
    /// Nobody knows, or there seems to be no room: it is to be counted.
    Unsure,
}

/// A start that was let in. Where it comes to nothing, its place is free again.
#[derive(Debug)]
pub(super) struct Admission {
    tenant: Arc<Tenant>,
    has_begun: bool,
}

impl Admission {
    /// It is written, so a count has it from now on.
    pub(super) fn begun(mut self) {
        self.has_begun = true;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut known = self.tenant.known();
        known.under_way = known.under_way.saturating_sub(1);
        known.started += u64::from(self.has_begun);
    }
}

impl Quota {
    fn of(&self, tenant_id: &TenantId) -> Arc<Tenant> {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MOST && !tenants.contains_key(tenant_id) {
            tenants.retain(|_, tenant| Arc::strong_count(tenant) > 1);
        }
        Arc::clone(tenants.entry(tenant_id.clone()).or_default())
    }
}

impl Tenant {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a start in where there is room, as far as is known.
    fn judge(self: &Arc<Self>, most: u32, now: Instant) -> Verdict {
        let mut known = self.known();
        let Some(count) = known.count else {
            return Verdict::Unsure;
        };
        let since = known.started.saturating_sub(count.started);
        if count.live + since + known.under_way >= u64::from(most) {
            return Verdict::Unsure;
        }
        known.under_way += 1;
        let admission = Admission {
            tenant: Arc::clone(self),
            has_begun: false,
        };
        if now.saturating_duration_since(count.at) < FRESH {
            return Verdict::Room(admission);
        }
        // The next ones do not count too.
        known.count = Some(Count { at: now, ..count });
        Verdict::Stale(admission)
    }

    /// Whether a count that was made behind a moment, or has just been made, is as good as a new one.
    fn is_counted_since(&self, moment: Instant, now: Instant) -> bool {
        let is_good = |count: Count| count.at > moment || now < count.rested;
        self.known().count.is_some_and(is_good)
    }
}

impl Core {
    /// Lets an execution of a tenant begin, unless as many go on as may.
    pub(super) async fn admitted(
        self: &Arc<Self>,
        tenant_id: &TenantId,
    ) -> Result<Admission, RuntimeError> {
        let (tenant, most) = (self.quota.of(tenant_id), self.settings.max_live_executions);
        let now = Instant::now();
        match tenant.judge(most, now) {
            Verdict::Room(admission) => return Ok(admission),
            Verdict::Stale(admission) => {
                self.count_in_background(tenant_id, tenant);
                return Ok(admission);
            }
            Verdict::Unsure => {}
        }
        {
            let _turn = tenant.counting.lock().await;
            if !tenant.is_counted_since(now, Instant::now()) {
                self.count_live(tenant_id, &tenant).await?;
            }
        }
        match tenant.judge(most, Instant::now()) {
            Verdict::Room(admission) | Verdict::Stale(admission) => Ok(admission),
            Verdict::Unsure => Err(full(tenant_id, most)),
        }
    }

    fn count_in_background(self: &Arc<Self>, tenant_id: &TenantId, tenant: Arc<Tenant>) {
        let (core, tenant_id) = (Arc::clone(self), tenant_id.clone());
        self.tasks.spawn(async move {
            let Ok(_turn) = tenant.counting.try_lock() else {
                return;
            };
            if let Err(error) = core.count_live(&tenant_id, &tenant).await {
                tracing::warn!(error = %causes(&error), "live executions are not counted");
            }
        });
    }

    async fn count_live(&self, tenant_id: &TenantId, tenant: &Tenant) -> Result<(), RuntimeError> {
        let (started, began) = (tenant.known().started, Instant::now());
        let most = self.settings.max_live_executions;
        let live = self.store.live_executions(tenant_id, most).await?;
        let now = Instant::now();
        tenant.known().count = Some(Count {
            live: live.into(),
            started,
            at: now,
            rested: now + now.saturating_duration_since(began) * REST,
        });
        Ok(())
    }
}

fn full(tenant_id: &TenantId, most: u32) -> RuntimeError {
    let text = format!(
        "tenant `{tenant_id}` has {most} executions that go on, the most allowed: wait until some have \
         ended, or cancel what is no longer wanted"
    );
    RuntimeError::refused(ErrorCode::Quota, text)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use noetl_api::catalog::RegisterRequest;
    use noetl_api::execute::ExecuteRequest;
    use noetl_store::faulty::{Fault, FaultyStore, Method};
    use noetl_store::{MemoryStore, Store};

    use super::*;
    use crate::clock::SystemClock;
    use crate::runtime::{Runtime, Settings};

    const WAITS: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waits, path: waits }
workflow:
  - step: wait
    tool: { kind: noop }
";

    async fn server(store: Arc<dyn Store>, most: u32) -> Runtime {
        let settings = Settings {
            max_live_executions: most,
            ..Settings::default()
        };
        let opened = Runtime::open(store, Arc::new(SystemClock), settings).await;
        let runtime = opened.unwrap();
        let request = RegisterRequest {
            content: WAITS.to_owned(),
            resource_type: None,
            dry_run: false,
        };
        runtime.register_definition(request).await.unwrap();
        runtime
    }

    async fn start(runtime: &Runtime) -> Result<(), Option<ErrorCode>> {
        let wish = ExecuteRequest {
            path: Some("waits".parse().unwrap()),
            ..ExecuteRequest::default()
        };
        let begun = runtime.execute(wish).await;
        begun.map(drop).map_err(|error| error.code())
    }

    const FULL: Result<(), Option<ErrorCode>> = Err(Some(ErrorCode::Quota));

    /// A memory store, and how often it was asked to count.
    fn counting() -> (Arc<MemoryStore>, Arc<dyn Store>, Arc<AtomicUsize>) {
        let (memory, counts) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&counts);
        let plan = move |method| {
            seen.fetch_add(
                usize::from(method == Method::LiveExecutions),
                Ordering::SeqCst,
            );
            Fault::None
        };
        let store = FaultyStore::sharing(Arc::clone(&memory), Box::new(plan));
        (memory, Arc::new(store), counts)
    }

    #[tokio::test(start_paused = true)]
    async fn starts_below_the_limit_are_not_counted_for_each() {
        let (_, store, counts) = counting();
        let runtime = server(store, 1000).await;
        for _ in 0..100 {
            assert_eq!(start(&runtime).await, Ok(()));
        }
        assert_eq!(counts.load(Ordering::SeqCst), 1);
    }

    /// What another server starts is known a second later, and what it ends at once.
    #[tokio::test(start_paused = true)]
    async fn others_are_heeded() {
        let (memory, store, counts) = counting();
        let here = server(store, 3).await;
        let there = server(memory, 1000).await;
        assert_eq!(start(&here).await, Ok(()));
        for _ in 0..2 {
            assert_eq!(start(&there).await, Ok(()));
        }
        tokio::time::advance(FRESH).await;
        // This one is let in, and has it counted.
        assert_eq!(start(&here).await, Ok(()));
        while counts.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(start(&here).await, FULL);
    }

    /// However many ask at once, no more are let in than may be.
    #[tokio::test]
    async fn racing_starts_stay_below_the_limit() {
        let runtime = server(Arc::new(MemoryStore::new()), 10).await;
        let mut racers = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let runtime = runtime.clone();
            racers.spawn(async move { start(&runtime).await });
        }
        let verdicts = racers.join_all().await;
        let count = |wanted| verdicts.iter().filter(|it| **it == wanted).count();
        assert_eq!((count(Ok(())), count(FULL)), (10, 90));
    }
}
