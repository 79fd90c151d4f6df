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
    let settings = Settings { sweep_interval: Millis::from_secs(24 * 3600), ..Settings::default() };
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
    let request =
        ExecuteRequest { path: Some(sleep_playbook_path(seconds)), ..ExecuteRequest::default() };
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
